"""The lecture's weighted memories W = sum alpha_zy u_y e_z^T, and the gradients that are such sums.

Small exact statements, each about what the constructions give. What memory schemes lose on heavy-tailed data is not
here. Means over independent draws have intervals that hold for all of a claim together (`judging.around`): they must
contain the exact value, and lie within the tolerance that is stated, so that few draws decide nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Annotated, Any, ClassVar

import numpy as np
from jaxtyping import Float

from facthold._util.keys import derive
from facthold.lab import Cell, Claim, Judgement, Result, Values, at_least
from facthold.lab.fields import Between, Count, Seeds
from facthold.measure.scaling import mean_interval
from facthold.memory import EMBEDDINGS
from facthold.studies.judging import all_of, at_preset, judge_mean, mean_and_error, seeds_at
from facthold.theory import bounds
from facthold.theory.weighted import weighted_variance

SCORES = {"smoke": ((6, 8, 8, 4000),), "quick": ((6, 8, 8, 40_000), (24, 16, 32, 20_000), (64, 48, 64, 4000))}
"""(N, M, d, draws)."""
IDENTITIES = {"smoke": ((12, 8, 6, 3),), "quick": ((60, 40, 32, 8), (300, 200, 64, 16))}  # (N, M, d, T)
STEP_D = {"smoke": (32,), "quick": (64, 128)}
MEAN_WITHIN = 0.02  # of the scores' mean, as a share of the weights
NOISE_WITHIN = 0.05  # of their variance, as a share of the exact one
NEARLY_ALL = 0.99
AS_MANY = 0.02  # by which the share that one step recalls may differ from the outer product's
BLOCK_NUMBERS = 1 << 20  # random numbers held at once


def joint(N: int, M: int) -> Float[np.ndarray, "N M"]:
    """p(z, y): inputs by Zipf's law, each with one answer, and every third with a second one half as often."""
    p, z = np.zeros((N, M)), np.arange(N)
    p[z, (3 * z + 1) % M] = 1.0
    p[z[::3], (5 * z[::3] + 2) % M] += 0.5
    p *= (1.0 / (1 + z) / p.sum(axis=1))[:, None]
    return p / p.sum()


@dataclass(frozen=True, kw_only=True)
class WeightedScores(Cell):
    """Scores u_y^T W e_z of a weighted memory against their exact moments, for draws of all embeddings.

    ``step``: of the memory that one gradient step makes, for which the weights are p(z, y) - p(z) / M. Each draw gives
    two numbers: the slope of its scores against the weights, and the mean square of what is left over its exact
    variance. Both have mean 1.
    """

    kind: ClassVar[str] = "weighted-scores"
    counts_no_facts: ClassVar[str] = "scores are measured, not facts"

    N: Annotated[int, Between(least=2)]
    M: Annotated[int, Between(least=2)]
    d: Count
    step: bool
    n_draws: Annotated[int, Between(least=2)]
    seed: int = 0

    def run(self) -> Result:
        import jax
        import jax.numpy as jnp

        from facthold.construct.linear import gradient_step, weighted
        from facthold.memory.embeddings import host_generator

        p = joint(self.N, self.M)
        alpha = p - p.mean(axis=1, keepdims=True) if self.step else p
        make, given = gradient_step if self.step else weighted, jnp.asarray(p, jnp.float32)
        logits = jax.vmap(lambda E, U: make(E, U, given).logits(E, U))
        generator = host_generator(derive("weighted scores", self.seed, self.N, self.M, self.d))
        variance, slopes, noise = weighted_variance(alpha, self.d), [], []
        block = max(1, BLOCK_NUMBERS // ((self.N + self.M) * self.d))
        for i in range(0, self.n_draws, block):
            n = min(block, self.n_draws - i)
            E, U = (EMBEDDINGS["sphere"](n * k, self.d, generator).reshape(n, k, self.d) for k in (self.N, self.M))
            scores = np.asarray(logits(jnp.asarray(E, jnp.float32), jnp.asarray(U, jnp.float32)), np.float64)
            slopes.append((scores * alpha).sum(axis=(1, 2)) / (alpha**2).sum())
            noise.append(((scores - alpha) ** 2 / variance).mean(axis=(1, 2)))
        return {"slope": mean_and_error(np.concatenate(slopes)), "noise": mean_and_error(np.concatenate(noise))}


def judge_scores(rows: Sequence[Values]) -> Judgement:
    parts, n = [], 2 * len(rows)
    for r in rows:
        at = "N={N} M={M} d={d}:".format(**r)
        parts.append(judge_mean(f"{at} score / weight", r["slope"], 1.0, MEAN_WITHIN, n))
        parts.append(judge_mean(f"{at} variance / exact", r["noise"], 1.0, NOISE_WITHIN, n))
    return all_of(*parts)


def score_cells(preset: str, step: bool) -> list[Cell]:
    return [WeightedScores(N=N, M=M, d=d, n_draws=n, step=step) for N, M, d, n in at_preset(SCORES, preset)]


@dataclass(frozen=True, kw_only=True)
class GradientMemory(Cell):
    """The lecture's gradients of the cross entropy, as sums of outer products, against automatic ones, in float64.

    ``start``: minus the gradient at W = 0, as `gradient_step` has it. ``anywhere``: the lemma's
    sum_zk p(z) (q(k|z) - p(k|z)) u_k e_z^T at a random W, where q is the model's softmax. ``noisy``: the lemma on noisy
    inputs, sum_k p(k) u_k (mu^_k - mu_k)^T for x = e_y + p_t with y and t uniform. Each is the largest difference over
    what rounding can make of it: sums of N M terms, each of a few rounded factors.
    """

    kind: ClassVar[str] = "gradient-memory"
    counts_no_facts: ClassVar[str] = "gradients are compared, not facts"

    N: Count
    M: Count
    d: Count
    T: Count  # positions p_t
    seed: int = 0

    def run(self) -> Result:
        import jax
        import jax.numpy as jnp

        from facthold.construct.linear import gradient_step, weighted
        from facthold.memory.embeddings import embed

        def table(name: str, n: int) -> Any:
            return jnp.asarray(embed("sphere", n, self.d, key=derive(f"gradient {name}", self.seed, n)), jnp.float64)

        with jax.enable_x64(True):
            sizes = {"inputs": self.N, "outputs": self.M, "positions": self.T, "W": self.d}
            E, U, positions, W = (table(name, n) for name, n in sizes.items())
            p = jnp.asarray(joint(self.N, self.M))

            def loss(W: Any, X: Any, p: Any) -> Any:
                return -(p * jax.nn.log_softmax(X @ W.T @ U.T)).sum()

            def lemma(W: Any, X: Any, p: Any) -> Any:
                q = jax.nn.softmax(X @ W.T @ U.T) * p.sum(axis=1, keepdims=True)
                return weighted(X, U, q - p).W

            X = (table("tokens", self.M)[:, None] + positions).reshape(-1, self.d)  # x = e_y + p_t
            y = np.repeat(np.arange(self.M), self.T)
            q = jax.nn.softmax(X @ W.T @ U.T)
            mu = jnp.stack([X[y == k].mean(axis=0) for k in range(self.M)])
            noisy = U.T @ (q.T @ X / len(X) - mu / self.M)  # p(k) mu^_k = E[q(k|x) x]
            one_hot = jnp.asarray(np.eye(self.M)[y]) / len(X)
            zero, gradient = jnp.zeros_like(W), jax.grad(loss)
            pairs = {
                "start": (gradient_step(E, U, p).W, -gradient(zero, E, p), E, p),
                "anywhere": (lemma(W, E, p), gradient(W, E, p), E, p),
                "noisy": (noisy, gradient(W, X, one_hot), X, one_hot),
            }
            return {name: self._difference(*pair, np.asarray(U)) for name, pair in pairs.items()}

    def _difference(self, ours: Any, theirs: Any, X: Any, p: Any, U: np.ndarray) -> float:
        terms = (
            np.abs(U).T @ (1 / self.M * np.asarray(p).sum(axis=1)[:, None] + np.asarray(p)).T @ np.abs(np.asarray(X))
        )
        rounding = (len(X) + self.M + 4 * self.d) * np.finfo(np.float64).eps * terms.max()
        return float(np.abs(np.asarray(ours) - np.asarray(theirs)).max() / rounding)


@dataclass(frozen=True, kw_only=True)
class StepRecall(Cell):
    """The share of N associations f*(z) = z that one step on the cross entropy recalls, and the outer product's."""

    kind: ClassVar[str] = "step-recall"
    counts_no_facts: ClassVar[str] = "there is only one map f*(x) = x"

    N: Count
    d: Count
    seeds: Seeds

    def run(self) -> Result:
        import jax.numpy as jnp

        from facthold.construct.linear import gradient_step, outer_product
        from facthold.measure.recall import accuracy
        from facthold.memory.associations import seeded_problem

        shares: Result = {"step": [], "outer_product": []}
        p = jnp.eye(self.N) / self.N
        for seed in self.seeds:
            problem = seeded_problem(self.N, seed, self.d)
            shares["step"].append(accuracy(gradient_step(problem.E, problem.U, p), problem))
            shares["outer_product"].append(accuracy(outer_product(problem), problem))
        return shares


def step_cells(preset: str) -> list[Cell]:
    seeds = seeds_at(preset, 20)
    return [
        *(GradientMemory(N=N, M=M, d=d, T=T) for N, M, d, T in at_preset(IDENTITIES, preset)),
        *score_cells(preset, step=True),
        *(StepRecall(N=N, d=d, seeds=seeds) for d in at_preset(STEP_D, preset)
          for N in (d, round(bounds.half_recall(d)))),
    ]  # fmt: skip


def judge_step(rows: Sequence[Values]) -> Judgement:
    """The identities to rounding, the scores as of any weighted memory, near-perfect recall of d, and at half recall as
    much as the outer product on the same embeddings."""
    identities, scores, recall = ([r for r in rows if name in r] for name in ("anywhere", "slope", "outer_product"))
    if not (identities and scores and recall):
        return Judgement("gradients are memories", "not all of it was measured", "no interval", False)
    off = {name: max(r[name] for r in identities) for name in ("start", "anywhere", "noisy")}
    words = ", ".join(f"{name} {share:.2g}" for name, share in off.items())
    parts = [
        Judgement(
            "gradients = sums of outer products", f"differences / rounding: {words}", "exact", max(off.values()) <= 1
        ),
        judge_scores(scores),
    ]
    for r in recall:
        at, step = "N={N} d={d}:".format(**r), r["step"]
        if r["N"] == r["d"]:
            low, high = interval = mean_interval(step)
            error, verdict = f"[{low:.4f}, {high:.4f}]", at_least(interval, NEARLY_ALL)
            parts.append(Judgement(f"{at} recall >= {NEARLY_ALL:g}", f"{at} {fmean(step):.4f}", error, verdict))
        else:
            more = [a - b for a, b in zip(step, r["outer_product"], strict=True)]
            words = f"{at} recall more than the outer product"
            parts.append(judge_mean(words, mean_and_error(more), 0.0, AS_MANY, len(recall)))
    return all_of(*parts)


CLAIMS = (
    Claim(
        "weighted-memory", "slides",
        "The scores of W = sum alpha_zy u_y e_z^T have mean alpha_zy, and the variance that the weights which share z "
        "or y (over d) and all others (over d^2) give.",
        lambda preset: score_cells(preset, step=False), judge_scores,
        at_any_size="the moments are exact at every size, and are held to the standard error of the draws",
    ),
    Claim(
        "gradient-memory", "slides",
        "Gradients of the cross entropy are sums of outer products, from any start and for noisy inputs; one step from "
        "zero is a weighted memory that recalls d associations nearly perfectly, and as many as the outer product.",
        step_cells, judge_step,
    ),
)  # fmt: skip
