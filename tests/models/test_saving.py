"""Saved transformers: with their facts they are asked again, by facthold and by NumPy alone."""

import contextlib
import io
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from facthold._util.errors import FactholdError, FactholdWarning
from facthold._util.tensors import read_tensors, tensors_as_bytes
from facthold.facts.problem import FactualRecall, factual_recall, zipf
from facthold.facts.table import FactTable, random_table
from facthold.measure.fact_recall import recalled_facts
from facthold.memory.activations import Polynomial
from facthold.models.memory import LinearMemory
from facthold.models.saving import load_model, save_model, to_numpy
from facthold.models.transformer import Transformer

KEY = jax.random.key(2)
DOCS = Path(__file__).parents[2] / "docs" / "export.md"
MODELS = {
    "code": Transformer.init(8, 2, 3, 5, key=KEY, bias=True, scaled=True),
    "text": Transformer.init(8, 2, 3, 5, key=KEY),
    "attention": Transformer.init(8, 1, 8, key=KEY),
    "polynomial": Transformer.init(8, 2, 3, 5, key=KEY, sigma=Polynomial((0.1, 1.0, -1 / 3))),
}
MODELS["code"] = eqx.tree_at(lambda t: t.mlp.b, MODELS["code"], jnp.linspace(-1, 1, 5))


def problem_for(name: str) -> FactualRecall:
    """A table with labels and a distribution, or without."""
    if name != "code":
        return factual_recall(random_table(60, 2, 2, key=KEY), 8, key=KEY, T=5, n_noise=7)
    rows = [(f"sujet {i}", "relation é", "oui" if i % 3 else 'non, "peut-être"\n') for i in range(90)]
    table = FactTable.from_rows(rows)
    return factual_recall(table, 8, key=KEY, T=6, p=zipf(table, 0.7), outputs="answers", embeddings="gaussian")


@pytest.mark.parametrize("name", MODELS)
def test_a_loaded_transformer_recalls_the_same_facts(name: str, tmp_path: Path) -> None:
    model, problem = MODELS[name], problem_for(name)
    loaded, its_problem = load_model(save_model(tmp_path / "facts.safetensors", model, problem))
    assert jax.tree.structure(loaded) == jax.tree.structure(model)  # scaled and sigma among it
    for array, name_of in [(a, n) for n, a in to_numpy(model).items()]:
        assert_array_equal(array.view(np.uint8), to_numpy(loaded)[name_of].view(np.uint8))
    assert isinstance(its_problem, FactualRecall)
    assert its_problem.table.labels == problem.table.labels
    assert (its_problem.T, its_problem.outputs, its_problem.n_noise) == (problem.T, problem.outputs, problem.n_noise)
    assert_array_equal(its_problem.table.matrix, problem.table.matrix)
    assert_array_equal(its_problem.phi.view(np.uint8), problem.phi.view(np.uint8))
    assert (its_problem.p is None) == (problem.p is None)
    if problem.p is not None and its_problem.p is not None:
        assert_array_equal(its_problem.p.view(np.uint8), problem.p.view(np.uint8))
    recalled = recalled_facts(model, problem, key=KEY)
    assert_array_equal(recalled_facts(loaded, its_problem, key=KEY), recalled)
    if name == "code":
        assert 0 < recalled.sum() < len(recalled)  # some and not all, so that it says something


def test_weights_stand_under_their_names(tmp_path: Path) -> None:
    file = save_model(tmp_path / "facts.safetensors", MODELS["code"], problem_for("code"))
    heads = {f"model.{name}" for name in ("W_K", "W_Q", "W_V", "W_O")}
    mlp = {f"model.mlp.{name}" for name in ("W", "V", "b")}
    problem = {f"problem.{name}" for name in ("phi", "p", "subjects", "relations", "answers")}
    assert load_file(file).keys() == heads | mlp | problem
    with safe_open(file, framework="numpy") as opened:
        about = json.loads(opened.metadata()["about"])
    assert about["settings"] == {"scaled": True, "mlp.sigma": "relu"}
    assert about["problem"]["labels"]["relations"] == ["relation é"]


def test_further_answers_are_saved_where_there_are_some(tmp_path: Path) -> None:
    rows = [("s", "r", "a"), ("s", "r", "b"), ("t", "r", "b"), ("s", "r", "c"), ("t", "r", "a")]
    problem = factual_recall(FactTable.from_rows(rows, "all"), 8, key=KEY)
    file = save_model(tmp_path / "several.safetensors", MODELS["text"], problem)
    assert_array_equal(load_file(file)["problem.also"], [[0, 1], [0, 2], [1, 0]])
    _, again = load_model(file)
    assert isinstance(again, FactualRecall)
    assert [again.table.right(i) for i in range(2)] == [(0, 1, 2), (1, 0)]
    # A file without them is what it was before there was such a field, and is read as one with none.
    _, plain = load_model(save_model(tmp_path / "one.safetensors", MODELS["text"], problem_for("text")))
    assert "problem.also" not in load_file(tmp_path / "one.safetensors")
    assert isinstance(plain, FactualRecall)
    assert plain.table.also.shape == (0, 2)


def test_further_answers_that_cannot_be_are_refused(tmp_path: Path) -> None:
    problem = factual_recall(FactTable.from_rows([("s", "r", "a"), ("s", "r", "b")], "all"), 8, key=KEY)
    file = save_model(tmp_path / "several.safetensors", MODELS["text"], problem)
    arrays, about = read_tensors(file)
    wrong = tensors_as_bytes(arrays | {"problem.also": np.array([[0, 7]], np.int32)}, about)
    (tmp_path / "wrong").write_bytes(wrong)
    with pytest.raises(FactholdError, match="answers of also must lie between 0 and 1"):
        load_model(tmp_path / "wrong")


def snippets() -> Iterator[str]:
    return (code for code in re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.DOTALL) if "fact = 0" in code)


@pytest.mark.parametrize("name", ["code", "text", "attention"])
def test_numpy_alone_asks_a_saved_transformer(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The snippet of docs/export.md, as it stands there."""
    model, problem = MODELS[name], problem_for(name)
    save_model(tmp_path / "facts.safetensors", model, problem)
    monkeypatch.chdir(tmp_path)
    (code,) = snippets()
    U = problem.phi[problem.output_tokens]
    for fact in (0, 1, 5):
        found: dict = {}
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(code.replace("fact = 0", f"fact = {fact}"), found)
        X = found["X"]
        table = problem.table
        assert X.shape == (problem.T, problem.d)
        assert_array_equal(X[0], problem.phi[table.subjects[fact]])
        assert_array_equal(X[1], problem.phi[table.S + table.relations[fact]])
        assert_array_equal(X[-1], problem.phi[problem.EOS])
        F = np.asarray(model(jnp.asarray(X)[None])[0])
        assert_allclose(found["F"], F, rtol=1e-4, atol=1e-5)
        right = problem.output_tokens[(U @ F).argmax()] == problem.n_tokens + table.answers[fact]
        assert printed.getvalue().strip() == ("right" if right else "wrong")


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_a_file_has_the_mode_that_the_umask_says(umask: int, mode: int, tmp_path: Path) -> None:
    before = os.umask(umask)
    try:
        file = save_model(tmp_path / "model.safetensors", MODELS["text"])
    finally:
        os.umask(before)
    assert file.stat().st_mode & 0o777 == mode


def test_a_memory_saved_before_there_were_transformers_is_read(tmp_path: Path) -> None:
    about = {"format": "1", "facthold": "0.1.0", "model": "LinearMemory", "settings": {}}
    arrays = {"model.W": np.eye(3, dtype=np.float32), "problem.E": np.ones((2, 3), np.float32)}
    arrays |= {"problem.U": np.ones((2, 3), np.float32), "problem.f": np.array([0, 1], np.int32)}
    save_file(arrays, tmp_path / "old", {"about": json.dumps(about)})
    with pytest.warns(FactholdWarning, match="old is of an older version, without a checksum"):
        model, problem = load_model(tmp_path / "old")
    assert isinstance(model, LinearMemory)
    assert problem is not None
    assert_array_equal(problem.f, [0, 1])


def test_a_file_without_some_part_is_refused(tmp_path: Path) -> None:
    arrays, about = read_tensors(save_model(tmp_path / "facts.safetensors", MODELS["text"], problem_for("text")))
    for missing in ("model.W_K", "problem.answers", "problem.phi"):
        less = {n: a for n, a in arrays.items() if n != missing}
        (tmp_path / "less").write_bytes(tensors_as_bytes(less, about))
        with pytest.raises(FactholdError, match="less is a facthold model with parts missing"):
            load_model(tmp_path / "less")
    wrong = arrays | {"problem.answers": arrays["problem.answers"] + 100}
    (tmp_path / "wrong").write_bytes(tensors_as_bytes(wrong, about))
    with pytest.raises(FactholdError, match="answers must lie between 0 and 3"):
        load_model(tmp_path / "wrong")


PLAIN = factual_recall(FactTable.from_rows([("s", "r", "a"), ("t", "r", "b")]), 8, key=KEY)
ALTERED: list[tuple[dict, dict, str]] = [
    ({"model.W_Q": np.zeros((2, 3, 7))}, {}, "W_Q has the shape (2, 3, 7), where the other weights need (2, 3, 8)"),
    ({"model.W_V": np.zeros((1, 3, 8))}, {}, "W_V has the shape (1, 3, 8)"),
    ({"model.W_O": np.zeros((2, 8))}, {}, "W_O is float32 of the shape (2, 8), and should be floats in 3 dimensions"),
    ({"model.W_K": np.zeros(())}, {}, "W_K is float32 of the shape ()"),
    ({"model.W_K": np.zeros((2, 3, 0))}, {}, "W_K is float32 of the shape (2, 3, 0)"),
    ({"model.mlp.W": np.zeros((5, 7))}, {}, "mlp.W has the shape (5, 7), where the other weights need (5, 8)"),
    ({"model.mlp.V": np.zeros((4, 8))}, {}, "mlp.V has the shape (4, 8), where the other weights need (5, 8)"),
    ({"model.mlp.b": np.zeros(6)}, {}, "mlp.b has the shape (6,), where the other weights need (5,)"),
    ({"problem.phi": np.zeros((4, 8))}, {}, "4 embeddings leave n_noise=-2 noise tokens"),
    ({"problem.phi": np.zeros(8)}, {}, "phi is float32 of the shape (8,)"),
    ({}, {"settings": {"scaled": True, "mlp.sigma": 5}}, "mlp.sigma is 5, which is no str"),
    ({}, {"settings": {"scaled": "yes", "mlp.sigma": "relu"}}, "scaled is 'yes', which is no bool"),
    ({}, {"settings": {"mlp.sigma": "tanh"}}, "unknown activation 'tanh'"),
    ({}, {"settings": [1]}, "its settings are [1]"),
    ({}, {"T": 4.5}, "T is 4.5, which is no integer"),
    ({}, {"T": 10**12}, "T=1000000000000 is more than 65536, the longest prompt"),
    ({}, {"S": True}, "S is True, which is no integer"),
    ({}, {"labels": {"subjects": ["s", 1], "relations": ["r"], "answers": ["a", "b"]}}, "labels of the subjects"),
    ({}, {"labels": {"subjects": ["s", "t"], "relations": "r", "answers": ["a", "b"]}}, "labels of the relations"),
    ({}, {"labels": {"subjects": ["s", "t"], "relations": ["r"]}}, "no 'answers'"),
    ({}, {"problem": 3}, "must be a mapping"),
]


@pytest.mark.parametrize(("arrays", "about", "says"), ALTERED)
def test_an_altered_file_is_one_clear_line(arrays: dict, about: dict, says: str, tmp_path: Path) -> None:
    whole, saved = read_tensors(save_model(tmp_path / "facts.safetensors", MODELS["code"], PLAIN))
    inner = {name: value for name, value in about.items() if name in saved["problem"]}
    saved |= {name: value for name, value in about.items() if name in saved}
    if inner:
        saved["problem"] |= inner
    changed = {name: array.astype(np.float32) for name, array in arrays.items()}
    (tmp_path / "altered").write_bytes(tensors_as_bytes(whole | changed, saved))
    with pytest.raises(FactholdError) as error:
        load_model(tmp_path / "altered")
    (line,) = str(error.value).splitlines()
    assert "altered is a facthold model with parts missing or wrong: " in line
    assert says in line


def test_a_model_that_is_no_name_is_refused(tmp_path: Path) -> None:
    arrays, about = read_tensors(save_model(tmp_path / "facts.safetensors", MODELS["text"], PLAIN))
    (tmp_path / "odd").write_bytes(tensors_as_bytes(arrays, about | {"model": ["Transformer"]}))
    with pytest.raises(FactholdError, match="odd is not a facthold model: it holds something else"):
        load_model(tmp_path / "odd")
