"""The sentences with which a report begins: their numbers are those of the rows, and without rows there is none."""

from typing import Any

import pytest

from facthold.lab.claim import MEANINGS
from facthold.lab.registry import claims, figures, findings
from facthold.lab.summary import MOST, Finding, sentences, tally
from facthold.studies.memories import figures as memories
from facthold.theory import bounds


def memory(method: str, N: int, d: int, m: int = 0) -> dict[str, Any]:
    return {"method": method, "N": N, "d": d, "m": m, "M": 32, "n_params": 2 * m * d if m else d * d}


def ladder(N: int) -> list[dict[str, Any]]:
    closed = [memory("outer-product", n, d) for n, d in ((10, 16), (20, 22))]
    return closed + [memory(memories.LADDER_MLP, n, d, 4 * d) for n, d in ((N, 8), (2 * N, 11))]


def test_each_speaks_of_a_figure_or_a_claim_that_there_is() -> None:
    assert {finding.of for finding in findings().values()} <= {*figures(), *claims()}


@pytest.mark.parametrize("name", findings())
def test_without_rows_or_with_others_there_is_no_sentence(name: str) -> None:
    assert findings()[name].sentence([]) is None
    assert findings()[name].sentence([{"kind": "another", "m": 0, "N": None, "method": "", "d": 1}]) is None


@pytest.mark.parametrize("N", [100, 150])
def test_bits_per_parameter_are_those_of_the_rows(N: int) -> None:
    expected = [bounds.bits_injective(n, n) / (8 * d * d) for n, d in ((N, 8), (2 * N, 11))]
    said = findings()["bits"].sentence(ladder(N))
    assert said is not None
    assert f"{min(expected):.1f} to {max(expected):.1f} bits" in said


def test_the_ladder_names_the_lowest_rung_and_the_highest() -> None:
    said = findings()["ladder"].sentence(ladder(100)) or ""
    assert said.index("outer-product") < said.index("MLP, trained")


def test_constants_are_the_fitted_ones() -> None:
    rows = [memory(memories.LADDER_MLP, d * d // 2, d, d) for d in (8, 16, 32)]
    assert "c = 2.00 (95%: 2.00 to 2.00" in (findings()["fixed-outputs"].sentence(rows) or "")


def test_there_are_no_more_than_one_reads() -> None:
    many = [Finding(str(i), "x", lambda rows: f"{len(rows)} rows.") for i in range(2 * MOST)]
    assert sentences(many, lambda name: [{}, {}]) == ["2 rows."] * MOST


@pytest.mark.parametrize(
    ("verdicts", "said"),
    [
        ([], ""),
        (["not run"], ""),
        (["holds"], "Of 1 claim that was checked, 1 holds."),
        (["fails", "holds", "holds", "drifts"], "Of 4 claims that were checked, 2 hold, 1 drifts and 1 fails."),
    ],
)
def test_verdicts_are_counted(verdicts: list[str], said: str) -> None:
    assert tally([{"verdict": verdict} for verdict in verdicts], list(MEANINGS)) == said
