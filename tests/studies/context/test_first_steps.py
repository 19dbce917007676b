"""Three steps, noisy inputs and global bigrams: each judge on rows that follow what is stated, and on others."""

from typing import Any

import numpy as np
import pytest

from facthold.dynamics import READERS
from facthold.lab.registry import claim, figure
from facthold.studies.context import global_bigrams, step_claims, three_steps
from facthold.studies.context.global_bigrams import SamplesNeeded
from facthold.studies.context.step_claims import SMALL, NoisyStep, judge_noisy, judge_steps
from facthold.studies.context.three_steps import MATRICES, STEPS, ThreeSteps
from facthold.theory.first_steps import induction_contrasts, noisy_step

Row = dict[str, Any]


def row(cell: Any, **result: Any) -> Row:
    return {"kind": cell.kind, **cell.spec, **result}


def steps_row(
    eta: tuple[float, float, float] = STEPS,
    seed: int = 0,
    probe: float = 1.0,
    ratio: float = 1.0,
    of: str = "",
    **more: Any,
) -> Row:  # fmt: skip
    """As the theorem has it, but one matrix has another probe and another contrast."""
    cell = ThreeSteps(eta=eta, seed=seed, **more)
    stated = induction_contrasts(cell.N, cell.T, eta)
    probes = {name: probe if name == of else 1.0 for name in MATRICES}
    contrasts = {name: stated[name] * (ratio if name == of else 1.0) * (1 + 0.001 * seed) for name in MATRICES}
    return row(cell, probes=probes, contrasts=contrasts, accuracy=0.9)


def steps_rows(**changes: Any) -> list[Row]:
    scan = [(10.0**k, *STEPS[1:]) for k in (0, 2, 6)] + [(STEPS[0], 10.0**k, STEPS[2]) for k in (0, 2, 8)]
    rows = [steps_row(eta, seed, **changes) for eta in (STEPS, SMALL) for seed in range(-1, 2)]
    return rows + [steps_row(eta, seed) for eta in scan for seed in (0, 1)]


def test_three_steps_hold_where_probes_and_contrasts_do() -> None:
    found = judge_steps(steps_rows())
    assert found.verdict == "holds"
    assert "eta of W_OV^2 works at 1e+00, 1e+02, 1e+03, 1e+06; eta of W_KQ^2 works at 1e+00" in found.measured


@pytest.mark.parametrize("matrix", MATRICES)
def test_three_steps_fail_by_each_matrix(matrix: str) -> None:
    assert judge_steps(steps_rows(of=matrix, probe=0.9)).verdict == "fails"
    assert judge_steps(steps_rows(of=matrix, ratio=1.2)).verdict == "fails"
    assert judge_steps(steps_rows(of=matrix, ratio=0.5)).verdict == "fails"


def test_three_steps_with_few_seeds_that_differ_are_not_decided() -> None:
    rows = steps_rows()
    rows[0]["probes"]["W_KQ^1"] = 0.9
    assert judge_steps(rows).verdict == "not decided"


def test_steps_that_the_closed_forms_cover_have_to_work() -> None:
    small, large = (10.0, 1e4, 1e6), (1e7, *STEPS[1:])  # by the closed forms the second saturates the softmax

    def tried(eta: tuple[float, float, float]) -> list[Row]:
        return [*steps_rows(), *(steps_row(eta, seed, probe=0.3, of="W_KQ^2") for seed in (0, 1))]

    assert judge_steps(tried(large)).verdict == "holds"
    assert "not at 1e+07" in judge_steps(tried(large)).measured
    assert judge_steps(tried(small)).verdict == "fails"
    assert judge_steps([r for r in steps_rows() if tuple(r["eta"]) != SMALL]).verdict == "fails"


def test_a_text_has_its_own_number_of_tokens() -> None:
    with pytest.raises(ValueError, match=r"N=64 does not fit text=0\.5"):
        ThreeSteps(N=64, text=0.5)
    with pytest.raises(ValueError, match="text"):
        ThreeSteps(text=1.0)


def test_the_figure_says_where_each_simplification_stops_to_matter() -> None:
    def line(name: str, values: tuple[Any, ...], probes: tuple[float, ...]) -> list[Row]:
        return [
            steps_row(**{name: value}, seed=seed, probe=probe, of="W_KQ^1")
            for value, probe in zip(values, probes, strict=True)
            for seed in (0, 1)
        ]

    rows = [
        *(steps_row(seed=seed) for seed in (0, 1)),
        *line("d", (32, 64, 128), (0.5, 0.9, 1.0)),
        *line("samples", (128, 2048), (0.3, 0.96)),
        *line("T", (32, 65), (1.0, 0.94)),
        *line("text", (0.25, 0.5), (1.0, 1.0)),
    ]
    said = three_steps.says(rows)
    assert "W_KQ^1 first falls below 0.95 at d = 64 (0.90)" in said[1]
    assert "W_OV^2 never does (to d = 32)" in said[1]
    assert "W_KQ^1 first falls below 0.95 at 128 sequences (0.30)" in said[2]
    assert "W_KQ^1 first falls below 0.95 at T = 65 = 1 N (0.94)" in said[3]
    assert "W_KQ^1 never does (to a share of 0.5)" in said[4]
    assert [len(line) for line in three_steps.along(rows).values()] == [3, 3, 3, 3]
    canvas = figure("three-steps").plot(rows)
    assert [len(axes.containers) for axes in canvas.axes] == [3, 3, 3, 3]


def test_a_cell_of_three_steps_has_the_contrasts_of_its_closed_forms() -> None:
    cell = ThreeSteps(N=12, T=6, samples=8192, eta=(1.0, 1.0, 1.0))
    found, stated = cell.run(), induction_contrasts(12, 6, cell.eta)
    assert all(found["contrasts"][name] == pytest.approx(stated[name], rel=0.15) for name in MATRICES)
    assert set(found["probes"]) == set(MATRICES)


def noisy_rows(signal: float = 1.0, rest: float = 1.0, square: float = 1.0, power: float = 0.0) -> list[Row]:
    rows = []
    for N in (16, 32, 64, 128):
        for seed in range(3):
            cell = NoisyStep(N=N, d=4 * N, seed=seed)
            moments, off = noisy_step(N, cell.d, cell.eta), 1 + 0.01 * (seed - 1)
            wrong = rest * moments.wrong * off * (N / 16) ** power
            rows.append(
                row(cell, right=signal * moments.signal * off + wrong, wrong=wrong,
                    right_square=moments.right_square * off, wrong_square=square * moments.wrong_square * off)
            )  # fmt: skip
    return rows


def test_noisy_inputs_are_judged_by_exponents_and_constants() -> None:
    assert judge_noisy(noisy_rows()).verdict == "holds"
    assert judge_noisy(noisy_rows(signal=1.2)).verdict == "fails"
    assert judge_noisy(noisy_rows(rest=2.0)).verdict == "fails"
    assert judge_noisy(noisy_rows(rest=-1.0)).verdict == "fails"
    assert judge_noisy(noisy_rows(power=1.0)).verdict == "fails"  # a rest of order 1/N, as without the mean
    assert judge_noisy(noisy_rows(square=1.5)).verdict == "fails"


def test_a_cell_of_noisy_inputs_has_the_moments_of_theory() -> None:
    cell = NoisyStep(N=8, d=64, n_draws=24)
    found, stated = cell.run(), noisy_step(8, 64, cell.eta)
    assert found["right"] == pytest.approx(stated.right, rel=0.1)
    assert found["wrong"] == pytest.approx(stated.wrong, rel=0.5)
    assert found["wrong_square"] == pytest.approx(stated.wrong_square, rel=0.2)


def bigram_rows(factor: dict[str, float] | None = None, power: dict[str, float] | None = None) -> list[Row]:
    rows = []
    for reader in READERS:
        for N in (64, 256, 1024):
            for seed in range(3):
                cell = SamplesNeeded(reader=reader, N=N, seed=seed)
                counted = global_bigrams.law(row(cell)) * (1 + 0.01 * (seed - 1))
                n = counted * (factor or {}).get(reader, 1.0) * (N / 256) ** (power or {}).get(reader, 0.0)
                rows.append(row(cell, status="found", samples=n, probes=[]))
    return rows


def test_global_bigrams_are_judged_by_counts() -> None:
    assert global_bigrams.judge(bigram_rows()).verdict == "holds"
    for reader in READERS:
        assert global_bigrams.judge(bigram_rows(factor={reader: 1.5})).verdict == "fails"
    assert global_bigrams.judge(bigram_rows(power={"attention": -1.0})).verdict == "fails"
    assert global_bigrams.judge(bigram_rows(power={"feed-forward": 1.0})).verdict == "fails"


def test_global_bigrams_need_every_search_and_every_reader() -> None:
    rows = bigram_rows()
    rows[0] |= {"samples": None, "status": "search ceiling"}
    assert "search ceiling at reader=feed-forward N=64" in global_bigrams.judge(rows).measured
    assert global_bigrams.judge(rows).verdict == "fails"
    assert global_bigrams.judge([r for r in bigram_rows() if r["reader"] != "attention"]).verdict == "fails"


def test_a_search_that_found_nothing_is_not_drawn() -> None:
    rows = bigram_rows()
    rows[0] |= {"samples": None, "status": "search ceiling"}
    (axes,) = figure("global-bigrams").plot(rows).axes
    points = [len(line.get_xdata()) for line in axes.lines if line.get_linestyle() == "None"]
    assert points == [8, 9, 9]
    assert "none" in global_bigrams.says(rows)[0]
    slopes = {fit.name: fit.slope for fit in global_bigrams.fits(rows)}
    assert np.isclose(slopes["attention, over the tokens before: samples against N"], 0.93, atol=0.05)


@pytest.mark.parametrize("id", ["three-steps", "global-bigrams"])
def test_what_was_chosen_by_trying_is_judged_on_fresh_seeds(id: str) -> None:
    assert claim(id).changed
    assert all(cell.seed >= 100 for cell in claim(id).cells("quick"))  # type: ignore[attr-defined]


def test_quick_tries_step_sizes_over_decades() -> None:
    etas = {cell.eta for cell in step_claims.step_cells("quick")}  # type: ignore[attr-defined]
    assert {eta[0] for eta in etas} >= {10.0**k for k in range(9)}
    assert {eta[1] for eta in etas} >= {10.0**k for k in range(9)}
