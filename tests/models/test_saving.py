"""Saved transformers: with their facts they are asked again, by facthold and by NumPy alone."""

import contextlib
import dataclasses
import io
import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

import eye
import known
from facthold._util.errors import FactholdError, FactholdWarning
from facthold._util.tensors import read_tensors, tensors_as_bytes
from facthold.facts.problem import FactualRecall, factual_recall, zipf
from facthold.facts.table import FactTable, random_table
from facthold.knowledge.model import Model, load
from facthold.knowledge.tables import without
from facthold.measure.fact_recall import recalled_facts
from facthold.memory import EMBEDDINGS
from facthold.memory.activations import Polynomial
from facthold.memory.associations import random_problem
from facthold.models import FIXED, REDRAWN, STORED
from facthold.models.memory import LinearMemory
from facthold.models.saving import load_model, save_model, to_numpy, write_model
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


# --- embeddings that are left out


def left_out(file: Path) -> bool:
    return "problem.phi" not in load_file(file)


@pytest.mark.parametrize("embeddings", ["sphere", "gaussian", "signs"])
def test_embeddings_are_drawn_again_to_the_last_bit(embeddings: str, tmp_path: Path) -> None:
    problem = factual_recall(random_table(40, 3, 5, key=KEY), 8, key=KEY, n_noise=11, embeddings=embeddings)
    whole = write_model(tmp_path / "whole", MODELS["text"], problem)
    file = write_model(tmp_path / "small", MODELS["text"], problem, redraw=True)
    assert (whole.embeddings, file.embeddings) == (STORED, REDRAWN)
    assert left_out(file.path)
    assert not left_out(whole.path)
    assert file.embedding_bytes == 0
    assert whole.embedding_bytes == problem.phi.nbytes
    assert file.bytes == file.path.stat().st_size < whole.bytes - 0.9 * problem.phi.nbytes
    for path in (whole.path, file.path):
        again = load_model(path)[1]
        assert isinstance(again, FactualRecall)
        assert again.phi.dtype == problem.phi.dtype
        assert_array_equal(again.phi.view(np.uint8), problem.phi.view(np.uint8))
    assert left_out(save_model(tmp_path / "kept", MODELS["text"], again))  # a file is written as it was read
    back = save_model(tmp_path / "back", MODELS["text"], again, redraw=False)
    assert read_tensors(back)[1] == read_tensors(whole.path)[1]
    assert not left_out(back)


CHANGES: dict[str, Callable[[Model], Model]] = {
    "answer": lambda m: m.edit("France", "capital", "Lyon"),
    "subject": lambda m: m.add("Chad", "capital", "N'Djamena"),
    "forgotten": lambda m: m.forget("France", "capital"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_rows_that_no_key_draws_are_stored(change: str, tmp_path: Path) -> None:
    """New names have embeddings of their own; all others are still drawn again."""
    changed = CHANGES[change](load(Model(*known.countries()).save(tmp_path / "m", redraw=True)))
    file = changed.save(tmp_path / "changed")
    assert left_out(file)
    stored = load_file(file).get("problem.changed", np.zeros(0))
    assert len(stored) == len(changed.problem.phi) - len(known.countries()[1].phi)
    assert_array_equal(load(file).problem.phi.view(np.uint8), changed.problem.phi.view(np.uint8))
    assert_array_equal(eye.read(file)[1]["problem.phi"], changed.problem.phi)


def test_a_relation_that_is_forgotten_moves_the_others(tmp_path: Path) -> None:
    problem = factual_recall(FactTable.from_rows([("s", "r", "a"), ("s", "q", "b"), ("t", "q", "a")]), 8, key=KEY)
    smaller = without(problem, 0)
    assert len(smaller.phi) == len(problem.phi) - 1
    file = save_model(tmp_path / "m", MODELS["text"], smaller, redraw=True)
    assert load_file(file)["problem.changed"].tolist() == [2]
    again = load_model(file)[1]
    assert isinstance(again, FactualRecall)
    assert_array_equal(again.phi.view(np.uint8), smaller.phi.view(np.uint8))


def test_what_no_keys_draw_again_is_stored_whatever_is_asked(tmp_path: Path) -> None:
    plain = factual_recall(random_table(4, 1, 2, key=KEY), 8, key=KEY, n_noise=1)
    noisy = dataclasses.replace(plain, phi=plain.phi + np.float32(1e-6))
    assert plain.drawing is not None
    unknown = dataclasses.replace(plain, drawing=None)
    double = dataclasses.replace(plain, phi=plain.phi.astype(np.float64))
    for problem in (noisy, unknown, double, random_problem(4, 8, key=KEY)):
        written = write_model(tmp_path / "m", MODELS["text"], problem, redraw=True)
        assert written.embeddings == FIXED
        again = load_model(written.path)[1]
        if isinstance(problem, FactualRecall):
            assert isinstance(again, FactualRecall)
            assert_array_equal(again.phi, problem.phi)


def test_another_stream_of_random_numbers_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = save_model(tmp_path / "m", MODELS["text"], problem_for("text"), redraw=True)
    sphere = EMBEDDINGS["sphere"]
    monkeypatch.setitem(EMBEDDINGS, "sphere", lambda n, d, draw: sphere(n, d, draw) * (1 + 1e-7))
    with pytest.raises(FactholdError, match=rf"m is .*its embeddings were left out.*numpy=={np.__version__}"):
        load_model(file)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"n_noise": 10**15}, "GiB"), ({"n_noise": "7"}, "n_noise is '7'"), ({"d": 10**13}, "GiB"),
        ({"d": 9}, "left out"),
        ({"kind": "cube"}, "unknown embeddings 'cube'"), ({"keys": [[1, 2]]}, "shorter"), ({"keys": 3}, "not iterable"),
        ({"n_noise": 8}, "left out"), ({"keys": [[0, 0]] * 5}, "left out"),
    ],
)  # fmt: skip
def test_a_drawing_that_cannot_be_is_one_line(change: dict, says: str, tmp_path: Path) -> None:
    arrays, about = read_tensors(save_model(tmp_path / "m", MODELS["text"], problem_for("text"), redraw=True))
    about["problem"]["drawing"] |= change
    (tmp_path / "m").write_bytes(tensors_as_bytes(arrays, about))
    with pytest.raises(FactholdError, match="m is a facthold model with parts missing or wrong: ") as error:
        load_model(tmp_path / "m")
    (line,) = str(error.value).splitlines()
    assert says in line


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


def test_what_is_no_model_is_not_saved(tmp_path: Path) -> None:
    problem = random_problem(4, 3, key=jax.random.key(0))
    with pytest.raises(ValueError, match="model is a Problem; only these can be saved"):
        save_model(tmp_path / "m.safetensors", problem, problem)
    assert not list(tmp_path.iterdir())


def test_a_name_that_ends_in_a_slash_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(FactholdError, match="would be a folder; give the name of a file"):
        save_model(f"{tmp_path}/new/", *known.countries())
    assert not list(tmp_path.iterdir())
