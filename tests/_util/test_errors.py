"""Words of messages."""

import pytest

from facthold._util.errors import with_article


@pytest.mark.parametrize("words", ["a Problem", "an MLPMemory", "an Answer", "a FactTable", "an int", "a LinearMemory"])
def test_a_name_has_the_article_that_it_is_spoken_with(words: str) -> None:
    assert with_article(words.split()[1]) == words
