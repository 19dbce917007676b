"""Claims about where a language model reads facts. Layers are chosen on half of the subjects, by the rule of `choose`,
and judged on the other half."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from facthold.lab import Cell, Claim, Judgement, Values
from facthold.lab.claim import at_least, at_most
from facthold.lm.fetch import SMOLLM2
from facthold.studies.judging import all_of, at_preset
from facthold.studies.lm.resampling import flags, interval_of, mean_by
from facthold.studies.lm.where import PRESETS, layer_cells

FAR = 0.2  # how much more of the answers must go without the chosen layer than without any other
HALF = 0.5
ONE_MODEL = f"in one model, {SMOLLM2.name}"


class Facts:
    """The facts of several rows, one after another: what became of each, with its subject, relation and half."""

    def __init__(self, rows: Sequence[Values]) -> None:
        self.rows = rows
        self.subjects = [s for r in rows for s in r["subjects"]]
        self.relations = [r["relation"] for r in rows for _ in r["subjects"]]
        self.held = np.concatenate([flags(r["held"]) for r in rows]) == 1

    def right(self, what: str) -> np.ndarray:
        """Answers that are right without each layer, such as of 'attention last', [L, n]."""
        return np.concatenate([np.array([flags(text) for text in r[what]]) for r in self.rows], axis=1)

    def values(self, what: str) -> np.ndarray:
        """A number of each fact, [n]."""
        return np.concatenate([np.array(r[what], float) for r in self.rows])


def choose(facts: Facts, what: str = "attention last") -> int:
    """The layer without which fewest answers of the choosing half are right; of equal ones the first."""
    return int(facts.right(what)[:, ~facts.held].mean(1).argmin())


def judge_layer(rows: Sequence[Values]) -> Judgement:
    """Is the chosen layer needed by far more than any other, the one of them that is needed most in the judging half
    itself? Layers at random are the control."""
    facts = Facts(rows)
    chosen, held = choose(facts), facts.held
    right = facts.right("attention last")[:, held]
    subjects = [s for s, h in zip(facts.subjects, held, strict=True) if h]
    relations = [r for r, h in zip(facts.relations, held, strict=True) if h]
    others = [i for i in range(len(right)) if i != chosen]

    def lead(weights: np.ndarray) -> np.ndarray:
        each = np.stack([mean_by(weights, row) for row in right])
        return each[others].min(0) - each[chosen]

    value, (low, high) = interval_of(subjects, lead)
    left, (least, most) = interval_of(subjects, lambda w: mean_by(w, right[chosen]))
    control = right[others].mean()
    by_relation = {r: right[chosen][np.array(relations) == r].mean() for r in dict.fromkeys(relations)}
    words = ", ".join(f"{name} {share:.2f}" for name, share in by_relation.items())
    return Judgement(
        f"without the chosen layer at least {FAR:g} fewer are right than without any other",
        f"layer {chosen}: {left:.2f} of {right.shape[1]} held facts stay right ({words}), without any other layer at "
        f"least {right[others].mean(1).min():.2f}, without a layer at random {control:.2f}; lead {value:.2f}",
        f"95% of the share [{least:.2f}, {most:.2f}], of the lead [{low:.2f}, {high:.2f}], subjects drawn again",
        at_least((low, high), FAR),
    )  # fmt: skip


def attention_share(facts: Facts, contrast: str, weights: np.ndarray) -> np.ndarray:
    """What attention adds over what attention and MLPs add, of the facts' mean parts."""
    attention, mlp = (mean_by(weights, facts.values(f"{place} {contrast}")) for place in ("attention", "mlp"))
    return attention / (attention + mlp)


def judge_contrast(rows: Sequence[Values]) -> Judgement:
    """Do MLPs add more against the mean of the answers, and attention more against the runner-up?"""
    facts = Facts(rows)
    parts = []
    for contrast, words, verdict in (("answers", "at most", at_most), ("runner-up", "at least", at_least)):
        share, (low, high) = interval_of(facts.subjects, lambda w, c=contrast: attention_share(facts, c, w))  # type: ignore[misc]
        sums = [float(facts.values(f"{place} {contrast}").mean()) for place in ("attention", "mlp")]
        parts.append(
            Judgement(
                f"share of attention against {contrast} {words} {HALF:g}",
                f"{share:.2f} against {contrast} (attention {sums[0]:.2f}, MLPs {sums[1]:.2f})",
                f"[{low:.2f}, {high:.2f}]", verdict((low, high), HALF),
            )
        )  # fmt: skip

    def turn(weights: np.ndarray) -> np.ndarray:
        return attention_share(facts, "runner-up", weights) - attention_share(facts, "answers", weights)

    value, (low, high) = interval_of(facts.subjects, turn)
    paired = Judgement(
        "share against the runner-up above that against the answers", f"difference {value:.2f}",
        f"[{low:.2f}, {high:.2f}], {len(facts.subjects)} facts, paired", at_least((low, high), 0.0),
    )  # fmt: skip
    return all_of(*parts, paired)


def _cells(preset: str) -> list[Cell]:
    return layer_cells(at_preset(PRESETS, preset))


def claim(id: str, statement: str, judge: Any) -> Claim:
    return Claim(id, "beyond: a real language model", f"{statement} ({ONE_MODEL}).", _cells, judge)


ONE_LAYER = claim(
    "lm-one-layer",
    "One attention layer, found on half of the countries, brings facts to the last token: in the other half, mean "
    f"ablation of it there leaves at least {FAR:g} fewer answers right than that of any other attention layer",
    judge_layer,
)
CONTRAST = claim(
    "lm-contrast",
    "Attention or MLP depends on the contrast: against the mean of the relation's answers MLPs add more to a known "
    "fact's margin, against the runner-up attention does",
    judge_contrast,
)
