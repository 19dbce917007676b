"""The reduced equations: against gradient flow, against their own differential equations, and in their limit."""

import math
from functools import cache
from itertools import product

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import solve_ivp
from scipy.special import expi

from facthold.dynamics.flow import Trajectory, gradient_flow
from facthold.dynamics.population import Start, population
from facthold.facts.table import balanced_table, random_table
from facthold.theory.reduced import Growth, Reduced, first_rates, lemma_5, log_cosh

SIZES = ((8, 2, 2), (12, 4, 3), (4, 8, 4))
"""(S, R, D); in the last one subjects are learnt first."""
CASES = [(size, start) for size in SIZES for start in ("balanced", "equal")]
LOG_ALPHA = math.log(1e-3)
RTOL = 1e-8
AGREE = 1000 * RTOL
"""What a flow of some hundred steps is off by at most."""
DRAWN = 1e-5
"""What straight lines between the points of a curve may be off by: no more than the flows."""

each_case = pytest.mark.parametrize(("size", "start"), CASES)


def reduced_of(size: tuple[int, int, int], start: str, log_alpha: float = LOG_ALPHA) -> Reduced:
    return Reduced(*size, start, log_alpha)


@cache
def flow(size: tuple[int, int, int], start: str) -> Trajectory:
    """The whole model on a balanced table, with more noise than anything else in a prompt, until all is learnt."""
    prompts = population(balanced_table(*size, key=jax.random.key(1)), T=32, n_noise=5)
    times = np.linspace(0, reduced_of(size, start).time_of(0.01), 101)
    return gradient_flow(prompts, Start(start, LOG_ALPHA), times, rtol=RTOL)


@each_case
def test_the_flow_of_a_balanced_table_is_the_reduced_one(size: tuple[int, int, int], start: str) -> None:
    """Exact, not a limit: S R D weights move as four numbers do."""
    trajectory, reduced = flow(size, start), reduced_of(size, start)
    seen = trajectory.seen
    assert trajectory.failure is None
    assert seen["loss"][0] == pytest.approx(math.log(size[1] * size[2]), abs=1e-12)
    assert_allclose(seen["loss"], reduced.loss(trajectory.times), atol=AGREE + 2 * DRAWN)
    assert_allclose(seen["relation_loss"], reduced.relation.loss_at(trajectory.times), atol=AGREE + DRAWN)
    assert seen["loss"][-1] == pytest.approx(0.01, abs=AGREE + 2 * DRAWN)


@each_case
def test_relation_and_subject_learn_each_by_its_own_integral(size: tuple[int, int, int], start: str) -> None:
    """The mass on A_r is the relation's alone, and how it is spread within A_r the subject's: where the flow stands at
    t, t(x) is t. Nothing is interpolated, so this holds to the error of the flow."""
    trajectory, reduced = flow(size, start), reduced_of(size, start)
    relation = trajectory.seen["relation_loss"]
    for growth, losses in ((reduced.relation, relation), (reduced.subject, trajectory.seen["loss"] - relation)):
        half = np.searchsorted(-losses, -math.log(growth.n) / 2)
        for i in (half - 1, half, half + 3, len(losses) - 1):
            gap = growth.gap(losses[i])
            slope = (growth.loss(1.001 * gap) - losses[i]) / (growth.time(1.001 * gap) - growth.time(gap))
            off = slope * (growth.time(gap) - trajectory.times[i])
            assert abs(off) < AGREE


@each_case
def test_weights_grow_as_predicted(size: tuple[int, int, int], start: str) -> None:
    """k^2 - w^2 = C and k w = s x, so that k^2 = (C + sqrt(C^2 + 4 s^2 x^2)) / 2; noise and EOS stay."""
    seen, reduced = flow(size, start).seen, reduced_of(size, start)
    relation = seen["relation_loss"]
    for kind, growth, losses in (
        ("relation", reduced.relation, relation), ("subject", reduced.subject, seen["loss"] - relation)
    ):  # fmt: skip
        C = math.exp(growth.log_invariant)
        # x is read off the loss, which is known to AGREE: for losses of 0.01 and for gaps of 0.01 to 100 times that.
        for i in np.flatnonzero(losses < 0.99 * math.log(growth.n)):
            k2 = (C + math.hypot(C, 2 * growth.scale * growth.gap(losses[i]))) / 2
            assert seen[f"log_W_KQ_{kind}"][i] == pytest.approx(math.log(k2) / 2, abs=100 * AGREE)
    for kind in ("noise", "EOS"):
        assert_allclose(seen[f"log_W_KQ_{kind}"], seen[f"log_W_KQ_{kind}"][0], atol=AGREE)


@each_case
def test_weights_pass_a_size_and_predictions_a_distance_when_they_should(
    size: tuple[int, int, int], start: str
) -> None:
    """W_KQ = 0.1 by each kind of token; and the distance from p*(. | r), as long as subjects are small."""
    trajectory, reduced = flow(size, start), reduced_of(size, start)
    for kind in ("relation", "subject"):
        log_k = trajectory.seen[f"log_W_KQ_{kind}"]
        i = np.flatnonzero(log_k > math.log(0.1))[0]
        assert getattr(reduced, kind).time_of_weight(math.exp(log_k[i])) == pytest.approx(trajectory.times[i], rel=1e-4)
        assert getattr(reduced, kind).time_of_weight(math.exp(log_k[0]) / 2) == 0
    far = trajectory.seen["from_relation_worst"]
    assert far[0] == pytest.approx(reduced.relation.norm, rel=1e-6)  # where no epsilon is reached yet
    small = np.flatnonzero((trajectory.seen["log_W_KQ_subject"] < math.log(0.02)) & (far < 0.9 * far[0]))
    assert len(small) > 0 or not reduced.relation_first
    for i in small:
        assert reduced.time_near(far[i]) == pytest.approx(trajectory.times[i], rel=0.01)
    for epsilon in (0.0, 1.01 * reduced.relation.norm):
        with pytest.raises(ValueError, match="must be above 0 and below"):
            reduced.time_near(epsilon)


def test_the_first_rates_are_those_of_every_token_of_a_table() -> None:
    """E[C(z)] ||p*(. | z) - p_0||, from the facts themselves; of a balanced table the reduced ones, else 0."""
    table, T, n_noise = random_table(8, 2, 3, key=jax.random.key(4)), 7, 5
    rates = first_rates(table.joint("subject"), table.joint("relation"), T, n_noise)

    def far(rows: np.ndarray) -> float:
        return float(np.linalg.norm(np.bincount(table.answers[rows], minlength=6) / rows.sum() - 1 / 6))

    whole = far(np.ones(16, bool))
    assert_allclose(rates["subject"], [far(table.subjects == s) / 8 for s in range(8)], rtol=1e-12)
    assert_allclose(rates["relation"], [far(table.relations == r) / 2 for r in range(2)], rtol=1e-12)
    assert_allclose([*rates["EOS"], *rates["noise"]], [whole, whole * 4 / 5], rtol=1e-12)
    even, reduced = balanced_table(12, 4, 3, key=jax.random.key(4)), Reduced(12, 4, 3, "equal", -5.0)
    rates = first_rates(even.joint("subject"), even.joint("relation"), T, n_noise)
    assert_allclose(rates["subject"], reduced.subject.rate, rtol=1e-12)
    assert_allclose(rates["relation"], reduced.relation.rate, rtol=1e-12)
    assert_allclose([*rates["EOS"], *rates["noise"]], 0, atol=1e-15)


def test_lemma_5_is_as_the_paper_has_it() -> None:
    """W_KQ(s) <= exp(2 p(s) t) and W_KQ(noise) <= exp(2 T t / |N|), times the start."""
    assert lemma_5(1 / 16, 32, 20) == {"subject": 1 / 8, "noise": 3.2}
    for x in (0.0, 1e-3, -2.0, 30.0):
        assert log_cosh(x) == pytest.approx(math.log(math.cosh(x)), abs=1e-15)
    assert log_cosh(1e6) == pytest.approx(1e6 - math.log(2), rel=1e-15)


@pytest.mark.parametrize("n", [2, 8, 32])
@pytest.mark.parametrize("log_invariant", [math.log(0.1), -13.0, -100.0, -2e4])
def test_the_curve_is_drawn_through_the_exact_one(n: int, log_invariant: float) -> None:
    """At t(x) it has the loss of x, wherever x lies between two of its points."""
    growth = Growth(0.2, n, 3, log_invariant)
    for gap in np.r_[np.geomspace(1e-5, 30, 9) * 1.0007, 0.77, 2.1, 5.3]:
        assert growth.loss_at(growth.time(gap)) == pytest.approx(growth.loss(gap), abs=DRAWN)
    assert growth.loss_at(0.0) == pytest.approx(math.log(n), abs=1e-12)


@pytest.mark.parametrize(
    "growth",
    [
        Growth(1 / 4, 4, 8, math.log(1e-2)),
        Growth(1 / 16, 8, 4, math.log(1e-6)),
        Growth(1 / 2, 2, 3, math.log(3.0)),
    ],
)
def test_the_time_of_a_gap_solves_the_equations(growth: Growth) -> None:
    """dk/dt = p g w and dw/dt = p g k, integrated by SciPy from w = 0 to t(x), reach k w = s x."""

    def moves(t: float, y: np.ndarray) -> list[float]:
        k, w = y
        x = k * w / growth.scale
        P = 1 / (1 + (growth.n - 1) * math.exp(-x))
        g = growth.norm * (1 - P) * growth.n / (growth.n - 1)
        return [growth.frequency * g * w, growth.frequency * g * k]

    gaps = np.array([1e-3, 0.1, 1.0, 3.0, 8.0])
    times = [growth.time(x) for x in gaps]
    first = [math.exp(growth.log_invariant / 2), 0.0]
    solution = solve_ivp(moves, (0, times[-1]), first, "DOP853", times, rtol=1e-11, atol=1e-14)
    assert_allclose(solution.y[0] * solution.y[1] / growth.scale, gaps, rtol=1e-7)
    assert_allclose(solution.y[0] ** 2 - solution.y[1] ** 2, math.exp(growth.log_invariant), rtol=1e-6)


def test_the_symbols_of_a_growth_are_those_of_its_token() -> None:
    """Norm, scale and rate from p*(. | z) itself, for a relation and for a subject of a balanced table."""
    S, R, D = 12, 4, 3
    table, reduced = balanced_table(S, R, D, key=jax.random.key(2)), Reduced(S, R, D, "equal", -5.0)
    for growth, of in ((reduced.relation, table.relations == 1), (reduced.subject, table.subjects == 5)):
        given = np.bincount(table.answers[of], minlength=table.A) / of.sum()
        far = given - 1 / table.A
        own = given > 0
        e = far / np.linalg.norm(far)
        assert growth.frequency == pytest.approx(of.mean())
        assert growth.norm == pytest.approx(np.linalg.norm(far), rel=1e-12)
        assert growth.rate == pytest.approx(of.mean() * np.linalg.norm(far), rel=1e-12)
        # k w e raises the token's own answers above the others by x = k w / s.
        assert 1 / growth.scale == pytest.approx(e[own].min() - e[~own].max(), rel=1e-12)


@pytest.mark.parametrize("gap", [0.01, 1.0, 5.0, 20.0])
@pytest.mark.parametrize(("n", "block"), [(4, 8), (2, 3), (32, 1)])
def test_as_the_start_vanishes_the_time_is_a_closed_form(gap: float, n: int, block: int) -> None:
    """t(x) = [ln(4 s x / C) / 2 + (Ei(x) - ln x - gamma) / (2 n)] / lambda, up to C / s."""
    for log_invariant in (-30.0, -2000.0):
        growth = Growth(0.1, n, block, log_invariant)
        escaping = (math.log(4 * growth.scale * gap) - log_invariant) / 2
        slowing = (expi(gap) - math.log(gap) - np.euler_gamma) / (2 * n)
        assert growth.time(gap) == pytest.approx((escaping + slowing) / growth.rate, rel=1e-9)


def test_time_grows_by_a_unit_of_log_alpha_over_the_rate() -> None:
    """The escape takes log(1 / alpha) / lambda: ten thousand times smaller in the exponent, as much longer."""
    near, far = (Growth(0.25, 4, 8, 2 * log_alpha) for log_alpha in (-1e3, -1e7))
    assert (far.time(1.0) - near.time(1.0)) * near.rate == pytest.approx(1e7 - 1e3, rel=1e-12)


def test_loss_and_gap_are_inverse() -> None:
    growth = Growth(0.25, 5, 3, -10.0)
    for gap in (1e-6, 0.5, 3.0, 30.0):
        assert growth.gap(growth.loss(gap)) == pytest.approx(gap, rel=1e-9)
    assert growth.loss(0.0) == pytest.approx(math.log(5), rel=1e-15)
    assert growth.time(0.0) == 0.0


@each_case
@pytest.mark.parametrize("log_alpha", [LOG_ALPHA, -1e4])
def test_time_of_is_the_inverse_of_loss(size: tuple[int, int, int], start: str, log_alpha: float) -> None:
    reduced = reduced_of(size, start, log_alpha)
    levels = np.array([0.999 * math.log(size[1] * size[2]), 1.02 * reduced.plateau, 0.98 * reduced.plateau, 0.5, 0.01])
    times = np.array([reduced.time_of(level) for level in levels])
    assert (np.diff(times) > 0).all()
    # A time is known to 1e-9 of the longest, and the loss falls by less than its rate a unit of time.
    rounding = 1e-8 * times[-1] * max(reduced.relation.rate, reduced.subject.rate) + 1e-6
    assert_allclose(reduced.loss(times), levels, atol=rounding)
    assert reduced.time_of(math.log(size[1] * size[2])) == 0.0
    assert reduced.loss(np.zeros(1))[0] == pytest.approx(math.log(size[1] * size[2]), abs=1e-12)


def test_a_loss_far_below_convergence_has_a_time() -> None:
    """Near the end the loss falls as exp(-x) while t grows as exp(x) / x."""
    reduced = Reduced(8, 2, 2, "balanced", LOG_ALPHA)
    products = [loss * reduced.time_of(loss) for loss in (1e-4, 1e-8, 1e-12)]
    assert products[0] > products[1] > products[2] > products[0] / 4  # falls as 1 / x, x being 9, 18 and 28


@pytest.mark.parametrize("loss", [0.0, -1.0, math.nan, 1e-40])
def test_a_loss_that_is_never_reached_is_refused(loss: float) -> None:
    """Or that lies below all that the curve holds: named, not a complaint of the root finder."""
    with pytest.raises(ValueError, match="loss="):
        Reduced(8, 2, 2, "balanced", LOG_ALPHA).time_of(loss)


def test_which_comes_first_is_a_rule_of_three_numbers() -> None:
    """S^2 (R - 1) > R^2 (D - 1), in integers; a tie is no first."""
    both = set()
    for R, D, blocks in product((2, 3, 4, 8, 16), (2, 3, 5, 8), (1, 2, 4)):
        S = blocks * D
        reduced = Reduced(S, R, D, "equal", -10.0)
        expected = S**2 * (R - 1) > R**2 * (D - 1)
        assert reduced.relation_first == expected
        assert reduced.plateau == math.log(D if expected else R)
        both.add(expected)
    assert both == {True, False}


@pytest.mark.parametrize("size", SIZES)
def test_the_flow_rests_where_the_rule_says(size: tuple[int, int, int]) -> None:
    """From a small start, half way between the two escapes, the loss is that of the plateau."""
    reduced = reduced_of(size, "equal", -200.0)
    first, second = sorted(200 / growth.rate for growth in (reduced.relation, reduced.subject))
    assert reduced.loss(np.array([(first + second) / 2]))[0] == pytest.approx(reduced.plateau, rel=0.01)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ((10, 2, 4, "equal", -1.0), "D=4 does not divide S=10, so no table is balanced; take S=8"),
        ((2, 2, 4, "equal", -1.0), "D=4 does not divide S=2, so no table is balanced; take S=4"),
        ((0, 2, 2, "equal", -1.0), "S=0 must be at least 1"),
        ((4, 0, 2, "equal", -1.0), "R=0 must be at least 1"),
        ((4, 2, -2, "equal", -1.0), "D=-2 must be at least 1"),
        ((4, 1, 2, "equal", -1.0), "R=1 and D=2 must both be at least 2"),
        ((4, 2, 1, "equal", -1.0), "R=2 and D=1 must both be at least 2"),
        ((4, 2, 2, "equals", -1.0), "unknown start 'equals'; did you mean 'equal'"),
        ((4, 2, 2, "random", -1.0), "unknown start 'random'"),
        ((4, 2, 2, "equal", math.nan), "log_alpha=nan must be finite"),
        ((4, 2, 2, "equal", -math.inf), "log_alpha=-inf must be finite"),
    ],
)
def test_wrong_arguments_are_refused_in_words(given: tuple[int, int, int, str, float], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Reduced(*given)
