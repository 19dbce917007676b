"""What rows say of bits: of each model those that it holds, its weights, and the bits that these take."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from facthold.lab import Values
from facthold.lab.claim import Interval
from facthold.lm.choices import TEACHING
from facthold.studies.bits.memory_bits import ALL, GOALS
from facthold.studies.lm.bits import FLOAT32
from facthold.studies.lm.resampling import flags, interval_of
from facthold.studies.lm.teach import chosen, shares
from facthold.theory.limits_facts import counting_bound

ALONE, GIVEN = "alone", "given"
PLAIN, FITTED, RECALL = "plain", "fitted", "recall"
TABLES, LAYER, TAUGHT, MEMORIES, TRANSFORMERS = "tables", "layer", "taught", "memories", "transformers"


@dataclass(frozen=True)
class Holding:
    """At least so many bits of facts, in so many weights."""

    what: str  # which of the groups above
    about: str
    bits: float
    n_params: int
    per_bit: float  # bits of facts per bit that the weights take
    interval: Interval | None = None  # of the bits, subjects drawn again

    @property
    def per_param(self) -> float:
        return self.bits / self.n_params


def of_kind(rows: Sequence[Values], kind: str, **fields: object) -> list[Values]:
    return [r for r in rows if r["kind"] == kind and all(r[name] == value for name, value in fields.items())]


def asked(rows: Sequence[Values], shots: int = 0, templates: int = 1, seed: int = 0) -> list[Values]:
    """The rows of each relation that were asked in this way."""
    return of_kind(rows, "lm-bits", shots=shots, templates=templates, seed=seed)


def saved(rows: Sequence[Values], how: str = FITTED, known: str = GIVEN) -> tuple[float, Interval]:
    """Bits that are saved over the facts of these rows, with their interval: whole subjects are drawn again."""
    subjects = [s for r in rows for s in r["subjects"]]
    if not subjects:
        return 0.0, (0.0, 0.0)
    return interval_of(subjects, lambda weights: saved_by(rows, weights, how, known))


def saved_by(rows: Sequence[Values], weights: np.ndarray, how: str, known: str = GIVEN) -> np.ndarray:
    """The same with weights of the facts, [draws, n]: what each fact saves, and of recall the list of wrong ones."""
    from facthold.lm.code_length import listing

    total, start = np.zeros(len(weights)), 0
    for row in rows:
        found, own = row[known], weights[:, start : start + len(row["subjects"])]
        start += len(row["subjects"])
        each = np.array(found[RECALL] if how == RECALL else np.subtract(found["base"], found[how]), float)
        total += own @ each
        if how == RECALL and len(each):
            total -= listing(own.sum(1), own @ (1 - np.array(found["right"], float)))
    return total


@dataclass(frozen=True)
class ReadOff:
    """What is read off one matrix per half of the subjects, which the other half has chosen."""

    layers: tuple[int, int]  # that judges the first half, and the second
    bits: float
    interval: Interval
    random: float  # of the same with random directions
    facts: int


def read_off(rows: Sequence[Values]) -> ReadOff | None:
    """Bits that are read off W_OV: the layer by which most are saved on one half, over all relations, is judged on the
    other half, both ways round."""
    rows = [r for r in of_kind(rows, "lm-matrix-bits") if r["subjects"]]
    if not rows:
        return None
    halves = np.concatenate([flags(r["held"]) for r in rows]) == 1
    choosing, judging, random = (
        np.concatenate([np.array(r[name], float) for r in rows], axis=1) for name in ("choosing", "judging", "random")
    )
    layers = tuple(int(choosing[:, halves != side].sum(1).argmax()) for side in (False, True))
    of_fact = np.where(halves, layers[1], layers[0])
    place = np.arange(len(halves))
    own, control = judging[of_fact, place], random[of_fact, place]
    subjects = [s for r in rows for s in r["subjects"]]
    bits, interval = interval_of(subjects, lambda weights: weights @ own)
    return ReadOff((layers[0], layers[1]), bits, interval, float(control.sum()), len(own))


def taught_bits(row: Values, words: int) -> tuple[float, int]:
    """Bits of facts whose answers were drawn from so many words, by the counting bound, in the matrix of the layer that
    was chosen: the choice is taken off; and how many facts are wrong."""
    right = shares(row, TEACHING, "taught")[chosen(row)]
    wrong = int(len(right) - right.sum())
    return max(0.0, counting_bound(len(right), 1, words, wrong) - math.log2(len(row["layers"]))), wrong


def own_models(rows: Sequence[Values]) -> list[Holding]:
    """Our memories and transformers at 99%: of each size the models with most bits per weight, and with most per bit
    that they take; seeds, and all that was tried, are taken off."""
    found = []
    for row in rows:
        if row["kind"] not in ("memory-bits", "fact-bits"):
            continue
        used = [u for p in row["points"] for u in p["used"] if u["goal"] == GOALS[0] and u["count"] == ALL]
        if not used:
            continue
        tried, name = math.log2(row["tried"]), row["method" if row["kind"] == "memory-bits" else "model"]
        most = max(used, key=lambda u: u["bound"] / u["n_weights"])
        size = f"d={row['d']}" if row["d"] else f"S={row['S']}, R={row['R']}, D={row['D']}"
        what = MEMORIES if row["kind"] == "memory-bits" else TRANSFORMERS
        per_bit = max(max(0.0, u["bound"] - tried) / u["bits"] for u in used)
        found.append(Holding(what, f"{name}, {size}", max(0.0, most["bound"] - tried), most["n_weights"], per_bit))
    return found


def holdings(rows: Sequence[Values]) -> list[Holding]:
    """Everything that stands on the axis, as far as its rows are there."""
    found, sizes, tables = list[Holding](), of_kind(rows, "lm-size"), asked(rows)
    if sizes:
        size = sizes[0]
        if tables:
            bits, ends = saved(tables)
            per_bit = bits / size["stored_bits"]
            found.append(Holding(TABLES, "countries, all weights", bits, size["n_params"], per_bit, ends))
        if read := read_off(rows):
            layers = sorted(set(read.layers))
            words = f"countries, W_OV of layer {' and '.join(map(str, layers))}"
            per_bit = read.bits / sum(size["layer_bits"][i] for i in layers)
            weights = size["layer_params"] * len(layers)
            found.append(Holding(LAYER, words, read.bits, weights, per_bit, read.interval))
        for row in of_kind(rows, "lm-teach"):
            bits, _ = taught_bits(row, size["words"])
            per_bit = bits / (FLOAT32 * row["n_params"])
            found.append(Holding(TAUGHT, f"{row['N']} facts in one taught matrix", bits, row["n_params"], per_bit))
    return [*found, *own_models(rows)]
