"""facthold build from the command line: what it writes, what it says, and what it refuses in one line."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from facthold.models.saving import load_model

FACTS = "subject,relation,answer\n" + "".join(f"s{i},r{i % 3},a{i % 5}\n" for i in range(20))
XOR = "subject,relation,answer\ns1,r1,a\ns1,r2,b\ns2,r1,b\ns2,r2,a\n"
ODD = (
    'subject,relation,answer\n"Korea, South",capital,"""Seoul"""\n"two\nlines",capital,Ōsaka\n'
    + "x" * 10_000
    + ",capital,é\n"
)


Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def files(folder: Path) -> Path:
    (folder / "facts.csv").write_text(FACTS)
    (folder / "xor.csv").write_text(XOR)
    (folder / "odd.csv").write_text(ODD, encoding="utf-8")
    return folder


def answer(run: Run, subject: str, relation: str) -> str:
    return json.loads(run("ask", "m.safetensors", subject, relation, "--json")[1])["answer"]


def test_a_file_becomes_a_model_that_answers(files: Path, run: Run) -> None:
    code, out, err = run("build", "facts.csv", "-o", "m.safetensors", "--json", "--recipe", "gated")
    assert code == 0, err
    about = json.loads(out)
    assert about["recall"] == 1.0
    assert about["times_lower_bound"] == pytest.approx(32 * about["n_params"] / about["table_bits"])
    model, problem = load_model(files / "m.safetensors")
    assert model.n_params == about["n_params"]
    assert len(problem.table) == 20
    assert not list(files.glob(".*"))
    assert answer(run, "s4", "r1") == "a4"


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([f"s{i // 2},r,a{i}" for i in range(8)], "how many the facts need is not known"),
        ([f"s{i // 2},r,a{i % 2 * (1 + i)}" for i in range(8)], "right in 100.0000% of the facts"),
    ],
)
def test_no_bits_are_needed_only_where_one_answer_is_enough(files: Path, run: Run, rows: list[str], said: str) -> None:
    """Two right answers for each subject: the lower bound is zero, and a constant is right in all of them or in one."""
    (files / "two.csv").write_text("\n".join(["subject,relation,answer", *rows]) + "\n")
    code, out, err = run("build", "two.csv", "--on-conflict", "all", "--recipe", "values", "-o", "m.safetensors")
    assert code == 0, err
    assert said in " ".join(out.split())
    assert "bits of facts per parameter" not in out


def test_the_embeddings_are_stated_and_may_be_left_out(files: Path, run: Run) -> None:
    arguments = ("build", "facts.csv", "--recipe", "values", "--seed", "3")
    whole = json.loads(run(*arguments, "-o", "m.safetensors", "--json")[1])
    model, problem = load_model("m.safetensors")
    assert whole["n_embeddings"] == problem.phi.size
    assert whole["embedding_bytes"] == problem.phi.nbytes
    assert whole["weight_bytes"] == 4 * model.n_params
    assert whole["file_bytes"] == Path("m.safetensors").stat().st_size
    code, out, err = run(*arguments, "-o", "small.safetensors", "--redraw-embeddings")
    assert code == 0, err
    size = Path("small.safetensors").stat().st_size
    assert f"embeddings, beside the parameters: {problem.phi.size:,} random numbers of seed 3" in out
    assert f"small.safetensors, {size:,} bytes: weights" in out
    assert "embeddings 0, not stored: drawn again from their keys" in out
    assert size < whole["file_bytes"] - 0.9 * problem.phi.nbytes
    again, its_problem = load_model("small.safetensors")
    np.testing.assert_array_equal(its_problem.phi, problem.phi)
    np.testing.assert_array_equal(again.W_O, model.W_O)


def test_odd_names_go_in_and_come_out(files: Path, run: Run) -> None:
    code, out, err = run("build", "odd.csv", "-o", "m.safetensors")
    assert code == 0, err
    assert "facts per parameter" in out
    assert answer(run, "Korea, South", "capital") == '"Seoul"'
    assert answer(run, "two\nlines", "capital") == "Ōsaka"


def test_names_do_nothing_to_a_terminal(files: Path, run: Run) -> None:
    """JSON and CSV have them as they are."""
    rows = [("a\nb", "r", "ring\x07 Ōsaka"), ("c", "r", "red\x1b[31m")]
    (files / "t.json").write_text(json.dumps([{"subject": s, "relation": r, "answer": a} for s, r, a in rows]))
    assert run("build", "t.json", "-o", "m.safetensors", "--recipe", "values")[0] == 0
    assert answer(run, "a\nb", "r") == rows[0][2]
    out = run("ask", "m.safetensors", "a\nb", "r")[1]
    assert out.startswith("ring\\x07 Ōsaka\n")
    assert "subject a\\nb\n" in out
    assert "a\\nb, r: ring\\x07 Ōsaka by" in run("locate", "m.safetensors", "a\nb", "r")[1]
    out = run("edit", "m.safetensors", "c", "r", "two\r\u2028lines", "-o", "n.safetensors")[1]
    assert "c, r: two\\r\\u2028lines instead of red\\x1b[31m" in " ".join(out.split())


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["none.csv", "-o", "m.st"], "none.csv"),
        (["facts.csv", "-o", "."], "folder"),
        (["facts.csv", "-o", "m.st", "--recipe", "magic"], "unknown recipe 'magic'"),
        (["facts.csv", "-o", "m.st", "--recipe", "outer-product"], "outer-product makes memories; take a recipe of"),
        (["facts.csv", "-o", "m.st", "--accuracy", "2"], "--accuracy 2"),
        (["facts.csv", "-o", "m.st", "--max-params", "0"], "--max-params 0"),
        (["facts.csv", "-o", "m.st", "-T", "2"], "-T 2 leaves no room"),
        (["facts.csv", "-o", "m.st", "--noise-tokens", "0"], "--noise-tokens 0 must be at least 1"),
        (["facts.csv", "-o", "m.st", "--on-conflict", "maybe"], "maybe"),
        (["facts.csv", "-o", "m.st", "--recipe", "gated", "--max-params", "10"], "attention alone takes"),
        (["xor.csv", "-o", "m.st", "--recipe", "values"], "gated"),
    ],
)
def test_what_cannot_be_built_is_one_line(
    arguments: list[str], says: str, files: Path, refuses: Callable[..., str]
) -> None:
    assert says in refuses("build", *arguments)
    assert not (files / "m.st").exists()
