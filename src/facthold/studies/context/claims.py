"""The lecture's statements on the bigram task, judged on the cells of its figures."""

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

from facthold.lab import Cell, Claim, Judgement, Values, at_least, at_most, near, worst
from facthold.lab.claim import Interval
from facthold.measure.scaling import mean_interval
from facthold.studies.context import induction, probes
from facthold.studies.context.base import MEMORIES, BuiltHead
from facthold.studies.context.heads import NATURAL, InductionHead, StagedHead
from facthold.studies.context.induction import ONE, RELU, TWO, cells_of_kind, half, of_kind, without_induction
from facthold.studies.judging import FRESH

Rows = Sequence[Values]
WITHIN = 0.05  # of the rule that one layer is compared with
GOAL = 0.99  # the slides' share for two layers
FROM_START = 0.95  # share of the errors that position 0 has to explain
WIDE, NARROW = 256, 128  # dimensions at which the construction works, and at which it does not
UNSEEN = tuple(range(FRESH + 20, FRESH + 32))  # the figure's seeds, and 110 to 112, took part in its design
FEW = 3  # of them at the dimension at which it does not work: it is 20 points off there
SMALL = {WIDE: 64, NARROW: 32}  # the same at preset smoke


def _each(values: Sequence[float]) -> str:
    return ", ".join(f"{value:.1%}" for value in values)


def _interval(interval: Interval) -> str:
    return f"95% [{interval[0]:.3f}, {interval[1]:.3f}]"


def _of(kinds: Sequence[str], preset: str) -> list[Cell]:
    grid = induction.FIGURE.grid(preset)
    return [cell for kind in kinds for cell in cells_of_kind(grid, kind)]


def _failed(rows: Rows) -> str | None:
    """Runs that diverged have no accuracy."""
    diverged = [f"seed {r['seed']}" for r in rows if r.get("status") == "diverged"]
    return f"diverged: {', '.join(diverged)}" if diverged else None


def judge_one_layer(rows: Rows) -> Judgement:
    """The rule is counted from the same sequences, and knows no model."""
    linear, relu = of_kind(rows, ONE), of_kind(rows, RELU)
    predicted = f"within {WITHIN:.0%} of the most frequent output so far, whatever its trigger"
    if problem := _failed(rows):
        return Judgement(predicted, problem, "none", False)
    off = [r["accuracy"] - r["baselines"]["mode"] for r in linear]
    interval = mean_interval(off)
    mode, counts = (fmean(r["baselines"][rule] for r in linear) for rule in ("mode", "counts"))
    measured = f"{_each([r['accuracy'] for r in linear])} for {mode:.1%}: off by {fmean(off):+.3f}"
    if relu:
        by_counts = fmean(r["accuracy"] - r["baselines"]["counts"] for r in relu)
        measured += (
            f"; with a ReLU layer {_each([r['accuracy'] for r in relu])}, where a rule by counts of tokens has "
            f"{counts:.1%}: {by_counts:+.3f} (reported, not judged)"
        )
    return Judgement(predicted, measured, _interval(interval), near(interval, (-WITHIN, WITHIN), 0.0))


def judge_two_layers(rows: Rows) -> Judgement:
    predicted = f"at least {GOAL:.0%} of outputs from the second occurrence of their trigger on"
    if problem := _failed(rows):
        return Judgement(predicted, problem, "none", False)
    found = [r["accuracy"] for r in of_kind(rows, TWO)]
    interval = mean_interval(found)
    measured = f"{_each(found)}, on average {fmean(found):.2%} ({without_induction(rows)})"
    return Judgement(predicted, measured, _interval(interval), at_least(interval, GOAL))


def built_cells(preset: str) -> list[Cell]:
    grid = replace(probes.FIGURE.grid(preset), seeds=UNSEEN if preset != "smoke" else (0, 1))
    wide, narrow = (SMALL[d] if preset == "smoke" else d for d in (WIDE, NARROW))
    few = replace(grid, seeds=grid.seeds[:FEW])
    return [
        *probes.built_cells(few, (narrow,), silent=True),
        *(cell for silent in (True, False) for cell in probes.built_cells(grid, (wide,), silent=silent)),
    ]


def judge_built(rows: Rows) -> Judgement:
    """Why position 0: it attends to itself alone, so that it writes what the position after its token should write.
    Silenced, nothing is left of that; not silenced, an output is missed for it only where its trigger stands at 0."""
    rows = [r for r in rows if r["kind"] == BuiltHead.kind]
    largest = max(r["d"] for r in rows)
    silent, loud = ([r for r in rows if r["d"] == largest and r["silent_first"] is quiet] for quiet in (True, False))
    narrow = [r for r in rows if r["d"] < largest]
    accuracies, below, open_ = ([r["accuracy"] for r in group] for group in (silent, narrow, loud))
    recalled = all(r["probes"][matrix] == 1.0 for r in silent for matrix in MEMORIES)
    asked = fmean(r["from_start"] / r["judged"] for r in loud)
    pairs = list(zip(_by_seed(silent), _by_seed(loud), strict=True))
    gains = [a["accuracy"] - b["accuracy"] for a, b in pairs]
    shares = [
        (b["wrong_from_start"] - a["wrong_from_start"]) / (b["wrong"] - a["wrong"])
        for a, b in pairs
        if b["wrong"] > a["wrong"]
    ]
    intervals = mean_interval(accuracies), mean_interval(below), mean_interval(shares or [0.0]), mean_interval(gains)
    predicted = (
        f"d = {largest}: at least {GOAL:.0%} with position 0 silenced, all probes 1; less without, and at least "
        f"{FROM_START:.0%} of the errors that silence removes have their trigger at position 0; at half of "
        f"d below {GOAL:.0%}"
    )
    lowest = ", ".join(f"{matrix} {min(r['probes'][matrix] for r in silent):.3f}" for matrix in MEMORIES)
    sizes = ", ".join(sorted({str(r["d"]) for r in narrow}))
    measured = (
        f"{_each(accuracies)} silenced (lowest probes {lowest}); {_each(open_)} not silenced, with "
        f"{_each(shares) or 'none'} of the errors that silence removes where the trigger stands at 0 ({asked:.1%} of "
        f"what is asked); "
        f"{_each(below)} at d = {sizes} ({without_induction(rows)})"
    )
    names = ("silenced", "narrow", "errors at 0", "gain by silence")
    error = "; ".join(f"{name} {_interval(interval)}" for name, interval in zip(names, intervals, strict=True))
    wide, small, errors, gain = intervals
    verdict = worst(
        at_least(wide, GOAL), recalled, at_most(small, GOAL), at_least(errors, FROM_START), at_least(gain, 0.0)
    )  # fmt: skip
    return Judgement(predicted, measured, error, verdict)


def _by_seed(rows: Rows) -> list[Values]:
    return sorted(rows, key=lambda r: r["seed"])


def judge_order(rows: Rows) -> Judgement:
    found = of_kind(rows, TWO)
    predicted = "W_KQ^1 has half of its final probe after both others have, by an evaluation or more"
    if problem := _failed(found):
        return Judgement(predicted, problem, "none", False)
    halves: dict[str, list[int]] = {matrix: [half(r, matrix) or 0 for r in found] for matrix in NATURAL}
    if absent := [matrix for matrix, steps in halves.items() if 0 in steps]:
        return Judgement(predicted, f"probes that end at 0: {', '.join(absent)}", "none", False)
    later = [float(last - max(others)) for *others, last in zip(*halves.values(), strict=True)]
    interval = mean_interval(later)
    final = ", ".join(f"{r['curves']['W_KQ^1'][-1]:.2f}" for r in found)
    measured = "; ".join(f"{matrix} {', '.join(map(str, steps))}" for matrix, steps in halves.items())
    return Judgement(
        predicted, f"steps to half: {measured}; later by {fmean(later):.0f} (W_KQ^1 ends at {final})",
        _interval(interval), at_least(interval, float(found[0]["check_every"])),
    )  # fmt: skip


def joint_cells(preset: str) -> list[Cell]:
    """Joint and one after another, with the same steps in all."""
    grid = induction.FIGURE.grid(preset)
    return [
        kind.of(replace(grid, steps=steps), seed=seed)
        for steps in grid.totals
        for kind in (InductionHead, StagedHead)
        for seed in grid.seeds
    ]


def judge_joint(rows: Rows) -> Judgement:
    totals = sorted({r["steps"] for r in rows})
    predicted = f"with as many steps in all ({' and '.join(map(str, totals))}) joint training is right more often"
    if problem := _failed(rows):
        return Judgement(predicted, problem, "none", False)
    words, errors, verdicts = [], [], []
    for steps in totals:
        joint, staged = (
            _by_seed([r for r in rows if r["steps"] == steps and r["kind"] == kind.kind])
            for kind in (InductionHead, StagedHead)
        )
        interval = mean_interval([a["accuracy"] - b["accuracy"] for a, b in zip(joint, staged, strict=True)])
        verdicts.append(at_least(interval, 0.0))
        words.append(
            f"{steps} steps: {_each([r['accuracy'] for r in joint])} jointly, {_each([r['accuracy'] for r in staged])} "
            f"one after another"
        )
        errors.append(f"{steps}: {_interval(interval)}")
    measured = f"{'; '.join(words)} ({without_induction(rows)})"
    return Judgement(predicted, measured, "difference, " + "; ".join(errors), worst(*verdicts))


CLAIMS = (
    Claim(
        "one-layer", "slides: transformers on the bigram task",
        "One layer of attention with a linear readout is right on as many outputs in context as the most frequent "
        "output so far, within five points.",
        lambda preset: _of((ONE, RELU), preset), judge_one_layer,
    ),
    Claim(
        "two-layers", "slides: transformers on the bigram task",
        "Two layers, of which three matrices are trained, predict 99% of outputs in context.",
        lambda preset: _of((TWO,), preset), judge_two_layers,
    ),
    Claim(
        "built-head", "slides: induction head with associative memories",
        "Three sums of outer products make an induction head, if d is large enough and position 0 writes nothing.",
        built_cells, judge_built,
        "It first judged the share of all errors without silence. With d = 256 and seeds 100 to 102 only 55 to 75% of "
        "them had their trigger at position 0: the others are there with silence too, where layer 2 looks right and "
        "the readout errs. So it is the errors that silence removes that are judged. Seeds 110 to 112 left it open "
        "whether silence helps, by [-0.041, 0.090]; those that are judged are twelve others.",
    ),
    Claim(
        "learning-order", "slides: empirically probing the dynamics",
        "Of the three matrices W_KQ^1 is learnt last.",
        lambda preset: _of((TWO,), preset), judge_order,
    ),
    Claim(
        "joint-training", "slides: empirically probing the dynamics",
        "Training the three matrices jointly is faster than one after another, in the order in which they are learnt.",
        joint_cells, judge_joint,
        "It was judged with 2,400 steps in all as well, where it held too (99.3 to 99.5% against 95.5 to 97.2%, with "
        "the same seeds); for its time that half is at preset paper alone now.",
    ),
)  # fmt: skip
