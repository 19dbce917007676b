"""Claims about an attention matrix as an associative memory. The layer is chosen on known facts about half of the
countries, and judged on the other half. Every relation counts the same."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from facthold.lab import Cell, Claim, Judgement, Values
from facthold.lab.claim import at_least
from facthold.studies.judging import all_of, at_preset
from facthold.studies.lm.memory_matrix import PRESETS, cells
from facthold.studies.lm.resampling import flags, interval_of, mean_by
from facthold.studies.lm.where_claims import ONE_MODEL

RANK = 64  # of 576, that is to suffice
COST = 0.1  # of recall that a matrix of this rank may lose
SPACE = (
    "for regions, countries stood first in the prompt, without the space that makes a name the usual token; after the "
    "results had been seen, their streams are read after other words"
)
CAPITALS, PLACE = "capital", "beyond: a real language model"


def recall(row: Values, layer: int, which: np.ndarray) -> np.ndarray:
    """Of some facts of a row, those that a layer's whole matrix recalls."""
    return flags(row["whole"][layer])[which]


def known(row: Values) -> np.ndarray:
    return flags(row["known"]) == 1


def judged(row: Values) -> np.ndarray:
    """The half that judges."""
    return flags(row["held"]) == 1


def choose(rows: Sequence[Values]) -> int:
    """The layer whose matrix recalls most known facts of the choosing half, a mean over relations."""
    layers = range(len(rows[0]["whole"]))
    shares = [[recall(r, i, known(r) & ~judged(r)).mean() for i in layers] for r in rows]
    return int(np.nanmean(shares, axis=0).argmax())


def majority(row: Values, which: np.ndarray) -> np.ndarray:
    """Of some facts, those that the most frequent answer among them gets right: what needs no subject."""
    answers = np.array(row["answers"])[which]
    most = Counter(answers.tolist()).most_common(1)[0][0] if len(answers) else -1
    return (answers == most).astype(float)


def random(row: Values, layer: int, which: np.ndarray) -> np.ndarray:
    """How often each of some known facts is recalled by random matrices with the same singular values."""
    return np.mean([flags(text) for text in row["random"][layer]], axis=0)[which[known(row)]]


def spread(rows: Sequence[Values], which: Sequence[np.ndarray]) -> tuple[list[str], list[str]]:
    """Subjects and relations of some facts of each row, one after another."""
    subjects = [s for r, w in zip(rows, which, strict=True) for s, one in zip(r["subjects"], w, strict=True) if one]
    return subjects, [r["relation"] for r, w in zip(rows, which, strict=True) for _ in range(int(w.sum()))]


def difference(
    rows: Sequence[Values], which: Sequence[np.ndarray], values: Sequence[np.ndarray]
) -> tuple[float, tuple[float, float]]:
    """The mean of values of facts, relation by relation, with its interval."""
    subjects, relations = spread(rows, which)
    joined = np.concatenate(values)
    return interval_of(subjects, lambda w: mean_by(w, joined, relations))


def judge_recall(rows: Sequence[Values]) -> Judgement:
    """Does the chosen matrix recall held known facts better than the most frequent answer, than random directions, and
    than facts that the model does not know?"""
    layer = choose(rows)
    held = [known(r) & judged(r) for r in rows]
    lost = [(flags(r["unknown"]) == 1) & judged(r) for r in rows]
    right = [recall(r, layer, w) for r, w in zip(rows, held, strict=True)]
    parts = []
    for name, other in (
        ("the most frequent answer", [majority(r, w) for r, w in zip(rows, held, strict=True)]),
        ("random matrices", [random(r, layer, w) for r, w in zip(rows, held, strict=True)]),
    ):
        lead, (low, high) = difference(rows, held, [a - b for a, b in zip(right, other, strict=True)])
        parts.append(
            Judgement(f"recall above that of {name}", f"{lead:+.2f} over {name}", f"[{low:.2f}, {high:.2f}]",
                      at_least((low, high), 0.0))
        )  # fmt: skip
    both = [a | b for a, b in zip(held, lost, strict=True)]
    subjects, relations = spread(rows, both)
    values = np.concatenate([recall(r, layer, w) for r, w in zip(rows, both, strict=True)])
    is_known = np.concatenate([known(r)[w] for r, w in zip(rows, both, strict=True)])

    def apart(weights: np.ndarray) -> np.ndarray:
        names = np.array(relations)
        means = [mean_by(weights[:, k], values[k], names[k].tolist()) for k in (is_known, ~is_known)]
        return means[0] - means[1]

    lead, (low, high) = interval_of(subjects, apart)
    parts.append(
        Judgement("known facts above unknown ones", f"{lead:+.2f} over unknown facts",
                  f"[{low:.2f}, {high:.2f}], subjects drawn again", at_least((low, high), 0.0))
    )  # fmt: skip
    each = ", ".join(f"{r['relation']} {v.mean():.2f} of {len(v)}" for r, v in zip(rows, right, strict=True) if len(v))
    mean, (low, high) = difference(rows, held, right)
    whole = all_of(*parts)
    open_ = whole.verdict == "not decided"
    return Judgement(
        whole.predicted, f"layer {layer} recalls {mean:.2f} of held known facts ({each}); {whole.measured}",
        f"95% [{low:.2f}, {high:.2f}]; leads {whole.error}", whole.verdict,
        next="all countries are in it: other relations, or another model, would tell" if open_ else "",
    )  # fmt: skip


def judge_rank(rows: Sequence[Values]) -> Judgement:
    """Does the chosen matrix, truncated to this rank, recall as much as the whole one, up to the cost?"""
    layer, ranks = choose(rows), list(rows[0]["ranks"])
    rank = RANK if RANK in ranks else ranks[-1]
    held = [known(r) & judged(r) for r in rows]
    right = [recall(r, layer, w) for r, w in zip(rows, held, strict=True)]
    low_rank = [
        flags(r["by rank"][layer][ranks.index(rank)])[w[known(r)]] for r, w in zip(rows, held, strict=True)
    ]  # fmt: skip
    loss, (low, high) = difference(rows, held, [a - b for a, b in zip(low_rank, right, strict=True)])
    shares = difference(rows, held, low_rank)[0], difference(rows, held, right)[0]
    return Judgement(
        f"rank {rank} recalls at most {COST:g} less than the whole matrix",
        f"layer {layer}: {shares[0]:.2f} at rank {rank}, {shares[1]:.2f} whole",
        f"difference {loss:+.2f}, 95% [{low:.2f}, {high:.2f}], paired", at_least((low, high), -COST),
    )  # fmt: skip


def _cells(preset: str) -> list[Cell]:
    return cells(at_preset(PRESETS, preset))


def _capitals(preset: str) -> list[Cell]:
    return [cell for cell in _cells(preset) if getattr(cell, "relation", None) == CAPITALS]


RECALLS = Claim(
    "lm-matrix-recalls", PLACE,
    "Facts can be read off one attention layer's W_OV, found on half of the countries: applied to the other countries' "
    "streams right after layer 0 it recalls known capitals, currencies, languages and regions, on average, above the "
    "most frequent answer and above random matrices with its singular values, and known facts above unknown ones "
    f"({ONE_MODEL}).",
    _cells, judge_recall, changed=SPACE,
)  # fmt: skip
OF_CAPITALS = Claim(
    "lm-matrix-capitals", PLACE,
    "Capitals can be read off one attention layer's W_OV, found on half of the countries: applied to the other "
    "countries' streams right after layer 0 it recalls known capitals above the most frequent answer and above random "
    f"matrices with its singular values, and known capitals above unknown ones ({ONE_MODEL}).",
    _capitals, judge_recall,
    changed="lm-matrix-recalls is what was stated at first, of four relations; that it is of capitals alone was "
    "decided after the results of all four had been seen, and there are no other countries to judge it on",
)  # fmt: skip
OF_LOW_RANK = Claim(
    "lm-matrix-rank", PLACE,
    f"Rank {RANK} of that matrix is enough: it recalls at most {COST:g} fewer of the held known facts than the whole "
    f"({ONE_MODEL}).",
    _cells, judge_rank, changed=SPACE,
)  # fmt: skip
