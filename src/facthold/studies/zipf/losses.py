"""The cells of scaling laws: what memories and transformers that are too small for a power law lose, and with how many
bits against theorem 7. The loss is that of the best temperature, and of the best cut beyond which they answer 1/M."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from jaxtyping import Float

from facthold._util.keys import derive
from facthold.facts.problem import seeded_recall, variant, zipf
from facthold.facts.table import FactTable
from facthold.lab import Cell, Result, TableCell
from facthold.lab.fields import Between, Count, Each, OneOf, Positive, ProtocolName, Seeds
from facthold.measure.grids import GRID_BITS, SCALE_BITS, grid_of_bits
from facthold.models.sizes import Shape
from facthold.recipes import memory_recipes
from facthold.studies.memories.capacity import MemoryCell
from facthold.theory.limits import Frequencies, bits_for_loss, power_law
from facthold.theory.limits_facts import product_law
from facthold.train.protocols import Protocol, protocol, step_seconds

if TYPE_CHECKING:
    from facthold.measure.fact_recall import Questions
    from facthold.memory.associations import Problem
    from facthold.models.memory import Memory
    from facthold.models.transformer import Transformer

TEMPERATURE = 32  # bits of the scale of all scores
Precisions = Annotated[tuple[int, ...], Each(Annotated[int, Between(least=2)])]
PRECISIONS = (3, 4, 5, 6, 7, 8, 10)  # bits per weight that are tried


@dataclass(frozen=True, kw_only=True)
class LossCell(Cell):
    """The loss in bits of one model under power laws, at each of some precisions.

    Bits are those of the rounded weights with their scales (`measure.quantise`), and `chosen_bits`. ``waste`` is bits
    used over the least bits for the loss, and the precision where it is least counts.
    """

    counts_no_facts: ClassVar[str] = (
        "losses are counted, not facts; theorem 7 is checked by the claim nothing-below-theorem-7"
    )

    precisions: Precisions = PRECISIONS
    steps: Count  # of training, where there is any
    seeds: Seeds = (0, 1, 2)

    def to_the_end(self, name: str, **changes: Any) -> Protocol:
        """A protocol of `steps` with a learning rate that falls: the loss is wanted, and no accuracy ends a run."""
        changes |= {"steps": self.steps, "check_every": self.steps, "goal": 1.0, "futility": None}
        return replace(protocol(name), rule="final", decay=True, **changes)

    @property
    def spec(self) -> dict[str, Any]:
        return super().spec | {"scale_bits": SCALE_BITS, "grid_bits": GRID_BITS}

    def chosen_bits(self, cuts: int, variants: int) -> float:
        """What else depends on the facts: the temperature, the cut, and which variant and precision were taken."""
        return TEMPERATURE + math.log2(cuts) + math.log2(variants * len(self.precisions))


def with_best(points: Sequence[dict[str, Any]], outputs: int, law: Frequencies) -> dict[str, Any]:
    """The points of all precisions, and the one that is nearest to theorem 7."""
    wasted = [waste(point["bits"], point["loss"], outputs, law) for point in points]
    return {"points": points, **points[int(np.argmin(wasted))], "waste": min(wasted)}


def waste(bits: float, loss: float, outputs: int, law: Frequencies) -> float:
    """Bits used over the least bits for the loss."""
    return bits / max(1.0, bits_for_loss(loss, outputs, law))


def cross_entropies(scores: Float[np.ndarray, "n M"], f: Any, scale: float) -> Float[np.ndarray, " n"]:
    """-log2 of the probability that softmax(scale * scores) gives to the right output."""
    from scipy.special import logsumexp

    z = scale * scores
    return (logsumexp(z, axis=1) - z[np.arange(len(z)), np.asarray(f)]) / math.log(2)


def fitted(scores: Float[np.ndarray, "n M"], f: Any, p: Float[np.ndarray, " n"]) -> tuple[float, float]:
    """The least of sum_x p(x) loss(x) over the scale, in bits, and the scale. It is convex in the scale."""
    from scipy.optimize import minimize_scalar

    spread = float(np.std(scores)) or 1.0

    def loss(log_scale: float) -> float:
        return float(p @ cross_entropies(scores, f, math.exp(log_scale) / spread))

    least = minimize_scalar(loss, bounds=(-12.0, 8.0), method="bounded", options={"xatol": 0.01})
    return float(least.fun), math.exp(least.x) / spread


def cut_loss(
    scores: Float[np.ndarray, "rows M"], f: Any, p: Float[np.ndarray, " k"], bits: float, tail: float
) -> tuple[float, int]:
    """The least loss over a cut: a model's own answers up to there, log2 M for each input beyond; and the cut.

    The k inputs, the most frequent first, may have been asked several times, one round after the other. ``tail`` is
    the probability of all others.
    """
    rounds, f = len(scores) // len(p), np.asarray(f)
    _, scale = fitted(scores, f, np.tile(p / rounds, rounds))
    each = p * cross_entropies(scores, f, scale).reshape(rounds, -1).mean(axis=0)
    beyond = tail + np.append(np.cumsum(p[::-1])[::-1], 0.0)
    at = np.append(0.0, np.cumsum(each)) + bits * beyond
    cut = int(np.argmin(at))
    if not 0 < cut < len(p):
        return float(at[cut]), cut
    kept = np.tile(np.arange(len(p)) < cut, rounds)  # the scale for those that are left
    least, _ = fitted(scores[kept], f[kept], np.tile(p[:cut] / rounds, rounds))
    return min(float(at[cut]), least + bits * float(beyond[cut])), cut


CANDIDATES = 0.5  # associations per parameter that are looked at: far more than any of these memories holds
FRESH = 512  # inputs beyond them that stand for all the rest, where a memory answers whatever it is asked


def methods() -> list[str]:
    """Recipes that make a memory for a power law: with the load of least loss, or for the weighted loss."""
    return [name for name, recipe in memory_recipes().items() if recipe.loads or recipe.weighted]


@dataclass(frozen=True, kw_only=True)
class MemoryLoss(MemoryCell, LossCell):
    """The loss in bits of one memory under p(x) ~ x^-alpha, at each of some precisions, for each alpha and seed.

    The memory has n_params weights and is far too small for N inputs. It holds the most frequent ones and says 1/M
    beyond the k-th, k being a part of it. Beside it, ``uncut``: its own answers, with one scale, to all inputs.
    """

    kind: ClassVar[str] = "memory-loss"

    method: Annotated[str, OneOf(methods)]
    M: Count = 128
    N: Count = 1_000_000
    alphas: Annotated[tuple[float, ...], Each(Annotated[float, Between(least=0)])] = (1.2, 1.5, 2.0)
    steps: Count = 2048

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.candidates + FRESH >= self.N:
            raise ValueError(f"N={self.N} must be above {self.candidates + FRESH}, more than the memory can hold")

    @property
    def candidates(self) -> int:
        return math.ceil(CANDIDATES * self.n_params)

    @property
    def training(self) -> Protocol:
        return self.to_the_end("mlp-text")

    @property
    def is_trained(self) -> bool:
        return self.recipe.weighted is not None and not self.recipe.solved

    @property
    def spec(self) -> dict[str, Any]:
        if self.recipe.loads:
            return super().spec | {"shares": list(self.recipe.loads)}
        return super().spec | ({"training": self.training.spec} if self.is_trained else {})

    @property
    def cost(self) -> float:
        work = self.candidates * self.M * (self.d + self.m)
        if self.is_trained:
            return len(self.seeds) * len(self.alphas) * (1 + self.steps * work / 4e9)
        return len(self.seeds) * (1 + work / (2e7 if self.recipe.solved else 4e9))

    def run(self) -> Result:
        found = [self._seed(seed) for seed in self.seeds]
        curves = [{"alpha": a, "per_seed": [one[i] for one in found]} for i, a in enumerate(self.alphas)]
        return {"n_params": self.n_params, "candidates": self.candidates, "curves": curves}

    def _seed(self, seed: int) -> list[dict[str, Any]]:
        """What this seed's map gives, for each alpha."""
        from facthold.memory.associations import seeded_problem

        problem = seeded_problem(self.candidates + FRESH, seed, self.d, self.M, map="uniform")
        laws = [power_law(self.N, alpha) for alpha in self.alphas]
        return [self._best(made, problem, law) for made, law in zip(self._make(problem, laws, seed), laws, strict=True)]

    def _make(
        self, problem: "Problem", laws: Sequence[Frequencies], seed: int
    ) -> "Sequence[Sequence[tuple[Memory, int]]]":
        """For each law the memories that may be taken, with the number of associations that each was made for."""
        K, build = self.candidates, self.recipe.build
        if self.recipe.weighted:
            weights = [probabilities(law, K) for law in laws]
            made = self.recipe.weighted(first(problem, K), weights, self.m, seed, self.training)
            return [[(memory, K)] for memory in made]
        assert build is not None
        sizes = sorted({max(1, round(load * self.n_params)) for load in self.recipe.loads})
        keys = [derive("build", seed, self.d, self.m, k) for k in sizes]
        return [[(build(first(problem, k), self.m, key), k) for k, key in zip(sizes, keys, strict=True)]] * len(laws)

    def _best(self, made: "Sequence[tuple[Memory, int]]", problem: "Problem", law: Frequencies) -> dict[str, Any]:
        """At each precision the memory and the cut of least loss; and the precision that is nearest to theorem 7."""
        K, bits, p = self.candidates, math.log2(self.M), probabilities(law, self.candidates)
        E, U, _ = (np.asarray(array, np.float64) for array in problem.host())
        f = np.asarray(problem.f)
        points: list[dict[str, Any]] = []
        for precision in self.precisions:
            rounded = [(*of_precision(memory, precision), k) for memory, k in made]
            losses = [cut_loss(scores_of(q, E[:k], U), f[:k], p[:k], bits, law.tail(k)) for q, _, k in rounded]
            loss, cut = min(losses)
            B = rounded[0][1] + self.chosen_bits(K + 1, len(losses))
            points.append({"precision": precision, "bits": B, "loss": loss, "k": cut, "of": losses.index(min(losses))})
        best = with_best(points, self.M, law)
        scores = scores_of(of_precision(made[best["of"]][0], best["precision"])[0], E, U)
        uncut, _ = fitted(scores, f, np.append(p, np.full(FRESH, law.tail(K) / FRESH)))
        return best | {"uncut": uncut}


def probabilities(law: Frequencies, k: int) -> Float[np.ndarray, " k"]:
    """p(1), ..., p(k)."""
    return -np.diff([law.tail(x) for x in range(k + 1)])


def first(problem: "Problem", k: int) -> "Problem":
    """The k most frequent associations. Cut on the host: nothing is compiled for a new k."""
    import jax.numpy as jnp

    from facthold.memory.associations import Problem

    return Problem(jnp.asarray(np.asarray(problem.E)[:k]), problem.U, jnp.asarray(np.asarray(problem.f)[:k]))


def scores_of(memory: Any, E: Float[np.ndarray, "n d"], U: Float[np.ndarray, "M d"]) -> Float[np.ndarray, "n M"]:
    """u_y^T F(e_x) in float64 and NumPy: nothing is compiled for a new number of inputs."""
    from facthold.models.memory import LinearMemory

    features = E @ np.asarray(memory.W, np.float64).T
    if not isinstance(memory, LinearMemory):
        features = memory.sigma(features) @ np.asarray(memory.V, np.float64)
    return features @ U.T


VARIANT = "code"
DRAWS = 4  # prompts that ask for each fact
TRAINED_BITS = 32  # the precision that leaves weights as they were trained


@dataclass(frozen=True, kw_only=True)
class ZipfFacts(LossCell, TableCell):
    """The loss in bits, under p(s, r) ~ s^-alpha_s r^-alpha_r, of one transformer per seed, at each of some precisions.

    Prompts are drawn by p, or evenly for the most frequent facts alone, and the learning rate falls to zero. ``loss``
    is over the D answers of the relation alone, as if the blocks were known, as in theorem 7. Beyond the k-th fact, k
    being a part of the model, it is log2 D. ``answers`` is over all R D answers, for all facts, with the finest
    weights. Each has its own temperature. Of the learning rates the one with the least ``loss`` counts.
    """

    kind: ClassVar[str] = "zipf-facts"

    d: Count
    H: Count
    d_h: Count
    m: Count
    S: Count = 256
    R: Count = 8
    D: Count = 8
    alpha_s: float = 1.5
    alpha_r: float = 0.0
    taught: Annotated[float, Between(least=0)] = 0.0  # most frequent facts per parameter, taught alike; 0: all, by p
    T: Annotated[int, Between(least=3)] = 8
    n_noise: Count = 16
    """Few, and short prompts: finding s and r among as many noise tokens as subjects is beyond models of this size,
    and would be all that is measured. The bound does not ask for it either."""
    protocol: ProtocolName = "transformer-short"
    steps: Count = 4096
    batch: Count = 512
    lrs: Annotated[tuple[float, ...], Each(Positive)] = (2e-2,)
    precisions: Precisions = (*PRECISIONS, TRAINED_BITS)

    def __post_init__(self) -> None:
        super().__post_init__()
        product_law(self.S, self.R, self.alpha_s, self.alpha_r), self.training  # refuse bad exponents, unknown names

    @property
    def training(self) -> Protocol:
        return self.to_the_end(self.protocol, lrs=self.lrs)

    @property
    def spec(self) -> dict[str, Any]:
        return super().spec | {"training": self.training.spec, "model": asdict(variant(VARIANT)), "draws": DRAWS}

    @property
    def sizes(self) -> Shape:
        return Shape(self.d, self.H, self.d_h, self.m)

    @property
    def n_params(self) -> int:
        """Weights and biases: all that is trained."""
        return self.sizes.n_params + self.m

    @property
    def cost(self) -> float:
        return len(self.seeds) * len(self.lrs) * (2 + self.steps * step_seconds(self.sizes, self.S, self.R, self.D))

    def run(self) -> Result:
        return {"n_params": self.n_params, "per_seed": [self._seed(seed) for seed in self.seeds]}

    def _seed(self, seed: int) -> dict[str, Any]:
        from facthold.train.engine import fit
        from facthold.train.race import racing
        from facthold.train.tasks import RecallFacts

        table = self.facts(seed)
        p = zipf(table, self.alpha_s, self.alpha_r)
        problem = seeded_recall(table, self.d, seed, VARIANT, T=self.T, n_noise=self.n_noise, p=self.taught_p(p))
        task = RecallFacts.of(problem, batch=self.batch)
        # No race: every learning rate is wanted to its end.
        runs = fit(racing(task, self.sizes, seed, variant(VARIANT), self.training, race=None), self.training)
        sound = [run.model for run in runs if run.status != "diverged"]
        if not sound:
            return {"status": "diverged", "loss": None}
        found = [self._points(model, table, p, task.questions, seed) for model in sound]
        points, answers = min(found, key=lambda one: one[0][-1]["loss"])
        law = product_law(self.S, self.R, self.alpha_s, self.alpha_r)
        return {"status": "found", **with_best(points, self.D, law), "answers": answers}

    def taught_p(self, p: Float[np.ndarray, " facts"]) -> Float[np.ndarray, " facts"]:
        """The distribution of training's prompts."""
        if not self.taught:
            return p
        k = min(len(p), max(1, round(self.taught * self.n_params)))
        taught = np.zeros(len(p))
        taught[np.argsort(-p, kind="stable")[:k]] = 1 / k
        return taught

    def _points(
        self, model: "Transformer", table: FactTable, p: Float[np.ndarray, " facts"], questions: "Questions",
        seed: int,
    ) -> tuple[list[dict[str, Any]], float]:  # fmt: skip
        """Bits and losses at each precision, the finest last, and there the loss over all answers."""
        from facthold.measure.fact_recall import fact_scores

        order = np.argsort(-p, kind="stable")
        k = int((self.taught_p(p) > 0).sum())  # nothing was learnt of the others
        p, rows = p[order], np.tile(order, DRAWS)
        taught = np.tile(np.arange(len(p)) < k, DRAWS)
        answers = table.answers[rows]
        block = table.relations[rows][:, None] * self.D + np.arange(self.D)
        points = []
        for precision in sorted(self.precisions):
            rounded, bits = of_precision(model, precision)
            scores = fact_scores(rounded, questions, order, key=derive("asked", seed, self.d), draws=DRAWS)
            known = np.take_along_axis(scores, block, axis=1)[taught]
            loss, cut = cut_loss(known, (answers % self.D)[taught], p[:k], math.log2(self.D), float(p[k:].sum()))
            bits += self.chosen_bits(self.n_facts + 1, len(self.lrs))
            points.append({"precision": precision, "bits": bits, "loss": loss, "k": cut})
        over_all, _ = fitted(scores, answers, np.tile(p / DRAWS, DRAWS))
        return points, over_all


def of_precision(model: Any, bits: int) -> tuple[Any, float]:
    """The model with all weights and biases rounded, and the bits that it takes; 32 bits leave it as it was trained."""
    from facthold.measure.bits import parameters_bits
    from facthold.measure.quantise import quantise

    if bits == TRAINED_BITS:
        return model, parameters_bits(model)
    rounded = quantise(model, grid_of_bits(bits))
    return rounded.model, rounded.bits
