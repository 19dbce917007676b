"""Texts to tokens and back."""

import pytest

from facthold._util.errors import FactholdError
from facthold.lm.gguf import Vocabulary
from facthold.lm.tiny import BEGIN, vocabulary
from facthold.lm.tokeniser import BYTES, SPLITS, Tokeniser

TEXTS = [
    "The capital of France is",
    "São Tomé, 1987!\n\tÅland  \u2603 🙂",
    "",
    " ",
    "<|endoftext|>",
    "a'b 's \r\n\0",
    "Ġ",
]


@pytest.mark.parametrize("split", SPLITS)
def test_every_text_comes_back(split: str) -> None:
    tokeniser = Tokeniser(Vocabulary(**vars(vocabulary()) | {"before": split}))
    for text in TEXTS:
        assert tokeniser.decode(tokeniser.encode(text, begin=False)) == text
        assert tokeniser.encode(text) == [0, *tokeniser.encode(text, begin=False)]


def test_words_are_tokens_digits_are_single_and_names_of_tokens_are_text() -> None:
    words, tokeniser = vocabulary(), Tokeniser(vocabulary())
    named = lambda text: [words.tokens[t] for t in tokeniser.encode(text, begin=False)]  # noqa: E731
    assert named("The capital of France is") == ["The", "Ġcapital", "Ġof", "ĠFrance", "Ġis"]
    assert named("Germany's") == ["Germany", "'", "s"]
    assert named(" 1987") == ["Ġ", "1", "9", "8", "7"]
    assert 0 not in tokeniser.encode(BEGIN, begin=False)
    assert words.tokens[tokeniser.first("Paris")] == "ĠParis"


def test_a_vocabulary_that_cannot_be_used_is_refused() -> None:
    words = vars(vocabulary())
    with pytest.raises(FactholdError, match="split by 'qwen2' are not known"):
        Tokeniser(Vocabulary(**words | {"before": "qwen2"}))
    with pytest.raises(FactholdError, match="vocabulary cannot be used"):
        Tokeniser(Vocabulary(**words | {"merges": ["Ġ X!Y"]}))


def test_a_token_that_is_a_part_of_a_letter_is_shown_as_its_bytes() -> None:
    words = vars(vocabulary())
    parts = ["Ġæ", "å\u0132", "\N{REPLACEMENT CHARACTER}"]  # 0x20 0xe6, 0xe5 0x90, and one that stands for itself
    tokeniser = Tokeniser(Vocabulary(**words | {"tokens": [*words["tokens"], *parts]}))
    n = len(words["tokens"])
    assert [tokeniser.shown(n + i) for i in range(3)] == [" \\xe6", "\\xe5\\x90", "\N{REPLACEMENT CHARACTER}"]
    assert tokeniser.shown(tokeniser.first("Paris")) == " Paris"
    assert len(BYTES) == len(set(BYTES.values())) == 256
    assert all("é".encode()[i] == BYTES[letter] for i, letter in enumerate("Ã©"))
