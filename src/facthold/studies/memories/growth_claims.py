"""How capacities grow: trained memories (figures 1 and 6) and theorem 1's constructions.

Trained memories are judged on the figures' own cells by the figures' own axes, N ln N (N, with a fixed number
of outputs) against the size of W.

Constructions are judged at half recall, against the N that the noise on their scores predicts
(`measure.noise`): 2 N ln N = d^2, or m d / (1 + m/d) at rank m, with what finite size adds to it. This is not
the 99% of the figures. At 99%, N ln N grows clearly faster than m d (tried up to m = 128), and somewhat faster
than d^2 at full rank: the target's own score fluctuates, at rank m with variance 2/m and more, and 99% has to
allow for that. At half recall a symmetric fluctuation drops out. The plain exponent of N ln N is said beside it.
"""

import math
from collections.abc import Sequence
from typing import Any

from facthold.lab.cells import Cell
from facthold.lab.claim import Claim, Judgement
from facthold.lab.figure import Values
from facthold.measure.scaling import fit_constant, fit_exponent
from facthold.studies.judging import CONSTANT_TOLERANCE, Measure, at_preset, ends, judge_exponent, not_found
from facthold.studies.memories import fig1, fig6
from facthold.studies.memories.capacity import Capacity
from facthold.theory import noise
from facthold.theory.bounds import LINEAR_CONSTANT, MLP_CONSTANT, MLP_FIXED_CONSTANT, Number

OUTER_PRODUCT_D = {"smoke": (16, 23, 32), "quick": (32, 45, 64, 91, 128), "paper": (32, 45, 64, 91, 128, 181, 256)}
LOW_RANK_SIZES = {
    "smoke": ((32, 8), (32, 16), (64, 16)),
    "quick": ((64, 16), (128, 16), (128, 32), (256, 32), (256, 64)),
    "paper": ((64, 16), (128, 16), (128, 32), (256, 16), (256, 32), (256, 64), (512, 32), (512, 64)),
}
"""(d, m)."""
N_SEEDS = {"smoke": 2, "quick": 5, "paper": 5}
TOLERANCES = {"smoke": 0.1, "quick": 0.02, "paper": 0.01}
"""Of the capacity search."""


def half_recall_cell(preset: str, method: str, d: int, m: int = 0, embeddings: str = "sphere") -> Capacity:
    """Capacity at half recall, with the search started at the predicted N."""
    seeds, tolerance = tuple(range(at_preset(N_SEEDS, preset))), at_preset(TOLERANCES, preset)
    fields: dict[str, Any] = {"method": method, "d": d, "m": m, "goal": 0.5, "embeddings": embeddings}
    start = round(noise.half_recall(d, m) / Capacity(**fields).guess, 3)
    return Capacity(**fields, start=start, seeds=seeds, tolerance=tolerance)


def outer_product_cells(preset: str, embeddings: str = "sphere") -> list[Cell]:
    ds = at_preset(OUTER_PRODUCT_D, preset)
    return [half_recall_cell(preset, "outer-product", d, embeddings=embeddings) for d in ds]


def low_rank_cells(preset: str) -> list[Cell]:
    return [half_recall_cell(preset, "low-rank", d, m) for d, m in at_preset(LOW_RANK_SIZES, preset)]


def judge_noise_law(rows: Sequence[Values]) -> Judgement:
    """Measured N against the predicted one. The ratio's drift says how much finite size is left out of it."""
    symbol = "m d" if rows[0]["m"] else "d^2"

    def more() -> str:
        plain = fit_exponent(symbol, [_size(r) for r in rows], [_n_log_n(r) for r in rows])
        first, last = ends(rows, _size, lambda r: r["N"] / _predicted(r))
        return f"N / predicted N {first:.3f} to {last:.3f}; plain N ln N against {symbol}: {plain.slope:.3f}"

    return judge_exponent("N as the noise law: exponent 1", rows, _predicted, lambda r: r["N"], more)


def judge_linear(rows: Sequence[Values]) -> Judgement:
    """The constant is judged at d >= `fig1.LARGE`: below, it is still well on its way up."""
    large = [r for r in rows if r["d"] >= fig1.LARGE] or rows
    return _judge_trained("N ln N as d^2", LINEAR_CONSTANT, rows, large, _n_log_n)


def judge_mlp(rows: Sequence[Values]) -> Judgement:
    return _judge_trained("N ln N as m d", MLP_CONSTANT, rows, rows, _n_log_n)


def judge_fixed_outputs(rows: Sequence[Values]) -> Judgement:
    return _judge_trained("N as m d", MLP_FIXED_CONSTANT, rows, rows, lambda r: r["N"])


def _judge_trained(law: str, guide: float, rows: Sequence[Values], large: Sequence[Values], y: Measure) -> Judgement:
    """The exponent, and the constant (geometric mean over ``large``) against the authors' guide line."""
    predicted = f"{law}: exponent 1, c = {guide:g} within {CONSTANT_TOLERANCE:.0%}"
    if not_found(rows):
        return judge_exponent(predicted, rows, _size, y)
    c = fit_constant(law, [y(r) for r in large], [_size(r) for r in large])

    def more() -> str:
        first, last = ends(rows, _size, lambda r: _size(r) / y(r))
        low, high = ends(rows, _size, _size)
        return f"c = {c.constant:.3f}; it goes from {first:.2f} at size {low:g} to {last:.2f} at size {high:g}"

    grows = judge_exponent(predicted, rows, _size, y, more)
    near = abs(c.constant / guide - 1) <= CONSTANT_TOLERANCE
    return Judgement(
        predicted,
        grows.measured,
        f"{grows.error}; c in [{c.interval[0]:.3f}, {c.interval[1]:.3f}]",
        grows.holds and near,
    )


def _size(row: Values) -> Number:
    return (row["m"] or row["d"]) * row["d"]


def _n_log_n(row: Values) -> float:
    return row["N"] * math.log(row["N"])


def _predicted(row: Values) -> float:
    return noise.half_recall(row["d"], row["m"])


def _fig1_cells(preset: str, mlp: bool) -> list[Cell]:
    return [c for c in fig1.cells(at_preset(fig1.PRESETS, preset)) if isinstance(c, Capacity) and bool(c.m) == mlp]


CLAIMS = (
    Claim(
        "outer-product-growth",
        "theorem 1",
        "The outer product stores about d^2 associations, up to a logarithm: at half recall 2 N ln N = d^2.",
        outer_product_cells,
        judge_noise_law,
    ),
    Claim(
        "low-rank-growth",
        "theorem 1",
        "At rank m it is m d, up to a logarithm: at half recall 2 N ln N = m d / (1 + m/d). (At 99%, and sizes up to "
        "m = 128, N ln N grows faster than m d.)",
        low_rank_cells,
        judge_noise_law,
    ),
    Claim(
        "linear-trained-growth",
        "figure 1, left",
        "Trained linear memories recall 99% of N with c N ln N = d^2; c grows slowly with d.",
        lambda preset: _fig1_cells(preset, mlp=False),
        judge_linear,
    ),
    Claim(
        "mlp-trained-growth",
        "figure 1, right",
        "Trained MLP memories recall 99% of N with c N ln N = m d.",
        lambda preset: _fig1_cells(preset, mlp=True),
        judge_mlp,
    ),
    Claim(
        "fixed-outputs-growth",
        "figure 6",
        "With 32 outputs the logarithm goes: trained MLP memories recall 99% of N with c N = m d.",
        lambda preset: fig6.cells(at_preset(fig6.PRESETS, preset)),
        judge_fixed_outputs,
    ),
)
