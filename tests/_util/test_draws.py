"""Draws that share a program are the draws of JAX, to the bit."""

import jax
import numpy as np
import pytest

from facthold._util import draws
from facthold._util.draws import LEAST, lecun_normal, normal

KEY = jax.random.key(5)
SHAPES = [(8, 8), (1, 1), (7, 13), (3, 5, 7), (64, 65), (96, 100)]


@pytest.mark.parametrize("shape", SHAPES)
def test_a_padded_draw_is_the_draw_of_its_shape(shape: tuple[int, ...]) -> None:
    assert (np.asarray(normal(KEY, shape)) == np.asarray(jax.random.normal(KEY, shape))).all()
    scaled = jax.random.normal(KEY, shape) * 7**-0.5
    assert (np.asarray(normal(KEY, shape, scale=7**-0.5)) == np.asarray(scaled)).all()


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if len(shape) == 2])
def test_a_padded_start_is_the_start_of_its_shape(shape: tuple[int, int]) -> None:
    init = jax.nn.initializers.lecun_normal(in_axis=-1, out_axis=-2)
    assert (np.asarray(lecun_normal(KEY, shape)) == np.asarray(init(KEY, shape))).all()


def test_large_and_traced_draws_are_the_same_too(monkeypatch: pytest.MonkeyPatch) -> None:
    padded, start = normal(KEY, (50, 90), scale=0.3), lecun_normal(KEY, (50, 90))
    traced = jax.jit(lambda key: (normal(key, (50, 90), scale=0.3), lecun_normal(key, (50, 90))))(KEY)
    np.testing.assert_allclose(padded, traced[0], rtol=1e-6)
    np.testing.assert_allclose(start, traced[1], rtol=1e-6)
    monkeypatch.setattr(draws, "MOST", LEAST)
    assert (np.asarray(normal(KEY, (50, 90), scale=0.3)) == np.asarray(padded)).all()


def test_in_double_precision() -> None:
    with jax.enable_x64(True):
        assert (np.asarray(normal(KEY, (5, 6))) == np.asarray(jax.random.normal(KEY, (5, 6)))).all()
        assert lecun_normal(KEY, (5, 6)).dtype == np.float64
    assert normal(KEY, (5, 6)).dtype == np.float32
