"""Packed weights: few bytes, and to the last bit what was rounded."""

import math
import re
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
import pytest
from numpy.testing import assert_array_equal

import eye
import known
from facthold._util.errors import FactholdError
from facthold._util.tensors import read_tensors, tensors_as_bytes
from facthold.facts.problem import factual_recall
from facthold.facts.table import random_table
from facthold.measure.grids import CLIPS, GRID_BITS, LADDER, MOST_LEVELS, SCALES, Grid, grid_of_bits
from facthold.measure.quantise import grid_points, quantise
from facthold.memory.associations import random_problem
from facthold.models.memory import MLPMemory
from facthold.models.packing import OnGrid, pack, unpack
from facthold.models.saving import load_model, save_model, to_numpy, write_model

DOCS = Path(__file__).parents[2] / "docs" / "export.md"
GRIDS = {grid_of_bits(bits) for bits in range(1, 17)} | {Grid(L) for L in (*LADDER, MOST_LEVELS)}


def same(one: np.ndarray, other: np.ndarray) -> None:
    """The same bits."""
    assert one.dtype == other.dtype
    assert_array_equal(one.view(np.uint8), other.view(np.uint8))


@pytest.mark.parametrize("scales", SCALES)
def test_a_packed_model_is_the_rounded_one_for_every_number_of_bits(scales: str, tmp_path: Path) -> None:
    """Heads, matrices and a bias; weights that are all zero among them."""
    model, problem = known.random_model(m=7)
    model = eqx.tree_at(lambda t: t.W_Q, model, model.W_Q.at[1].set(0.0))
    for grid in sorted(GRIDS):
        for clip in CLIPS if grid.levels in (2, 3, 15) else CLIPS[:1]:
            q = quantise(model, Grid(grid.levels, scales, clip))
            file = write_model(tmp_path / "packed", q.model, problem, points=grid_points(model, q.grids)).path
            for name, W in to_numpy(load_model(file)[0]).items():
                same(W, to_numpy(q.model)[name])


def test_grids_of_their_own_for_each_array(tmp_path: Path) -> None:
    model, problem = known.countries()
    grids = {name: Grid(L, s) for name, L, s in zip(
        ("W_K", "W_Q", "W_V", "W_O", "mlp.W", "mlp.V"), (2, 3, 5, 1023, 4095, 6), SCALES * 2, strict=True)}  # fmt: skip
    q = quantise(model, grids)
    file = write_model(tmp_path / "packed", q.model, problem, points=grid_points(model, q.grids)).path
    for name, W in to_numpy(load_model(file)[0]).items():
        same(W, to_numpy(q.model)[name])


@pytest.mark.parametrize("levels", sorted({grid.levels for grid in GRIDS}))
def test_levels_take_about_their_bits(levels: int) -> None:
    """Every level at least once; no more bits than words of 64 take, which waste less than one level each, and no
    fewer than there can be."""
    points = np.resize(np.arange(levels), 4 * max(levels, 5_001)).reshape(-1, 4)
    on = OnGrid(levels, np.float32([[0.3]]), points)
    arrays, about = pack({"W": on})
    same(dict(unpack(arrays, about))["W"].weights, on.weights)
    in_words = 64 * -(-points.size // int(64 / math.log2(levels) + 1e-9))
    assert points.size * math.log2(levels) <= 8 * arrays["packed.W"].nbytes <= in_words


def test_a_packed_file_has_the_bits_that_were_counted(tmp_path: Path) -> None:
    model, problem = known.numbers()
    whole = write_model(tmp_path / "whole", model, problem)
    for bits in (1, 3, 8):
        q = quantise(model, grid_of_bits(bits))
        packed = write_model(tmp_path / "packed", q.model, problem, points=grid_points(model, q.grids))
        counted = q.bits - GRID_BITS * len(q.grids)  # which grid it is stands in the metadata
        assert counted <= 8 * packed.weight_bytes <= 1.07 * counted + 64 * len(q.grids)
        assert packed.bytes == packed.path.stat().st_size
        metadata = 360 * len(q.grids)  # bytes: two entries and checksums for one, and which grid it is
        assert whole.bytes - packed.bytes > whole.weight_bytes - packed.weight_bytes - metadata


def test_points_of_another_model_are_refused(tmp_path: Path) -> None:
    model, problem = known.countries()
    q = quantise(model, Grid(5))
    with pytest.raises(ValueError, match="these are not the weights of the model"):
        write_model(tmp_path / "packed", model, problem, points=grid_points(model, q.grids))
    assert not (tmp_path / "packed").exists()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"levels": 1}, "1 levels"),
        ({"levels": 200}, "they do not fit"),
        ({"levels": "5"}, "no whole numbers"),
        ({"per_group": 99}, "they do not fit"),
        ({"per_group": True}, "no whole numbers"),
        ({"shape": [4, 0, 16]}, "no whole numbers"),
        ({"shape": [10**9, 10**9, 10**9]}, "groups of"),
        ({"shape": 4}, "not iterable"),
    ],
)
def test_what_cannot_have_been_packed_is_one_line(change: dict, says: str, tmp_path: Path) -> None:
    model, problem = known.random_model()
    q = quantise(model, Grid(5))
    file = write_model(tmp_path / "packed", q.model, problem, points=grid_points(model, q.grids)).path
    arrays, about = read_tensors(file)
    about["packed"]["W_K"] |= change
    file.write_bytes(tensors_as_bytes(arrays, about))
    with pytest.raises(FactholdError, match="packed is a facthold model with parts missing or wrong: ") as error:
        load_model(file)
    assert says in str(error.value)


def documented(name: str) -> Any:
    """A function of docs/export.md, as it stands there."""
    (code,) = (c for c in re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.DOTALL) if f"def {name}(" in c)
    found: dict[str, Any] = {}
    exec(code[: code.rindex("\n\n\n")], found)  # without the call below it
    return found[name]


@pytest.mark.parametrize("redraw", [True, False])
@pytest.mark.parametrize("bits", [1, 2, 5, 12])
def test_a_stranger_reads_a_packed_file(bits: int, redraw: bool, tmp_path: Path) -> None:
    """By the lines of the docs, and by the eye: neither shares code with the package."""
    for model, problem in (known.countries(), known.random_model()):
        q = quantise(model, grid_of_bits(bits, "row"))
        points = grid_points(model, q.grids)
        file = write_model(tmp_path / "small", q.model, problem, points=points, redraw=redraw).path
        read, seen = documented("read")(file)[1], eye.read(file)[1]
        for name, W in to_numpy(q.model).items():
            same(read[f"model.{name}"], W)
            assert_array_equal(seen[f"model.{name}"], W.astype(np.float64))
        same(read["problem.phi"], problem.phi)
        assert_array_equal(seen["problem.phi"], problem.phi.astype(np.float64))


@pytest.mark.parametrize("kind", ["sphere", "gaussian", "signs"])
def test_a_stranger_draws_embeddings_again(kind: str, tmp_path: Path) -> None:
    table = random_table(30, 2, 4, key=jax.random.key(0))
    problem = factual_recall(table, 16, key=jax.random.key(1), n_noise=9, embeddings=kind)
    file = save_model(tmp_path / "m", known.random_model()[0], problem, redraw=True)
    same(documented("read")(file)[1]["problem.phi"], problem.phi)
    assert_array_equal(eye.read(file)[1]["problem.phi"], problem.phi)


def test_a_stranger_reads_a_packed_memory(tmp_path: Path) -> None:
    problem = random_problem(9, 5, key=jax.random.key(0))
    W, V, b = (jax.random.normal(jax.random.key(i), shape) for i, shape in enumerate([(7, 5), (7, 5), (7,)]))
    q = quantise(MLPMemory(W, V, b), Grid(9))
    points = grid_points(MLPMemory(W, V, b), q.grids)
    file = write_model(tmp_path / "m", q.model, problem, points=points).path
    read = documented("read")(file)[1]
    for name, array in to_numpy(q.model).items():
        same(read[f"model.{name}"], array)
    loaded, its_problem = load_model(file)
    assert_array_equal(loaded(its_problem.E), q.model(problem.E))


def test_the_documented_check_of_a_file_finds_what_is_damaged(tmp_path: Path) -> None:
    model, problem = known.countries()
    file = save_model(tmp_path / "m", model, problem)
    damaged = documented("damaged")
    assert damaged(file) == []
    arrays, _ = read_tensors(file)
    raw = bytearray(file.read_bytes())
    raw[raw.rindex(arrays["model.W_O"].tobytes()) + 5] ^= 4
    file.write_bytes(raw)
    assert damaged(file) == ["model.W_O"]
