"""Fields of cells and grids are checked by their types, with messages that name the field and a way out."""

import re
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import pytest

from facthold.lab.cells import Cell, Result, TableCell, cell_of
from facthold.lab.fields import Between, Count, Counts, OneOf, Positive, Seeds, Share, Shares, Whole, check_fields


@dataclass(frozen=True)
class Fields:
    n: Count = 1
    m: Whole = 0
    goal: Share = 0.99
    lr: Positive = 1.0
    seeds: Seeds = (0,)
    sizes: Counts = (1, 2)
    goals: Shares = (0.5, 1.0)
    table: Annotated[str, OneOf(("random", "balanced"))] = "random"
    map: Annotated[str, OneOf("facthold.memory.associations:MAPS")] = "identity"
    T: Annotated[int, Between(least=3, most=9)] | None = None


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"n": 0}, "n=0 must be at least 1"),
        ({"m": -1}, "m=-1 must be at least 0"),
        ({"goal": 0.0}, "goal=0.0 must be above 0 and at most 1"),
        ({"goal": 1.5}, "goal=1.5 must be above 0 and at most 1"),
        ({"lr": float("inf")}, "lr=inf must be above 0"),
        ({"lr": float("nan")}, "lr=nan must be above 0"),
        ({"seeds": ()}, "seeds is empty; give one or more"),
        ({"seeds": (0, 1, 0)}, "seeds has 0 twice; give each once"),
        ({"sizes": (1, 0)}, "sizes=0 must be at least 1"),
        ({"goals": (0.5, 2.0)}, "goals=2.0 must be above 0 and at most 1"),
        ({"table": "randon"}, "unknown table 'randon'; did you mean 'random'?"),
        ({"map": "identiy"}, "did you mean 'identity'?"),
        ({"T": 2}, "T=2 must be at least 3 and at most 9"),
    ],
)
def test_a_value_that_a_type_does_not_allow_is_refused_by_name(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        check_fields(Fields(**fields))


def test_what_the_types_allow_passes() -> None:
    check_fields(Fields())
    check_fields(Fields(T=3, goal=1.0, map="mod"))


@dataclass(frozen=True, kw_only=True)
class Toy(TableCell):
    kind: ClassVar[str] = "toy of the tests"

    D: Count = 4
    goal: Share = 0.5
    loads: tuple[float, ...] = (0.1, 0.2, 0.3)
    seeds: Seeds = (0, 1)

    def run(self) -> Result:
        return {"facts": len(self.facts(self.seeds[0]))}


def test_a_cell_has_checks_label_facts_and_accounts_by_default() -> None:
    cell = Toy(S=3, R=2, goal=0.75)
    assert cell.label == "toy of the tests S=3 R=2 goal=0.75"
    assert cell.run() == {"facts": 6}
    assert cell.n_facts == 6
    assert cell.accounts({}) == "no bound: this kind of cell counts no facts"
    with pytest.raises(ValueError, match="S=0 must be at least 1"):
        Toy(S=0, R=2)


def test_a_cell_comes_back_from_its_spec() -> None:
    cell: Cell = Toy(S=3, R=2, loads=(0.5,), seeds=(7,))
    assert cell_of(cell.kind, cell.spec) == cell
    assert cell_of(cell.kind, cell.spec | {"more": "than the fields"}) == cell
