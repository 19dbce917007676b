"""The zipf-facts cell: what a trained transformer loses on a table that is too large for it, and with how many bits."""

import math
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from facthold._util.errors import check_positive
from facthold._util.keys import derive
from facthold.facts.prompts import check_length, zipf
from facthold.facts.table import FactTable
from facthold.lab.cells import Cell, Result
from facthold.measure.bits import parameters_bits
from facthold.measure.fact_recall import Questions
from facthold.measure.quantise import GRID_BITS, SCALE_BITS, grid_of_bits, quantise
from facthold.models.transformer import Transformer
from facthold.studies.transformers.fact_capacity import make_problem, nested_table, racing_members, step_seconds
from facthold.studies.transformers.variants import variant
from facthold.studies.zipf.memory_loss import TEMPERATURE, cut_loss, fitted
from facthold.theory.limits import bits_for_loss
from facthold.theory.limits_zipf import product_law
from facthold.train import Protocol, RecallFacts, fit, protocol

VARIANT = "code"
DRAWS = 4
"""Prompts that ask for each fact."""
TRAINED_BITS = 32
"""The precision that leaves weights as they were trained."""


@dataclass(frozen=True, kw_only=True)
class ZipfFacts(Cell):
    """The loss in bits, under p(s, r) ~ s^-alpha_s r^-alpha_r, of one transformer a seed, at each of some precisions.

    Prompts are drawn by p, or evenly for the most frequent facts alone, and the learning rate falls to zero. ``loss``
    is over the D answers of the relation alone, as if the blocks were known: what theorem 7 speaks of. Beyond the
    k-th fact, k being a part of the model, it is log2 D. ``answers`` is over all R D answers, for all facts, with the
    finest weights. Each has its own temperature. Of the learning rates the one with the least ``loss`` counts. Bits
    are those of the rounded weights and biases (`measure.quantise`), the temperature, k, and what was chosen from.
    """

    kind: ClassVar[str] = "zipf-facts"

    d: int
    H: int
    d_h: int
    m: int
    S: int = 256
    R: int = 8
    D: int = 8
    alpha_s: float = 1.5
    alpha_r: float = 0.0
    taught: float = 0.0
    """Facts a parameter, the most frequent ones, that training asks for, each as often; 0: all of them, by p."""
    T: int = 8
    n_noise: int = 16
    """Few, and short prompts: finding s and r among as many noise tokens as subjects is beyond models of this size,
    and would be all that is measured. The bound does not ask for it either."""
    protocol: str = "transformer-short"
    steps: int = 4096
    batch: int = 512
    lrs: tuple[float, ...] = (2e-2,)
    precisions: tuple[int, ...] = (3, 4, 5, 6, 7, 8, 10, TRAINED_BITS)
    seeds: tuple[int, ...] = (0, 1, 2)

    def __post_init__(self) -> None:
        check_positive(d=self.d, H=self.H, d_h=self.d_h, m=self.m, S=self.S, R=self.R, D=self.D)
        check_positive(n_noise=self.n_noise, steps=self.steps, batch=self.batch)
        check_length(self.T)
        if not (self.lrs and self.seeds and self.precisions and min(self.precisions) >= 2):
            raise ValueError("lrs, seeds and precisions must not be empty, and precisions at least 2 bits")
        product_law(self.S, self.R, self.alpha_s, self.alpha_r), self.training  # refuse bad exponents, unknown names

    @property
    def training(self) -> Protocol:
        """To the end, whatever is recalled: the loss is wanted."""
        full: dict[str, Any] = {"steps": self.steps, "check_every": self.steps, "goal": 1.0, "futility": None}
        return replace(protocol(self.protocol), lrs=self.lrs, rule="final", decay=True, **full)

    @property
    def spec(self) -> dict[str, Any]:
        more = {"training": self.training.spec, "model": asdict(variant(VARIANT)), "draws": DRAWS}
        more |= {"scale_bits": SCALE_BITS, "grid_bits": GRID_BITS}
        return super().spec | more

    @property
    def label(self) -> str:
        law = f"s^-{self.alpha_s:g} r^-{self.alpha_r:g}"
        return f"facts by {law}, S={self.S} R={self.R} D={self.D}, d={self.d} H={self.H} m={self.m}"

    @property
    def n_params(self) -> int:
        """Weights and biases: all that is trained."""
        return 4 * self.H * self.d * self.d_h + 2 * self.m * self.d + self.m

    @property
    def cost(self) -> float:
        step = step_seconds(
            d=self.d, Hd_h=self.H * self.d_h, m=self.m, S=self.S, R=self.R, A=self.R * self.D
        )  # fmt: skip
        return len(self.seeds) * len(self.lrs) * (2 + self.training.steps * step)

    def run(self) -> Result:
        return {"n_params": self.n_params, "per_seed": [self._seed(seed) for seed in self.seeds]}

    def _seed(self, seed: int) -> dict[str, Any]:
        way, table = variant(VARIANT), nested_table("random", self.S, self.R, self.D, seed)
        p = zipf(table, self.alpha_s, self.alpha_r)
        problem = make_problem(table, self.d, seed, way, self.T, n_noise=self.n_noise, p=self._asked(p))
        task = RecallFacts.of(problem, batch=self.batch)
        runs = fit(racing_members(task, self.H, self.d_h, self.m, seed, way, self.training, None), self.training)
        sound = [run for run in runs if run.status != "diverged"]
        if not sound:
            return {"status": "diverged", "loss": None}
        key = derive("asked", seed, self.d)
        found = [self._points(run.model, table, p, task.questions, key) for run in sound]
        best, every = min(found, key=lambda one: one[0][-1]["loss"])
        law = product_law(self.S, self.R, self.alpha_s, self.alpha_r)
        waste = [point["bits"] / max(1.0, bits_for_loss(point["loss"], self.D, law)) for point in best]
        chosen = int(np.argmin(waste))
        return {"status": "found", "points": best, **best[chosen], "waste": waste[chosen], "answers": every}

    def _asked(self, p: Float[np.ndarray, " facts"]) -> Float[np.ndarray, " facts"]:
        """The distribution of training's prompts."""
        if not self.taught:
            return p
        k = min(len(p), max(1, round(self.taught * self.n_params)))
        asked = np.zeros(len(p))
        asked[np.argsort(-p, kind="stable")[:k]] = 1 / k
        return asked

    def _points(
        self, model: Transformer, table: FactTable, p: Float[np.ndarray, " facts"], questions: Questions,
        key: PRNGKeyArray,
    ) -> tuple[list[dict[str, Any]], float]:  # fmt: skip
        """Bits and losses at each precision, the finest last, and there the loss over all answers."""
        order = np.argsort(-p, kind="stable")
        k = int((self._asked(p) > 0).sum())  # nothing was learnt of the others
        p, rows = p[order], np.tile(order, DRAWS)
        taught = np.tile(np.arange(len(p)) < k, DRAWS)
        answers = table.answers[rows]
        block = table.relations[rows][:, None] * self.D + np.arange(self.D)
        points = []
        for precision in sorted(self.precisions):
            coarse, bits = of_precision(model, precision)
            scores = all_scores(questions, coarse, jnp.asarray(order), key)
            known = np.take_along_axis(scores, block, axis=1)[taught]
            loss, cut = cut_loss(known, (answers % self.D)[taught], p[:k], math.log2(self.D), float(p[k:].sum()))
            points.append({"precision": precision, "bits": bits + self.chosen_bits(), "loss": loss, "k": cut})
        every, _ = fitted(scores, answers, np.tile(p / DRAWS, DRAWS))
        return points, every

    def chosen_bits(self) -> float:
        """What else depends on the table: the temperature, the cut, and which rate and precision were taken."""
        tried = len(self.lrs) * len(self.precisions)
        return TEMPERATURE + math.log2(self.S * self.R + 1) + math.log2(tried)


def of_precision(model: Transformer, bits: int) -> tuple[Transformer, float]:
    """The model with all weights and biases rounded, and the bits that it takes; 32 bits leave it as it was trained."""
    if bits == TRAINED_BITS:
        return model, parameters_bits(model)
    coarse = quantise(model, grid_of_bits(bits))
    return coarse.model, coarse.bits


def all_scores(
    questions: Questions, model: Transformer, facts: Int[Array, " n"], key: PRNGKeyArray
) -> Float[np.ndarray, "asked M"]:
    """Scores of all answers in `DRAWS` prompts of each of these facts, draw by draw."""
    return np.concatenate(
        [np.asarray(_scores(questions, model, facts, jax.random.fold_in(key, i)), np.float64) for i in range(DRAWS)]
    )


@eqx.filter_jit
def _scores(questions: Questions, model: Transformer, facts: Int[Array, " n"], key: PRNGKeyArray) -> Array:
    return questions.scores(model, facts, key=key)
