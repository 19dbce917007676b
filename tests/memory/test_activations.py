"""Hermite polynomials and activations: identities by exact quadrature."""

import math
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import quad

from facthold.memory.activations import RELU, Polynomial, activation, hermite

NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(40)
WEIGHTS = WEIGHTS / WEIGHTS.sum()
CUBIC = Polynomial((0.3, -1.0, 0.0, 0.5))


@pytest.fixture(autouse=True)
def x64() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def test_hermite_polynomials_are_orthonormal() -> None:
    h = np.stack([hermite(k, jnp.asarray(NODES)) for k in range(9)])  # 40 nodes are exact up to degree 79
    assert_allclose((h * WEIGHTS) @ h.T, np.eye(9), atol=1e-12)


@pytest.mark.parametrize("k", [0, 1, 2, 5, 8])
@pytest.mark.parametrize("cosine", [-0.8, 0.0, 0.3, 1.0])
def test_lemma_15(k: int, cosine: float) -> None:
    x, y = np.meshgrid(NODES, NODES, indexing="ij")  # <u, g> and the part of <w, g> that is independent of it
    h_u = hermite(k, jnp.asarray(x))
    h_w = hermite(k, jnp.asarray(cosine * x + math.sqrt(1 - cosine**2) * y))
    assert_allclose(WEIGHTS @ np.asarray(h_u * h_w) @ WEIGHTS, cosine**k, atol=1e-12)


@pytest.mark.parametrize("k", range(1, 7))
def test_derivative_of_a_hermite_polynomial(k: int) -> None:
    x = jnp.linspace(-3, 3, 13)
    derivative = jax.vmap(jax.grad(lambda t: hermite(k, t)))(x)
    assert_allclose(derivative, math.sqrt(k) * hermite(k - 1, x), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("k", range(9))
def test_relu_coefficients_against_integration(k: int) -> None:
    def integrand(x: float) -> float:
        return x * float(hermite(k, jnp.asarray(x))) * math.exp(-x * x / 2) / math.sqrt(2 * math.pi)

    value, error = quad(integrand, 0, 12)  # beyond 12 lies less than exp(-72)
    assert abs(RELU.coefficient(k) - value) <= error + 1e-12


def test_relu_coefficients_sum_to_its_power() -> None:
    K = 150
    partial = np.cumsum([RELU.coefficient(k) ** 2 for k in range(K)])
    assert (partial < 0.5).all()  # Parseval: E relu^2 = 1/2, from below
    # by Stirling, c_k^2 is k^(-5/2) / (pi sqrt(2 pi)) (1 + O(1/k)) for even k; the rest is its integral
    rest = K**-1.5 / (3 * math.pi * math.sqrt(2 * math.pi))
    assert_allclose(0.5 - partial[-1], rest, rtol=3 / K)


def test_polynomial_has_the_coefficients_it_was_given() -> None:
    x = jnp.asarray(NODES)
    for k in range(6):
        assert_allclose(WEIGHTS @ np.asarray(CUBIC(x) * hermite(k, x)), CUBIC.coefficient(k), atol=1e-12)


@pytest.mark.parametrize("sigma", [RELU, CUBIC, Polynomial((2.0,)), Polynomial((1.0,) * 5)], ids=lambda s: s.name)
def test_derivative_is_the_gradient(sigma) -> None:
    x = jnp.asarray([-2.5, -0.7, 0.1, 1.3])
    assert_allclose(sigma.derivative(x), jax.vmap(jax.grad(sigma))(x), rtol=1e-12, atol=1e-12)


def test_coefficients_of_the_derivative() -> None:
    """c_k(sigma') = sqrt(k+1) c_{k+1}(sigma): what theorem 2's kernel is made of."""
    x = jnp.asarray(NODES)
    for k in range(4):
        measured = WEIGHTS @ np.asarray(CUBIC.derivative(x) * hermite(k, x))
        assert_allclose(measured, math.sqrt(k + 1) * CUBIC.coefficient(k + 1), atol=1e-12)


@pytest.mark.parametrize("sigma", [RELU, CUBIC, Polynomial((1.0,) * 4)], ids=lambda s: s.name)
def test_an_activation_is_found_by_its_name(sigma) -> None:
    assert activation(sigma.name) == sigma


def test_wrong_activations_are_refused() -> None:
    with pytest.raises(ValueError, match="did you mean 'relu'"):
        activation("rellu")
    with pytest.raises(ValueError, match="write 'hermite:' and numbers"):
        activation("hermite:1,two")
    with pytest.raises(ValueError, match="at least one"):
        Polynomial(())
    with pytest.raises(ValueError, match="k=-1"):
        hermite(-1, jnp.zeros(2))
