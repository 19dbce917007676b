"""Fact tables from files of every format, into files and back, and the one line that each bad file gets."""

import gzip
import io
import json
import os
import subprocess
import sys
import time
import unicodedata
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_array_equal

import facthold.facts.contents
from facthold._util.errors import FactholdError, FactholdWarning
from facthold.facts.files import read_facts, write_facts
from facthold.facts.formats import FORMATS
from facthold.facts.table import FactTable
from facthold.knowledge.build import build
from facthold.knowledge.model import load

CAPITALS = [
    ("France", "capital", "Paris"),
    ("Japan", "capital", "Tokyo"),
    ("Japan", "currency", "yen"),
    ("Vatican", "capital", "Rome"),
    ("Italy", "capital", "Rome"),
]
ODD = [
    ('say "hi", twice', "a,b;c\td", "line one\nline two"),
    ("x" * 10_000, "r", "Ωμέγα 日本 🜁"),
    ("'", '"', "\\n"),
    ("=1+1", "true", "null"),
]
ENDINGS = [*FORMATS, *(f"{ending}.gz" for ending in FORMATS)]
each_format = pytest.mark.parametrize("ending", ENDINGS)


def named(table: FactTable) -> list[tuple[str, str, str]]:
    assert table.labels is not None
    columns = zip(table.subjects, table.relations, table.answers, strict=True)
    of = table.labels
    return [(of.subjects[s], of.relations[r], of.answers[a]) for s, r, a in columns]


def text_file(tmp_path: Path, text: str | bytes, name: str = "facts.csv") -> Path:
    """A file with this text; packed where its name says so."""
    file = tmp_path / name
    contents = text if isinstance(text, bytes) else text.encode()
    file.write_bytes(gzip.compress(contents) if name.endswith(".gz") else contents)
    return file


def refused(file: Path, says: str, on_conflict: str = "error") -> None:
    """One line that names the file and says this."""
    with pytest.raises(FactholdError, match=says) as error:
        read_facts(file, on_conflict)
    assert file.name in str(error.value)
    assert "\n" not in str(error.value)


@each_format
def test_what_is_written_is_read_again(ending: str, tmp_path: Path) -> None:
    rows = [*CAPITALS, *ODD]
    table, p = read_facts(write_facts(tmp_path / f"facts{ending}", rows))
    assert named(table) == rows
    assert p is None
    assert table.labels == FactTable.from_rows(rows).labels


@each_format
def test_further_columns_are_ignored_and_p_is_read(ending: str, tmp_path: Path) -> None:
    columns: dict[str, list[Any]] = {
        "id": [1, 2, 3, 4], "answer": ["x, y", "z", "x, y", "z"], "subject": ["A", "B", "A", "C"],
        "p": [0.5, 0.125, 0.25, 0.125], "note": ["", "", "", ""], "relation": ["r", "r", "r", "r"],
    }  # fmt: skip
    objects = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    text: str | bytes
    if ending.startswith(".parquet"):
        stream = io.BytesIO()
        pq.write_table(pa.table(columns), stream)
        text = stream.getvalue()
    elif ending.startswith((".jsonl", ".ndjson")):
        text = "\n".join(map(json.dumps, objects))
    elif ending.startswith(".json"):
        text = json.dumps(objects)
    else:
        mark = "," if ending.startswith(".csv") else "\t"
        lines = [mark.join(f'"{cell}"' for cell in row) for row in zip(*columns.values(), strict=True)]
        text = "\n".join([mark.join(columns), *lines])
    table, p = read_facts(text_file(tmp_path, text, f"facts{ending}"))
    assert named(table) == [("A", "r", "x, y"), ("B", "r", "z"), ("C", "r", "z")]
    assert_array_equal(p, [0.75, 0.125, 0.125])  # a fact that stands there twice is asked as often as both together


def test_the_order_of_columns_blank_lines_and_a_byte_order_mark_do_not_matter(tmp_path: Path) -> None:
    lines = [f"{a}, {r} ,{s}" for s, r, a in CAPITALS]
    text = "\ufeffanswer, relation ,subject\r\n\r\n" + "\r\n".join(lines) + "\r\n"
    assert named(read_facts(text_file(tmp_path, text))[0]) == CAPITALS


def test_names_are_stripped_and_composed(tmp_path: Path) -> None:
    """The same name, once composed and once not, is one token."""
    composed, split = (unicodedata.normalize(form, "Curaçao") for form in ("NFC", "NFD"))
    assert composed != split
    table, _ = read_facts(text_file(tmp_path, f"subject,relation,answer\n{split},r,a\n {composed}\u00a0,q,a\n"))
    assert table.labels is not None
    assert table.labels.subjects == (composed,)


def test_json_values_are_their_text(tmp_path: Path) -> None:
    lines = [
        '{"subject": 7, "relation": true, "answer": 1.50}',
        '{"subject": "7", "relation": false, "answer": 12345678901234567890123}',
        '{"relation": "r", "answer": -2e5, "subject": "a\\u2028b"}',
    ]
    table, _ = read_facts(text_file(tmp_path, "\n".join(lines) + "\n\n", "facts.jsonl"))
    assert named(table) == [
        ("7", "true", "1.50"),
        ("7", "false", "12345678901234567890123"),
        ("a\u2028b", "r", "-2e5"),
    ]


def test_parquet_values_are_their_text(tmp_path: Path) -> None:
    columns = {
        "subject": pa.array([1, 2]),
        "relation": pa.array(["r", "r"]).dictionary_encode(),
        "answer": pa.array([True, False]),
    }
    pq.write_table(pa.table(columns), tmp_path / "facts.parquet")
    assert named(read_facts(tmp_path / "facts.parquet")[0]) == [("1", "r", "true"), ("2", "r", "false")]


HEADER = "subject,relation,answer\n"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "facts.csv is empty"),
        ("\n\n", "facts.csv is empty"),
        (HEADER, r"facts\.\w+ has no facts in it; give"),
        ("subject,relation\na,b\n", "line 1: no column 'answer' among the columns 'subject, relation'"),
        ("subject,relation,Answer\na,b,c\n", "no column 'answer' .*; rename 'Answer'"),
        ("subjct,relation,answer\na,b,c\n", "no column 'subject' .*; rename 'subjct'"),
        ("subject;relation;answer\na;b;c\n", "separated by ';': take commas"),
        ("a,b,c\n", "no column 'subject' .*; it needs subject, relation and answer"),
        ("subject,relation,answer,answer\na,b,c,c\n", "line 1: the column 'answer' is there twice; rename one"),
        (HEADER + "a,b,c\nd,,f\n", "line 3: the relation is empty; write it, or leave the row out"),
        (HEADER + "a,b,c\n\n,,\n", "line 4: the subject is empty"),
        (HEADER + '"a\nb",r,c\na,r," "\n', "line 4: the answer is empty"),
        (HEADER + "a,b,\u00a0\n", "line 2: the answer is empty"),
        (HEADER + "a,b,c\n\u200b \u2060,b,c\n", r"line 3: the subject is empty: nothing of it .*U\+200B, U\+0020, U\+"),
        (HEADER + "a,\u3164,c\n", r"line 2: the relation is empty: nothing of it can be seen \(U\+3164\)"),
        (HEADER + "a,b,c\nd,e\n", "line 3: 2 cells, where the header has 3 columns; write all cells of the row, or"),
        (
            HEADER + "a,b,c\nd,e,f,g\n",
            "line 3: 4 cells, where .* 3 columns; put a cell that has a comma in",
        ),
        ("subject,relation,answer,p\na,b,c,half\n", "line 2: p is 'half', which is not a number; write a number"),
        ("subject,relation,answer,p\na,b,c,0_0.5\n", "line 2: p is '0_0.5', which is not a number"),
        ("subject,relation,answer,p\na,b,c,\n", "line 2: p is empty"),
        ("subject,relation,answer,p\na,b,c,1.5\nd,b,c,-0.5\n", "line 3: p is -0.5; it must be 0 or more"),
        ("subject,relation,answer,p\na,b,c,nan\n", "line 2: p is nan"),
        ("subject,relation,answer,p\na,b,c,0.5\nd,b,c,0.4\n", "column p: .* sums to 0.9"),
        (HEADER + 'a,b,"c\n', "line 2: not CSV .* write each twice"),
        (HEADER + 'a,b,c\na,b,"c"d\n', "line 3: not CSV"),
        (HEADER + "a,b,c\nd,e\0,f\n", "line 3: a NUL byte"),
        (b"subject,relation,answer\na,b,caf\xe9\n", "line 2: not text in UTF-8 .*0xe9.*iconv"),
        ((HEADER + "a,b,c\n").encode("utf-16"), "is text in UTF-16; save it in UTF-8"),
        (b"PK\x03\x04 and so on", "a zip archive or a workbook"),
        (b"\x1f\x8b\x08", r"compressed with gzip; give it a name that ends in \.gz"),
        (b"PAR1....", "is Parquet; give it a name that ends in .parquet"),
        (bytes(range(1, 256)) * 4, "not text in UTF-8"),
    ],
)
def test_a_bad_csv_file_is_one_line(text: str | bytes, says: str, tmp_path: Path) -> None:
    refused(text_file(tmp_path, text), says)


ROW = '{"subject": "a", "relation": "b", "answer": "c"}\n'


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is empty; write an object"),
        (ROW + "\n{]\n", "line 3: not JSON"),
        (ROW + "[1, 2]\n", "line 2: .* is not an object"),
        (ROW + "[" * 100_000 + "\n", "line 2: not JSON"),
        ('{"subject": "a", "relation": "b", "anwser": "c"}\n', "line 1: no column 'answer' .*; rename 'anwser'"),
        (ROW + ROW.replace('"c"', '["c", "d"]'), "line 2: the answer is nested, .*a row for each"),
        (ROW + ROW.replace('"c"', "null"), "line 2: the answer is empty"),
        (ROW.replace('"a"', '"a\\u0000"'), "line 1: the subject has a NUL character"),
        (ROW.replace('"a"', '"\\ud83d"'), "line 1: the subject has half a character"),
        (ROW + ROW.replace("}", ', "p": 1}'), "line 2: some facts have a p and others none"),
    ],
)
def test_a_bad_json_file_is_one_line(text: str, says: str, tmp_path: Path) -> None:
    refused(text_file(tmp_path, text, "facts.jsonl"), says)


PAIR = '{"France": {"capital": "Paris",\n"currency": "euro"},\n"Peru": {"capital": "Lima"}}'


def test_json_is_read_in_the_three_shapes_that_people_have(tmp_path: Path) -> None:
    rows = [("France", "capital", "Paris"), ("France", "currency", "euro"), ("Peru", "capital", "Lima")]
    objects = [dict(zip(("subject", "relation", "answer"), row, strict=True)) for row in rows]
    for text in (PAIR, json.dumps(rows), json.dumps(objects, indent=2), f"\ufeff {json.dumps(rows, indent=1)}\r\n"):
        table, p = read_facts(text_file(tmp_path, text, "facts.json"))
        assert (named(table), p) == (rows, None)
    text = '[["a", "r", 1.50], ["b", true, "1.50"], {"answer": 12345678901234567890123, "subject": 7, "relation": "r"}]'
    table, _ = read_facts(text_file(tmp_path, text, "facts.json"))
    assert named(table) == [("a", "r", "1.50"), ("b", "true", "1.50"), ("7", "r", "12345678901234567890123")]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is empty; write a list of objects"),
        (" \n", "is empty"),
        ("7", "line 1: '7' is neither a list nor an object"),
        ("[]", r"facts\.\w+ has no facts in it; give"),
        ("{}", r"facts\.\w+ has no facts in it; give"),
        ('[["a", "b", "c"],\n["a", "b"]]', "line 2: .* is not an object with subject, relation, answer"),
        ('[["a", "b", "c"],\n["a", "b", null]]', "line 2: the answer is empty"),
        ('[["a", "b", "c"],\n["a", "b", NaN]]', "line 2: the answer is empty"),
        ('[["a", "b", "c"],\n["a", "b", ["c", "d"]]]', "line 2: the answer is nested"),
        ('[["a", "b", "c"],\n\n["a", "b", "d"]]', "line 3: the fact .* has the answer 'd', and 'c' in line 1"),
        ('[["a", "b", "c"],\n]', "line 2: not JSON"),
        ('[["a", "b", "c"]\n["a", "b", "d"]]', "line 2: not JSON .*',' or ']' is expected"),
        ('[["a", "b", "c"]', "line 1: not JSON"),
        ('[["a", "b", "c"]]\n]', "line 2: not JSON .*more after its end"),
        ('{"subject": "a", "relation": "b", "answer": "c"}\n' * 2, r"line 2: not JSON .*ends in \.jsonl"),
        ('{"subject": "a", "relation": "b", "answer": "c"}', "an object of columns, or of one fact"),
        ('{"subject": {"0": "a"}, "relation": {"0": "b"}, "answer": {"0": "c"}}', r"to_json\(orient='records'\)"),
        (
            '[{"subject": "a", "relation": "b",\n"answer": "c", "answer": "d"}]',
            "line 1: the column 'answer' is there tw",
        ),
        ('{"facts": [1]}', "line 1: 'facts' has .*; write a list of objects"),
        ('{"a": {"b": "c",\n"b": "d"}}', "line 2: the fact .* has the answer 'd', and 'c' in line 1"),
        ('{"a": {"b": "c"},\n"a": {"b": "d"}}', "line 2: the fact .* has the answer 'd', and 'c' in line 1"),
        ('{"a": {"b": {"c": "d"}}}', "line 1: the answer is nested"),
        ('{"a": {"b" "c"}}', "line 1: not JSON"),
        ('{"a": {"b": "c"}, 3: {}}', "line 1: not JSON .*a name in quotes"),
        ('{"a" {"b": "c"}}', "line 1: not JSON .*':' is expected"),
        ("[" * 100_000, "line 1: not JSON .*too deeply nested"),
        ('[["a", "b\\u0000", "c"]]', "line 1: the relation has a NUL character"),
    ],
)
def test_a_bad_json_list_or_object_is_one_line(text: str, says: str, tmp_path: Path) -> None:
    refused(text_file(tmp_path, text, "facts.json"), says)


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".json", ".jsonl", ".csv.gz", ".parquet"])
def test_a_name_that_is_too_long_is_said_to_be_with_its_line(ending: str, tmp_path: Path) -> None:
    file = write_facts(tmp_path / f"facts{ending}", [*CAPITALS, ("Peru", "capital", "x" * 200_000)])
    refused(file, r"(line|row) \d: the answer is a name of 200000 characters; it may have at most 10000")


def test_a_long_cell_of_a_column_that_is_not_read_does_not_matter(tmp_path: Path) -> None:
    text = f"subject,relation,answer,note\nFrance,capital,Paris,{'x' * 200_000}\n"
    assert named(read_facts(text_file(tmp_path, text))[0]) == CAPITALS[:1]


def test_what_is_packed_is_unpacked_by_its_name(tmp_path: Path) -> None:
    """In several parts too, as `cat a.gz b.gz` makes them. What is broken, or not what its name says, is refused."""
    file = tmp_path / "FACTS.CSV.GZ"
    file.write_bytes(gzip.compress(HEADER.encode()) + gzip.compress(b"a,b,c\n"))
    assert named(read_facts(file)[0]) == [("a", "b", "c")]
    whole = file.read_bytes()
    for contents, says in ((whole[:-4], "is not gzip that can be unpacked"), (HEADER.encode(), "take .gz off its name"),
                           (whole[:30] + b"....." + whole[35:], "is not gzip that can be unpacked")):  # fmt: skip
        file.write_bytes(contents)
        refused(file, says)
    refused(text_file(tmp_path, HEADER, "facts.gz"), r"not in '\.gz'")
    refused(text_file(tmp_path, HEADER, "facts.txt.gz"), r"not in '\.txt\.gz'")
    refused(
        text_file(tmp_path, gzip.compress(HEADER.encode())), r"compressed with gzip; give it a name that ends in \.gz"
    )


def test_a_small_file_that_unpacks_to_what_does_not_fit_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FACTHOLD_MEMORY", "64M")
    refused(text_file(tmp_path, bytes(100 << 20), "facts.csv.gz"), "reading .* needs about .* there is 0.0625 GiB")


def test_the_same_facts_are_packed_to_the_same_bytes(tmp_path: Path) -> None:
    first, second = (write_facts(tmp_path / name, CAPITALS).read_bytes() for name in ("a.json.gz", "b.json.gz"))
    assert first == second
    assert gzip.decompress(first) == write_facts(tmp_path / "a.json", CAPITALS).read_bytes()
    write_facts(tmp_path / "a.json.gz", CAPITALS[:2])  # takes the place of what is of its own kind
    for ending in (".csv.gz", ".json"):
        other = (tmp_path / "a.json.gz").rename(tmp_path / f"other{ending}")
        before = other.read_bytes()
        with pytest.raises(FactholdError, match="and is JSON that begins with 'subject', packed by gzip"):
            write_facts(other, CAPITALS)
        assert other.read_bytes() == before
        write_facts(tmp_path / "a.json.gz", CAPITALS)


def test_names_that_cannot_be_seen_are_not_written(tmp_path: Path) -> None:
    with pytest.raises(FactholdError, match=r"fact 2, .* must be three names"):
        write_facts(tmp_path / "a.csv", [("a", "b", "c"), ("a", "b", "\u200d")])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ({"subject": ["a"], "relation": ["b"]}, "no column 'answer'"),
        ({"subject": [], "relation": [], "answer": []}, "no facts"),
        ({"subject": ["a", None], "relation": ["b", "b"], "answer": ["c", "c"]}, "row 2: the subject is empty"),
        ({"subject": ["a"], "relation": ["b"], "answer": [["c"]]}, "row 1: the answer is nested"),
        ({"subject": ["a"], "relation": ["b"], "answer": [b"\xff"]}, "row 1: the answer is bytes that are not UTF-8"),
    ],
)
def test_a_bad_parquet_file_is_one_line(columns: dict[str, list[Any]], says: str, tmp_path: Path) -> None:
    pq.write_table(pa.table(columns), tmp_path / "facts.parquet")
    refused(tmp_path / "facts.parquet", says)


def test_what_is_no_file_of_facts_is_refused(tmp_path: Path) -> None:
    refused(tmp_path / "none.csv", "no such file: ")
    refused(tmp_path / "none.parquet", "no such file: ")
    refused(
        text_file(tmp_path, "a", "facts.xlsx"),
        r"end in \.csv, \.tsv, \.json, \.jsonl, \.ndjson, \.parquet, or one of these and \.gz, not in '\.xlsx'",
    )
    refused(text_file(tmp_path, "not Parquet", "facts.parquet"), "is not Parquet that can be read")
    (tmp_path / "folder.csv").mkdir()
    refused(tmp_path / "folder.csv", "is a folder")
    refused(Path("-"), "^no such file: -; for standard input give /dev/stdin$")


def test_an_empty_name_of_a_file_is_said_to_be_empty() -> None:
    """As a path it is the folder that one is in, of which nobody has spoken."""
    for read in (read_facts, build, load, lambda path: write_facts(path, CAPITALS)):
        with pytest.raises(ValueError, match=r"='': the name of the file is empty; give one$"):
            read("")


def test_sets_are_refused_as_their_order_is_chance(tmp_path: Path) -> None:
    rows = dict.fromkeys(CAPITALS)
    for facts in (set(rows), frozenset(rows), rows.keys(), dict(enumerate(rows)).values()):
        for read in (read_facts, build, FactTable.from_rows, lambda facts: write_facts(tmp_path / "facts.csv", facts)):
            with pytest.raises(ValueError, match=r"is a \w+, and .* the order of the facts; give a list, such as"):
                read(facts)
    for facts in ([set(row) for row in rows], {frozenset(row[:2]): row[2] for row in rows}):
        with pytest.raises(FactholdError, match=r"write it as \(subject, relation"):
            read_facts(facts)
    with pytest.raises(FactholdError, match="must be three names"):
        write_facts(tmp_path / "facts.csv", [set(row) for row in rows])
    assert not list(tmp_path.iterdir())


def test_a_system_error_while_reading_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> bytes:
        raise PermissionError(13, "Permission denied")

    file = text_file(tmp_path, HEADER)
    monkeypatch.setattr(Path, "read_bytes", fail)
    refused(file, "cannot read .*: Permission denied; give a file of facts")


@each_format
def test_a_file_that_does_not_fit_in_memory_is_refused(
    ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before it is read: a sparse file of 2^50 bytes. And by its rows: a machine where a row takes a fortune."""
    file = write_facts(tmp_path / f"facts{ending}", CAPITALS)
    read_facts(file)
    monkeypatch.setattr(facthold.facts.contents, "MEMORY_A_ROW", 1 << 50)
    refused(file, "needs about .* GiB of memory, and there is .* to use; keep fewer rows, or split the file")
    if ending != ".parquet":
        monkeypatch.undo()
        os.truncate(file, 1 << 43)
        refused(file, "needs about .* GiB of memory, and there is")


def test_without_pyarrow_parquet_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write_facts(tmp_path / "facts.parquet", CAPITALS)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    refused(file, r"pip install 'facthold\[parquet\]'")
    with pytest.raises(FactholdError, match=r"pip install 'facthold\[parquet\]'"):
        write_facts(tmp_path / "other.parquet", CAPITALS)


CONFLICTS = [
    ("a", "r", "1"),
    ("b", "r", "1"),
    ("a", "r", "2"),
    ("a", "r", "3"),
    ("b", "r", "2"),
    ("c", "r", "1"),
    ("c", "r", "4\n" + "x" * 5000),
    ("d", "r", "1"),
    ("d", "r", "2"),
    ("a", "r", "2"),
]


@each_format
def test_conflicts_are_named_and_settled(ending: str, tmp_path: Path) -> None:
    file = write_facts(tmp_path / f"facts{ending}", CONFLICTS)
    unit = "row" if ending.startswith(".parquet") else "line"
    first = 1 if ending.removesuffix(".gz") in (".jsonl", ".ndjson", ".parquet") else 2  # a header, or the bracket
    with pytest.raises(FactholdError) as error:
        read_facts(file)
    says = str(error.value)
    assert f"{unit} {first + 2}: the fact ('a', 'r') has the answer '2', and '1' in {unit} {first}; " in says
    assert f"{unit} {first + 4}: the fact ('b', 'r') has the answer '2', and '1' in {unit} {first + 1}; " in says
    assert "('c', 'r')" in says
    assert "('d', 'r')" not in says
    assert "; 1 more such fact" in says
    assert "on_conflict='first'" in says
    assert "on_conflict='all'" in says
    assert "\n" not in says
    assert len(says) < 1000
    table, _ = read_facts(file, "first")
    assert named(table) == [(s, "r", "1") for s in "abcd"]
    table, _ = read_facts(file, "all")
    assert named(table) == [(s, "r", "1") for s in "abcd"]
    assert table.labels is not None
    assert [[table.labels.answers[a] for a in table.right(i)][1:] for i in (0, 1, 3)] == [["2", "3"], ["2"], ["2"]]
    with pytest.raises(ValueError, match="unknown on_conflict 'both'"):
        read_facts(file, "both")


@pytest.mark.parametrize("on_conflict", ["first", "all"])
def test_p_belongs_to_the_question(on_conflict: str, tmp_path: Path) -> None:
    text = "subject,relation,answer,p\na,r,1,0.25\nb,r,1,0.25\na,r,2,0.5\n"
    _, p = read_facts(text_file(tmp_path, text), on_conflict)
    assert_array_equal(p, [0.75, 0.25])


def test_150_000_facts_are_read_in_seconds(tmp_path: Path) -> None:
    """About one on an idle machine; looked up one by one in a list, they would take hours."""
    rows = [(f"subject {i // 6}", f"relation {i % 6}", f"answer {i % 9999}") for i in range(150_000)]
    file = write_facts(tmp_path / "facts.csv", rows)
    start = time.process_time()
    table, _ = read_facts(file)
    assert time.process_time() - start < 10
    assert (table.S, table.R, len(table)) == (25_000, 6, 150_000)


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    def stopped() -> Iterator[tuple[str, str, str]]:
        yield CAPITALS[0]
        raise KeyboardInterrupt

    file = write_facts(tmp_path / "facts.csv", CAPITALS)
    before = file.read_bytes()
    with pytest.raises(KeyboardInterrupt):
        write_facts(file, stopped())
    assert file.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["facts.csv"]
    with pytest.raises(FactholdError, match=r"end in \.csv"):
        write_facts(tmp_path / "facts.txt", CAPITALS)


def test_a_pipe_is_read_as_csv() -> None:
    read, write = os.pipe()
    os.write(write, f"{HEADER}a,b,c\n".encode())
    os.close(write)
    try:
        table, _ = read_facts(f"/dev/fd/{read}")
    finally:
        os.close(read)
    assert named(table) == [("a", "b", "c")]
    assert np.array_equal(table.answers, [0])


def test_standard_input_is_read_from_a_pipe_and_from_a_file(tmp_path: Path) -> None:
    program = "import facthold as fh; print(fh.read_facts('/dev/stdin')[0].to_rows())"
    path = text_file(tmp_path, f"{HEADER}a,b,c\n", "facts")
    with path.open() as file:
        for given in ({"stdin": file}, {"input": path.read_text()}):
            said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, **given)
            assert said.stdout.strip() == "[('a', 'b', 'c')]", said.stderr


@pytest.mark.parametrize(
    "rows", [[("a", "b")], [("a", "b", "c", "d")], [("a", None, "c")], [("a", "b", " ")], []], ids=str
)
def test_facts_that_could_not_be_read_are_not_written(rows: list[tuple[Any, ...]], tmp_path: Path) -> None:
    with pytest.raises(FactholdError, match=r"must be three names|no facts to write"):
        write_facts(tmp_path / "facts.csv", rows)
    assert not list(tmp_path.iterdir())


def test_names_that_look_alike_are_named_in_a_warning() -> None:
    rows = [("France", "capital", "Paris"), ("France\u200b", "currency", "Euro"), ("New York", "is in", "the USA")]
    with pytest.warns(
        FactholdWarning, match=r"the subjects 'France' and 'France\\u200b' differ by what cannot be seen"
    ):
        table, _ = read_facts(rows)
    assert table.S == 3  # each stays what it is
    with pytest.warns(FactholdWarning, match="the answers"):
        read_facts([("a", "r", "New York"), ("b", "r", "New\u00a0York"), ("c", "r", "NewYork")])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_facts([("Curaçao", "r", "x"), ("Curacao", "r", "NewYork"), ("c", "r", "New York")])
