"""Every command says before it starts what it would need, where that is more than there is."""

import re

import pytest

from every_option import BASES, commands, run
from facthold._util.errors import FactholdError
from facthold.knowledge.build import build

NOTHING = {"facts", "list", "status", "bench", "lm fetch"}
"""They need no more than the program itself: what an installed package has, words, notes and sizes of their own."""
NEEDY = {  # beside `every_option.BASES`: what really computes, and what reads
    "figure": ["fig6 --preset smoke"], "reproduce": ["fig6 --preset smoke"], "plan": ["--facts facts.csv"],
    "results": ["--store kept.sqlite"],
}  # fmt: skip
CASES = [(name, line) for name, lines in (BASES | NEEDY).items() if name not in NOTHING for line in lines]


def test_every_command_is_asked() -> None:
    assert {name for name, _ in CASES} | NOTHING == set(commands())


@pytest.mark.parametrize(("name", "line"), CASES, ids=[" ".join(case) for case in CASES])
def test_without_memory_every_command_refuses_in_one_line(
    name: str, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FACTHOLD_MEMORY", "64")  # bytes
    code, out, err = run(*name.split(), *line.split())
    assert (code, out) == (2, ""), err
    assert re.search(
        r"^facthold: .* needs about \S+ GiB of memory, and there is \S+ GiB to use; .+$", err, re.MULTILINE
    )
    assert "Traceback" not in err


def test_each_recipe_of_build_is_asked_for_its_own_need(monkeypatch: pytest.MonkeyPatch) -> None:
    """Training holds a batch of scores for each learning rate beside the weights: what is enough for one construction
    is not enough for it."""
    facts = {(f"s{s}", f"r{r}"): f"{r} {(s * 7 + r) % 5}" for s in range(6) for r in range(3)}
    monkeypatch.setenv("FACTHOLD_MEMORY", "1M")
    for recipe in ("train", "attention-full"):
        with pytest.raises(FactholdError, match=f"a model of 18 facts by {recipe} needs about"):
            build(facts, recipe=recipe)


def test_a_search_says_what_its_end_would_need(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FACTHOLD_MEMORY", "16K")
    code, _, err = run("capacity", "-d", "16", "--seeds", "1")
    assert code == 0, err
    assert "to its end this search needs about" in err
    monkeypatch.setenv("FACTHOLD_MEMORY", "1G")
    assert "to its end" not in run("capacity", "-d", "16", "--seeds", "1")[2]
