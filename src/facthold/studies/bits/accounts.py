"""Does a stored result claim more than its bits can hold? The counting bound, for every kind of cell.

A learner that writes B bits serves at most 2^B tables, each with all tables within its errors. So of random tables all
but a share 2^-SLACK have

    bits used + log2(variants and seeds tried) + SLACK >= log2(tables) - log2(tables within the errors).

What counts as bits stands in `measure.quantise`: 32 for each weight where nothing was rounded, biases among them.
A result on tables that were not drawn at random has no such bound, and one that counts no facts has nothing to bound.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from facthold.recipes.methods import METHODS
from facthold.theory.limits_facts import allowed_errors, counting_bound, no_bound

SLACK = 20.0
"""Bits: one random table in a million may break the bound."""
FLOAT_BITS = 32

Values = Mapping[str, Any]


@dataclass(frozen=True)
class Account:
    """One model that was stored with its recall."""

    facts: int
    D: int
    """Answers, all equally likely, that each fact chose from."""
    wrong: int
    bits: float
    tried: int
    """Models that were made or asked before this one was chosen, over seeds and sizes."""

    @property
    def bound(self) -> float:
        return counting_bound(self.facts, 1, self.D, self.wrong)

    @property
    def spare(self) -> float:
        """Bits above the bound; negative where a result is too good to be true."""
        return self.bits + math.log2(max(1, self.tried)) + SLACK - self.bound


def accounts(kind: str, spec: Values, result: Values) -> list[Account] | str:
    """The accounts of one stored result, or why there is no bound for it."""
    if kind not in READERS:
        return f"no bound: {NOTHING_COUNTED.get(kind, f'cells of kind {kind!r} count no facts')}"
    drawn = next((spec[name] for name in ("table", "table_kind", "map", "source") if name in spec), DRAWN.get(kind))
    reason = no_bound(drawn or "random")
    return reason or READERS[kind](spec, result)


NOTHING_COUNTED = {
    "memory-loss": "losses are counted, not facts; theorem 7 is checked by the claim nothing-below-theorem-7",
    "zipf-facts": "losses are counted, not facts; theorem 7 is checked by the claim nothing-below-theorem-7",
    "stored": "there is only one map f*(x) = x",
    "one-hot": "there is only one map f*(x) = x",
    "margins": "margins are measured, not facts",
    "rounding": "margins are measured, not facts",
    "attended": "attention in one prompt is measured, not facts",
    "flow": "losses are counted, not facts",
    "loss-curve": "losses are counted, not facts",
    "predicted-stages": "there is no model",
    "sequential": "losses are counted, not facts",
    "comparison": "there is no model",
    "gradient-step": "there is nothing stored",
}  # fmt: skip
"""Kinds of cells that count no facts that a model of known size recalls, and what they have instead."""
DRAWN = {"memory-bits": "uniform"}
"""What kinds of cells store whose spec does not say so; all others draw 'random' tables."""


def _capacity(spec: Values, result: Values) -> list[Account]:
    weights = METHODS[spec["method"]].n_params(spec["d"], spec["m"])
    tried = sum(len(seed["probes"]) for seed in result["per_seed"])
    return [
        Account(N, spec["M"] or N, allowed_errors(spec["goal"], N), FLOAT_BITS * weights, tried)
        for N in (seed["stored"] for seed in result["per_seed"]) if N
    ]  # fmt: skip


def _fact_capacity(spec: Values, result: Values) -> list[Account]:
    weights = result["n_params"] + (result["m"] if spec["model"]["bias"] else 0)
    tried = sum(len(seed["probes"]) for seed in result["per_seed"])
    found = []
    for S in (seed["stored"] for seed in result["per_seed"]):
        if S:
            facts = S * (S if spec["growth"] == "S=R" else math.isqrt(S))
            found.append(
                Account(facts, spec["D"] or S, allowed_errors(spec["goal"], facts), FLOAT_BITS * weights, tried)
            )
    return found


def _fact_accuracy(spec: Values, result: Values) -> list[Account]:
    facts, accuracy = spec["S"] * spec["R"], result["accuracy"]
    if accuracy is None or not math.isfinite(accuracy):
        return []
    biases = spec["m"] if spec["model"]["bias"] else 0
    bits = FLOAT_BITS * (result["n_params"] + biases)
    return [Account(facts, spec["D"], round((1 - accuracy) * facts), bits, len(spec["lrs"]))]


def _sized(spec: Values, result: Values) -> list[Account]:
    """Cells that search for the smallest size a seed."""
    facts = result.get("facts") or spec["S"] * spec["R"]
    seeds = [seed for seed in result["per_seed"] if seed.get("n_params")]
    tried = sum(len(seed.get("probes", [0])) for seed in seeds)
    wrong = allowed_errors(spec.get("goal", 1.0), facts)
    return [Account(facts, spec["D"], wrong, FLOAT_BITS * seed["n_params"], tried) for seed in seeds]


def _reached(spec: Values, result: Values) -> list[Account]:
    """Cells that search for the smallest size of one seed."""
    if not result.get("n_params"):
        return []
    facts = spec["S"] * spec["R"]
    return [
        Account(
            facts,
            spec["D"],
            allowed_errors(spec["goal"], facts),
            FLOAT_BITS * result["n_params"],
            len(result["probes"]),
        )
    ]


def _recalled(spec: Values, result: Values) -> list[Account]:
    bits = FLOAT_BITS * result["n_params"]
    return [Account(result["facts"], spec["D"], wrong, bits, len(result["wrong"])) for wrong in result["wrong"]]


def _one_model(spec: Values, result: Values) -> list[Account]:
    """Cells with one model, its accuracy and its parameters."""
    facts = spec["S"] * spec["R"]
    if not result.get("accuracy"):
        return []
    bits = FLOAT_BITS * (result["n_params"] + (result.get("m") or spec.get("m") or 0))
    return [Account(facts, spec["D"], round((1 - result["accuracy"]) * facts), bits, 1)]


def _disturbed(spec: Values, result: Values) -> list[Account]:
    """Disturbed models. Where weights were rounded their bits count, and 32 for the scale of each matrix."""
    facts, found = spec["S"] * spec["R"], []
    for seed in result["per_seed"]:
        for amount, recall in zip(spec["amounts"], seed["recall"], strict=True):
            rounded = spec["disturbance"] == "bits"
            # a matrix has at least d weights
            scales = FLOAT_BITS * (seed["n_params"] // spec["d"]) if rounded else 0
            bits = (amount if rounded else FLOAT_BITS) * seed["n_params"] + scales
            found.append(Account(facts, spec["D"], round((1 - recall) * facts), bits, len(spec["amounts"])))
    return found


def _bits(outputs: Callable[[Values, int], int]) -> Callable[[Values, Values], list[Account]]:
    """Cells that count bits themselves."""

    def read(spec: Values, result: Values) -> list[Account]:
        return [
            Account(
                point["facts"], outputs(spec, point["facts"]), round((1 - used["recall"]) * point["facts"]),
                used["bits"], result["tried"],
            )
            for point in result["points"] for used in point["used"]
        ]  # fmt: skip

    return read


READERS: dict[str, Callable[[Values, Values], list[Account]]] = {
    "capacity": _capacity,
    "fact-capacity": _fact_capacity,
    "fact-accuracy": _fact_accuracy,
    "built-size": _sized,
    "trained-size": _reached,
    "held-size": _reached,
    "held": _one_model,
    "built-recall": _recalled,
    "robustness": _disturbed,
    "storage": _one_model,
    "edits": _one_model,
    "table-size": _one_model,
    "memory-bits": _bits(lambda spec, N: 2 ** spec["d"] if spec["reading"] == "signs" else N),
    "fact-bits": _bits(lambda spec, N: spec["D"]),
}
