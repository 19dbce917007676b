"""Theorem 1's memories: exact moments of their margins against Monte Carlo, rounding (corollary 2), one gradient step.

The moments are exact at every size, so the verdict is statistical: each mean and each variance lies within
`STANDARD_ERRORS` of its prediction, with the standard errors of independent draws.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, ClassVar

import numpy as np
from jaxtyping import Float

from facthold._util.keys import derive
from facthold.lab import Cell, Claim, Judgement, Result, Values
from facthold.lab.fields import Between, Count, Positive, Seeds, Whole
from facthold.memory import EMBEDDINGS
from facthold.studies.judging import STANDARD_ERRORS, at_preset, seeds_at
from facthold.theory.bounds import margin_variance

BLOCK_NUMBERS = 1 << 21  # random numbers held at once
SIZES = {
    "smoke": ((4, 4, 4000), (8, 8, 2000)),
    "quick": ((4, 4, 400_000), (8, 16, 100_000), (32, 16, 40_000), (64, 64, 4000)),
}
"""(N, d, draws). Where N and d are small every term of the variance can be seen."""
ROUNDING_SIZES = {"smoke": ((8, 64),), "quick": ((16, 128), (64, 256), (256, 512))}
"""(N, d): few enough associations that all margins are 1/2 or more before rounding."""
STEP_SIZES = {"smoke": ((8, 6, 0), (8, 6, 3)), "quick": ((100, 32, 0), (400, 64, 0), (100, 32, 16), (400, 64, 32))}
"""(N, d, m)."""


@dataclass(frozen=True, kw_only=True)
class Margins(Cell):
    """Mean and variance of gamma_xy for f*(x) = x on the sphere, in float64.

    The margins of one draw are correlated. So each draw of all embeddings gives one margin, that of x = 0
    against the last output, and the standard errors are those of independent samples.
    """

    kind: ClassVar[str] = "margins"
    counts_no_facts: ClassVar[str] = "margins are measured, not facts"

    N: Annotated[int, Between(least=2)]
    d: Count
    in_image: bool  # whether y is f*(z) of another input, or an output that no input maps to
    n_draws: Annotated[int, Between(least=2)]
    seed: int = 0

    @property
    def n_outputs(self) -> int:
        return self.N if self.in_image else self.N + 1

    def run(self) -> Result:
        from facthold.memory.embeddings import host_generator

        generator = host_generator(derive("margins", self.seed, self.N, self.d, int(self.in_image)))
        block = max(1, BLOCK_NUMBERS // ((self.N + self.n_outputs) * self.d))
        sizes = [min(block, self.n_draws - i) for i in range(0, self.n_draws, block)]
        gamma = np.concatenate([margin_samples(*self.draw(n, generator)) for n in sizes])
        mean, variance = float(gamma.mean()), float(gamma.var(ddof=1))
        fourth = float(((gamma - mean) ** 4).mean())
        return {
            "mean": mean, "mean_error": float(np.sqrt(variance / self.n_draws)),
            "variance": variance, "variance_error": float(np.sqrt((fourth - variance**2) / self.n_draws)),
        }  # fmt: skip

    def draw(self, n: int, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """n independent tables E (n, N, d) and U (n, M, d); where y is outside the image it is the last row of U."""
        N, M, d = self.N, self.n_outputs, self.d
        E, U = (EMBEDDINGS["sphere"](n * rows, d, generator) for rows in (N, M))
        return E.reshape(n, N, d), U.reshape(n, M, d)


def margin_samples(E: Float[np.ndarray, "n N d"], U: Float[np.ndarray, "n M d"]) -> Float[np.ndarray, " n"]:
    """gamma_xy = sum_z (u_x - u_y)^T u_z e_z^T e_x with x = 0 and y = M - 1: one margin per draw."""
    N = E.shape[1]
    by_output = np.einsum("nzd,nd->nz", U[:, :N], U[:, 0] - U[:, -1])
    by_input = np.einsum("nzd,nd->nz", E, E[:, 0])
    return np.einsum("nz,nz->n", by_output, by_input)


@dataclass(frozen=True, kw_only=True)
class Rounding(Cell):
    """All N (N - 1) margins before and after rounding to multiples of ``coarseness`` / (8d), for each seed.

    At coarseness 1 the step is the largest float32 below 1/(8d), as the proof asks for.
    """

    kind: ClassVar[str] = "rounding"
    counts_no_facts: ClassVar[str] = "margins are measured, not facts"

    N: Annotated[int, Between(least=2)]
    d: Count
    seeds: Seeds
    coarseness: Positive = 1.0

    def run(self) -> Result:
        by_seed = [self._one(seed) for seed in self.seeds]
        return {name: [values[name] for values in by_seed] for name in by_seed[0]}

    def _one(self, seed: int) -> dict[str, float]:
        from facthold.construct.linear import outer_product, quantised
        from facthold.memory.associations import seeded_problem

        problem = seeded_problem(self.N, seed, self.d)
        step = float(np.nextafter(np.float32(self.coarseness / (8 * self.d)), np.float32(0)))
        rounded, E, U = quantised(problem, step), np.asarray(problem.E), np.asarray(problem.U)
        before, after = (_margins(np.asarray(W), E, U) for W in (outer_product(problem).W, rounded.memory.W))
        return {
            "least_before": float(before.min()), "least_after": float(after.min()),
            "change": float(np.abs(after - before).max()), "step": step,
            "bits": rounded.bits_per_weight, "used_bits": rounded.used_bits_per_weight,
        }  # fmt: skip


def _margins(*arrays: np.ndarray) -> Float[np.ndarray, " n"]:
    """gamma_xy for all y != x of the identity map, from W, E and U, in float64."""
    W, E, U = (array.astype(np.float64) for array in arrays)
    scores = E @ W.T @ U.T
    return (np.diag(scores)[:, None] - scores)[~np.eye(len(E), dtype=bool)]


@dataclass(frozen=True, kw_only=True)
class GradientStep(Cell):
    """Largest difference of weights between a construction and one step from zero, in float64.

    With m = 0 all of W takes the step. With m > 0 it is W_1 that does, of size 1/m, and W_2 stays at the
    construction's Gaussian rows. ``rounding`` bounds what two orders of summation can differ by: each is within
    (terms) * eps/2 * (sum of the terms' sizes) of the exact sum, with at most N + d terms.
    """

    kind: ClassVar[str] = "gradient-step"
    counts_no_facts: ClassVar[str] = "there is nothing stored"

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
    return [Margins(N=N, d=d, n_draws=n, in_image=in_image) for N, d, n in at_preset(SIZES, preset)]


def judge_margins(rows: Sequence[Values]) -> Judgement:
    formula = "2/d + 1/d^2 + 2(N-2)/d^2" if rows[0]["in_image"] else "1/d + 2(N-1)/d^2"
    means, variances, measured = [], [], []
    for r in rows:
        exact = margin_variance(r["N"], r["d"], sharing=int(r["in_image"]))
        means.append(abs(r["mean"] - 1) / r["mean_error"])
        variances.append(abs(r["variance"] - exact) / r["variance_error"])
        measured.append("N={N} d={d}: mean {mean:.4f}, variance {variance:.4f} for {0:.4f}".format(exact, **r))
    error = f"means within {max(means):.1f}, variances within {max(variances):.1f} standard errors"
    holds = max(*means, *variances) <= STANDARD_ERRORS
    return Judgement(f"mean 1, variance {formula}", "; ".join(measured), error, holds)


def judge_rounding(rows: Sequence[Values]) -> Judgement:
    """Every margin moves by 2 d eps at most, and where all were 1/2 or more, all stay positive.

    A size says something only if most of its seeds meet the condition: at least half must.
    """
    meets = [[before >= 0.5 for before in r["least_before"]] for r in rows]
    kept = [a > 0 for r in rows for b, a in zip(r["least_before"], r["least_after"], strict=True) if b >= 0.5]
    moved = [change / (2 * r["d"] * step) for r in rows for change, step in zip(r["change"], r["step"], strict=True)]
    bits = ", ".join(f"{r['bits'][0]:.1f} (used {max(r['used_bits'])}) at N={r['N']} d={r['d']}" for r in rows)
    keep = f"{sum(kept)} of {len(kept)} memories with margins >= 1/2 keep all"
    measured = f"{keep}; largest change {max(moved):.3f} of 2 d eps; bits per weight {bits}"
    error = f"exact; condition met by {len(kept)} of {sum(map(len, meets))} seeds"
    holds = all(sum(ok) * 2 >= len(ok) for ok in meets) and all(kept) and max(moved) <= 1
    return Judgement("all margins stay positive; change <= 2 d eps", measured, error, holds)


def judge_step(rows: Sequence[Values]) -> Judgement:
    """An identity: the difference is at most what two orders of summation can make in float64."""
    worst = max(rows, key=lambda r: r["difference"] / r["rounding"])
    difference, largest = (max(r[name] for r in rows) for name in ("difference", "largest"))
    measured = f"largest difference {difference:.1e} of weights up to {largest:.2g}"
    holds = all(r["difference"] <= r["rounding"] for r in rows)
    return Judgement("no difference", measured, f"exact; rounding bound {worst['rounding']:.1e}", holds)


CLAIMS = (
    Claim(
        "margin-in-image", "theorem 1, proof",
        "The outer product's margin against another input's output has mean 1 and variance 2/d + 1/d^2 + 2(N-2)/d^2.",
        partial(margin_cells, in_image=True), judge_margins,
    ),
    Claim(
        "margin-outside-image", "theorem 1, proof",
        "The outer product's margin against an output of no input has mean 1 and variance 1/d + 2(N-1)/d^2.",
        partial(margin_cells, in_image=False), judge_margins,
    ),
    Claim(
        "rounding", "corollary 2",
        "Weights rounded to multiples of eps < 1/(8d) keep every association whose margins were 1/2 or more.",
        lambda preset: [Rounding(N=N, d=d, seeds=seeds_at(preset, 10)) for N, d in at_preset(ROUNDING_SIZES, preset)],
        judge_rounding,
    ),
    Claim(
        "gradient-step", "section 3.1",
        "Theorem 1's memories are one gradient step on the correlation loss: of W, or of U with V fixed at rank m.",
        lambda preset: [GradientStep(N=N, d=d, m=m) for N, d, m in at_preset(STEP_SIZES, preset)], judge_step,
    ),
)  # fmt: skip
