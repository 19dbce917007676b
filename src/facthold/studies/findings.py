"""What the report says first: one sentence each, the numbers of which are read from stored rows and typed nowhere."""

from collections.abc import Callable, Sequence

from facthold.lab import Finding, Values
from facthold.lab.registry import claim
from facthold.measure.scaling import Fit
from facthold.studies.judging import n_params
from facthold.studies.learning.base import panes
from facthold.studies.memories import figures, sharp
from facthold.studies.transformers import fig4
from facthold.theory import bounds
from facthold.theory.sharp import LIMIT

Rows = Sequence[Values]


def _fit(fits: Sequence[Fit], name: str) -> Fit:
    return next(fit for fit in fits if fit.name == name)


def _within(fit: Fit, of: str = "sizes", digits: int = 2) -> str:
    """The constant of a figure. A claim's interval is narrower where it is of all seeds, and not of their means."""
    low, high = fit.interval
    return f"{fit.constant:.{digits}f} (95%: {low:.{digits}f} to {high:.{digits}f}, from {fit.n} {of})"


def _linear(rows: Rows) -> str:
    fit = _fit(figures.fits(rows), f"linear, d >= {figures.LARGE}: c")
    found = sorted((r for r in rows if not r["m"] and r["N"]), key=lambda r: r["d"])
    first, last = (bounds.guide_constant(r["N"], figures.size(r)) for r in (found[0], found[-1]))
    return (
        "Trained linear memories, which are one matrix of d x d weights, recall 99% of N associations with "
        f"c N ln N = d² and c = {_within(fit)}; the authors draw {bounds.LINEAR_CONSTANT}. It is no constant yet: it "
        f"goes from {first:.2f} at d = {found[0]['d']} to {last:.2f} at d = {found[-1]['d']}."
    )


def _mlp(rows: Rows) -> str:
    fit = _fit(figures.fits(rows), "mlp: N ln N = m d / c, c")
    return f"Trained MLP memories do so with c N ln N = m d and c = {_within(fit)}; the authors draw " + (
        f"{bounds.MLP_CONSTANT}."
    )


def _fixed(rows: Rows) -> str:
    fit = _fit(figures.fixed_fits(rows), f"{figures.FIXED_LAW}, c")
    outputs = {r["M"] for r in rows}.pop()
    return (
        f"With only {outputs} outputs to tell apart the logarithm goes: c N = m d with c = {_within(fit)}; the authors "
        f"draw {bounds.MLP_FIXED_CONSTANT}."
    )


def bits_per_parameter(row: Values) -> float:
    """What tells all permutations of N apart, over the parameters."""
    return bounds.bits_injective(row["N"], row["N"]) / n_params(row)


def _bits(rows: Rows) -> str:
    ours = [r for r in rows if r["method"] == figures.LADDER_MLP and r["N"]]
    bits = [bits_per_parameter(r) for r in ours]
    return (
        f"Trained MLP memories (m = {ours[0]['m'] // ours[0]['d']} d) sit at {min(bits):.1f} to {max(bits):.1f} bits "
        f"per parameter; {figures.BITS[-1]} are reported for large language models."
    )


def _ladder(rows: Rows) -> str:
    ending = ": facts per parameter"
    per = {
        fit.name.removesuffix(ending): fit.constant for fit in figures.ladder_fits(rows) if fit.name.endswith(ending)
    }
    order = sorted(per, key=lambda name: per[name])
    built = max((name for name in order if not name.startswith("train:")), key=lambda name: per[name])
    return (
        f"How a memory is made decides how many associations it holds per parameter: {per[order[0]]:.4f} by "
        f"{figures.in_words(order[0])}, {per[built]:.3f} by {figures.in_words(built)} as the best without training, "
        f"{per[order[-1]]:.3f} by {figures.in_words(order[-1])}."
    )


def _stages(rows: Rows) -> str | None:
    (linear, *_), predicted, _ = panes(rows)
    rest, level = linear["stages"]["relation"], linear["levels"]["relation"]
    if linear["stages"]["resting"] != "relation" or rest["ends"] is None:
        return None
    begins, ends = (rest[name] / linear["lr"] for name in ("begins", "ends"))
    said = f"; the reduced equations, with no free constant, say {_rest(predicted, linear['lr'])}" if predicted else ""
    return (
        f"A model that learns {linear['S'] * linear['R']} facts hallucinates first: from step {begins:,.0f} to "
        f"{ends:,.0f} it knows the relation and not the fact, at a loss of {level:.2f} nats{said}."
    )


def _rest(predicted: Values, lr: float) -> str:
    rest = predicted["stages"]["relation"]
    return f"{rest['begins'] / lr:,.0f} to {rest['ends'] / lr:,.0f}"


def _facts(rows: Rows) -> str:
    fit = _fit(fig4.fits(rows), "all shapes: facts per parameter")
    return (
        f"Trained transformers of all shapes hold {_within(fit, 'shapes', 3)} facts per parameter; the authors draw "
        f"{bounds.FACTS_A_PARAMETER}."
    )


def _sharp(rows: Rows) -> str:
    found = sharp.limit([r for r in sharp.points(rows) if r["N"] is not None])
    low, high = (LIMIT * end for end in found.interval)
    return (
        f"The most that any linear memory holds tends to c N ln N = d² with c = {LIMIT * found.value:.2f} "
        f"(95%: {low:.2f} to {high:.2f}), solved for and certified; theory says {LIMIT}."
    )


def _judged(id: str, words: str) -> Callable[[Rows], str]:
    """A sentence that ends with what the claim's own judge says it measured."""

    def says(rows: Rows) -> str:
        measured = claim(id).judge(rows).measured
        return f"{words}: {measured}."

    return says


FINDINGS = (
    Finding("stages", "fig5", _stages),
    Finding("ladder", "ladder", _ladder),
    Finding("bits", "ladder", _bits),
    Finding("linear", "fig1", _linear),
    Finding("mlp", "fig1", _mlp),
    Finding("fixed-outputs", "fig6", _fixed),
    Finding("any-linear", "sharp", _sharp),
    Finding("facts", "fig4", _facts),
    Finding("step", "gradient-step", _judged("gradient-step", "The outer product is one gradient step from zero")),
    Finding("one-solve", "layerwise", _judged("layerwise", "Parameters per fact that one convex solve per layer "
                                              "needs to store all facts, without training")),
    Finding("constructions", "all-facts", _judged("all-facts", "The paper's constructions recall what they should")),
)  # fmt: skip
