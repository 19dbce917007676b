"""The short form of `make mutants`: some faults are tried, and all of them still fit the code."""

from pathlib import Path

import pytest

from facthold.lab.registry import claims
from facthold.recipes import recipes
from mutants.catalogue import MUTANTS, PENDING, QUICK, UNTRIED, covered, sources
from mutants.harness import GREEN, LIGHT, Looker, Mutant, Outcome, Results, healthy, names_of, run

BY_NAME = {mutant.name: mutant for mutant in MUTANTS}


def test_names_are_different_and_every_fault_is_to_be_seen_by_something() -> None:
    assert len(BY_NAME) == len(MUTANTS)
    for mutant in sources():
        assert mutant.claims or mutant.tests, mutant.name
    assert set(QUICK) <= set(BY_NAME)


@pytest.mark.parametrize("mutant", sources(), ids=lambda mutant: mutant.name)
def test_every_fault_still_applies(mutant: Mutant) -> None:
    compile(mutant.applied(), mutant.file, "exec")


def test_every_claim_and_every_recipe_has_two_faults() -> None:
    known, counts = {*claims(), *recipes()}, covered()
    assert set(counts) <= known, "a fault names a claim or a recipe that does not exist"
    assert {name for name in known if counts.get(name, 0) < 2} == PENDING


def test_red_is_worse_than_healthy() -> None:
    healthy = {"a": "holds", "b": "drifts", "c": "not decided", "d": "passed", "e": "holds"}
    outcome = Outcome("x", healthy, {"a": "not decided", "b": "holds", "c": "fails", "d": "failed", "e": "drifts"})
    assert outcome.red == ["a", "c", "d"]
    assert outcome.missed == ["b", "e"]
    assert Outcome("x", {"a": "not decided", "b": "fails"}, {"a": "not decided", "b": "fails"}).red == []
    assert Outcome("x", {"a": "holds"}, {"a": "error"}).red == ["a"]


@pytest.mark.slow
def test_faults_of_the_short_form_are_seen() -> None:
    """Healthy code is looked at once for all of them."""
    results, chosen = Results(None), [BY_NAME[name] for name in QUICK]
    with Looker() as looker:
        green = healthy(sorted({name for mutant in chosen for name in names_of(mutant, LIGHT)}), results, looker)
        assert set(green.values()) <= set(GREEN), green
        for mutant in chosen:
            outcome = run(mutant, results, looker, only=LIGHT)
            assert outcome.red, outcome
            assert not outcome.missed, outcome


def test_the_table_is_of_this_catalogue() -> None:
    """What it says of a fault was seen when `make mutants` was run; what it is to see is the catalogue's."""
    table = (Path(__file__).parents[2] / "docs" / "mutants.md").read_text()
    rows = {cells[1].strip(): cells[3] for line in table.splitlines() if len(cells := line.split("|")) == 7}
    assert [mutant.name for mutant in MUTANTS] == [name for name in rows if name not in ("fault", "---")]
    untried = {line.split("|")[1].strip() for line in table.splitlines() if line.endswith("| not tried |")}
    assert untried == UNTRIED
    for mutant in sources():
        if mutant.name not in untried:
            assert all(claim.replace("@", " at ") in rows[mutant.name] for claim in mutant.claims), mutant.name
