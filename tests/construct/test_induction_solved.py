"""The head whose three memories are solved for."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from facthold._util.keys import derive
from facthold.construct import induction_solved
from facthold.construct.induction import induction_head, untrained
from facthold.construct.induction_solved import Wanted, solved_head
from facthold.context.bigrams import Bigrams
from facthold.context.sequences import BigramTask
from facthold.measure.in_context import Exam
from facthold.measure.probes import probes

TASK = BigramTask.of(Bigrams.shipped(), K=3, T=32)


def attention_loss(*args: object) -> jax.Array:
    return induction_solved._attention_loss(*map(jnp.asarray, args))


def test_with_one_good_position_the_loss_is_the_cross_entropy_of_attention() -> None:
    x = jax.random.normal(derive("x"), (2, 9, 4))
    W = np.asarray(jax.random.normal(derive("W"), (4, 4)))
    at, target = np.array([[3, 8], [5, 2]]), np.array([[1, 7], [5, 0]])
    s = np.arange(9)
    good = s == target[..., None]
    bad = (s <= at[..., None]) & ~good
    queries = np.take_along_axis(np.asarray(x), at[..., None], axis=1)
    ours = attention_loss(W, queries, x, good, bad, np.full((2, 2), 0.25))
    losses = []
    for n in range(2):
        for q in range(2):
            scores = np.asarray(x)[n, : at[n, q] + 1] @ W.T @ queries[n, q]
            losses.append(np.log(np.exp(scores).sum()) - scores[target[n, q]])
    assert float(ours) == pytest.approx(np.mean(losses) + induction_solved.RIDGE * 4 * (W**2).mean(), rel=1e-4)


def test_with_more_good_positions_the_loss_bounds_that_of_attention_and_is_convex() -> None:
    x = jax.random.normal(derive("x"), (1, 12, 4))
    at = np.array([[11]])
    good = (np.arange(12) % 3 == 0)[None, None]
    bad = ~good
    queries = np.take_along_axis(np.asarray(x), at[..., None], axis=1)

    def loss(W: np.ndarray) -> float:
        ridge = induction_solved.RIDGE * 4 * (W**2).mean()
        return float(attention_loss(W, queries, x, good, bad, np.ones((1, 1)))) - float(ridge)

    draws = [np.asarray(jax.random.normal(derive("W", i), (4, 4))) for i in range(20)]
    for W in draws:
        beta = np.exp(np.asarray(x)[0] @ W.T @ queries[0, 0])
        assert loss(W) >= -np.log(beta[good[0, 0]].sum() / beta.sum()) - 1e-4
    for A, B in zip(draws[::2], draws[1::2], strict=True):
        assert loss((A + B) / 2) <= (loss(A) + loss(B)) / 2 + 1e-4


def test_rows_of_the_first_layer_look_back_and_avoid_other_triggers() -> None:
    sequences = TASK.draw(20, key=derive("rows"))
    at, good, bad, weight = map(np.asarray, induction_solved._previous(sequences, key=derive("key")))
    tokens, triggers, needed = np.asarray(sequences.tokens), np.asarray(TASK.fixed), induction_solved.NEEDED
    assert (at[weight > 0] > 0).all()
    assert not (good & bad).any()
    for n, q in np.argwhere(weight > 0):
        s = np.arange(TASK.T)
        t = at[n, q]
        assert not (good | bad)[n, q, t + 1 :].any()
        if q < needed:
            assert tokens[n, t - 1] in triggers
            assert good[n, q].nonzero()[0].tolist() == [t - 1]
        else:
            others = np.isin(tokens[n], triggers) & (tokens[n] != tokens[n, t - 1]) & (s <= t)
            others[-1] = False  # what follows the last token is not seen
            np.testing.assert_array_equal(bad[n, q], others)


def test_rows_of_the_second_layer_look_at_the_first_output_and_leave_the_others_out() -> None:
    sequences = TASK.draw(20, key=derive("rows"))
    wanted: Wanted = induction_solved._after_trigger(sequences, key=derive("key"))
    at, good, bad, weight = map(np.asarray, wanted)
    told = np.asarray(sequences.told)
    assert weight.sum() == pytest.approx(1, rel=1e-5)
    for n, q in np.argwhere(weight > 0):
        assert good[n, q].nonzero()[0].tolist() == told[n, at[n, q]].nonzero()[0][:1].tolist()
        assert not (bad[n, q] & told[n, at[n, q]]).any()


@pytest.mark.slow
def test_a_solved_head_does_what_outer_products_of_its_size_do_not() -> None:
    d, key = 48, derive("induction", 0)
    solved = solved_head(TASK, d, key=key)
    start = untrained(TASK.N, TASK.T, d, key=key)
    np.testing.assert_array_equal(np.asarray(solved.E), np.asarray(start.E))
    np.testing.assert_array_equal(np.asarray(solved.layers[0].W_OV), np.asarray(start.layers[0].W_OV))
    sums = induction_head(TASK.N, TASK.T, d, np.asarray(TASK.fixed), key=key)
    exam = Exam.of(TASK, key=derive("asked"), n=64)
    assert exam.accuracy(solved).share > max(0.9, exam.accuracy(sums).share)
    recalled = probes(solved, jnp.asarray(TASK.fixed))
    assert float(recalled["W_KQ^2"]) == 1.0
    assert float(recalled["W_OV^2"]) > 0.95
