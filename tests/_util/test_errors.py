"""Words of messages."""

import pytest

from facthold._util.errors import FEW_NAMES, unknown, with_article


@pytest.mark.parametrize("words", ["a Problem", "an MLPMemory", "an Answer", "a FactTable", "an int", "a LinearMemory"])
def test_a_name_has_the_article_that_it_is_spoken_with(words: str) -> None:
    assert with_article(words.split()[1]) == words


def test_of_very_many_names_the_nearest_are_listed() -> None:
    names = [f"claim-{i:03d}" for i in range(120)]
    line = str(unknown("claim", "claim-7", names))
    assert line.count("claim-") == 1 + 1 + FEW_NAMES  # what was typed, what was likely meant, and those near it
    assert line.endswith(f" and {len(names) - FEW_NAMES} more")
    assert str(unknown("map", "x", ["mod", "floor"])).endswith("choose one of: floor, mod")
