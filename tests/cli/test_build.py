"""facthold build from the command line: what it writes, what it says, and what it refuses in one line."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from facthold.models.saving import load_model

FACTS = "subject,relation,answer\n" + "".join(f"s{i},r{i % 3},a{i % 5}\n" for i in range(20))
XOR = "subject,relation,answer\ns1,r1,a\ns1,r2,b\ns2,r1,b\ns2,r2,a\n"
ODD = (
    'subject,relation,answer\n"Korea, South",capital,"""Seoul"""\n"two\nlines",capital,Ōsaka\n'
    + "x" * 10_000
    + ",capital,é\n"
)


def facthold(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "facthold", *arguments], cwd=folder, capture_output=True, text=True)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "facts.csv").write_text(FACTS)
    return tmp_path


def test_a_file_becomes_a_model_that_answers(folder: Path) -> None:
    done = facthold(folder, "build", "facts.csv", "-o", "m.safetensors", "--json", "--method", "readout")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["recall"] == 1.0
    assert found["times_lower_bound"] == pytest.approx(32 * found["n_params"] / found["table_bits"])
    model, problem = load_model(folder / "m.safetensors")
    assert model.n_params == found["n_params"]
    assert len(problem.table) == 20
    assert not list(folder.glob(".*"))
    asked = facthold(folder, "ask", "m.safetensors", "s4", "r1", "--json")
    assert json.loads(asked.stdout)["answer"] == "a4"


def test_odd_names_go_in_and_come_out(tmp_path: Path) -> None:
    (tmp_path / "odd.csv").write_text(ODD, encoding="utf-8")
    assert facthold(tmp_path, "build", "odd.csv", "-o", "m.safetensors").returncode == 0
    asked = facthold(tmp_path, "ask", "m.safetensors", "Korea, South", "capital", "--json")
    assert json.loads(asked.stdout)["answer"] == '"Seoul"'
    asked = facthold(tmp_path, "ask", "m.safetensors", "two\nlines", "capital", "--json")
    assert json.loads(asked.stdout)["answer"] == "Ōsaka"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["none.csv", "-o", "m.st"], "none.csv"),
        (["facts.csv", "-o", "."], "folder"),
        (["facts.csv", "-o", "m.st", "--method", "magic"], "--method magic"),
        (["facts.csv", "-o", "m.st", "--accuracy", "2"], "--accuracy 2"),
        (["facts.csv", "-o", "m.st", "--max-params", "0"], "--max-params 0"),
        (["facts.csv", "-o", "m.st", "-T", "2"], "T=2"),
        (["facts.csv", "-o", "m.st", "--on-conflict", "maybe"], "maybe"),
        (["facts.csv", "-o", "m.st", "--method", "readout", "--max-params", "10"], "attention alone takes"),
        (["xor.csv", "-o", "m.st", "--method", "attention"], "readout"),
    ],
)
def test_what_cannot_be_built_is_one_line(folder: Path, arguments: list[str], says: str) -> None:
    (folder / "xor.csv").write_text(XOR)
    done = facthold(folder, "build", *arguments)
    assert done.returncode == 2
    last = [line for line in done.stderr.splitlines() if not line.startswith(("building", "  "))]
    assert len(last) == 1
    assert says in last[0]
    assert not (folder / "m.st").exists()
