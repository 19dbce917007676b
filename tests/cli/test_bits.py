"""facthold bits, and the counting bound of facthold results."""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import pytest
from safetensors.numpy import load_file

import known
from facthold.cli import bits
from facthold.construct.linear import outer_product
from facthold.knowledge import report
from facthold.knowledge.model import Model, load
from facthold.lab.runner import run_cells
from facthold.lab.store import Store
from facthold.measure.grids import grid_of_bits
from facthold.measure.quantise import quantise
from facthold.memory.associations import seeded_problem
from facthold.models.saving import save_model
from facthold.studies.memories.capacity import Capacity
from odd_cells import Quiet

Run = Callable[..., tuple[int, str, str]]
UNIFORM: dict[str, Any] = {"map": "uniform", "M": 4}


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    problem = seeded_problem(20, 0, 32, map="uniform")
    return save_model(tmp_path_factory.mktemp("model") / "m.safetensors", outer_product(problem), problem)


def test_bits_finds_the_fewest_and_writes_the_model(saved: Path, tmp_path: Path, run: Run) -> None:
    out = tmp_path / "small.safetensors"
    found = json.loads(run("bits", str(saved), "-o", str(out), "--json")[1])
    assert [r["accuracy"] for r in found["rounded"]] == [0.99, 1.0]
    first = found["rounded"][0]
    again = json.loads(run("bits", str(out), "--accuracy", "0.99", "--json")[1])
    assert again["recall"] == first["recall"]
    assert again["rounded"][0]["bits"] <= first["bits"]
    code, words, _ = run("bits", str(saved), "--bits", "3", "--scales", "row")
    assert code == 0
    assert "bits per weight" in words


def test_a_packed_model_has_no_more_bits_than_it_has(folder: Path, run: Run) -> None:
    """Its own weights on other grids may need more: the search begins from what was rounded before."""
    save_model("m.safetensors", *known.countries())
    before = json.loads(run("bits", "m.safetensors", "--accuracy", "1", "-o", "p0.safetensors", "--json")[1])
    assert before["packed_bits"] is None
    for k in range(3):
        found = json.loads(
            run("bits", f"p{k}.safetensors", "--accuracy", "1", "-o", f"p{k + 1}.safetensors", "--json")[1]
        )
        assert found["packed_bits"] == pytest.approx(before["rounded"][0]["bits"])
        assert found["rounded"][0]["bits"] <= found["packed_bits"]
        before = found
    assert "packed already" in run("bits", "p3.safetensors", "--accuracy", "1")[1].replace("\n  ", " ")


@pytest.mark.parametrize("embeddings", [[], ["--store-embeddings"]])
def test_bits_writes_a_smaller_file_that_every_command_reads(embeddings: list[str], folder: Path, run: Run) -> None:
    model, problem = known.countries()
    path = str(save_model("t.safetensors", model, problem))
    code, out, _ = run("bits", path, "--bits", "5", "-o", "small.safetensors", *embeddings)
    before, after = Path(path).stat().st_size, Path("small.safetensors").stat().st_size
    assert code == 0
    assert after < before - 0.7 * 4 * model.n_params - (0 if embeddings else 0.9 * problem.phi.nbytes)
    assert f"small.safetensors, {after:,} bytes: weights" in out
    assert f"the file is {before / after:.3g} times smaller than t.safetensors with {before:,} bytes" in out
    assert ("not stored: drawn again" in out) == (not embeddings)
    whole = 4 * model.n_params
    assert f"{whole:,} bytes there, are {whole / load_bytes('small.safetensors'):.3g} times smaller" in out
    recalled = json.loads(run("bits", path, "--bits", "5", "--json")[1])["rounded"][0]
    assert recalled["recall"] < 1
    of_recalled = recalled["bits"] / (recalled["recall"] * len(problem.table))
    assert recalled["bits_per_recalled_fact"] == pytest.approx(of_recalled)
    same = " ".join(run("bits", "small.safetensors", "--bits", "5", "-o", "again.safetensors", *embeddings)[1].split())
    assert "1 times smaller" not in same
    assert f"its weights, {load_bytes('small.safetensors'):,} bytes there, are" in same
    rounded = json.loads(run("bits", path, "--bits", "5", "--json")[1])["rounded"][0]["recall"]
    again = json.loads(run("bits", "small.safetensors", "--bits", "16", "--json")[1])
    assert again["recall"] == rounded
    for question in (["France", "capital"], ["Peru", "continent"]):
        expected = Model(quantise(model, grid_of_bits(5)).model, problem).ask(*question).as_json()
        assert json.loads(run("ask", "small.safetensors", *question, "--json")[1]) == json.loads(json.dumps(expected))
        assert run("locate", "small.safetensors", *question)[0] == 0
    assert run("edit", "small.safetensors", "Ghana", "continent", "Asia", "-o", "e.safetensors")[0] == 0
    assert json.loads(run("ask", "e.safetensors", "Ghana", "continent", "--json")[1])["answer"] == "Asia"
    assert ("problem.phi" in load_file("e.safetensors")) == bool(embeddings)  # an edit does as what it reads


def load_bytes(path: str) -> int:
    """Bytes of the weights in a packed file."""
    return sum(array.nbytes for name, array in load_file(path).items() if name.startswith(("packed.", "steps.")))


def test_a_model_that_is_no_number_is_not_rounded(folder: Path, run: Run) -> None:
    model, problem = known.countries()
    save_model("nan.safetensors", eqx.tree_at(lambda t: t.mlp.V, model, model.mlp.V.at[:, 3].set(jnp.nan)), problem)
    code, out, err = run("bits", "nan.safetensors", "--bits", "4", "-o", "small.safetensors")
    assert (code, out) == (2, "")
    assert "48 of 1152 numbers in mlp.V are nan or infinite" in err
    assert not Path("small.safetensors").exists()


def test_bits_of_a_transformer(tmp_path: Path, run: Run) -> None:
    path = save_model(tmp_path / "t.safetensors", *known.countries())
    found = json.loads(run("bits", str(path), "--bits", "8", "--json")[1])
    assert found["facts"] > 0
    assert found["rounded"][0]["n_weights"] > found["facts"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--bits", "0"], "--bits 0"),
        (["--bits", "17"], "--bits 17"),
        (["--bits", "4", "--accuracy", "0.9"], "take one of"),
        (["--accuracy", "1.5"], "--accuracy 1.5"),
        (["--bits", "4", "--scales", "column"], "column"),
        (["--scales", "row"], "goes with --bits"),
        (["-o", "."], "is a folder"),
        (["-o", "facts.csv"], "facts.csv is there already, and is a table with the columns subject, relation, answer"),
    ],
)
def test_bits_refuses_in_a_line(saved: Path, folder: Path, run: Run, options: list[str], words: str) -> None:
    (folder / "facts.csv").write_text("subject,relation,answer\n")
    code, _, err = run("bits", str(saved), *options)
    assert code == 2
    assert words in err
    assert len(err.strip().splitlines()) == 1


def test_bits_of_no_model_and_of_one_that_knows_too_little(tmp_path: Path, run: Run) -> None:
    assert "no such model file" in run("bits", "nothing.safetensors")[2]
    problem = seeded_problem(200, 0, 8, map="uniform")
    path = save_model(tmp_path / "m.safetensors", outer_product(problem), problem)
    code, out, err = run("bits", str(path))
    assert (code, out) == (2, "")
    assert "the model as it is recalls" in " ".join(err.split())
    assert "less than 99.0000%; ask for less with --accuracy" in " ".join(err.split())


def test_bits_says_what_the_finest_grid_keeps(saved: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("facthold.measure.quantise.judged_bits", lambda *_: SimpleNamespace(quantised=None, recall=0))
    code, out, err = run("bits", str(saved))
    assert (code, out) == (2, "")
    words = "no grid of at most 16 bits per weight keeps 99.0000%; the finest keep 100.0000% at most"
    assert words in " ".join(err.split())


def test_results_bound_prints_a_line_for_each_kind(tmp_path: Path, run: Run) -> None:
    cells = [Capacity(method="outer-product", d=8, seeds=(0,), tolerance=0.2, **map) for map in ({}, UNIFORM)]
    with Store(tmp_path / "r.sqlite") as store:
        run_cells(cells, store, Quiet())
    bound = ("results", "--bound", "--store", str(tmp_path / "r.sqlite"))
    code, out, _ = run(*bound)
    assert code == 0
    assert "capacity" in out
    assert "no bound" in out
    assert sum(line["models"] for line in json.loads(run(*bound, "--json")[1])) == 1
    assert run(*bound, "--csv")[0] == 2


def test_a_bound_of_no_bits_is_not_told(saved: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "has fewer than" in " ".join(run("bits", str(saved), "--bits", "8")[1].split())
    monkeypatch.setattr(bits, "bits_uniform", lambda N, M, share: 1.2)
    assert "has fewer than 1 bit," in " ".join(run("bits", str(saved), "--bits", "8")[1].split())
    monkeypatch.setattr(bits, "bits_uniform", lambda N, M, share: 0.0)
    out = run("bits", str(saved), "--bits", "8")[1]
    assert "there is no bound" in out
    assert "has fewer than" not in " ".join(out.split())


def test_bits_does_not_bring_back_what_was_forgotten(folder: Path, run: Run) -> None:
    """At five bits per weight a forgotten fact is said again: the search does not take such a grid, and who asks for
    five bits is told."""
    model = Model(*known.countries())
    (subjects, relations, answers), table = model.names, model.table
    said = {
        (subjects[s], relations[r]): answers[a]
        for s, r, a in zip(table.subjects, table.relations, table.answers, strict=True)
    }
    for s, r in list(zip(table.subjects, table.relations, strict=True))[::3]:
        model = model.forget(subjects[s], relations[r])
    model.save("gone.safetensors")
    five = json.loads(run("bits", "gone.safetensors", "--bits", "5", "-o", "five.safetensors", "--json")[1])
    subject, relation = five["came_back"][0]
    answer = said[subject, relation]
    assert f"({subject}, {relation})" in run("bits", "gone.safetensors", "--bits", "5")[1]
    code, out, _ = run("edit", "five.safetensors", subject, relation, "--forget", "-o", "again.safetensors")
    assert (code, out.splitlines()[0].split(";")[0]) == (0, f"{subject}, {relation}: no longer {answer}")
    Path("wrong.csv").write_text(f"subject,relation,answer\n{subject},{relation},Ghana\n")
    wrong = run("edit", "five.safetensors", "--forget", "--file", "wrong.csv", "-o", "wrong.safetensors")
    assert (wrong[0], Path("wrong.safetensors").exists()) == (2, False)
    assert f"({subject}, {relation}) is {answer} in the table, not 'Ghana'" in " ".join(wrong[2].split())
    few = json.loads(run("bits", "gone.safetensors", "--accuracy", "0.5", "-o", "few.safetensors", "--json")[1])
    assert few["came_back"] == []
    small = load("few.safetensors")
    assert not report.said_again(small).any()
