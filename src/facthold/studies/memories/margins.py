"""Theorem 1's memories: exact moments of their margins against Monte Carlo, rounding (corollary 2), one gradient step.

The moments are exact at every size, so the verdict is statistical: the intervals around all means and variances of a
claim (`judging.around`) contain their predictions, and are narrow enough to see the smaller terms.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from jaxtyping import Float

from facthold._util.keys import derive
from facthold.lab import Cell, Claim, Judgement, Result, Values
from facthold.lab.fields import Between, Count, Positive, Seeds, Whole
from facthold.memory import EMBEDDINGS
from facthold.studies.judging import all_of, at_preset, fresh_seeds, judge_means, mean_and_error
from facthold.theory import noise
from facthold.theory.bounds import margin_variance

if TYPE_CHECKING:
    from facthold.memory.associations import Problem

SIZES = {
    "smoke": ((16, 16, 1200), (32, 32, 300)),
    "quick": ((4, 4, 12_000), (8, 16, 4000), (32, 16, 1500), (64, 64, 300)),
}
"""(N, d, draws). Where N and d are small every term of the variance can be seen."""
MOMENT_TOLERANCE = {"mean": 0.03, "variance": 0.06}
"""Of 1, and of the variance: at N = d = 4 its smallest term, 1/d^2, is 8% of it."""
NARROWED = (
    "Tolerances, and numbers of draws, were set after a first look, such that intervals are narrower than tolerances "
    "and these narrower than the smallest term. These draws took no part."
)
ROUNDING = {
    "smoke": ((16, 64, 160, (1.0,)), (200, 45, 40, (16.0,))),
    "quick": ((16, 128, 160, (1.0,)), (64, 256, 60, (1.0,)), (200, 45, 80, (8.0, 16.0)), (400, 64, 40, (8.0, 16.0))),
}
"""(N, d, seeds, steps): eps is such a multiple of 1/(8d), the proof's; above 1 also times sqrt(N), so that at 8 it is
as large as the root mean square of the weights, sqrt(N)/d, and at 16 two thirds of them round to zero."""
MOVED_TOLERANCE = 0.1  # of the predicted mean square: at 16 the errors of Gaussian weights are not quite even
RECALL_TOLERANCE = 0.03  # of the recall after rounding: what the noise law itself may be off at these sizes
STEP_SIZES = {"smoke": ((8, 6, 0), (8, 6, 3)), "quick": ((100, 32, 0), (400, 64, 0), (100, 32, 16), (400, 64, 32))}
"""(N, d, m)."""


@dataclass(frozen=True, kw_only=True)
class Margins(Cell):
    """Mean and variance of the outer product's gamma_xy for f*(x) = x on the sphere, over all x and y of each draw.

    The margins of one draw are correlated, so that a draw counts as one: its mean, and its mean of (gamma - 1)^2.
    """

    kind: ClassVar[str] = "margins"
    version: ClassVar[int] = 2
    counts_no_facts: ClassVar[str] = "margins are measured, not facts"

    N: Annotated[int, Between(least=2)]
    d: Count
    in_image: bool  # whether y is f*(z) of another input, or an output that no input maps to
    n_draws: Annotated[int, Between(least=2)]
    seed: int = 0

    @property
    def cost(self) -> float:
        return 0.5 + self.n_draws * (1.2e-3 + 3e-7 * self.N * self.d)

    def run(self) -> Result:
        from facthold.memory.embeddings import host_generator

        generator = host_generator(derive("margins", self.seed, self.N, self.d, int(self.in_image)))
        gamma = np.array([self.draw(generator) for _ in range(self.n_draws)])
        mean, mean_error = mean_and_error(gamma.mean(1))
        variance, variance_error = mean_and_error(((gamma - 1) ** 2).mean(1))
        return {"mean": mean, "mean_error": mean_error, "variance": variance, "variance_error": variance_error}

    def draw(self, generator: np.random.Generator) -> Float[np.ndarray, " margins"]:
        """The margins of one draw of all embeddings: against all other outputs, or against as many of no input."""
        import jax.numpy as jnp

        from facthold.memory.associations import Problem

        n_outputs = self.N if self.in_image else 2 * self.N
        E, U = (EMBEDDINGS["sphere"](n, self.d, generator) for n in (self.N, n_outputs))
        problem = Problem(jnp.asarray(E), jnp.asarray(U), jnp.arange(self.N))
        return _margins(self.answers(problem, generator), U)

    def answers(self, problem: "Problem", generator: np.random.Generator) -> Float[np.ndarray, "N d"]:
        """F(e_x) for all x."""
        from facthold.construct.linear import outer_product

        return np.asarray(problem.E, np.float64) @ np.asarray(outer_product(problem).W, np.float64).T


@dataclass(frozen=True, kw_only=True)
class Rounding(Cell):
    """All N (N - 1) margins before and after rounding to multiples of ``coarseness`` / (8d), for each seed.

    At coarseness 1 the step is the largest float32 below 1/(8d), as the proof asks for.
    """

    kind: ClassVar[str] = "rounding"
    version: ClassVar[int] = 2
    counts_no_facts: ClassVar[str] = "margins are measured, not facts"

    N: Annotated[int, Between(least=2)]
    d: Count
    seeds: Seeds
    coarseness: Positive = 1.0

    @property
    def step(self) -> float:
        return float(np.nextafter(np.float32(self.coarseness / (8 * self.d)), np.float32(0)))

    def run(self) -> Result:
        by_seed = [self._one(seed) for seed in self.seeds]
        return {"step": self.step} | {name: [values[name] for values in by_seed] for name in by_seed[0]}

    def _one(self, seed: int) -> dict[str, float]:
        from facthold.construct.linear import outer_product, quantised
        from facthold.memory.associations import seeded_problem

        problem = seeded_problem(self.N, seed, self.d)
        rounded, E, U = quantised(problem, self.step), np.asarray(problem.E), np.asarray(problem.U)
        weights = (np.asarray(W, np.float64) for W in (outer_product(problem).W, rounded.memory.W))
        before, after = (_margins(E @ W.T, U) for W in weights)
        apart = np.sqrt(2 - 2 * (U @ U.T)[~np.eye(self.N, dtype=bool)])  # |u_x - u_y|
        kept = (after.reshape(self.N, -1) > 0).all(axis=1)
        return {
            "least_before": float(before.min()), "least_after": float(after.min()),
            "moved": float(np.sqrt(np.mean(((after - before) / apart) ** 2))), "recalled": float(kept.mean()),
            "bits": rounded.bits_per_weight, "used_bits": rounded.used_bits_per_weight,
        }  # fmt: skip


def _margins(F: np.ndarray, U: np.ndarray) -> Float[np.ndarray, " n"]:
    """gamma_xy of the identity map in float64: for all y that no input maps to, where there are such; else y != x."""
    scores = F @ U.T.astype(np.float64)
    gamma = np.diag(scores)[:, None] - scores
    return gamma[:, len(F) :].ravel() if len(U) > len(F) else gamma[~np.eye(len(F), dtype=bool)]


@dataclass(frozen=True, kw_only=True)
class GradientStep(Cell):
    """Largest difference of weights between a construction and one step from zero, in float64.

    With m = 0 all of W takes the step. With m > 0 it is W_1 that does, of size 1/m, and W_2 stays at the
    construction's Gaussian rows. ``rounding`` bounds what two orders of summation can differ by: each is within
    (terms) * eps/2 * (sum of the terms' sizes) of the exact sum, with at most N + d terms.
    """

    kind: ClassVar[str] = "gradient-step"
    counts_no_facts: ClassVar[str] = "a gradient step is compared with its formula"

    N: Count
    d: Count
    m: Whole = 0
    seed: int = 0

    def run(self) -> Result:
        import jax
        import jax.numpy as jnp

        from facthold.construct.linear import low_rank, outer_product
        from facthold.memory.associations import Problem, seeded_problem
        from facthold.models.memory import LinearMemory, LowRankMemory

        with jax.enable_x64(True):
            p = seeded_problem(self.N, self.seed, self.d)
            problem = Problem(jnp.asarray(p.E, jnp.float64), jnp.asarray(p.U, jnp.float64), p.f)
            terms = jnp.abs(problem.targets).T @ jnp.abs(problem.E)
            if self.m:
                memory = low_rank(problem, self.m, key=derive("gradient-step", self.seed, self.d, self.m))
                W, terms = memory.W_1, jnp.abs(memory.W_2) @ terms.T / self.m
                of: Any = lambda W_1: LowRankMemory(W_1, memory.W_2)  # noqa: E731
            else:
                W, of = outer_product(problem).W, LinearMemory
            # L = -sum_x u_{f*(x)}^T F(e_x), the correlation loss
            gradient = jax.grad(lambda W: -(problem.targets * of(W)(problem.E)).sum())
            built, step, sizes = map(np.asarray, (W, -gradient(jnp.zeros_like(W)) / (self.m or 1), terms))
        return {
            "difference": float(np.abs(built - step).max()),
            "rounding": float((self.N + self.d) * np.finfo(np.float64).eps * sizes.max()),
            "largest": float(np.abs(built).max()),
        }


def margin_cells(preset: str, in_image: bool) -> list[Cell]:
    seed = fresh_seeds(preset, 1)[0]
    return [Margins(N=N, d=d, n_draws=n, in_image=in_image, seed=seed) for N, d, n in at_preset(SIZES, preset)]


def judge_margins(rows: Sequence[Values]) -> Judgement:
    formula = "2/d + 1/d^2 + 2(N-2)/d^2" if rows[0]["in_image"] else "1/d + 2(N-1)/d^2"
    return judge_moments(formula, rows, lambda r: margin_variance(r["N"], r["d"], sharing=int(r["in_image"])))


def judge_moments(formula: str, rows: Sequence[Values], variance: Callable[[Values], float]) -> Judgement:
    """The mean and the variance of margins against 1 and against an exact formula."""
    found = []
    for r in rows:
        at = ("{method} k={k} N={N} d={d}" if "method" in r else "N={N} d={d}").format(**r)
        for name, stated in (("mean", 1.0), ("variance", variance(r))):
            measured = r[name], r[f"{name}_error"]
            found.append((f"{at} ({name})", measured, stated, MOMENT_TOLERANCE[name] * stated))
    within = " and ".join(f"{name} within {share:.0%}" for name, share in MOMENT_TOLERANCE.items())
    return judge_means(f"mean 1, variance {formula}; {within}", found)


def rounding_cells(preset: str) -> list[Cell]:
    sizes = [(N, d, n, step) for N, d, n, steps in at_preset(ROUNDING, preset) for step in steps]
    first = fresh_seeds(preset, 1)[0]
    coarse = lambda N, step: step * N**0.5 if step > 1 else step  # noqa: E731
    return [
        Rounding(N=N, d=d, seeds=tuple(range(first, first + n)), coarseness=coarse(N, step)) for N, d, n, step in sizes
    ]


def judge_rounding(rows: Sequence[Values]) -> Judgement:
    """The change of margins and the recall after it, both as errors of variance eps^2 / 12 per weight have them."""
    fine = [r for r in rows if r["coarseness"] == 1.0]
    kept = [a > 0 for r in fine for b, a in zip(r["least_before"], r["least_after"], strict=True) if b >= 0.5]
    keep = Judgement(
        "margins >= 1/2 stay positive at eps < 1/(8d)", f"{sum(kept)} of {len(kept)} memories keep all", "exact",
        bool(kept) and all(kept),
    )  # fmt: skip
    return all_of(keep, _judge_moved(rows), _judge_recall([r for r in rows if r["coarseness"] > 1.0]))


def _judge_moved(rows: Sequence[Values]) -> Judgement:
    squares = [[12 * (moved / r["step"]) ** 2 for moved in r["moved"]] for r in rows]
    return judge_means(
        f"margins move by a mean square of eps^2 |u_x - u_y|^2 / 12 within {MOVED_TOLERANCE:.0%}",
        [(f"{_name(r)} (moved)", mean_and_error(x), 1.0, MOVED_TOLERANCE)
         for r, x in zip(rows, squares, strict=True)],
    )  # fmt: skip


def _judge_recall(rows: Sequence[Values]) -> Judgement:
    found = []
    for r in rows:
        stated = noise.recall(r["N"], noise.low_rank(r["d"]).rounded(r["step"]))
        at = f"{_name(r)} ({max(r['used_bits'])} bits, recall)"
        found.append((at, mean_and_error(r["recalled"]), stated, RECALL_TOLERANCE))
    return judge_means(f"recall as the noise law with eps^2/12 within {RECALL_TOLERANCE}", found)


def _name(row: Values) -> str:
    return "N={N} d={d} eps={step:.2g}".format(**row)


def judge_step(rows: Sequence[Values]) -> Judgement:
    """An identity: the difference is at most what two orders of summation can make in float64."""
    worst = max(rows, key=lambda r: r["difference"] / r["rounding"])
    difference, largest = (max(r[name] for r in rows) for name in ("difference", "largest"))
    measured = f"largest difference {difference:.1e} of weights up to {largest:.2g}"
    holds = all(r["difference"] <= r["rounding"] for r in rows)
    return Judgement("no difference", measured, f"exact; rounding bound {worst['rounding']:.1e}", holds)


MOMENTS = "the moments are exact at every N and d, and are held to the standard error of the draws"
CLAIMS = (
    Claim(
        "margin-in-image", "theorem 1, proof",
        "The outer product's margin against another input's output has mean 1 and variance 2/d + 1/d^2 + 2(N-2)/d^2.",
        partial(margin_cells, in_image=True), judge_margins, NARROWED, MOMENTS,
    ),
    Claim(
        "margin-outside-image", "theorem 1, proof",
        "The outer product's margin against an output of no input has mean 1 and variance 1/d + 2(N-1)/d^2.",
        partial(margin_cells, in_image=False), judge_margins, NARROWED, MOMENTS,
    ),
    Claim(
        "rounding", "corollary 2; sizes beyond",
        "Weights rounded to multiples of eps < 1/(8d) keep every association whose margins were 1/2 or more. Margins "
        "move by eps |u_x - u_y| / sqrt(12), not by the proof's 2 d eps: grids as coarse as the weights, sqrt(N)/d, "
        "cost as much recall as noise of variance eps^2/12 does.",
        rounding_cells, judge_rounding,
        "Numbers of seeds, and d = 45 in the place of 32, were chosen after a first look, for intervals narrower than "
        "the tolerances. These seeds took no part.",
    ),
    Claim(
        "gradient-step", "section 3.1",
        "Theorem 1's memories are one gradient step on the correlation loss: of W, or of U with V fixed at rank m.",
        lambda preset: [GradientStep(N=N, d=d, m=m) for N, d, m in at_preset(STEP_SIZES, preset)], judge_step,
        at_any_size="an identity of matrices, held to the rounding of float64",
    ),
)  # fmt: skip
