"""The law of what any linear memory holds: its parts against oracles, and the geometry behind it by brute force."""

import math

import numpy as np
import pytest
from scipy.optimize import linprog, nnls

from facthold.theory import sharp


def test_numbers_above_their_mean() -> None:
    """Of two numbers one is above the mean; of three, two are in half of all cases, any two of them."""
    assert [sharp.above_mean(k) for k in (0, 1, 2)] == pytest.approx([1, 1 / 2, 1 / 6], rel=1e-12)
    g = np.random.default_rng(0).standard_normal((200_000, 5))
    hits = (g[:, 1:] > g.mean(axis=1, keepdims=True)).all(axis=1).mean()
    assert hits == pytest.approx(sharp.above_mean(4), abs=4 * math.sqrt(hits / len(g)))


@pytest.mark.parametrize("N", [2, 3, 10, 500, 20_000, 1e9, 1e20])
def test_shares_of_active_rivals_are_a_distribution(N: float) -> None:
    assert sharp.active_shares(N).sum() == pytest.approx(1, rel=1e-9)


def test_projection_is_the_nearest_point() -> None:
    """The distance to a cone is the length of the projection to its polar, which nonnegative least squares finds."""
    generator = np.random.default_rng(1)
    for N in (2, 3, 7, 20):
        g = generator.standard_normal(N)
        polar = np.eye(N)[:, 1:] - np.eye(N)[:, :1]
        assert sharp.projection_squared(g) == pytest.approx(g @ g - nnls(polar, g)[1] ** 2, abs=1e-12)


@pytest.mark.parametrize("N", [2, 5, 60])
def test_active_rivals_are_the_mean_squared_distance(N: int) -> None:
    generator = np.random.default_rng(N)
    drawn = np.array([sharp.projection_squared(generator.standard_normal(N)) for _ in range(4000)])
    assert drawn.mean() == pytest.approx(sharp.active_rivals(N), abs=4 * drawn.std() / math.sqrt(len(drawn)))


def test_two_is_the_limit_and_is_far() -> None:
    sizes = (1e2, 1e4, 1e8, 1e16, 1e30)
    constants = {N: sharp.active_rivals(N) / math.log(N) for N in sizes}
    assert list(constants.values()) == sorted(constants.values())
    assert 1.8 < constants[1e30] < sharp.LIMIT
    # the rest is of the order of ln ln N / ln N, as for the largest of N numbers
    rest = [(sharp.LIMIT - constants[N]) * math.log(N) / math.log(math.log(N)) for N in sizes[1:]]
    assert max(rest) / min(rest) < 1.3


@pytest.mark.parametrize("d", [4, 32, 512])
def test_the_threshold_solves_the_law(d: int) -> None:
    N = sharp.separable(d)
    assert N * sharp.active_rivals(N) == pytest.approx(d * d, rel=1e-8)


def meets(N: int, dimension: int) -> float:
    """The probability that a random subspace of R^(N x N) contains scores that recall all: Crofton's formula, with the
    number of active pairs of all N inputs."""
    total = np.ones(1)
    for _ in range(N):
        total = np.convolve(total, sharp.active_shares(N))
    return 2 * total[: max(dimension, 0)][::-1][::2].sum()


@pytest.mark.parametrize(("N", "dimension"), [(3, 2), (3, 3), (4, 4), (4, 5), (5, 7)])
def test_random_subspaces_meet_the_cone_as_often_as_geometry_says(N: int, dimension: int) -> None:
    generator, n, hits = np.random.default_rng(10 * N + dimension), 300, 0
    for _ in range(n):
        S = generator.standard_normal((N, N, dimension))
        rivals = S[np.arange(N), np.arange(N)][:, None] - S  # margins of all pairs, as functions of the point
        A = rivals[~np.eye(N, dtype=bool)]
        hits += linprog(np.zeros(dimension), -A, -np.ones(len(A)), bounds=(None, None)).status == 0
    p = meets(N, dimension)
    assert hits / n == pytest.approx(p, abs=4 * math.sqrt(p * (1 - p) / n))


def test_half_of_all_subspaces_meet_it_at_the_threshold() -> None:
    N = 6
    at = N * sharp.active_rivals(N)
    assert meets(N, math.floor(at) - 1) < 0.5 < meets(N, math.ceil(at) + 1)


def test_many_dimensions_give_the_law_and_few_less() -> None:
    """With d far above N embeddings are nearly orthogonal, and scores independent."""
    many = sharp.sphere_rivals(600, 5, 400, np.random.default_rng(3))
    assert many.mean == pytest.approx(sharp.active_rivals(5), abs=4 * many.error + 0.01)
    few = sharp.sphere_rivals(16, 62, 1000, np.random.default_rng(4))
    assert few.mean < sharp.active_rivals(62) - 4 * few.error


def test_control_variate_changes_no_mean() -> None:
    d, N, generator = 8, 20, np.random.default_rng(5)
    plain = []
    for _ in range(4000):
        U = generator.standard_normal((N, d))
        U /= np.linalg.norm(U, axis=1, keepdims=True)
        h = generator.standard_normal(d)
        plain.append(h @ h - nnls((U[1:] - U[0]).T, h)[1] ** 2)
    found = sharp.sphere_rivals(d, N, 2000, np.random.default_rng(6))
    error = math.hypot(found.error, np.std(plain) / math.sqrt(len(plain)))
    assert found.mean == pytest.approx(np.mean(plain), abs=4 * error)
    assert found.error < 0.8 * np.std(plain) / math.sqrt(2000)


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(ValueError, match="N=1"):
        sharp.active_rivals(1)
    with pytest.raises(ValueError, match="d=1"):
        sharp.separable(1)
