"""Faults in rows, by name: each takes a row's values and gives others. `RowsMutant` names them."""

from collections.abc import Callable
from typing import Any

Row = dict[str, Any]

CAPACITIES = ("N", "N_min", "N_max", "N_sd", "stored", "refused", "facts")  # what a search over N or S has found
SIZES = ("size", "size_min", "size_max", "n_params", "md", "Hd_h")  # what one over sizes has found


def _changed(row: Row, names: tuple[str, ...], change: Callable[[float], float]) -> Row:
    """The row with these numbers changed, in itself and in its seeds. Sizes that a cell was given stay as they are."""

    def one(value: float) -> float:
        return round(change(value)) if isinstance(value, int) else change(value)  # a count stays one

    own = {name: one(row[name]) for name in names if isinstance(row.get(name), int | float)}
    seeds = [
        seed | {name: one(seed[name]) for name in names if isinstance(seed.get(name), int | float)}
        for seed in row.get("per_seed", ())
    ]
    return row | own | ({"per_seed": seeds} if seeds else {})


def fewer(row: Row) -> Row:
    """Capacities a third of what they are."""
    return _changed(row, CAPACITIES, lambda N: N / 3)


def more(row: Row) -> Row:
    """Capacities three times as large."""
    return _changed(row, CAPACITIES, lambda N: 3 * N)


def half(row: Row) -> Row:
    """Capacities half of what they are; of S subjects and as many relations, half of their facts."""
    return _changed(row, CAPACITIES, lambda N: N / 2 if "growth" not in row else N / 2**0.5)


def twice(row: Row) -> Row:
    """Twice the capacities; of S subjects and as many relations, twice their facts."""
    return _changed(row, CAPACITIES, lambda N: 2 * N if "growth" not in row else N * 2**0.5)


def flat(row: Row) -> Row:
    """The same capacity at every size."""
    return _changed(row, CAPACITIES, lambda N: 20.0)


def steep(row: Row) -> Row:
    """Capacities that grow with another power of the parameters."""
    return _changed(row, CAPACITIES, lambda N: N * row["n_params"] / 1e3)


def beyond(row: Row) -> Row:
    """Every search ended at its ceiling: there is no capacity."""
    seeds = [seed | {"status": "search ceiling", "N": None} for seed in row.get("per_seed", ())]
    return (
        row | dict.fromkeys(("N", "facts", "size", "n_params"), None) | {"status": "search ceiling", "per_seed": seeds}
    )


def larger(row: Row) -> Row:
    """Models four times as large as they are, where a size was searched."""
    return _changed(row, SIZES, lambda size: 4 * size) if "size" in row else row


def constant(row: Row) -> Row:
    """The same size for every table, where one was searched."""
    return _changed(row, SIZES, lambda size: 1000.0) if "size" in row else row


def one_d(row: Row) -> Row:
    """The same d for every table, where it was searched."""
    return row | {"per_seed": [seed | {"d": 100} for seed in row["per_seed"]]}


def steep_d(row: Row) -> Row:
    """d grows with one power of R more."""
    return row | {"per_seed": [seed | {"d": seed["d"] * row["R"] / 8} for seed in row["per_seed"]]}


def unfound(row: Row) -> Row:
    """No width was enough for any seed, among those that were tried."""
    seeds = [{name: seed[name] for name in seed if name not in ("md", "size")} for seed in row["per_seed"]]
    return row | {"per_seed": seeds}


def enough(row: Row) -> Row:
    """All that was tried recalls everything."""
    seeds = [seed | {"probes": [[size, 1.0] for size, _ in seed["probes"]]} for seed in row["per_seed"]]
    return row | {"per_seed": seeds}


def lossless(row: Row) -> Row:
    """Every model recalls everything."""
    return row | {name: 1.0 for name in ("accuracy", "recall", "share") if name in row}


def forgetful(row: Row) -> Row:
    """Every model recalls 95%."""
    return row | {name: 0.95 for name in ("accuracy", "recall", "share") if name in row}


def nearly(row: Row) -> Row:
    """Every model recalls 99.5%."""
    return row | {name: 0.995 for name in ("accuracy", "recall", "share") if name in row}


def fewer_by_their_rule(row: Row) -> Row:
    return fewer(row) if row["rule"] == "authors" else row


def more_by_their_rule(row: Row) -> Row:
    return more(row) if row["rule"] == "authors" else row


def fewer_where_all(row: Row) -> Row:
    """A third of the capacity where every association is asked for."""
    return fewer(row) if row["goal"] == 1 else row


def more_where_all(row: Row) -> Row:
    return more(row) if row["goal"] == 1 else row


def dearer(row: Row) -> Row:
    """One-bit memories store four fifths of what they do."""
    less = lambda used: used | {name: 0.8 * used[name] for name in ("efficiency", "bound_per_weight")}  # noqa: E731
    points = [point | {"used": [less(used) for used in point["used"]]} for point in row["points"]]
    return row | ({"points": points} if row["method"] == "one-bit" else {})


def richer(row: Row) -> Row:
    """Outer products store half as many associations more."""
    points = [point | {"facts": 1.5 * point["facts"]} for point in row["points"]]
    return row | ({"points": points} if row["method"] != "one-bit" else {})


def one_wrong(row: Row) -> Row:
    """A fact more is wrong on every seed."""
    return row | {"wrong": [wrong + 1 for wrong in row["wrong"]]}


def late(row: Row) -> Row:
    """Relations are learnt a hundredth later."""
    return row | {"proof": row["proof"] | {"lemma_time": 1.01 * row["proof"]["lemma_time"]}}


def uncut(row: Row) -> Row:
    """Truncated models that do what the full one does."""
    return row | {"truncated": [one | row["full"] for one in row["truncated"]]}


def more_right(row: Row) -> Row:
    """Ten points more are right."""
    return row | {"accuracy": row["accuracy"] + 0.1}


def less_right(row: Row) -> Row:
    """Ten points fewer are right."""
    return row | {"accuracy": row["accuracy"] - 0.1}


def early_first(row: Row) -> Row:
    """The probe of W_KQ^1 is at its end from the first evaluation on."""
    curve = row["curves"]["W_KQ^1"]
    return row | {"curves": row["curves"] | {"W_KQ^1": [curve[-1]] * len(curve)}}


def late_second(row: Row) -> Row:
    """The probe of W_KQ^2 is zero before the last evaluation."""
    curve = row["curves"]["W_KQ^2"]
    return row | {"curves": row["curves"] | {"W_KQ^2": [0.0] * (len(curve) - 1) + [1.0]}}


def staged_as_good(row: Row) -> Row:
    """What was trained in stages has everything right."""
    return row | ({"accuracy": 1.0} if "stages" in row else {})


def _of_kind(row: Row, kind: str, change: Callable[[Row], Row]) -> Row:
    """The row with each of its searches changed, where its embeddings are of this kind."""
    return row | ({"per_seed": [one | change(one) for one in row["per_seed"]]} if row["embeddings"] == kind else {})


def learned_as_the_root(row: Row) -> Row:
    """With learned embeddings d grows as the square root of S."""
    return _of_kind(row, "learned", lambda one: {"d": one["d"] * row["S"] ** 0.5})


def random_as_the_logarithm(row: Row) -> Row:
    """With random embeddings d grows by less than the logarithm of S."""
    return _of_kind(row, "sphere", lambda one: {"d": one["d"] * row["S"] ** -0.4})


def learned_cost_more(row: Row) -> Row:
    """Models with learned embeddings have ten times the parameters."""
    return _of_kind(row, "learned", lambda one: {"n_params": 10 * one["n_params"]})


def random_as_good(row: Row) -> Row:
    """A random MLP serves new subjects as well as the trained one."""
    return row | {"recall": row["recall"] | {"random MLP": row["recall"]["transfer"]}}


# Of a language model


def held_swapped(row: Row) -> Row:
    """A cut helps the facts of its own half alone: what is found on one half is not there on the other."""

    def own(hits: str) -> str:
        half = row["layer"] % 2
        return "".join(hit if i % 2 == half else "0" for i, hit in enumerate(hits))

    return row | {"cuts": {cut: {n: own(hits) for n, hits in scores.items()} for cut, scores in row["cuts"].items()}}


def uncut_lm(row: Row) -> Row:
    """No cut changes what the model says."""
    return row | {"cuts": dict.fromkeys(row["cuts"], row["whole"])}


def neighbours_as_text(row: Row) -> Row:
    """Keys of neighbours in C do what those of a text do."""
    return row | {"single": row["single"] | {"neighbours": row["single"]["text"]}}


def edits_lost(row: Row) -> Row:
    """With neighbours' keys in C every other edit does not take."""
    found = row["single"]["neighbours"]
    lost = [one * ((i // 2) % 2) for i, one in enumerate(found["efficacy"])]
    return row | {"single": row["single"] | {"neighbours": found | {"efficacy": lost}}}


def outer_as_solved(row: Row) -> Row:
    """Outer products say what the solved matrix says."""
    return row | {"right": row["right"] | {"outer": row["right"]["solved"]}}


def shuffled_as_solved(row: Row) -> Row:
    """A matrix with other subjects' answers is right as well."""
    return row | {"right": row["right"] | {"shuffled": row["right"]["solved"]}}


def foreign_answered(row: Row) -> Row:
    """Every other foreign question gets another answer than before."""
    lost = lambda hits: "".join(hit if i % 2 else "0" for i, hit in enumerate(hits))  # noqa: E731
    return row | {"kept": {how: [lost(hits) for hits in layers] for how, layers in row["kept"].items()}}


def currencies_untold(row: Row) -> Row:
    """Predictions of currencies take a tenth of a bit more than none would."""
    if row["relation"] != "currency":
        return row
    return row | {"given": row["given"] | {"fitted": [bits + 0.1 for bits in row["given"]["base"]]}}


def shuffled_told(row: Row) -> Row:
    """Of shuffled answers as much is saved as of the others."""
    saved = sum(row["given"]["base"]) - sum(row["given"]["fitted"])
    return row | {"given": row["given"] | {"shuffled": saved}}


def trained_short(row: Row) -> Row:
    """Training recalls a fifth less of real embeddings."""
    real = {"trained": [0.8 * N for N in row["found"]["real"]["trained"]]}
    return row | {"found": row["found"] | {"real": real}}
