"""Theorems 2 and 9: MLP memories without training hold N as m d, and more with a higher degree where d is small.

The theorems say Var(gamma) <~ 1/d + (2k)^(k+1) N / d^(k+1) + 2^(3q+3k) N / (m d), with k = 2 ceil(1/epsilon) for
d >= N^epsilon. Their constants are out of reach: epsilon = 1/2 asks for k = 4, q >= 5, N above
(4/epsilon)^(1+2/epsilon) = 32,768, and then m d / N above 2^27. The two terms themselves are within reach:
`theory.noise` has them with their exact constants, and predicts N. For ReLU and a kernel <e_x, e_z>^2 both
constructions tend to 2 N ln N = m d / (2 pi + 3 m / d^2). The second term is what a higher degree removes.

Sizes were chosen by the law, such that K(x, x) = 1 +- 1/4 or less: beyond that half recall is a matter of its skewness.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from jaxtyping import Float

from facthold._util.keys import PRNGKeyArray, derive
from facthold.lab import Cell, Claim, Judgement, Values, at_least, worst
from facthold.lab.fields import Count, OneOf, Whole
from facthold.measure.scaling import fit_constant
from facthold.studies import judging
from facthold.studies.judging import all_of, at_preset, by_seed, columns, fresh_seeds, judge_law, not_found
from facthold.studies.memories.capacity import Capacity
from facthold.studies.memories.figures import n_log_n, size
from facthold.studies.memories.margins import Margins, judge_moments
from facthold.theory import noise

if TYPE_CHECKING:
    from facthold.memory.associations import Problem
    from facthold.models.memory import Memory

FEATURES, TANGENT = "hermite-features", "tangent-kernel"
RELU, CUBIC = "relu", "hermite:1,1,1,1"  # the latter as assumption 3 wants it: a polynomial, all coefficients nonzero
GROWTH = {
    "smoke": ((16, 128), (16, 256), (24, 256)),
    "quick": ((32, 512), (32, 1024), (48, 1024), (32, 2048), (64, 1024), (64, 2048)),
    "paper": ((32, 512), (32, 1024), (48, 1024), (32, 2048), (64, 1024), (64, 2048), (64, 4096), (96, 4096)),
}
"""(d, m)."""
DEGREES = {
    "smoke": ((FEATURES, 8, 512), (FEATURES, 8, 1024)),
    "quick": ((FEATURES, 16, 4096), (FEATURES, 16, 8192), (FEATURES, 16, 16384), (TANGENT, 16, 8192)),
}
"""(construction, d, m), at kernels of degree 1 and 3."""
MARGINS = {
    "smoke": ((FEATURES, 16, 64, 1, RELU, 1000), (TANGENT, 16, 128, 0, RELU, 600)),
    "quick": (
        (FEATURES, 16, 64, 1, RELU, 2000), (FEATURES, 16, 2048, 3, CUBIC, 1500),
        (TANGENT, 16, 128, 0, RELU, 2000), (TANGENT, 16, 2048, 2, CUBIC, 1500),
    ),
}  # fmt: skip
"""(construction, d, m, k, sigma, draws), for 16 associations: kernels that are odd in e_z, whose variance is exact."""
REFINED = (
    "A first look found 4% fewer than the law, which then lacked the mean and the skewness of a rival's own kernel, "
    "1/d and more at degree 2. They were added, from theory; sizes and tolerances stayed, and these seeds are others."
)
AT_LEAST = 4.0  # times as many at degree 3 as at degree 1: the law says 6.7 to 10.6


@dataclass(frozen=True, kw_only=True)
class KernelCapacity(Capacity):
    """The largest N that a construction of theorem 2 or 9 recalls half of, at a degree k of its Hermite polynomial."""

    kind: ClassVar[str] = "kernel-capacity"

    method: Annotated[str, OneOf((FEATURES, TANGENT))]
    k: Whole
    sigma: str = RELU
    goal: float = 0.5

    def memory(self, problem: "Problem", seed: int) -> "Memory":
        key = derive("kernel", seed, self.d, self.m, self.method, self.k, self.sigma)
        return build(self.method, problem, self.m, self.k, self.sigma, key)


@dataclass(frozen=True, kw_only=True)
class KernelMargins(Margins):
    """The moments of the margins of a construction of theorem 2 or 9."""

    kind: ClassVar[str] = "kernel-margins"
    version: ClassVar[int] = 1

    method: Annotated[str, OneOf((FEATURES, TANGENT))]
    m: Count
    k: Whole
    sigma: str = RELU
    in_image: bool = True

    @property
    def cost(self) -> float:
        return self.n_draws * (0.03 if self.method == TANGENT else 0.01)

    def answers(self, problem: "Problem", generator: np.random.Generator) -> Float[np.ndarray, "N d"]:
        key = derive("kernel margins", int(generator.integers(2**31)))
        return np.asarray(build(self.method, problem, self.m, self.k, self.sigma, key)(problem.E), np.float64)


def build(method: str, problem: "Problem", m: int, k: int, sigma: str, key: PRNGKeyArray) -> "Memory":
    """The memory of theorem 2's sketch, or of theorem 9."""
    from facthold.construct.mlp import hermite_features, tangent_kernel
    from facthold.memory.activations import activation

    construct = hermite_features if method == FEATURES else tangent_kernel
    return construct(problem, m, k, key=key, sigma=activation(sigma))


@cache
def _noise(method: str, d: int, m: int, k: int, sigma: str) -> noise.Noise:
    from facthold.memory.activations import activation

    of = activation(sigma)
    if method == FEATURES:
        return noise.hermite_features(d, m, k, of)
    return noise.tangent_kernel(d, m, k, of.derivative)


def noise_of(row: Values) -> noise.Noise:
    return _noise(*(row[name] for name in ("method", "d", "m", "k", "sigma")))


def law(row: Values) -> float:
    """N by the noise on the scores."""
    return noise.half_recall(noise_of(row))


def embeddings(row: Values) -> tuple[int, int]:
    """What rows of other m and of other degrees share: a seed has the same embeddings at one d."""
    return row["seed"], row["d"]


def cell(preset: str, N: float, seeds: tuple[int, ...], **fields: Any) -> Cell:
    return KernelCapacity.near(N, seeds=seeds, tolerance={"smoke": 0.1}.get(preset, 0.01), **fields)


def growth_cells(preset: str) -> list[Cell]:
    """A kernel of degree 2, all that ReLU has above 1; searches start at N V z^2 = 1 with z^2 = 10."""
    start = lambda d, m: 0.1 * m * d / (6.3 + 3 * m / d**2)  # noqa: E731
    sizes = [(f, k, d, m) for f, k in ((FEATURES, 2), (TANGENT, 1)) for d, m in at_preset(GROWTH, preset)]
    return [cell(preset, start(d, m), fresh_seeds(preset, 8), method=f, d=d, m=m, k=k) for f, k, d, m in sizes]


def judge_growth(rows: Sequence[Values]) -> Judgement:
    return all_of(*(_judge_method(name, [r for r in rows if r["method"] == name]) for name in (FEATURES, TANGENT)))


def _judge_method(name: str, rows: Sequence[Values]) -> Judgement:
    points = by_seed(rows, between=True)
    judged = judge_law(f"{name}: N as the noise law: exponent 1", points, law, shared=embeddings)
    if not_found(points):
        return judged
    (plain,) = judging.exponent("m d", *columns(points, size, n_log_n))
    return judging.also(judged, f"plain N ln N against m d: {plain.slope:.3f}")


def degree_cells(preset: str) -> list[Cell]:
    """Degree p of the kernel is k of the random features, and k + 1 of the tangent kernel."""
    start = lambda d, m, p: 0.13 * d / ((1 if p == 1 else 15 / d**2) / d + 5 / m)  # noqa: E731
    sizes = [(f, d, m, p) for f, d, m in at_preset(DEGREES, preset) for p in (1, 3)]
    seeds = fresh_seeds(preset, 32)[-16:]  # the first sixteen were looked at
    return [
        cell(preset, start(d, m, p), seeds, sigma=CUBIC, method=f, d=d, m=m, k=p if f == FEATURES else p - 1)
        for f, d, m, p in sizes
    ]


def degree(row: Values) -> int:
    """Of the kernel."""
    return row["k"] if row["method"] == FEATURES else row["k"] + 1


def judge_degrees(rows: Sequence[Values]) -> Judgement:
    """The law over both degrees and all m; and what it says of them: how many times as many, with the same neurons."""
    points = by_seed(rows, between=True)
    judged = judge_law("N as the noise law: exponent 1", points, law, shared=embeddings)
    if not_found(points):
        return judged
    times, errors, verdicts = [], [], []
    for method, ours in judging.grouped(points, lambda r: r["method"]).items():
        first, third = (sorted((r for r in ours if degree(r) == p), key=size) for p in (1, 3))
        # seed against seed, which share their embeddings, at each m
        ratio, by_law = (
            fit_constant("times", [of(r) for r in first], [of(r) for r in third], [embeddings(r) for r in first])
            for of in (judging.capacity, law)
        )
        times.append(f"{ratio.constant:.1f} ({by_law.constant:.1f} by the law) by {method}")
        errors.append(f"[{ratio.interval[0]:.1f}, {ratio.interval[1]:.1f}]")
        verdicts.append(at_least(ratio.interval, AT_LEAST))
    predicted = f"degree 3 over degree 1: at least {AT_LEAST:g} times"
    return all_of(judged, Judgement(predicted, "times " + ", ".join(times), ", ".join(errors), worst(*verdicts)))


def margin_cells(preset: str) -> list[Cell]:
    sizes = at_preset(MARGINS, preset)
    return [KernelMargins(method=f, N=16, d=d, m=m, k=k, sigma=s, n_draws=n) for f, d, m, k, s, n in sizes]


def judge_margins(rows: Sequence[Values]) -> Judgement:
    return judge_moments("as theory.noise has it", rows, lambda r: noise.margin_variance(r["N"], noise_of(r)))


CLAIMS = (
    Claim(
        "mlp-margins", "theorems 2 and 9, proof; constants beyond",
        "The margins of both MLP constructions have mean 1, and a variance with terms of order 1/d, N / d^(p+1) for a "
        "kernel of degree p, and N / (m d), whose constants are exact for odd p.",
        margin_cells, judge_margins,
    ),
    Claim(
        "mlp-memory-growth", "theorems 2 and 9; constants beyond",
        "MLP memories without training hold N as m d, up to a logarithm, while m is below d^2: at half recall the N "
        "that the noise on their scores predicts, which tends to 2 N ln N = m d / (2 pi + 3 m/d^2) for ReLU, by random "
        "features and by the tangent kernel alike.",
        growth_cells, judge_growth, REFINED,
    ),
    Claim(
        "mlp-memory-degree", "theorems 2 and 9, degree; constants beyond",
        "Where d is small against N a higher degree holds more with the same neurons: at d = 16 a kernel of degree 3 "
        "holds at least 4 times as many as one of degree 1, and each the N that the noise on its scores predicts.",
        degree_cells, judge_degrees,
        f"{REFINED} Eight of them had 1.030 [1.007, 1.054], and with eight more 1.019 [0.999, 1.040]; those that are "
        "judged are sixteen others again. Those intervals took all m and both degrees for independent, which share "
        "their embeddings; now a seed counts once.",
    ),
)  # fmt: skip
