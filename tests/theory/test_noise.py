"""Capacities and recall from the noise on scores: against exact counts, draws and limits."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import comb

from facthold.memory.activations import RELU, Polynomial, hermite
from facthold.theory import bounds, noise

CUBIC = Polynomial((1.0, 1.0, 1.0, 1.0))


@pytest.mark.parametrize("d", [2, 5, 16])
def test_cover_moments_are_those_of_covers_count(d: int) -> None:
    N = np.arange(1, 40 * d)
    separable = np.array([2.0 ** (1 - n) * sum(comb(n - 1, k) for k in range(d)) for n in N])
    mean = separable.sum()  # E[N*] = sum of P(N* >= N)
    variance = ((2 * N - 1) * separable).sum() - mean**2
    assert_allclose(bounds.cover(d), (mean, math.sqrt(variance)), rtol=1e-9)


def test_level_is_the_median_of_a_maximum() -> None:
    draws = np.random.default_rng(0).standard_normal((4000, 30)).max(axis=1)
    share = (draws < bounds.level(30)).mean()
    assert abs(share - 0.5) < 4 * 0.5 / math.sqrt(4000)
    assert_allclose(bounds.level(1, 0.99), 2.3263478740408408, rtol=1e-9)


@pytest.mark.parametrize("m", [0, 24])
def test_score_variance_against_draws(m: int) -> None:
    """The score of output 1 at input 0, over independent embeddings (and v_i); terms of order 1/(m d) are left out."""
    N, d, n = 6, 48, 4000
    generator = np.random.default_rng(1)
    E, U = (rows / np.linalg.norm(rows, axis=-1, keepdims=True) for rows in generator.standard_normal((2, n, N, d)))
    V = generator.standard_normal((n, m, d)) if m else None
    seen = E[:, 0] if V is None else np.einsum("nmd,nm->nd", V, np.einsum("nmd,nd->nm", V, E[:, 0])) / m
    scores = np.einsum("nzd,nd,nze,ne->n", U, U[:, 1], E, seen, optimize=True)
    error = scores.var() * math.sqrt(((scores**4).mean() / scores.var() ** 2 - 1) / n)
    left_out = 4 / (m * d) if m else 0.0
    assert abs(scores.var() - bounds.score_variance(N, d, m)) < 4 * error + left_out


def test_laws_have_the_theorems_growth() -> None:
    """2 N ln N = d^2, and at rank m = d half of it: z(n)^2 / (2 ln n) tends to 1, slowly."""
    d = 10**7
    N = bounds.half_recall(d)
    assert_allclose(N * bounds.level(N - 1) ** 2, d**2, rtol=1e-3)
    assert_allclose(2 * N * math.log(N) / d**2, 1, rtol=0.15)
    low = bounds.half_recall(d, d)
    assert_allclose(low * bounds.level(low - 1) ** 2, d**2 / 2, rtol=1e-3)
    assert_allclose(bounds.two_outputs(d) / d, 0.18478, rtol=1e-3)
    assert 2 * math.log(d) * bounds.half_exact(d) / d < 1.25


def test_laws_refuse_what_has_no_meaning() -> None:
    with pytest.raises(ValueError, match="share=1"):
        bounds.level(3, 1.0)
    with pytest.raises(ValueError, match="d=0"):
        bounds.half_recall(0)


def sphere(generator: np.random.Generator, *shape: int) -> np.ndarray:
    rows = generator.standard_normal(shape)
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def kernel_draws(name: str, N: int, d: int, m: int, k: int, sigma, generator: np.random.Generator) -> np.ndarray:
    """The scores of all outputs at all inputs of one draw, written from the definitions."""
    E, U = sphere(generator, N, d), sphere(generator, N, d)
    if name == "low-rank":
        V = generator.standard_normal((m, d))
        F = E @ V.T @ V @ E.T @ U / m if m else E @ E.T @ U
    elif name == "features":
        W = generator.standard_normal((m, d))
        F = sigma(E @ W.T) @ (hermite(k, E @ W.T).T @ U) / (m * sigma.coefficient(k))
    else:
        W, V = generator.standard_normal((2, m // 2, d))
        C = math.sqrt(k + 1) * sigma.coefficient(k + 1)
        Q = (hermite(k, E @ W.T) * (U @ V.T)).T @ E / (m // 2 * C)
        F = (sigma.derivative(E @ W.T) * (E @ Q.T)) @ V
    return F @ U.T


CASES = [
    ("low-rank", noise.low_rank(24), 24, 0, 0, None),
    ("low-rank", noise.low_rank(24, 16), 24, 16, 0, None),
    ("features", noise.hermite_features(12, 64, 1, RELU), 12, 64, 1, RELU),
    ("features", noise.hermite_features(12, 400, 3, CUBIC), 12, 400, 3, CUBIC),
    ("tangent", noise.tangent_kernel(12, 128, 0, RELU.derivative), 12, 128, 0, RELU),
    ("tangent", noise.tangent_kernel(12, 400, 2, CUBIC.derivative), 12, 400, 2, CUBIC),
]


@pytest.mark.parametrize(("name", "predicted", "d", "m", "k", "sigma"), CASES, ids=lambda value: str(value)[:12])
def test_variances_are_those_of_draws(name, predicted, d, m, k, sigma) -> None:
    """Of a wrong score and of a margin, with N = 12 and with N = 2: each within four standard errors."""
    generator = np.random.default_rng(5)
    for N in (2, 12):
        others = ~np.eye(N, dtype=bool)
        draws = [kernel_draws(name, N, d, m, k, sigma, generator) for _ in range(800)]
        each = np.array([(scores[others] ** 2).mean() for scores in draws])
        own = (1 + predicted.spread) / d if name != "tangent" else (1 - 2 / m) / d + predicted.target
        exact = (N - 2) * predicted.bystander + predicted.own + own
        error = each.std() / math.sqrt(len(each))
        assert abs(each.mean() - exact) < 4 * error + (0.03 * exact if name == "low-rank" and m else 0), N
        margins = np.array([((np.diag(s)[:, None] - s)[others] - 1) ** 2 for s in draws]).mean(axis=1)
        error = margins.std() / math.sqrt(len(margins))
        left_out = 0.06 if name == "low-rank" and m else 0.0  # of relative order 1/m
        exact = noise.margin_variance(N, predicted)
        assert abs(margins.mean() - exact) < 4 * error + left_out * exact, N


@pytest.mark.parametrize(
    ("name", "predicted", "d", "m", "k", "sigma"),
    [
        ("low-rank", noise.low_rank(48), 48, 0, 0, None),
        ("low-rank", noise.low_rank(96, 32), 96, 32, 0, None),
        ("features", noise.hermite_features(12, 4096, 3, CUBIC), 12, 4096, 3, CUBIC),
        ("tangent", noise.tangent_kernel(32, 1024, 0, RELU.derivative), 32, 1024, 0, RELU),
    ],
    ids=["outer product", "low rank", "features", "tangent"],
)
def test_half_are_recalled_at_half_recall(name, predicted, d, m, k, sigma) -> None:
    """The share of right answers at the predicted N: 1/2, up to 0.03 (5% of N) and the error of the draws."""
    generator, N = np.random.default_rng(6), round(noise.half_recall(predicted))
    shares = [
        (kernel_draws(name, N, d, m, k, sigma, generator).argmax(axis=1) == np.arange(N)).mean() for _ in range(24)
    ]
    assert abs(np.mean(shares) - 0.5) < 0.03 + 4 * np.std(shares) / math.sqrt(24)


def test_the_finite_law_tends_to_the_simple_one() -> None:
    """And lies above it at small d, where spheres have lighter tails than Gaussians."""
    ratios = [noise.half_recall(noise.low_rank(d)) / bounds.half_recall(d) for d in (32, 128, 512)]
    assert ratios == sorted(ratios, reverse=True)
    assert 1.1 < ratios[0] < 1.2
    assert abs(ratios[-1] - 1) < 0.02


def test_both_mlp_constructions_tend_to_one_law() -> None:
    """ReLU, a kernel of degree 2: the noise of a bystander is (2 pi / m + 3 / d^2) / d by either."""
    d, m = 4000, 10**6
    both = noise.hermite_features(d, m, 2, RELU), noise.tangent_kernel(d, m, 1, RELU.derivative)
    for predicted in both:
        assert_allclose(predicted.bystander, (2 * math.pi / m + 3 / d**2) / d, rtol=5e-3)


def test_exact_recall_at_its_half() -> None:
    """All signs of one input, with every embedding drawn: half at the predicted N, within the error of 4000 draws."""
    d, generator = 64, np.random.default_rng(7)
    N = noise.half_exact(d)
    shares = []
    for n in (math.floor(N), math.ceil(N)):
        E, U = generator.choice([-1, 1], (2, 4000, n, d))
        sums = np.einsum("kz,kzd->kd", np.einsum("kzd,kd->kz", E, E[:, 0]), U)
        shares.append((np.sign(sums) == U[:, 0]).all(axis=1).mean())
    assert abs(np.interp(N, (math.floor(N), math.ceil(N)), shares) - 0.5) < 0.02 + 4 * 0.5 / math.sqrt(4000)


def test_rounding_adds_the_variance_of_even_errors() -> None:
    fine, coarse = noise.low_rank(32), noise.low_rank(32).rounded(0.3)
    assert_allclose(coarse.target, 0.3**2 / 12)
    assert noise.recall(100, coarse) < noise.recall(100, fine)
    assert noise.half_recall(coarse) < noise.half_recall(fine)


def test_too_much_noise_is_refused() -> None:
    with pytest.raises(ValueError, match="too much noise"):
        noise.half_recall(noise.low_rank(4).rounded(9.0))


def test_two_outputs_share_is_the_inverse() -> None:
    assert_allclose(bounds.two_outputs_share(bounds.two_outputs(300, 0.9), 300), 0.9)
