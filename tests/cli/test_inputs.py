"""Questions as they are typed and as they stand in files."""

import gzip
from pathlib import Path

import pytest

from facthold._util.errors import FactholdError
from facthold.cli.inputs import read_questions, understand


@pytest.mark.parametrize(
    ("line", "question"),
    [
        ("France, capital", ("France", "capital")),
        ('"Washington, D.C.", capital', ("Washington, D.C.", "capital")),
        ("Washington, D.C., capital", ("Washington, D.C.", "capital")),
        ("the capital of France", "the capital of France"),
    ],
)
def test_a_comma_parts_subject_and_relation(line: str, question: object) -> None:
    assert understand(line, lambda s, r: (s, r), lambda prompt: prompt) == question


def test_questions_in_a_file_may_have_space_blank_lines_and_more_columns(tmp_path: Path) -> None:
    path = tmp_path / "q.csv"
    path.write_text('subject , relation,note\n"Washington, D.C.", capital ,x\n\n Peru,capital,\n')
    assert read_questions(path) == [("Washington, D.C.", "capital", ""), ("Peru", "capital", "")]
    path.write_text("subject,relation\nPeru,capital\n\nFrance\n")
    with pytest.raises(FactholdError, match="line 4: 1 cell, where the header has 2"):
        read_questions(path)
    path.write_text("subject,answer\n")
    with pytest.raises(FactholdError, match="no column 'relation'"):
        read_questions(path)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("q.tsv", "relation\tsubject\ncapital\tPeru\n"),
        ("q.json", '[["Peru", "capital"]]'),
        ("q.json", '[{"subject": "Peru", "relation": "capital"}]'),
        ("q.json", '{"Peru": {"capital": null}}'),
        ("q.jsonl", '{"subject": "Peru", "relation": "capital"}'),
        ("q.csv.gz", "subject,relation\nPeru,capital\n"),
    ],
)
def test_questions_have_every_format_of_facts_and_need_no_answer(name: str, text: str, tmp_path: Path) -> None:
    contents = text.encode()
    (tmp_path / name).write_bytes(gzip.compress(contents) if name.endswith(".gz") else contents)
    assert read_questions(tmp_path / name) == [("Peru", "capital", "")]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("q.csv", "answer,subject,relation\nLima,Peru,capital\n,Chad,capital\n"),
        ("q.json", '[["Peru", "capital", "Lima"], ["Chad", "capital"]]'),
        ("q.json", '{"Peru": {"capital": "Lima"}, "Chad": {"capital": null}}'),
        (
            "q.jsonl",
            '{"subject": "Peru", "relation": "capital", "answer": "Lima"}\n{"subject": "Chad", "relation": "capital"}',
        ),
    ],
)
def test_questions_may_have_answers_of_their_own(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    assert read_questions(tmp_path / name) == [("Peru", "capital", "Lima"), ("Chad", "capital", "")]
