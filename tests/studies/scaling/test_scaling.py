"""Cells, figure and claims of memory schemes on heavy-tailed data."""

from typing import Any

import numpy as np
import pytest

from facthold._util.errors import FactholdError
from facthold.lab.claim import Verdict
from facthold.lab.registry import figure
from facthold.measure.scaling import fit_means
from facthold.studies.scaling.claims import CLAIMS
from facthold.studies.scaling.optimised import SchemesBeside
from facthold.studies.scaling.recovery import Recovery
from facthold.studies.scaling.scaling import FIGURE, FIRST, PRESETS, SEEN, P, measured
from facthold.studies.scaling.schemes import AT_LEAST, ExpectedError, SchemeError, StoredError
from facthold.theory.schemes import unseen

BY_ID = {claim.id: claim for claim in CLAIMS}
Row = dict[str, Any]
SIZES = {"M": 5, "alpha": 2.0}


def test_an_error_is_what_is_held_and_what_is_not() -> None:
    cell = SchemeError(N=60, M=5, d=16, n=40, schemes=("seen", "counts", AT_LEAST, "p"), seeds=(0, 1, 2))
    found = cell.run()
    for name in cell.schemes:
        assert len(found["errors"][name]) == 3
        assert (np.array(found["not_held"][name]) <= np.array(found["errors"][name]) + 1e-12).all()
    assert found["not_held"]["p"] == [0, 0, 0]  # p holds all tokens
    assert found["chosen"][AT_LEAST].startswith("at-least-")
    assert cell.run() == found


def test_more_samples_are_needed_by_schemes_that_count_them() -> None:
    with pytest.raises(ValueError, match="n=0: scheme 'seen' asks how often tokens were seen"):
        SchemeError(N=10, M=2, d=4, schemes=("seen",), seeds=(0,))
    with pytest.raises(ValueError, match="n=0: scheme 'counts' asks how often tokens were seen"):
        ExpectedError(N=10, M=2, d=4, schemes=("counts",))
    with pytest.raises(ValueError, match="'at-least-best' is chosen by trying"):
        ExpectedError(N=10, M=2, d=4, n=5, schemes=(AT_LEAST,))
    with pytest.raises(ValueError, match="unknown scheme 'seeen'"):
        SchemeError(N=10, M=2, d=4, n=1, schemes=("seeen",), seeds=(0,))


def test_embeddings_and_maps_that_do_not_fit_are_refused_before_anything_is_drawn() -> None:
    sizes: dict[str, Any] = {"N": 10, "M": 4, "d": 6, "schemes": ("p",), "seeds": (0,)}
    with pytest.raises(
        ValueError, match=r"N=10 orthogonal rows do not fit in d=6 dimensions; take N <= 6, or 'sphere'"
    ):
        SchemeError(**sizes, embeddings="orthogonal")
    with pytest.raises(ValueError, match="the map 'identity' needs M >= N, but M=4 and N=10"):
        SchemeError(**sizes, map="identity")
    with pytest.raises(ValueError, match="N=64 orthogonal rows do not fit in d=8"):
        Recovery(d=8, embeddings="orthogonal", seeds=(0,))
    with pytest.raises(ValueError, match="M=7 orthogonal rows do not fit in d=6"):
        SchemesBeside(N=5, M=7, d=6, n=4, schemes=("p",), embeddings="orthogonal", seeds=(0,))
    with pytest.raises(ValueError, match=r"scheme 'counts\^nan': nan must be above 0"):
        SchemesBeside(N=5, M=3, d=6, n=4, schemes=("counts^nan",), seeds=(0,))
    with pytest.raises(ValueError, match="seeds=-1 must be at least 0"):
        SchemeError(**sizes | {"seeds": (-1,)})
    with pytest.raises(FactholdError, match="first_seed=-1 must be at least 0"):
        figure("sharp").grid("smoke", {"first_seed": -1})


def test_one_seed_has_no_interval_and_no_bar() -> None:
    rows = [r | {name: {SEEN: r[name][SEEN][:1]} for name in ("errors", "not_held") if name in r} for r in over_n()]
    fits = [fit for fit in FIGURE.fits(rows) if "expected" not in fit.name]
    assert fits
    assert not any(fit.sure or fit.as_json()["interval"] for fit in fits)
    assert all(fit.sure for fit in FIGURE.fits(over_n()))
    assert not any(container.has_yerr for container in FIGURE.plot(rows).axes[0].containers)  # type: ignore[attr-defined]
    assert any(container.has_yerr for container in FIGURE.plot(over_n()).axes[0].containers)  # type: ignore[attr-defined]


def test_the_slope_of_means_has_the_interval_of_their_errors() -> None:
    """On draws around a power law the interval contains its exponent 95% of the time."""
    x, draw = (1, 2, 4, 8), np.random.default_rng(0)
    hits = 0
    for _ in range(2000):
        means = [(size**-0.5 * (1 + 0.02 * draw.standard_normal()), size**-0.5 * 0.02) for size in x]
        low, high = fit_means("test", x, means).interval
        hits += low <= -0.5 <= high
    assert abs(hits / 2000 - 0.95) < 4 * (0.95 * 0.05 / 2000) ** 0.5
    with pytest.raises(ValueError, match="needs two different sizes"):
        fit_means("test", (2, 2), [(1, 0.1), (1, 0.1)])


def over_n(factor: float = 1.0, power: float = -0.5, spread: float = 0.01) -> list[Row]:
    """Rows as they would be if theory were true, but for a factor or another power."""
    rows = []
    for N in (1000, 3000):
        p = np.arange(1.0, N + 1) ** -2
        for n in (16, 64, 256, 1024):
            mean = factor * 0.8 * unseen(p / p.sum(), n) * (n / 128) ** (power + 0.5)
            errors = [mean * (1 + spread * s) for s in (-1, 1) * 10]
            size = {"N": N, "d": 64, "n": n, **SIZES}
            rows.append({**size, "errors": {SEEN: errors}, "not_held": {SEEN: errors}})
            rows.append({**size, "expected": {SEEN: [0.8 * unseen(p / p.sum(), n), 0.0]}})
    return rows


def over_d(factor: float = 1.0, power: float | None = None, spread: float = 0.01) -> list[Row]:
    rows = []
    for N in (1000, 3000):
        for d in (16, 64, 256):
            laws = {P: d**-0.25, FIRST: 1.0 / d}
            exact = {name: 0.5 * law for name, law in laws.items()}
            found = {
                name: mean * factor * (1.0 if power is None else (d / 64) ** power) for name, mean in exact.items()
            }
            errors = {name: [mean * (1 + spread * s) for s in (-1, 1) * 10] for name, mean in found.items()}
            rest = errors | {FIRST: [x / 2 for x in errors[FIRST]]}
            size = {"N": N, "d": d, **SIZES}
            rows.append({**size, "n": 0, "errors": errors, "not_held": rest, "chosen": {FIRST: "first-3"}})
            rows.append({**size, "n": 0, "expected": {name: [m, 0.0] for name, m in exact.items()}, "best_first": 3})
            rows.append({**size, "stored": 3, "error": [found[FIRST] / 2, spread * found[FIRST] / 9]})
    return rows


def all_stored(factor: float = 1.0, power_law: bool = False, spread: float = 0.01) -> list[Row]:
    rows = []
    for d in (60, 120, 240, 480):
        exact = 0.3 * np.exp(-d / 60) if not power_law else 0.3 * (d / 60) ** -5.0
        rows.append({"N": 60, "d": d, "stored": 60, "error": [factor * exact, spread * exact]})
        rows.append({"N": 60, "d": d, "n": 0, "expected": {"all": [exact, 0.0]}})
    return rows


@pytest.mark.parametrize(
    ("claim", "rows", "verdict"),
    [
        ("scaling-samples", over_n(spread=0.1), "holds"),
        ("scaling-samples", over_n(spread=0.001), "drifts"),
        ("scaling-samples", over_n(factor=1.2), "fails"),
        ("scaling-samples", over_n(power=-0.7), "fails"),
        ("scaling-samples", over_n(spread=0.8), "not decided"),
        ("scaling-counts", over_d(), "holds"),
        ("scaling-counts", over_d(factor=0.85), "fails"),
        ("scaling-counts", over_d(power=0.2), "fails"),
        ("scaling-counts", over_d(factor=1.03, spread=0.001), "drifts"),
        ("scaling-threshold", over_d(), "holds"),
        ("scaling-threshold", over_d(power=-0.2), "fails"),
        ("scaling-threshold", over_d(spread=1.5), "not decided"),
        ("scaling-seen", all_stored(), "holds"),
        ("scaling-seen", all_stored(factor=1.2), "fails"),
        ("scaling-seen", all_stored(power_law=True), "fails"),
    ],
)
def test_claims_by_rows(claim: str, rows: list[Row], verdict: Verdict) -> None:
    assert BY_ID[claim].judge(rows).verdict == verdict


def test_what_is_stored_of_a_figure_is_drawn_whatever_is_missing() -> None:
    """Without some of the draws of what W holds the first k tokens have no error there."""
    rows = [r for r in over_d() if not ("stored" in r and r["d"] == 16)]
    assert [d for d, _ in measured(rows, FIRST, 1000, "d")] == [64, 256]
    assert [d for d, _ in measured(rows, P, 1000, "d")] == [16, 64, 256]
    assert FIGURE.says(rows)
    FIGURE.plot(rows)


def test_points_over_n_and_over_d_are_told_apart() -> None:
    assert {type(cell) for cell in FIGURE.cells(PRESETS["smoke"])} == {SchemeError, ExpectedError, StoredError}
    wide = [{"N": 1000, "d": d, "n": 5000, **SIZES, "errors": {SEEN: [0.1, 0.2]}} for d in (32, 64)]
    assert [n for n, _ in measured([*over_n(), *wide], SEEN, 1000, "n")] == [16, 64, 256, 1024]
    assert [d for d, _ in measured([*over_n(), *wide], SEEN, 1000, "d")] == [32, 64]


def test_the_expected_error_after_samples_is_the_mean_of_what_is_measured() -> None:
    sizes = {"N": 80, "M": 5, "d": 24, "n": 20}
    names = ("seen", "counts", "p")
    found = SchemeError(**sizes, schemes=names, seeds=tuple(range(600))).run()["errors"]
    exact = ExpectedError(**sizes, schemes=names).run()["expected"]
    for name in names:
        error = np.hypot(np.std(found[name], ddof=1) / 600**0.5, exact[name][1])
        assert abs(np.mean(found[name]) - exact[name][0]) < 4 * error, name


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"d": [8]}, r"d=\[8\] has fewer than three sizes"),
        ({"n": [8, 16]}, r"n=\[8, 16\] has fewer than three sizes"),
        ({"M": 1}, "M=1 must be at least 2"),
        ({"n": [8, 16, 1000]}, "n_for_d=1000 is one of n"),
        ({"alpha": 1.0}, "alpha=1.0 must be above 1 and at most 10"),
    ],
)
def test_sizes_that_could_not_be_drawn_are_refused_before_computing(changes: Row, says: str) -> None:
    with pytest.raises((ValueError, FactholdError), match=says):
        FIGURE.grid("smoke", changes)
