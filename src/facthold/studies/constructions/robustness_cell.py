"""The robustness cell: what a built transformer still recalls when it, or what it sees, is disturbed."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from facthold._util.errors import check_positive, unknown
from facthold._util.keys import derive, fold
from facthold.facts.problem import FactualRecall
from facthold.facts.prompts import SEQUENCE, check_length
from facthold.lab.cells import Cell, Result
from facthold.measure.fact_recall import fact_accuracy
from facthold.memory.embeddings import host_generator
from facthold.models.transformer import Transformer
from facthold.recipes.builders import Knobs, builder
from facthold.studies.transformers.fact_capacity import make_problem, nested_table
from facthold.studies.transformers.variants import variant

MOST_BITS = 32
"""The weights are float32: more bits would leave them as they are."""

Built = tuple[Transformer, FactualRecall]
"""A model, and the problem that it is asked."""


def noisy_embeddings(model: Transformer, problem: FactualRecall, x: float, key: PRNGKeyArray) -> Built:
    """phi + x g / sqrt(d) with g ~ N(0, I), for every token: subjects, relations, noise, EOS and the outputs.

    One draw a token, not one an occurrence: the vocabulary has moved since the model was built.
    """
    g = host_generator(key).standard_normal(problem.phi.shape)
    return model, replace(problem, phi=(problem.phi + x * g / math.sqrt(problem.d)).astype(np.float32))


def noisy_weights(model: Transformer, problem: FactualRecall, x: float, key: PRNGKeyArray) -> Built:
    """Every weight matrix with independent Gaussian noise, x times its root mean square, in all its entries."""

    def disturb(i: int, W: Float[np.ndarray, "*n rows d"]) -> np.ndarray:
        rms = np.sqrt((W**2).mean(axis=(-2, -1), keepdims=True))
        return W + x * rms * host_generator(fold(key, i)).standard_normal(W.shape)

    return _with_matrices(model, disturb), problem


def rounded_weights(model: Transformer, problem: FactualRecall, bits: float, key: PRNGKeyArray) -> Built:
    """Every weight matrix rounded to so many bits; nothing is drawn."""
    del key
    return _with_matrices(model, lambda i, W: rounded(W, int(bits))), problem


def longer_prompts(model: Transformer, problem: FactualRecall, T: float, key: PRNGKeyArray) -> Built:
    """Prompts of length T. The weights stay those for prompts of the length that the model was built for."""
    del key  # the prompts are drawn where they are asked
    return model, replace(problem, T=int(T))


def rounded(W: Float[np.ndarray, "*n rows d"], bits: int) -> Float[np.ndarray, "*n rows d"]:
    """Each matrix to the nearest of the 2^bits - 1 levels k max|W| / L, k = -L, ..., L, with L = 2^(bits-1) - 1.

    Zero stays zero, as built heads leave many entries empty. With one bit zero is all that there is.
    """
    L = 2 ** (bits - 1) - 1
    if L == 0:
        return np.zeros_like(W)
    largest = np.abs(W).max(axis=(-2, -1), keepdims=True)
    return np.rint(W / np.where(largest > 0, largest, 1) * L) / L * largest


def _matrices(model: Transformer) -> list[Any]:
    """W_K, W_Q, W_V and W_O, of which each head has its own matrix, and W and V of the MLP."""
    mlp = [] if model.mlp is None else [model.mlp.W, model.mlp.V]
    return [model.W_K, model.W_Q, model.W_V, model.W_O, *mlp]


def _with_matrices(model: Transformer, change: Callable[[int, np.ndarray], np.ndarray]) -> Transformer:
    new = [jnp.asarray(change(i, np.asarray(W, np.float64)), jnp.float32) for i, W in enumerate(_matrices(model))]
    return eqx.tree_at(_matrices, model, new)


def _check_noise(x: float) -> None:
    if not (math.isfinite(x) and x >= 0):
        raise ValueError(f"amounts: noise of relative size {x} must be finite and not negative")


def _check_bits(bits: float) -> None:
    if not 1 <= bits <= MOST_BITS or not bits.is_integer():
        raise ValueError(f"amounts: bits={bits} must be a whole number from 1 to {MOST_BITS}")


def _check_T(T: float) -> None:
    if not math.isfinite(T) or not T.is_integer():
        raise ValueError(f"amounts: a prompt length of {T} must be a whole number; take T >= 3")
    check_length(int(T))


class Disturbance(NamedTuple):
    """One way to disturb, by an amount: ``nothing`` is the amount that leaves all as it was built."""

    apply: Callable[[Transformer, FactualRecall, float, PRNGKeyArray], Built]
    check: Callable[[float], None]
    nothing: float


DISTURBANCES = {
    "embeddings": Disturbance(noisy_embeddings, _check_noise, 0.0),
    "weights": Disturbance(noisy_weights, _check_noise, 0.0),
    "bits": Disturbance(rounded_weights, _check_bits, float(MOST_BITS)),
    "length": Disturbance(longer_prompts, _check_T, float(SEQUENCE)),
}


def disturbance(name: str) -> Disturbance:
    """The disturbance with this name."""
    if name not in DISTURBANCES:
        raise unknown("disturbance", name, DISTURBANCES)
    return DISTURBANCES[name]


@dataclass(frozen=True, kw_only=True)
class Robustness(Cell):
    """The share of S R facts that one builder's transformer recalls under each amount of one disturbance.

    The model is built once a seed on the undisturbed problem, of the variant 'text', for prompts of length 32. A draw
    has its own disturbance and prompts. Both are the same at all amounts: noise differs in its size alone.
    """

    kind: ClassVar[str] = "robustness"

    builder: str
    d: int
    disturbance: str
    amounts: tuple[int | float, ...]
    """Relative size of the noise, bits a weight, or T; kept as floats, so that 8 and 8.0 are one cell."""
    d_h: int = 0
    m: int = 0
    per_head: int = 0
    """These three as in `builders.Knobs`; 0: left to the builder."""
    S: int = 16
    R: int = 16
    D: int = 8
    draws: int = 1
    seeds: tuple[int, ...] = (0, 1, 2)

    def __post_init__(self) -> None:
        check_positive(S=self.S, R=self.R, D=self.D, d=self.d, draws=self.draws)
        for name in ("d_h", "m", "per_head"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name}={getattr(self, name)} must not be negative; 0 leaves it to the builder")
        knob = builder(self.builder).knob
        check_positive(**{knob: getattr(self, knob)})
        if not self.seeds or not self.amounts:
            raise ValueError(f"seeds={self.seeds} and amounts={self.amounts} must hold at least one number each")
        object.__setattr__(self, "amounts", tuple(float(amount) for amount in self.amounts))
        for amount in self.amounts:
            disturbance(self.disturbance).check(amount)

    @property
    def label(self) -> str:
        return f"{self.disturbance} disturbed in {self.builder} d={self.d}, S={self.S} R={self.R} D={self.D}"

    @property
    def cost(self) -> float:
        """Seconds: a build and some compilations, and all facts for each draw of each amount."""
        asked = len(self.amounts) * self.draws * (0.02 + 2e-7 * self.S * self.R * (self.d + self.m))
        compiled = len(self.amounts) if self.disturbance == "length" else 1
        return 2 * compiled + len(self.seeds) * (1.5 + asked)

    def run(self) -> Result:
        found = [self._one(seed) for seed in self.seeds]
        recall = np.array([one["recall"] for one in found])
        return {
            "recall": recall.mean(axis=0).tolist(), "recall_min": recall.min(axis=0).tolist(),
            "recall_max": recall.max(axis=0).tolist(), "per_seed": found,
            "accuracy": fmean(one["accuracy"] for one in found),  # of the models as they were built
            "n_params": max(one["n_params"] for one in found),  # builders may choose H by the embeddings
        }  # fmt: skip

    def problem(self, seed: int) -> FactualRecall:
        """The undisturbed facts and embeddings of this seed."""
        table = nested_table("random", self.S, self.R, self.D, seed)
        return make_problem(table, self.d, seed, variant("text"), SEQUENCE)

    def build(self, seed: int) -> Transformer:
        """The undisturbed model of this seed: the same in all cells that differ in their disturbance alone."""
        sizes = Knobs(d_h=self.d_h, m=self.m, per_head=self.per_head)
        key = derive("build", seed, self.builder, self.d, *sizes)
        return builder(self.builder).build(self.problem(seed), sizes, key)

    def _one(self, seed: int) -> Result:
        model, problem = self.build(seed), self.problem(seed)
        way = disturbance(self.disturbance)

        def share(amount: float, draw: int) -> float:
            moved = way.apply(model, problem, amount, derive("disturb", self.disturbance, seed, self.d, draw))
            return fact_accuracy(*moved, key=derive("disturbed prompts", seed, draw))

        def mean_share(amounts: Sequence[float]) -> list[float]:
            return [fmean(share(amount, draw) for draw in range(self.draws)) for amount in amounts]

        (accuracy,) = mean_share([way.nothing])
        return {"recall": mean_share(self.amounts), "accuracy": accuracy, "n_params": model.n_params}
