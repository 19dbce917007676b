"""A claim about the bits that a language model holds of our tables. What it asks for was fixed before any of it was
measured; what the model knows of countries at rank 1 (figure lm-knows) had been seen."""

from collections.abc import Sequence

import numpy as np

from facthold.lab import Cell, Claim, Judgement, Values, Verdict
from facthold.lab.claim import at_least, at_most, worst
from facthold.lm.fetch import SMOLLM2
from facthold.studies.judging import all_of, at_preset
from facthold.studies.lm.bits import PRESETS, table_cells
from facthold.studies.lm.bits_account import FITTED, GIVEN, RECALL, asked, saved, saved_by
from facthold.studies.lm.resampling import interval_of

LEAST = 300.0  # bits over all relations
SHARE = (1 / 3, 1.0)  # of what predictions save, that the best answers alone save
CHANCE = 10.0  # bits that shuffled answers save at most: above it by chance in 1 of 1,024 tables at most


def judge(rows: Sequence[Values]) -> Judgement:
    """Over all relations, in each of them, by the best answers alone, and of shuffled answers."""
    rows = [r for r in asked(rows) if r["subjects"]]
    total, (low, high) = saved(rows)
    each = {r["relation"]: saved([r]) for r in rows}
    words = ", ".join(f"{name} {value:.0f} [{ends[0]:.0f}, {ends[1]:.0f}]" for name, (value, ends) in each.items())
    least = min(((ends, value) for value, ends in each.values()), default=((0.0, 0.0), 0.0))[0]
    subjects = [s for r in rows for s in r["subjects"]]
    share, (few, many) = interval_of(subjects, lambda w: saved_by(rows, w, RECALL) / saved_by(rows, w, FITTED))
    chance = float(np.sum([r[GIVEN]["shuffled"] for r in rows]))
    in_all, in_each = at_least((low, high), LEAST), at_least(least, 0.0)
    return all_of(
        Judgement(
            f"at least {LEAST:g} bits of who has which answer", f"{total:.0f} bits of {len(subjects)} facts",
            f"95% [{low:.0f}, {high:.0f}], subjects drawn again", in_all, next=_open(in_all),
        ),
        Judgement("more than 0 in each relation", words, "intervals in brackets", in_each, next=_open(in_each)),
        Judgement(
            f"the best answers alone save {SHARE[0]:.2f} to {SHARE[1]:g} of it", f"{share:.2f} of it",
            f"[{few:.2f}, {many:.2f}]", worst(at_least((few, many), SHARE[0]), at_most((few, many), SHARE[1])),
        ),
        Judgement(
            f"of shuffled answers at most {CHANCE:g} bits", f"{chance:.0f}", "exact", chance <= CHANCE,
        ),
    )  # fmt: skip


def _open(verdict: Verdict) -> str:
    """What would decide what is not decided: the tables have no more countries."""
    return "other tables with more facts of each relation" if verdict == "not decided" else ""


def claim_cells(preset: str) -> list[Cell]:
    return table_cells(at_preset(PRESETS, preset))


CLAIM = Claim(
    "lm-bits", "beyond: section 6",
    f"{SMOLLM2.name} holds at least {LEAST:g} bits of who has which capital, currency and language in a known region, "
    "and of who lies in which region, beyond what their frequencies tell, and some of each relation; its best answers "
    "alone show at least a third of that. One model.",
    claim_cells, judge,
)  # fmt: skip
