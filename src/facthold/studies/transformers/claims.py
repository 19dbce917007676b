"""How many facts a trained transformer holds (figure 4, left), judged on the figure's own cells."""

from collections.abc import Sequence

from facthold.lab.claim import Claim, Judgement
from facthold.lab.figure import Values
from facthold.measure.scaling import fit_constant, fit_exponent
from facthold.studies.figures import figure
from facthold.studies.judging import interval, not_found

TOLERANCE = 0.15
"""How far the exponent may lie from 1: of one seed and few sizes, its standard error is half of that."""
FACTS_A_PARAMETER = (0.08, 0.22)
"""Where the constant may lie. The authors draw 0.15; their code finds 0.105 at 3,072 parameters."""


def judge(rows: Sequence[Values]) -> Judgement:
    low, high = FACTS_A_PARAMETER
    predicted = f"facts as parameters: exponent 1 within {TOLERANCE}, {low} to {high} facts a parameter"
    absent = not_found(rows)
    if absent:
        return Judgement(predicted, absent, "no fit", False)
    sizes, facts = [r["n_params"] for r in rows], [r["facts"] for r in rows]
    slope, constant = fit_exponent(predicted, sizes, facts), fit_constant(predicted, sizes, facts)
    each = [f / n for f, n in zip(facts, sizes, strict=True)]
    spread = f"from {min(each):.3f} to {max(each):.3f}"
    return Judgement(
        predicted,
        f"exponent {slope.slope:.3f}; {constant.constant:.3f} facts a parameter, {spread}",
        f"{interval(slope)}; [{constant.interval[0]:.3f}, {constant.interval[1]:.3f}] a parameter",
        abs(slope.slope - 1) <= TOLERANCE and low <= constant.constant <= high,
    )


CLAIMS = (
    Claim(
        "facts-growth",
        "figure 4, left",
        "Trained transformers of many shapes hold facts in proportion to their parameters.",
        lambda preset: figure("fig4").cells(figure("fig4").grid(preset)),
        judge,
    ),
)
