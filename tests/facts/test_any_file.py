"""Whatever is in a file of facts: a table that is written and read again as it is, or one clear line. The same of a
file of questions, which each of facts is too.
"""

import gzip
import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from facthold._util.errors import FactholdError
from facthold._util.files import as_csv
from facthold.facts.files import read_facts, write_facts
from facthold.facts.formats import FORMATS, QUESTION, questions_of
from facthold.facts.names import clean

ENDINGS = [*FORMATS, *(f"{ending}.gz" for ending in FORMATS)]
HEADER = "subject,relation,answer"
PIECES = st.sampled_from(
    [HEADER, "subject\trelation\tanswer", HEADER + ",p", "subject,relation", "relation\tsubject", "\n", "\r\n", "\r",
     ",", "\t", '"', '""', "'", "\0", "\ufeff", " ", "a", "France", "Ωμέγα", "🜁", "e\u0301", "\ud800", "0.5", "nan",
     "[", "]", "{", "}", ":", "null", "true", "NaN", '{"subject": "a", "relation": "r", "answer": "b"}',
     '{"relation": "r", "subject": "a"}', '["a", "r"]', '["a", "r", "b"]', '{"a": {"r": "b"}}', "x" * 11_000, "a,r,b\n",
     "a,r,c\n", "a\tr\tb\n"]
)  # fmt: skip
CELL = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)
ENCODINGS = st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-32", "latin-1", "cp1252", "shift-jis"])


def check_line(error: str, file: Path) -> None:
    assert error.startswith((str(file), f"reading {file}"))
    assert "\n" not in error
    assert len(error) < 1000


def questions(file: Path) -> list[tuple[str, str]] | None:
    """The questions of a file; None where it is refused in one line that names it."""
    try:
        found = list(questions_of(file))
    except FactholdError as error:
        return check_line(str(error), file)
    assert all(isinstance(name, str) for question in found for name in question)
    return [(clean(s), clean(r)) for s, r, _ in found]


def check(contents: bytes, ending: str) -> None:
    """One line that names the file, or a table that comes back from every format, and whose facts are all asked for."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"facts{ending}"
        file.write_bytes(contents)
        asked = questions(file)
        try:
            table, _ = read_facts(file, "all")
        except FactholdError as error:
            return check_line(str(error), file)
        assert asked is not None
        assert set(asked) == {(s, r) for s, r, _ in table.to_rows()}
        for other in (".csv", ".tsv", ".json.gz", ".jsonl"):
            again, _ = read_facts(write_facts(Path(folder) / f"again{other}", table), "all")
            assert again.to_rows() == table.to_rows()


@given(st.binary(max_size=200), st.sampled_from(ENDINGS))
def test_any_bytes_are_a_table_or_a_line(contents: bytes, ending: str) -> None:
    check(contents, ending)
    check(gzip.compress(contents), ending)


@given(st.lists(PIECES, max_size=30), st.sampled_from(ENDINGS), ENCODINGS)
def test_any_pieces_of_a_file_are_a_table_or_a_line(pieces: list[str], ending: str, encoding: str) -> None:
    """Broken quotes, ragged rows, NULs, half characters, long cells, headers alone, marks in the middle."""
    contents = "".join(pieces).encode(encoding, "surrogatepass" if encoding.startswith("utf") else "ignore")
    check(gzip.compress(contents) if ending.endswith(".gz") else contents, ending)


@given(
    st.lists(st.lists(CELL, min_size=2, max_size=4), max_size=6), st.sampled_from(["\n", "\r\n", "\r"]), st.booleans(),
    st.sampled_from([HEADER, "subject,relation", "p,relation,subject"]),
)  # fmt: skip
def test_any_rows_of_csv_are_a_table_or_a_line(rows: list[list[str]], end: str, quoted: bool, header: str) -> None:
    lines = [header, *(",".join(json.dumps(cell) if quoted else cell for cell in row) for row in rows)]
    check(end.join(lines).encode(), ".csv")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | CELL,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(CELL | st.sampled_from(HEADER.split(",")), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(JSON, st.sampled_from([".json", ".jsonl"]), st.sampled_from([None, 1]))
def test_any_json_is_a_table_or_a_line(value: object, ending: str, indent: int | None) -> None:
    check(json.dumps(value, indent=indent).encode(), ending)


@given(st.lists(st.tuples(CELL, CELL, CELL), min_size=1, max_size=6), st.sampled_from(ENDINGS))
def test_rows_that_can_be_read_are_written_and_read_again(rows: list[tuple[str, str, str]], ending: str) -> None:
    """In every format the same table, whatever the names."""
    try:
        table, _ = read_facts(rows, "first")
    except FactholdError:
        return  # an empty name
    with tempfile.TemporaryDirectory() as folder:
        again, _ = read_facts(write_facts(Path(folder) / f"facts{ending}", table))
        assert again.to_rows() == table.to_rows()
        assert again.labels == table.labels


@given(st.lists(st.tuples(CELL, CELL), min_size=1, max_size=6), st.sampled_from(ENDINGS), st.booleans())
def test_questions_that_are_written_are_read_as_they_are(rows: list[tuple[str, str]], ending: str, named: bool) -> None:
    """Without an answer, in every format of text, whatever the names."""
    if ".parquet" in ending:
        ending = ".csv"
    objects = [dict(zip(QUESTION, row, strict=True)) for row in rows]
    if ".csv" in ending or ".tsv" in ending:
        text = as_csv([QUESTION, *rows], "\t" if ".tsv" in ending else ",")
    elif ending.startswith((".jsonl", ".ndjson")):
        text = "\n".join(map(json.dumps, objects))
    else:
        text = json.dumps(objects if named else rows)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"questions{ending}"
        file.write_bytes(gzip.compress(text.encode()) if ending.endswith(".gz") else text.encode())
        assert list(questions_of(file)) == [(*row, "") for row in rows]


@pytest.mark.parametrize("depth", [50, 900, 5000, 200_000])
@pytest.mark.parametrize("ending", [".json", ".jsonl"])
@pytest.mark.parametrize("piece", ["[", '{"a": ', '[{"subject": '])
def test_lists_without_end_are_one_line(piece: str, ending: str, depth: int) -> None:
    close = {"[": "]", "{": "}"}
    ends = "".join(close[mark] for mark in reversed(piece) if mark in close)
    for contents in (piece * depth, piece * depth + "1" + ends * depth, f'[["a", "r", {"[" * depth}{"]" * depth}]]'):
        check(contents.encode(), ending)
