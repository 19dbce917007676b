"""Questions as they are typed and as they stand in files."""

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
    assert read_questions(path) == [("Washington, D.C.", "capital"), ("Peru", "capital")]
    path.write_text("subject,relation\nPeru,capital\n\nFrance\n")
    with pytest.raises(FactholdError, match="record 4: 1 cell, where the header has 2"):
        read_questions(path)
    path.write_text("subject,answer\n")
    with pytest.raises(FactholdError, match="no column 'relation'"):
        read_questions(path)
