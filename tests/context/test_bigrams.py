"""Texts as bigram models."""

import gzip
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from facthold._util.errors import FactholdError
from facthold.context import bigrams
from facthold.context.bigrams import Bigrams
from facthold.facts import contents


def test_counts_are_those_of_the_text_and_the_last_character_has_no_next(tmp_path: Path) -> None:
    file = tmp_path / "text.txt"
    file.write_text("abab\nacé", encoding="utf-8")
    found = Bigrams.of_text(file)
    assert found.characters == ("\n", "a", "b", "c", "é")
    assert found.unigrams.tolist() == [1, 3, 2, 1, 1]
    pairs = {(a, b): int(n) for a, row in zip(found.characters, found.counts, strict=True)
             for b, n in zip(found.characters, row, strict=True) if n}  # fmt: skip
    assert pairs == {("a", "b"): 2, ("b", "a"): 1, ("b", "\n"): 1, ("\n", "a"): 1, ("a", "c"): 1, ("c", "é"): 1}
    np.testing.assert_allclose(found.pi_b.sum(axis=1), 1)
    np.testing.assert_allclose(found.pi_b[-1], found.pi_u)  # nothing follows é in this text


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_blocks_of_any_size_count_the_same(size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "naïve Ωmega, ナイーブ\r\n" * 9
    file = tmp_path / "text.txt"
    file.write_bytes(text.encode())
    whole = Bigrams.of_text(file)
    monkeypatch.setattr(contents, "BLOCK", size)
    cut = Bigrams.of_text(file)
    assert cut.characters == whole.characters == tuple(sorted(set(text)))
    np.testing.assert_array_equal(cut.counts, whole.counts)
    assert whole.counts.sum() == len(text) - 1


def test_packed_text_is_the_text(tmp_path: Path) -> None:
    plain, packed = tmp_path / "a.txt", tmp_path / "a.txt.gz"
    plain.write_text("to be or not to be")
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    np.testing.assert_array_equal(Bigrams.of_text(plain).counts, Bigrams.of_text(packed).counts)


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        (b"", "is empty"),
        (b"aaaa", "has one character only, 'a'"),
        ("naïve".encode("latin1"), "line 1: not text in UTF-8"),
        (b"a line\nabc\xe2\x82", "line 2: not text in UTF-8"),  # ends within a character
        (b"one\ntwo\0", "line 2: a NUL byte"),
        ("ab".encode("utf-16"), "UTF-16"),
        ("".join(map(chr, range(0x4E00, 0x4E00 + bigrams.MOST_CHARACTERS + 1))).encode(), "different characters"),
    ],
)
def test_what_is_no_text_is_refused_in_one_line(contents: bytes, message: str, tmp_path: Path) -> None:
    file = tmp_path / "text.txt"
    file.write_bytes(contents)
    with pytest.raises(FactholdError, match=message) as error:
        Bigrams.of_text(file)
    assert "\n" not in str(error.value)
    assert str(file) in str(error.value)


def test_a_folder_and_no_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FactholdError, match="is a folder; give a text"):
        Bigrams.of_text(tmp_path)
    with pytest.raises(FactholdError, match="no such file"):
        Bigrams.of_text(tmp_path / "none.txt")


def test_the_shipped_counts_are_of_tiny_shakespeare() -> None:
    shipped = Bigrams.shipped()
    assert shipped.N == 65
    assert (shipped.counts > 0).sum() == 1403
    assert [shipped.characters[i] for i in shipped.most_frequent(5)] == [" ", "e", "t", "o", "a"]
    assert shipped.unigrams.sum() == shipped.counts.sum() + 1
    # what goes into a character comes out of it, but for the first and the last of the text
    assert np.abs(shipped.counts.sum(axis=0) - shipped.counts.sum(axis=1)).sum() <= 2


def test_counts_survive_being_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "text.txt"
    file.write_text("to be, or not to be: that is the question")
    found = Bigrams.of_text(file)
    found.save(tmp_path / "counts.json")
    monkeypatch.setattr(bigrams.resources, "files", lambda _: tmp_path)
    monkeypatch.setattr(bigrams, "SHIPPED", "counts.json")
    read = Bigrams.shipped()
    assert read.characters == found.characters
    np.testing.assert_array_equal(read.counts, found.counts)
    np.testing.assert_array_equal(read.unigrams, found.unigrams)


def test_counts_take_the_place_of_counts_alone(tmp_path: Path) -> None:
    text, counts = tmp_path / "text.txt", tmp_path / "counts.json"
    text.write_text("to be, or not to be")
    found = Bigrams.of_text(text)
    with pytest.raises(FactholdError, match="is there already, and is a table"):  # as a text with a comma may look
        found.save(text)
    text.write_text("dear diary")
    with pytest.raises(FactholdError, match="is there already, and is text"):
        found.save(text)
    assert text.read_text() == "dear diary"
    for _ in range(2):
        found.save(counts)


def test_an_unknown_character_is_named() -> None:
    with pytest.raises(FactholdError, match="'é' is not among the 65 characters"):
        Bigrams.shipped().index("aé")


def test_a_long_text_takes_no_more_memory_than_a_short_one(tmp_path: Path) -> None:
    """It is counted a block at a time."""
    line = "It was the best of times, it was the worst of times; naïve, ナイーブ.\n"
    peaks = {}
    for blocks in (4, 32):
        file = tmp_path / f"{blocks}.txt"
        with file.open("w", encoding="utf-8") as stream:
            for _ in range(blocks):
                stream.write(line * (contents.BLOCK // len(line.encode())))
        tracemalloc.start()
        found = Bigrams.of_text(file)
        peaks[blocks] = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert found.unigrams.sum() == blocks * (contents.BLOCK // len(line.encode())) * len(line)
    assert peaks[32] < 1.1 * peaks[4]


def test_a_text_with_too_many_characters_is_refused_in_its_first_block(tmp_path: Path) -> None:
    """Of a text without end it would be known at once."""
    file, read = tmp_path / "text.txt", []
    file.write_text("".join(map(chr, range(0x4E00, 0x4E00 + 5000))) * 1000, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        blocks_of = bigrams.blocks_of
        patch.setattr(bigrams, "blocks_of", lambda path: (read.append(b) or b for b in blocks_of(path)))
        with pytest.raises(FactholdError, match=f"more than {bigrams.MOST_CHARACTERS} different characters"):
            Bigrams.of_text(file)
    assert len(read) == 1
