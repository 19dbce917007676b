"""Memories as functions, and their files."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from safetensors.numpy import load_file, save_file

from facthold._util.errors import FactholdError
from facthold.memory.activations import Polynomial
from facthold.memory.associations import random_problem
from facthold.models.memory import LinearMemory, LowRankMemory, Memory, MLPMemory
from facthold.models.saving import load_model, save_model, to_numpy

KEY = jax.random.key(11)
D, WIDTH = 6, 10
MEMORIES = {
    "linear": LinearMemory.init(D, key=KEY),
    "low rank": LowRankMemory.init(D, 3, key=KEY),
    "mlp": MLPMemory.init(D, WIDTH, key=KEY),
    "mlp with bias": MLPMemory.init(D, WIDTH, key=KEY, bias=True),
    "polynomial mlp": MLPMemory.init(D, WIDTH, key=KEY, sigma=Polynomial((0.1, 1.0, -1 / 3))),
}
each_memory = pytest.mark.parametrize("memory", MEMORIES.values(), ids=MEMORIES.keys())


@pytest.mark.parametrize(
    ("name", "n_params"),
    [
        ("linear", D * D),
        ("low rank", 2 * 3 * D),
        ("mlp", 2 * WIDTH * D),
        ("mlp with bias", 2 * WIDTH * D + WIDTH),
    ],
)
def test_parameters_are_counted_as_in_the_paper(name: str, n_params: int) -> None:
    assert MEMORIES[name].n_params == n_params


@each_memory
def test_many_rows_are_one_row_many_times(memory: Memory) -> None:
    x = jax.random.normal(KEY, (4, 5, D))
    rows = jnp.stack([jnp.stack([memory(x[i, j]) for j in range(5)]) for i in range(4)])
    assert_allclose(memory(x), rows, rtol=1e-5, atol=1e-5)


@each_memory
def test_logits_are_inner_products_with_the_outputs(memory: Memory) -> None:
    problem = random_problem(7, D, key=KEY)
    F = np.asarray(memory(problem.E))
    oracle = [[u @ F[x] for u in np.asarray(problem.U)] for x in range(7)]
    assert_allclose(memory.logits(problem.E, problem.U), oracle, rtol=1e-5, atol=1e-5)


def test_low_rank_is_a_linear_memory() -> None:
    memory = LowRankMemory.init(D, 3, key=KEY)
    x = jax.random.normal(KEY, (8, D))
    assert_allclose(memory(x), LinearMemory(memory.W_1.T @ memory.W_2)(x), rtol=1e-5, atol=1e-6)


def test_mlp_against_its_formula() -> None:
    memory = eqx.tree_at(lambda mlp: mlp.b, MEMORIES["mlp with bias"], jnp.linspace(-1, 1, WIDTH))
    x = np.asarray(jax.random.normal(KEY, (D,)))
    W, V, b = (np.asarray(a) for a in (memory.W, memory.V, memory.b))
    assert_allclose(memory(jnp.asarray(x)), sum(V[i] * max(W[i] @ x + b[i], 0) for i in range(WIDTH)), rtol=1e-5)


@pytest.mark.parametrize("kind", ["linear", "low rank", "mlp"])
def test_initial_weights_have_variance_one_over_fan_in(kind: str) -> None:
    d, m = 50, 120
    memory = {
        "linear": lambda: LinearMemory.init(d, key=KEY),
        "low rank": lambda: LowRankMemory.init(d, m, key=KEY),
        "mlp": lambda: MLPMemory.init(d, m, key=KEY),
    }[kind]()
    fan_in = {"linear": {"W": d}, "low rank": {"W_2": d, "W_1": m}, "mlp": {"W": d, "V": m}}[kind]
    for name, w in to_numpy(memory).items():
        squares = np.square(w).ravel() * fan_in[name]
        assert abs(squares.mean() - 1) < 4 * squares.std() / np.sqrt(squares.size)


def test_initialisation_refuses_empty_sizes() -> None:
    with pytest.raises(ValueError, match="d=0"):
        LinearMemory.init(0, key=KEY)
    with pytest.raises(ValueError, match="m=-1"):
        MLPMemory.init(3, -1, key=KEY)


@each_memory
def test_a_file_gives_back_every_bit(memory: Memory, tmp_path) -> None:
    problem = random_problem(7, D, M=4, map="mod", key=KEY)
    loaded, its_problem = load_model(save_model(tmp_path / "model.safetensors", memory, problem))
    assert type(loaded) is type(memory)
    for before, after in [(memory, loaded), (problem, its_problem)]:
        assert to_numpy(before).keys() == to_numpy(after).keys()
        for name, array in to_numpy(before).items():
            assert array.dtype == to_numpy(after)[name].dtype
            assert_array_equal(array.view(np.uint8), to_numpy(after)[name].view(np.uint8))
    assert_array_equal(loaded(problem.E), memory(problem.E))  # the activation came back too


def test_any_safetensors_reader_opens_a_model(tmp_path) -> None:
    memory = MEMORIES["mlp"]
    arrays = load_file(save_model(tmp_path / "model.safetensors", memory))
    assert arrays.keys() == {"model.W", "model.V"}
    assert_array_equal(arrays["model.V"], memory.V)
    assert load_model(tmp_path / "model.safetensors")[1] is None
    assert [file.name for file in tmp_path.iterdir()] == ["model.safetensors"]  # no half-written file stays


def test_what_is_not_a_model_is_refused(tmp_path) -> None:
    with pytest.raises(FactholdError, match="no such model file"):
        load_model(tmp_path / "nothing.safetensors")
    (tmp_path / "text").write_text("this is not a model, but long enough to be read as one" * 10)
    with pytest.raises(FactholdError, match="not a facthold model"):
        load_model(tmp_path / "text")
    (tmp_path / "empty").touch()
    with pytest.raises(FactholdError, match="not a facthold model"):
        load_model(tmp_path / "empty")
    save_file({"W": np.eye(2)}, tmp_path / "foreign")
    with pytest.raises(FactholdError, match="not a facthold model"):
        load_model(tmp_path / "foreign")
    (tmp_path / "file").touch()
    with pytest.raises(FactholdError, match="cannot write"):
        save_model(tmp_path / "file" / "model.safetensors", MEMORIES["linear"])
