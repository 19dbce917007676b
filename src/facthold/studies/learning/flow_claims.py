"""What gradient flow conserves, and where it goes (appendix D): lemmas 4 to 7, theorems 5 and 6."""

import itertools
import math
from collections.abc import Sequence
from functools import partial
from typing import Any

from facthold.dynamics import STARTS
from facthold.lab import Cell, Values, Verdict, near, worst
from facthold.studies.judging import at_preset
from facthold.studies.learning.base import ALPHA, Measured, Rows, claimed, size
from facthold.studies.learning.flows import DELTAS, EXCEPTION, Flow, SlowWeights
from facthold.studies.learning.sequential import Comparison, Sequential
from facthold.theory.reduced import Reduced, log_cosh

DRIFT = 1e-6  # of what is conserved, as a share of the largest W_KQ^2: 100 times the solver's tolerance
ROUNDING = 1e-9  # slack where two sides are equal at t = 0
GROWN = 1e3  # times alpha, which W_KQ reaches at least where something is said to be conserved: theirs is 1e5
EXACT = 1e-6  # what is left of an exact prediction by a solver whose tolerance is 1e-8
ON_TIME = 0.002  # of a time that is read between looks, which lie 0.05% (lemma 6) or 1% of it apart (theorem 5)
EPSILON = 0.1  # how near to p*(. | r) predictions must come in theorem 6
T_STAR = 0.01  # of T* from alpha = exp(-10000): what follows the escape, some units of log alpha, is a thousandth of it
UNEVEN = 0.05  # of what grows up to T*: the relations of a table that is not balanced leave up to 3% of T* apart

TABLES = {  # (table, S, R, D): figure 5's size, and one with more relations than subjects
    "smoke": (("balanced", 4, 2, 2), ("random", 4, 2, 2)),
    "quick": (("balanced", 16, 4, 8), ("random", 16, 4, 8), ("random", 8, 16, 4)),
}
THEOREM_6: dict[str, Any] = {"S": 32, "R": 2, "D": 2, "T": 4, "n_noise": 128}  # S >= 8R sqrt(2D), |N| >= 8R sqrt(2D) T


def _flows(preset: str, starts: Sequence[str] = ("balanced",), t_end: float = 1000.0, **more: Any) -> list[Cell]:
    """Every table of the preset from each of these starts."""
    flow = partial[Any](Flow, T=32, n_noise=20, log_alpha=ALPHA, t_end=t_end, **more)
    tables = at_preset(TABLES, preset)
    return [flow(table=kind, S=S, R=R, D=D, start=start) for kind, S, R, D in tables for start in starts]


def _where(row: Values) -> str:
    return f"{row['start']} start, {row['table']} S={row['S']} R={row['R']} D={row['D']}"


@claimed(
    "flow-conserves", "lemma 4",
    "Gradient flow conserves W_KQ(z)^2 - sum_a W_OV(a, z)^2 for every token, alpha^2 from assumption 2's start; and, "
    "beyond the lemma, sum_a W_OV(a, z).",
    lambda preset: _flows(preset, STARTS),
    f"drifts below {DRIFT:g} of each token's own W_KQ^2, while the largest W_KQ comes to {GROWN:g} alpha or more; at "
    "first alpha^2 from assumption 2's start, (1 - |A|) alpha^2 from the all-equal one",
    at_any_size="an identity of the flow of every table, held to the solver's tolerance",
)  # fmt: skip
def conserved(rows: Rows) -> Measured:
    """That weights have moved is part of it: what stands still conserves everything."""
    worst, mean = max(rows, key=lambda r: r["drift"]), max(r["sum_drift"] for r in rows)
    grown = min(r["grown"] for r in rows)
    known = [(r, {"balanced": 1.0, "equal": 1.0 - r["R"] * r["D"]}[r["start"]]) for r in rows if r["start"] != "random"]
    off = max(abs(value / first - 1) for r, first in known for value in r["invariant"])
    measured = (
        f"{worst['drift']:.1e} at most ({_where(worst)}); the sum of W_OV over a drifts {mean:.1e}; W_KQ comes to "
        f"{grown:.1e} alpha at least; off by {off:.1e} at first"
    )
    holds = max(worst["drift"], mean) <= DRIFT and grown >= GROWN and off <= DRIFT
    return measured, f"float64, {len(rows)} flows", holds


@claimed(
    "attention-stays", "corollary 3",
    "W_KQ(z) stays at or above alpha from assumption 2's start. Beyond the corollary, it never falls below where it "
    "began, alpha sqrt(|A| + 1), as the mean of W_OV(., z) never moves; for the same reason it stays at alpha or above "
    "from the all-equal start of figure 5, of which the proof says nothing, as W_KQ^2 - sum W_OV^2 is negative there.",
    lambda preset: _flows(preset, STARTS),
    f"smallest W_KQ / alpha: sqrt(|A| + 1) from the balanced start, 1 from the all-equal one, both within {DRIFT:g}; "
    "below 1 from random ones",
)  # fmt: skip
def positive(rows: Rows) -> Measured:
    """The smallest is the first one, at t = 0, where it never falls below it. The random start shows that it can."""
    least = {s: [r for r in rows if r["start"] == s] for s in STARTS}
    began = {"balanced": lambda r: math.sqrt(r["R"] * r["D"] + 1), "equal": lambda r: 1.0}
    off = max(abs(r["least_ratio"] / began[start](r) - 1) for start in began for r in least[start])
    lowest = {start: min(r["least_ratio"] for r in ours) for start, ours in least.items()}
    measured = ", ".join(f"{start} {ratio:.9g}" for start, ratio in lowest.items())
    highest = max(r["least_ratio"] for r in least["random"])
    holds = off <= DRIFT and highest < 1 - DRIFT
    return f"{measured} (at most {highest:.3g}); off the starts by {off:.1e}", f"float64, {len(rows)} flows", holds


def slow_cells(preset: str) -> list[Cell]:
    """The flows that other claims have, theorem 6's setting, and those in which the share that is used is predicted."""
    S, R, D, odd = at_preset({"smoke": (4, 2, 2, 16), "quick": (16, 4, 8, 64)}, preset)
    shares = [
        SlowWeights(S=S, R=R, D=D, T=32, n_noise=20),
        SlowWeights(S=odd, R=1, D=2, T=32, n_noise=4, table=EXCEPTION),
    ]
    return [*_flows(preset), Flow(**THEOREM_6, log_alpha=ALPHA, t_end=1000.0), *shares]


@claimed(
    "weights-grow-slowly", "lemma 5",
    "W_KQ of subjects stays below exp(2 p(s) t), of noise below exp(2 T t / |N|), times alpha sqrt(|A| + 1). Beyond "
    "the lemma, how much of these rates is used: ||p*(. | s) - p_0|| / 2 and (1 - 3/T) ||p* - p_0|| / 2 while all "
    "weights are small; and (1 - 1/S) / sqrt(2) by one subject whose answer is unlike all others', so that 2 p(s) "
    "could be sqrt(2) p(s) and no less.",
    slow_cells, f"log W_KQ never above the bounds; shares of their rates as predicted, within {EXACT:g} of them",
)  # fmt: skip
def slow(rows: Rows) -> Measured:
    """A bound that is off by a factor has another share, and so has a flow whose tokens are pulled otherwise."""
    excess = max(max(r["excess"].values()) for r in rows)
    shares, off = [], []
    for r in (r for r in rows if r["kind"] == SlowWeights.kind):
        rates = {"subject": 2 / r["S"], "noise": 2 * r["T"] / r["n_noise"]}  # as the lemma has them
        said = {kind: log_cosh(r["rates"][kind] * r["until"]) / r["until"] / rate for kind, rate in rates.items()}
        found = [(kind, r["used"][kind], said[kind]) for kind in rates]
        found += [("exception", r["late"], (1 - 1 / r["S"]) / math.sqrt(2))] if r["late"] is not None else []
        shares += [f"{kind} {used:.5f} ({share:.5f})" for kind, used, share in found]
        off += [abs(used / share - 1) for _, used, share in found]
    above = f"{excess:.1e} above" if excess > ROUNDING else "never above them"
    measured = f"{above}; shares that are used (predicted): {', '.join(shares)}"
    return measured, f"float64, {len(rows)} flows", excess <= ROUNDING and max(off) <= EXACT


@claimed(
    "loss-vanishes", "theorem 5",
    "Gradient flow from assumption 2's start brings the loss below any delta, and it never rises; beyond the theorem, "
    "in a balanced table at the time that the reduced equations give.",
    lambda preset: _flows(preset, t_end=20_000.0, spacing="log", points=600),
    f"loss below {', '.join(f'{d:g}' for d in DELTAS)} at some time; in balanced tables at the predicted one, within "
    f"{ON_TIME:.1%}",
)  # fmt: skip
def convergence(rows: Rows) -> Measured:
    least = f"{min(DELTAS):g}"
    times = "; ".join(f"{r['fell'][least] or math.nan:.5g} ({_where(r)})" for r in rows)
    reached = all(r["fell"][f"{d:g}"] is not None for r in rows for d in DELTAS)
    rise = max(r["rise"] for r in rows)
    if not reached:
        return f"below {least} at t = {times}", "float64", False
    even = [r for r in rows if r["table"] == "balanced"]
    off = [
        r["fell"][f"{d:g}"] / Reduced(*size(r), r["start"], r["log_alpha"]).time_of(d) - 1 for r in even for d in DELTAS
    ]
    measured = (
        f"below {least} at t = {times}; off the prediction by {min(off):+.1e} to {max(off):+.1e}; rises {rise:.0e}"
    )
    return measured, f"float64, {len(rows)} flows", max(map(abs, off)) <= ON_TIME and rise <= DRIFT


def sequential_cells(preset: str) -> list[Cell]:
    """In the smoke preset alpha is found for one table, and the proof's T* left out."""
    cell = partial[Any](Sequential, **THEOREM_6, epsilon=EPSILON)
    random = cell(table="random", proof=False)
    return at_preset({"smoke": [random], "quick": [cell(), random]}, preset)


@claimed(
    "sequential-learning", "theorem 6",
    "From a small enough start all predictions come within epsilon of p*(. | r) while subjects and noise are still "
    "below sqrt(alpha) (S = 32, R = 2, D = 2, T = 4, 128 noise tokens). Beyond the theorem, when that is and how far "
    "subjects and noise have come by then.", sequential_cells,
    f"from some alpha down: subjects and noise below sqrt(alpha) up to T*, every prediction within {EPSILON:g}; from "
    f"the smallest alpha T* within {T_STAR:.0%} of log(1/alpha) / lambda_r (reduced equations, where the table is "
    f"balanced), log W_KQ of subjects and noise grown by log cosh(lambda T*), within {UNEVEN:.0%}",
)  # fmt: skip
def sequential(rows: Rows) -> Measured:
    """By T* = the first time at which every prediction is near, from some alpha of the ladder on for all smaller ones,
    1e-30 among them; and by the proof's own T* where the flow was followed up to it."""
    measured: list[str] = []
    drift: list[str] = []
    verdicts: list[Verdict | bool] = []
    for r in rows:
        verdicts.append(r["S"] >= r["subjects_wanted"] and r["n_noise"] >= r["noise_wanted"])
        good = list(itertools.takewhile(lambda own: own["time"] is not None and own["above"] <= 0, reversed(r["own"])))
        if not good or good[-1]["log_alpha"] < math.log(1e-30):
            failure = next((o["failure"] for o in r["own"] if o.get("failure")), "not both statements hold")
            return f"{r['table']} table: {failure} at alpha = 1e-30 or below", "none", False
        largest, smallest = good[-1], good[0]
        late, grown = _as_predicted(r, smallest)
        verdicts += [_read(late, T_STAR), *(_read(off, UNEVEN) for _, _, off in grown)]
        shares = {"T*": late} | {kind: off for kind, _, off in grown}
        drift += [f"{r['table']} table: {what} {off:+.1%} off" for what, off in shares.items() if abs(off) > ON_TIME]
        measured.append(
            f"{r['table']} table: from alpha = exp({largest['log_alpha']:g}) (T* = {largest['time']:.3g}, weights "
            f"exp({largest['above']:.2g}) sqrt(alpha) at most) to exp({smallest['log_alpha']:g}) (T* = "
            f"{smallest['time']:.3g}, {late:+.2%} off; exp({smallest['above']:.3g}); grown by "
            + ", ".join(f"{kind} {by:.4g}, {off:+.1%} off" for kind, by, off in grown) + ")"
        )  # fmt: skip
        if (proof := r["proof"]) is not None:
            measured.append(_by_proof(proof))
            verdicts.append(not proof["failure"] and proof["theorem_time"] is not None and proof["above"] <= 0)
    error = f"float64, logarithmic coordinates; times are read to {ON_TIME:.1%}"
    then = "a smaller alpha: the time after the first relation is learnt is a smaller share of T*" if drift else ""
    return "; ".join(measured), error, worst(*verdicts), "; ".join(drift), then


def _read(off: float, tolerance: float) -> Verdict:
    """Of a share that something is off by, which is as exact as times are read."""
    return near((off - ON_TIME, off + ON_TIME), 0.0, tolerance)


def _as_predicted(row: Values, own: Values) -> tuple[float, list[tuple[str, float, float]]]:
    """From the smallest alpha: how far T* is off its prediction, as a share of it; and by how much log W_KQ of subjects
    and noise has grown, and how far that is off.

    In a table that is not balanced the rates change once the first relation is learnt, for the last few percent of the
    time up to T*. Noise grows there alone: in a balanced table nothing pulls it.
    """
    if row["table"] == "balanced":
        T_star = Reduced(*size(row), "balanced", own["log_alpha"]).time_near(row["epsilon"])
    else:
        T_star = -(own["log_alpha"] + 0.5 * math.log(row["R"] * row["D"] + 1)) / row["slowest_relation"]
    grown = []
    for kind in ("subject", "noise"):
        by, said = own["grown"][kind], log_cosh(row["rates"][kind] * own["time"])
        grown.append((kind, by, by / said - 1 if said > 0 else by))
    return own["time"] / T_star - 1, grown


def _by_proof(proof: Values) -> str:
    """What was seen up to the proof's own T*."""
    if proof["failure"]:
        return proof["failure"]
    near = "never near" if proof["theorem_time"] is None else f"near from {proof['theorem_time']:.3g} on"
    return (
        f"by the proof alpha = exp({proof['log_alpha']:.3g}), T* = {proof['T_star']:.3g}, {near}, "
        f"weights exp({proof['above']:.3g}) sqrt(alpha) at most"
    )


@claimed(
    "relations-learnt", "lemma 6",
    "While subjects and noise are small, relations are learnt by the time T* of the lemma's formula. Beyond the lemma: "
    "at the end of its first term, the escape, and as the reduced equations give it; the second term, "
    "100 (|A| + 1) log|A| / (eps eps_min)^2, is not needed.",
    lambda preset: [Sequential(**THEOREM_6, epsilon=EPSILON)],
    "sum_r p(r)^2 ||p*(. | r) - E p-hat||^2 <= eps_min^2 at some t <= T*; that t is max_r log(eps / (alpha sqrt(|A| + "
    f"1))) / lambda_r and that of the reduced equations, within {ON_TIME:.1%}",
    lambda rows: rows[0]["proof"]["failure"],
    at_any_size="its one cell is the same at every preset",
)  # fmt: skip
def relations_learnt(rows: Rows) -> Measured:
    (r,), proof = rows, rows[0]["proof"]
    t, T_star = proof["lemma_time"], proof["T_star"]
    small = max(proof["above"], proof["EOS_above"])  # the lemma assumes it; for EOS, which it forgets, too
    about = f"T* = {T_star:.4g}, eps_min = {proof['eps_min']:g}; all but relations exp({small:.3g}) alpha_sm"
    if t is None:
        return f"never, {about}", "float64", False
    # every relation is as far as the others: the sum over r is R p(r)^2 = 1 / R times its square
    said = Reduced(*size(r), "balanced", proof["log_alpha"]).time_near(math.sqrt(r["R"]) * proof["eps_min"])
    off = {"first term": t / proof["escape"] - 1, "reduced equations": t / said - 1}
    measured = f"at t = {t:.4g} ({', '.join(f'{x:+.1e} off the {name}' for name, x in off.items())}), {about}"
    return measured, "float64", t <= T_star and small <= 0 and max(map(abs, off.values())) <= ON_TIME


@claimed(
    "comparison", "lemma 7",
    "Solutions of z' <= A z + B z^2 stay below, and of z' >= A z - B z^2 above, the solution of the equation; beyond "
    "the lemma, by how much: log z by the integral H of the slack over z or more in the first case, by 0 to H in the "
    "second.",
    lambda preset: [Comparison(draws=at_preset({"smoke": 20, "quick": 200}, preset))],
    "log z inside its bounds by H or more and by 0 to H, with H above 1 among the draws; on them without slack",
    at_any_size="an inequality for every equation; presets differ in how many are drawn",
)  # fmt: skip
def comparison(rows: Rows) -> Measured:
    (r,) = rows
    beyond = max(r["upper"], r["lower"])
    measured = f"{beyond:.1e} off at most, H up to {r['slack']:.2f}; {r['tight']:.1e} from the bounds without slack"
    # the solver's tolerance is 1e-11 per step; without slack its errors add up over thousands of steps
    return measured, f"float64, {r['draws']} draws", beyond <= 1e-9 and r["tight"] <= 1e-7 and r["slack"] > 1
