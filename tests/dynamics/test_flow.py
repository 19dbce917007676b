"""Gradient flow: what it conserves, that its coordinates, solvers and populations agree, and an oracle in SciPy."""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import product

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import solve_ivp

from enumerated import enumerated
from facthold.dynamics import STARTS
from facthold.dynamics.flow import SMALLEST, Trajectory, gradient_flow
from facthold.dynamics.population import SMALLEST as SMALLEST_FLOAT32
from facthold.dynamics.population import Population, Start, population
from facthold.facts.table import FactTable, make_table
from facthold.theory.reduced import Reduced

S, R, D, T, N_NOISE = 8, 2, 2, 5, 3
A = R * D
LOG_ALPHA = math.log(1e-3)
TIMES = np.linspace(0, 300, 61)
"""Every flow here has as many times and tokens as the others, so that few of them are compiled."""
RTOL = 1e-8
AGREE = 1000 * RTOL
"""How far two flows may differ: each of about 200 steps adds an error of RTOL or less."""
TINY = -1e4
"""log alpha of a start that no float holds."""


@cache
def table_of(kind: str) -> FactTable:
    return make_table(kind, S, R, D, key=jax.random.key(1))


@cache
def prompts_of(kind: str, way: str) -> Population:
    make = {"pooled": population, "enumerated": enumerated}[way]
    return make(table_of(kind), T=T, n_noise=N_NOISE)


@cache
def flow(
    kind: str, start: Start, way: str = "enumerated", coordinates: str = "direct", stiff: bool = False
) -> Trajectory:
    """Flows that several tests look at, each computed once."""
    return gradient_flow(prompts_of(kind, way), start, TIMES, coordinates=coordinates, stiff=stiff, rtol=RTOL)


def start_of(kind: str) -> Start:
    return Start(kind, LOG_ALPHA, seed=3)


each_start = pytest.mark.parametrize("start", STARTS)
each_table = pytest.mark.parametrize("table", ["balanced", "random"])


@each_start
@each_table
def test_lemma_4_keeps_what_it_says(table: str, start: str) -> None:
    """W_KQ(z)^2 - sum_a W_OV(a, z)^2 does not change, while both grow a thousandfold."""
    seen = flow(table, start_of(start)).seen
    largest = (seen["W_KQ"] ** 2).max()
    assert largest > 1e5 * np.exp(2 * LOG_ALPHA)
    assert np.abs(seen["conserved"] - seen["conserved"][0]).max() < 1e-6 * largest
    expected = {"balanced": math.exp(2 * LOG_ALPHA), "equal": (1 - A) * math.exp(2 * LOG_ALPHA)}
    if start in expected:
        assert_allclose(seen["conserved"][0], expected[start], rtol=1e-12)


@each_start
@each_table
def test_the_sum_of_W_OV_over_answers_never_moves(table: str, start: str) -> None:
    """The pull sums to 0 over a, and a Runge-Kutta step keeps linear invariants to rounding."""
    seen = flow(table, start_of(start)).seen
    rounding = 1e3 * np.finfo(float).eps * np.exp(seen["log_W_OV_relation"].max()) * A
    assert np.abs(seen["sum_W_OV"] - seen["sum_W_OV"][0]).max() < rounding


@pytest.mark.parametrize("start", ["balanced", "equal"])
@each_table
def test_corollary_3_holds_from_balanced_and_from_equal_starts(table: str, start: str) -> None:
    seen = flow(table, start_of(start)).seen
    assert seen["W_KQ"].min() >= math.exp(LOG_ALPHA) * (1 - AGREE)


@each_table
def test_corollary_3_fails_from_a_random_start(table: str) -> None:
    """W_KQ goes through 0 and far below, and the model learns all the same: the corollary is one of its start."""
    trajectory = flow(table, start_of("random"))
    assert trajectory.failure is None
    assert trajectory.seen["W_KQ"].min() < -100 * math.exp(LOG_ALPHA)
    assert trajectory.seen["loss"][-1] < 0.05


@each_start
@each_table
def test_the_loss_falls_from_ln_A_and_never_rises(table: str, start: str) -> None:
    """Theorem 5, as far as it was followed. Looks are interpolated between steps, to AGREE."""
    loss = flow(table, start_of(start)).seen["loss"]
    alike = math.exp(2 * LOG_ALPHA) * 10 * T  # the logits of a random start, at most
    assert loss[0] == pytest.approx(math.log(A), abs=alike if start == "random" else 1e-14)
    assert np.diff(loss).max() < AGREE
    assert loss[-1] < 0.05
    assert flow(table, start_of(start)).seen["accuracy"][-1] == pytest.approx(1, abs=1e-12)


def test_a_model_that_knows_nothing_has_no_hits() -> None:
    """At the start all answers tie, and a tie is no hit."""
    seen = flow("balanced", start_of("balanced")).seen
    assert seen["accuracy"][0] == 0
    assert seen["relation_loss"][0] == pytest.approx(math.log(R), abs=1e-13)
    assert seen["subject_loss"][0] == pytest.approx(math.log(D), abs=1e-13)


def assert_same(ours: Trajectory, other: Trajectory, atol: float = AGREE) -> None:
    """Every observable that is one number in both."""
    assert ours.failure is None
    assert other.failure is None
    assert_array_equal(ours.times, other.times)
    names = {name for name in ours.seen if ours.seen[name].ndim == 1} & other.seen.keys()
    assert {"loss", "relation_loss", "from_relation_worst", "relation_gap", "log_W_OV_EOS", "log_W_KQ_noise"} <= names
    for name in names:
        assert_allclose(ours.seen[name], other.seen[name], atol=atol, err_msg=name)


@pytest.mark.parametrize("start", ["balanced", "equal"])
@each_table
def test_direct_and_log_coordinates_pooled_and_enumerated_noise_are_one_flow(table: str, start: str) -> None:
    """Pooled with logarithms against enumerated without. (Pooled without is what `theory/test_reduced.py` checks.)"""
    ours, other = flow(table, start_of(start), "pooled", "log"), flow(table, start_of(start), "enumerated", "direct")
    assert_same(ours, other)


@each_table
def test_the_stiff_solver_and_the_explicit_one_agree(table: str) -> None:
    ours, other = (flow(table, start_of("balanced"), "pooled", "log", stiff) for stiff in (True, False))
    assert_same(ours, other)


def test_a_smaller_rtol_is_a_smaller_error() -> None:
    prompts, start = prompts_of("random", "enumerated"), start_of("random")
    truth, fine, coarse = (gradient_flow(prompts, start, TIMES, rtol=r).seen["W_KQ"] for r in (1e-12, 1e-9, 1e-5))
    assert np.abs(fine - truth).max() < 1e3 * 1e-9
    assert 1e-2 * np.abs(coarse - truth).max() > np.abs(fine - truth).max()


def sequences_of(table: FactTable) -> tuple[np.ndarray, np.ndarray]:
    """Every prompt as tokens, the noise in every order, and which fact it asks for. Written for this test alone."""
    noise = S + R + np.array(list(product(range(N_NOISE), repeat=T - 3)))
    facts = [(s, S + r) for s, r in zip(table.subjects, table.relations, strict=True)]
    rows = [[s, r, *more, S + R + N_NOISE] for s, r in facts for more in noise]
    return np.array(rows), np.repeat(np.arange(len(table)), len(noise))


def motion(z: np.ndarray, answers: np.ndarray, tokens: int) -> Callable[[float, np.ndarray], np.ndarray]:
    """Lemma 4's gradients with the opposite sign, over all sequences alike."""

    def moves(t: float, y: np.ndarray) -> np.ndarray:
        W_OV, W_KQ = y[tokens:].reshape(A, tokens), y[:tokens]
        rest = np.eye(A)[answers] - predicted(W_OV, W_KQ, z)
        G = np.zeros((tokens, A))
        for t_ in range(z.shape[1]):
            np.add.at(G, z[:, t_], rest / len(z))
        return np.concatenate([(W_OV * G.T).sum(axis=0), (W_KQ * G.T).ravel()])

    return moves


def predicted(W_OV: np.ndarray, W_KQ: np.ndarray, z: np.ndarray) -> np.ndarray:
    logits = (W_OV * W_KQ).T[z].sum(axis=1)
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("start", ["equal", "random"])
def test_the_flow_is_that_of_scipy(start: str) -> None:
    """From weights of their own for every token, in a table that is not balanced."""
    table, ours = table_of("random"), flow("random", start_of(start)).seen
    (z, facts), tokens = sequences_of(table), S + R + N_NOISE + 1
    answers, of = table.answers[facts], table.relations[facts]
    W_OV, W_KQ = start_of(start).ratio(A, tokens)
    first = math.exp(LOG_ALPHA) * np.concatenate([np.full(tokens, W_KQ), W_OV.ravel()])
    solution = solve_ivp(
        motion(z, answers, tokens), (0, TIMES[-1]), first, "DOP853", TIMES[::6], rtol=1e-10, atol=1e-13
    )
    assert_allclose(ours["W_KQ"][::6], solution.y[:tokens].T, atol=AGREE)

    given = np.array([[np.mean(table.answers[table.relations == r] == a) for a in range(A)] for r in range(R)])
    allowed = {
        "relation_loss": [table.A_r(int(r)) for r in of],
        "subject_loss": [table.A_s(int(s)) for s in table.subjects[facts]],
    }
    for i, y in enumerate(solution.y.T):
        p = predicted(y[tokens:].reshape(A, tokens), y[:tokens], z)
        far = np.linalg.norm(p - given[of], axis=1)
        right = p[np.arange(len(z)), answers]
        expected = {
            "loss": -np.log(right).mean(),
            "from_relation": far.mean(),
            "from_relation_worst": far.max(),
            "relation_gap": math.sqrt(sum(np.sum((given[r] / R - p[of == r].sum(0) / len(z)) ** 2) for r in range(R))),
            "from_fact": np.linalg.norm(p - np.eye(A)[answers], axis=1).mean(),
        }
        for name, sets in allowed.items():
            expected[name] = -np.mean([np.log(row[list(own)].sum()) for row, own in zip(p, sets, strict=True)])
        for name, value in expected.items():
            assert ours[name][6 * i] == pytest.approx(value, abs=AGREE), name
        others = np.where(np.eye(A)[answers] > 0, 0, p).max(axis=1)
        if np.abs(np.log(right / others)).min() > 1e-3:  # away from ties
            assert ours["accuracy"][6 * i] == pytest.approx((right > others).mean(), abs=1e-12)


@cache
def tiny(table: str, until: float, stiff: bool = True) -> Trajectory:
    times = np.concatenate([[0.0], np.linspace(until / 6, until, len(TIMES) - 1)])
    return gradient_flow(
        prompts_of(table, "pooled"), Start("balanced", TINY), times, coordinates="log", stiff=stiff, rtol=RTOL
    )


def test_a_start_that_no_float_holds_reaches_the_same_plateau() -> None:
    """alpha = exp(-10000): the loss rests at ln D, as from 1e-3, where the answer is a guess among those of the
    relation; and subjects are still as small as theorem 6 says, |W| <= alpha^(1/2)."""
    reduced = Reduced(S, R, D, "balanced", TINY)
    begins, ends = reduced.time_of(1.01 * math.log(D)), reduced.time_of(0.99 * math.log(D))
    seen = tiny("balanced", 1.2 * ends).seen
    times = tiny("balanced", 1.2 * ends).times
    rests = (times > begins) & (times < ends)
    assert 20 < rests.sum() < len(times) - 10
    assert_allclose(seen["loss"][rests], math.log(D), rtol=0.01)
    assert (seen["from_relation_worst"][rests] < 0.01).all()
    assert_allclose(seen["loss"][(times > 0) & (times < begins)], math.log(A), rtol=0.01)
    assert seen["loss"][-1] < 0.01
    soon = times < 1.1 * begins
    assert (soon & rests).any()
    for kind in ("subject", "noise", "EOS"):
        assert (seen[f"log_W_KQ_{kind}"][soon] <= TINY / 2).all()
        assert (seen[f"log_W_OV_{kind}"][soon] <= TINY / 2).all()
    assert (seen["log_W_KQ_noise"] >= TINY).all()
    same = flow("balanced", start_of("balanced")).seen
    assert np.abs(same["loss"] / math.log(D) - 1).min() < 0.03


def test_weights_grow_at_the_rates_of_the_table() -> None:
    """While small, W_KQ(z) grows as exp(t E[C(z)] ||p*(. | z) - p_0||): also EOS and noise, where answers are not
    asked for alike."""
    table = table_of("random")

    def far(rows: np.ndarray) -> float:
        return float(np.linalg.norm(np.bincount(table.answers[rows], minlength=A) / rows.sum() - 1 / A))

    whole = far(np.ones(len(table), bool))
    assert whole > 0.01
    rates = {
        "subject": max(far(table.subjects == s) for s in range(S)) / S,
        "relation": max(far(table.relations == r) for r in range(R)) / R,
        "noise": (T - 3) / N_NOISE * whole,
        "EOS": whole,
    }
    until = 0.9 * -TINY / max(rates.values())  # before any weight is large
    trajectory = tiny("random", until)
    assert trajectory.seen["loss"][-1] == pytest.approx(math.log(A), abs=1e-12)
    for kind, rate in rates.items():
        grown = trajectory.seen[f"log_W_KQ_{kind}"]
        slope = (grown[-1] - grown[1]) / (trajectory.times[-1] - trajectory.times[1])
        assert slope == pytest.approx(rate, rel=AGREE), kind


def test_a_solver_that_gives_up_says_so_and_keeps_what_is_right() -> None:
    """The explicit solver has too few steps for the long rest of a tiny start. What it saw before is right."""
    reduced = Reduced(S, R, D, "balanced", TINY)
    until = 1.2 * reduced.time_of(0.99 * math.log(D))
    failed, whole = tiny("balanced", until, stiff=False), tiny("balanced", until)
    assert failed.failure is not None
    assert "steps did not suffice" in failed.failure
    assert f"of {until:.4g}" in failed.failure
    assert "\n" not in failed.failure
    n = len(failed.times)
    assert 1 < n < len(whole.times)
    assert_array_equal(failed.times, whole.times[:n])
    assert all(len(values) == n and np.isfinite(values).all() for values in failed.seen.values())
    assert_allclose(failed.seen["loss"], whole.seen["loss"][:n], atol=AGREE)
    assert f"t = {failed.times[-1]:.4g}" in failed.failure


@pytest.mark.parametrize(
    "times",
    [
        [1.0, 2.0],
        [0.0, 2.0, 1.0],
        [0.0, 1.0, 1.0],
        [0.0],
        [],
        [0.0, math.nan],
        [0.0, math.inf],
        [[0.0, 1.0]],
        [0.0, -1.0],
    ],
)
def test_times_that_are_none_are_refused(times: list[float]) -> None:
    with pytest.raises(ValueError, match="times must begin at 0, increase"):
        gradient_flow(prompts_of("random", "pooled"), Start(), np.array(times))


def test_wrong_coordinates_are_refused_with_a_way_out() -> None:
    prompts = prompts_of("random", "pooled")
    with pytest.raises(ValueError, match="unknown coordinates 'logs'; did you mean 'log'"):
        gradient_flow(prompts, Start(), TIMES, coordinates="logs")
    with pytest.raises(ValueError, match="underflows in direct coordinates; take coordinates='log'"):
        gradient_flow(prompts, Start("equal", SMALLEST - 1), TIMES)
    with pytest.raises(ValueError, match=r"the random start .* take direct coordinates"):
        gradient_flow(prompts, Start("random"), TIMES, coordinates="log")


def test_starts_are_what_they_are_called() -> None:
    """Assumption 2: W_KQ^2 - sum_a W_OV^2 = alpha^2."""
    alpha = math.exp(LOG_ALPHA)
    for kind, W_KQ in (("balanced", math.sqrt(A + 1)), ("equal", 1.0), ("random", 1.0)):
        model = Start(kind, LOG_ALPHA).model(A, 7)
        assert_allclose(model.W_KQ, alpha * W_KQ, rtol=1e-6)
        assert model.W_OV.shape == (A, 7)
        if kind != "random":
            assert_allclose(model.W_OV, alpha, rtol=1e-6)
    rows, columns = 64, 100
    drawn, _ = Start("random").ratio(rows, columns)
    n = rows * columns
    assert abs(drawn.mean()) < 4 / math.sqrt(n)
    assert abs(drawn.var() - 1) < 4 * math.sqrt(2 / n)
    assert_array_equal(drawn, Start("random", LOG_ALPHA).ratio(rows, columns)[0])
    assert (drawn != Start("random", seed=1).ratio(rows, columns)[0]).all()


def test_starts_that_are_none_are_refused() -> None:
    with pytest.raises(ValueError, match="unknown start 'balance'; did you mean 'balanced'"):
        Start("balance")
    for log_alpha in (math.nan, math.inf, -math.inf):
        with pytest.raises(ValueError, match=r"log_alpha=.* must be finite"):
            Start("equal", log_alpha)
    smallest = replace(Start("equal"), log_alpha=math.log(SMALLEST_FLOAT32))
    assert float(smallest.model(A, 3).W_KQ.min()) > 0
    with pytest.raises(ValueError, match="too small for steps in float32; take 1e-30 or more"):
        Start("equal", math.log(SMALLEST_FLOAT32) - 1).model(A, 3)


def test_a_balanced_table_leaves_noise_and_EOS_where_they_began() -> None:
    """Their pull is E[1(a = a*) - p-hat(a)] = 0."""
    assert_array_equal(table_of("balanced").C, S // D)
    seen = flow("balanced", start_of("equal")).seen
    for kind in ("noise", "EOS"):
        assert_allclose(seen[f"log_W_KQ_{kind}"], LOG_ALPHA, atol=AGREE)
        assert_allclose(seen[f"log_W_OV_{kind}"], LOG_ALPHA, atol=AGREE)
    assert flow("random", start_of("equal")).seen["log_W_KQ_EOS"].max() > LOG_ALPHA + 1
