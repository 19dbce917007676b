"""The margins of the outer product: exact moments against Monte Carlo (proof of theorem 1).

The moments are exact at every size, so the verdict is statistical: each mean and each variance lies within
`STANDARD_ERRORS` of its prediction, with the standard errors of independent draws.
"""

from collections.abc import Sequence

from facthold.lab.cells import Cell
from facthold.lab.claim import Claim, Judgement
from facthold.lab.figure import Values
from facthold.studies.judging import STANDARD_ERRORS, at_preset
from facthold.studies.memories.margins import Margins
from facthold.theory.bounds import margin_mean, margin_variance

SIZES = {
    "smoke": ((4, 4, 4000), (8, 8, 2000)),
    "quick": ((4, 4, 400_000), (8, 16, 100_000), (32, 16, 40_000), (64, 64, 4000)),
}
"""(N, d, draws). Where N and d are small every term of the variance can be seen."""


def margin_cells(preset: str, in_image: bool) -> list[Cell]:
    return [Margins(N=N, d=d, n_draws=n, in_image=in_image) for N, d, n in at_preset(SIZES, preset)]


def judge_margins(rows: Sequence[Values]) -> Judgement:
    formula = "2/d + 1/d^2 + 2(N-2)/d^2" if rows[0]["in_image"] else "1/d + 2(N-1)/d^2"
    means = [abs(r["mean"] - margin_mean()) / r["mean_error"] for r in rows]
    variances = [abs(r["variance"] - _variance(r)) / r["variance_error"] for r in rows]
    said = [
        f"N={r['N']} d={r['d']}: mean {r['mean']:.4f}, variance {r['variance']:.4f} for {_variance(r):.4f}"
        for r in rows
    ]
    return Judgement(
        f"mean 1, variance {formula}",
        "; ".join(said),
        f"means within {max(means):.1f}, variances within {max(variances):.1f} standard errors",
        max(*means, *variances) <= STANDARD_ERRORS,
    )


def _variance(row: Values) -> float:
    return margin_variance(row["N"], row["d"], sharing=int(row["in_image"]))


CLAIMS = (
    Claim(
        "margin-in-image",
        "theorem 1, proof",
        "The outer product's margin against another input's output has mean 1 and variance 2/d + 1/d^2 + 2(N-2)/d^2.",
        lambda preset: margin_cells(preset, in_image=True),
        judge_margins,
    ),
    Claim(
        "margin-outside-image",
        "theorem 1, proof",
        "The outer product's margin against an output of no input has mean 1 and variance 1/d + 2(N-1)/d^2.",
        lambda preset: margin_cells(preset, in_image=False),
        judge_margins,
    ),
)
