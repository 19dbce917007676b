"""The counting bound over everything that is stored: each kind of cell says what bits it accounts for."""

import json
import math
from pathlib import Path

import pytest

from facthold.lab.accounts import SLACK, Account, of_accuracy, of_goal
from facthold.lab.cells import Cell
from facthold.lab.registry import kinds
from facthold.lab.runner import run_cells
from facthold.lab.store import Store, default_store_path
from facthold.studies.bits.fact_bits import FactBits
from facthold.studies.bits.memory_bits import MemoryBits
from facthold.studies.constructions.built import BuiltSize
from facthold.studies.constructions.robustness import Robustness
from facthold.studies.memories.capacity import Capacity
from facthold.studies.memories.margins import Margins
from facthold.studies.real_facts.transfer import TableSize
from facthold.studies.transformers.fact_capacity import FactAccuracy, FactCapacity
from odd_cells import Quiet

SIGNS = MemoryBits(method="one-bit", d=32, reading="signs", loads=(0.6,))
VALUES = FactBits(model="values", S=6, R=6, D=4, guess=16, rooms=(1.0,))
CELLS: list[Cell] = [
    SIGNS, VALUES,
    MemoryBits(method="convex-readout", d=6, m=24, loads=(0.6,)),
    Capacity(method="outer-product", d=16, map="uniform", M=8, seeds=(0,), tolerance=0.2),
    Capacity(method="outer-product", d=16, seeds=(0,), tolerance=0.2),
    BuiltSize(builder="values", S=4, R=4, D=3, guess=8, seeds=(0,)),
    FactAccuracy(d=8, H=2, d_h=4, m=8, S=4, R=4, D=2, protocol="transformer-smoke"),
    FactCapacity(alpha=1, beta=1, d=8, H=2, D=2, protocol="transformer-smoke", seeds=(0,)),
    Robustness(builder="values", d=16, S=6, R=6, D=3, disturbance="bits", amounts=(2, 4, 8), seeds=(0,)),
]  # fmt: skip


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("store") / "results.sqlite"
    with Store(path) as store:
        run_cells(CELLS, store, Quiet())
    return path


def check(path: Path) -> tuple[int, set[str]]:
    """Every result of a store against the bound: how many models were checked, and the reasons for no bound."""
    checked, reasons = 0, set()
    with Store(path, create=False) as store:
        for row in store.rows():
            accounts = row.cell.accounts(row.result)
            if isinstance(accounts, str):
                assert accounts.startswith("no bound: ")
                reasons.add(accounts)
                continue
            for account in accounts:
                assert account.spare >= 0, (row.kind, row.spec, account)
            checked += len(accounts)
    return checked, reasons


def test_every_stored_result_on_random_tables_obeys_the_counting_bound(stored: Path) -> None:
    checked, reasons = check(stored)
    assert checked >= 15
    assert any("only one such map" in reason for reason in reasons)  # f*(x) = x


def test_a_user_s_own_store_obeys_it_too() -> None:
    if not default_store_path().is_file():
        pytest.skip("no results are stored here (FACTHOLD_STORE, or facthold-results.sqlite)")
    check(default_store_path())


@pytest.mark.parametrize("cell", [SIGNS, VALUES], ids=lambda cell: cell.kind)
def test_a_result_that_is_too_good_is_found_out(cell: Cell, stored: Path) -> None:
    with Store(stored, create=False) as store:
        (row,) = store.rows(keys=[cell.key])
    forged = json.loads(json.dumps(row.result))
    for point in forged["points"]:
        for used in point["used"]:
            used["bits"] = used["bound"] - SLACK - math.log2(forged["tried"]) - 1
    for result, too_good in ((row.result, False), (forged, True)):
        accounts = cell.accounts(result)
        assert not isinstance(accounts, str)
        assert accounts
        assert all((account.spare < 0) == too_good for account in accounts)


def test_an_account_by_hand() -> None:
    """8 facts of 4 answers are 16 bits; with one wrong, 1 + 8 * 3 = 25 tables are within reach."""
    assert Account(8, 4, 0, 10.0, 1).bound == pytest.approx(16)
    assert Account(8, 4, 1, 10.0, 1).bound == pytest.approx(16 - math.log2(25))
    assert Account(8, 4, 0, 10.0, 4).spare == pytest.approx(10 + 2 + SLACK - 16)


def test_weights_that_were_not_rounded_have_32_bits() -> None:
    assert of_accuracy(100, 4, 0.9, 50, tried=3) == Account(100, 4, 10, 1600, 3)
    assert of_goal(100, 4, 0.99, 50) == Account(100, 4, 1, 1600, 1)


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        (FactCapacity(alpha=1, beta=1, d=8, H=2, D=None, table="balanced"), "equally often"),
        (FactCapacity(alpha=1, beta=1, d=8, H=2, rule="authors"), "sample of prompts"),
        (Capacity(method="outer-product", d=8), "only one such map"),
        (TableSize(source="countries"), "given table"),
        (Margins(N=4, d=4, in_image=True, n_draws=9), "margins are measured"),
    ],
    ids=lambda value: value.kind if isinstance(value, Cell) else None,
)
def test_tables_that_were_not_drawn_have_no_bound(cell: Cell, words: str) -> None:
    reason = cell.accounts({"per_seed": [], "accuracy": 1.0, "n_params": 1, "m": 1})
    assert isinstance(reason, str)
    assert words in reason


def test_every_kind_of_cell_is_read_or_says_why_it_counts_nothing() -> None:
    """A new kind must say which: nothing that counts facts may slip past the bound."""
    for kind, cell in kinds().items():
        if cell.__module__.startswith("facthold.studies."):
            reads, says = cell.accounts is not Cell.accounts, cell.counts_no_facts is not Cell.counts_no_facts
            assert reads != says, kind
