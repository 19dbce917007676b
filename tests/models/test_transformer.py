"""The transformer: equations 4 to 6 by hand, prompts as counts and as sequences, and recall of every fact."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jaxtyping import Array
from numpy.testing import assert_allclose, assert_array_equal

from facthold.facts.problem import FactualRecall, factual_recall, zipf
from facthold.facts.prompts import Prompts
from facthold.facts.table import FactTable, random_table
from facthold.measure.fact_recall import BLOCK, fact_accuracy, recalled_facts
from facthold.models.memory import MLPMemory
from facthold.models.transformer import Transformer
from facthold.train.tasks import RecallFacts

KEY = jax.random.key(21)
D, H, D_H, M = 12, 3, 4, 10
SINGLE = float(np.finfo(np.float32).eps)
SHAPES = {
    "attention": {"m": 0, "bias": False, "scaled": False},
    "with MLP": {"m": M, "bias": False, "scaled": False},
    "code": {"m": M, "bias": True, "scaled": True},
}
each_shape = pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())


@pytest.fixture
def double() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def jitted_gradient(f: Callable[..., Any]) -> Callable[..., Any]:
    """((value, more), gradient) of a function that returns a value and more."""
    return eqx.filter_jit(eqx.filter_value_and_grad(f, has_aux=True))


def make(shape: dict[str, Any], W_Q: float = 1.0) -> Transformer:
    """A transformer at random, in the precision of the moment. Drawn by NumPy: nothing is compiled."""
    rng = np.random.default_rng(7)
    normal = lambda *size: jnp.asarray(rng.standard_normal(size) / np.sqrt(size[-2]))  # noqa: E731
    W_K, Q, W_V, W_O = (normal(H, D_H, D) for _ in range(4))
    mlp = MLPMemory(normal(M, D), normal(M, D), jnp.linspace(-0.5, 0.5, M) if shape["bias"] else None)
    return Transformer(W_K, W_Q * Q, W_V, W_O, mlp if shape["m"] else None, shape["scaled"])


def softmax(x: np.ndarray) -> np.ndarray:
    w = np.exp(x - x.max())
    return w / w.sum()


def by_hand(model: Transformer, X: np.ndarray) -> np.ndarray:
    """Equations 4 to 6 for one prompt, a head and a position at a time, in float64."""
    W_K, W_Q, W_V, W_O = (np.asarray(getattr(model, name), float) for name in ("W_K", "W_Q", "W_V", "W_O"))
    F = np.zeros(model.d)
    for h in range(model.H):
        scores = np.array([(W_K[h] @ x) @ (W_Q[h] @ X[-1]) for x in X])
        weights = softmax(scores / np.sqrt(model.d_h) if model.scaled else scores)
        attn = sum(weight * (W_V[h] @ x) for weight, x in zip(weights, X, strict=True))
        F += W_O[h].T @ attn
    if model.mlp is None:
        return F
    W, V = np.asarray(model.mlp.W, float), np.asarray(model.mlp.V, float)
    b = 0 if model.mlp.b is None else np.asarray(model.mlp.b, float)
    return F + V.T @ np.maximum(W @ F + b, 0)


@each_shape
def test_equations_4_to_6(shape: dict[str, Any]) -> None:
    model, X = make(shape), np.asarray(jax.random.normal(KEY, (5, 7, D)))
    oracle = [by_hand(model, x.astype(float)) for x in X]
    assert_allclose(model(jnp.asarray(X)), oracle, rtol=1e-4, atol=1e-4)
    shuffled = X[:, [3, 0, 5, 1, 4, 2, 6]]  # there are no positions; only the last token asks
    assert_allclose(model(jnp.asarray(shuffled)), oracle, rtol=1e-4, atol=1e-4)


def test_parameters_are_counted_as_in_the_paper() -> None:
    for name, shape in SHAPES.items():
        assert make(shape).n_params == 4 * H * D * D_H + 2 * shape["m"] * D, name
    assert make(SHAPES["code"]).m == M
    assert make(SHAPES["attention"]).m == 0


def test_initial_weights_have_the_variances_of_the_authors() -> None:
    model = Transformer.init(40, 5, 16, key=KEY)
    for name, variance in {"W_K": 1 / 16, "W_Q": 1 / 16, "W_V": 1 / 16, "W_O": 1 / 40}.items():
        squares = np.square(np.asarray(getattr(model, name))).ravel() / variance
        assert abs(squares.mean() - 1) < 4 * squares.std() / np.sqrt(squares.size), name


def test_sizes_below_one_are_refused() -> None:
    with pytest.raises(ValueError, match="d_h=0"):
        Transformer.init(40, 5, 0, key=KEY)
    with pytest.raises(ValueError, match="m=-1"):
        Transformer.init(40, 5, 16, -1, key=KEY)


def some_problem(outputs: str = "vocabulary", S: int = 9, R: int = 4, answers: int = 3, T: int = 12) -> FactualRecall:
    return factual_recall(random_table(S, R, answers, key=KEY), D, key=KEY, T=T, outputs=outputs)


@pytest.mark.usefixtures("double")
@each_shape
def test_counts_say_what_the_sequence_says(shape: dict[str, Any]) -> None:
    """Values and the gradients of all weights, for scores of any size."""
    problem = some_problem()
    prompts = Prompts.of(problem.table, T=problem.T)
    facts = prompts.draw(40, key=KEY)
    tokens, counts = prompts.sequences(facts, key=KEY), prompts.counts(facts, key=KEY)
    phi = jnp.asarray(problem.phi.astype(float))
    direction = jax.random.normal(KEY, (40, D))

    @jitted_gradient
    def by_counts(model: Transformer) -> tuple[Array, Array]:
        F = model.of_counts(counts, phi[: prompts.n_tokens], phi[problem.EOS])
        return (F * direction).sum(), F

    @jitted_gradient
    def by_sequence(model: Transformer) -> tuple[Array, Array]:
        F = model(phi[tokens])
        return (F * direction).sum(), F

    for factor in (0.0, 1.0, 30.0, 1e3, 1e5):
        model = make(shape, factor)
        (_, F), ours = by_counts(model)
        (_, expected), theirs = by_sequence(model)
        assert_allclose(F, expected, rtol=1e-9, atol=1e-10)  # tokens that weigh e^-30 of the largest are left out
        size = np.abs(theirs.W_O).max()
        for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
            assert_allclose(a, b, rtol=0, atol=1e-9 * np.abs(b).max() + 1e-11 * factor * size)


def one_head(scores: np.ndarray, values: np.ndarray) -> tuple[Transformer, Array, Array]:
    """A head with these scores and values of its tokens: one-hot embeddings, the last token asks."""
    phi = np.eye(len(scores))
    weights = [scores, phi[-1], values, phi[0]]
    model = Transformer(*(jnp.asarray(w[None, None], jnp.float32) for w in weights))
    return model, jnp.asarray(phi, jnp.float32), jnp.asarray(phi[-1], jnp.float32)


@jitted_gradient
def summed(model: Transformer, counts: Array, phi: Array, query: Array) -> tuple[Array, Array]:
    F = model.of_counts(counts, phi, query)[:, 0]
    return F.sum(), F


@pytest.mark.parametrize(
    "spread", [0.0, 20.0, 60.0, 109.0, 109.99, 110.0, 111.0, 150.0, 218.0, 219.3, 219.99, 220.5, 300.0, 1e4]
)
def test_scores_of_any_size_in_float32(spread: float) -> None:
    """The output and its gradients in float32, against a softmax in float64 for each prompt.

    Tokens stand all the way from the query's score to ``spread`` above it, and far below; a prompt's largest
    score is anywhere among them.
    """
    rng = np.random.default_rng(5)
    around = np.linspace(-1.5, 1.5, 61)  # where one table of exponentials ends and the next begins
    scores = np.concatenate(
        [np.linspace(0, spread, 400), 110 + around, spread - 110 + around, -rng.exponential(50, 20)]
    )
    scores = np.append(np.minimum(scores, spread), 0.0).astype(np.float32).astype(float)
    values = rng.standard_normal(len(scores)).astype(np.float32).astype(float)
    tokens = [np.append(some, len(scores) - 1) for some in _neighbours(scores, rng)]
    counts = np.stack([np.bincount(t, minlength=len(scores)) for t in tokens])
    d_scores, d_values, F = np.zeros(len(scores)), np.zeros(len(scores)), np.zeros(len(tokens))
    for i, t in enumerate(tokens):
        w = softmax(scores[t])
        F[i] = w @ values[t]
        np.add.at(d_scores, t, w * (values[t] - F[i]))
        np.add.at(d_values, t, w)
    model, phi, query = one_head(scores, values)
    (_, ours), gradient = summed(model, jnp.asarray(counts, jnp.float32), phi, query)
    tolerance = 4 * SINGLE * (10 + spread)  # a score is rounded to eps times its size, and its exponential with it
    assert np.abs(ours - F).max() < tolerance
    of_token = tolerance * counts.sum(axis=0)
    assert (np.abs(gradient.W_V[0, 0] - d_values) <= of_token).all()
    assert (np.abs(gradient.W_K[0, 0] - d_scores) <= of_token * np.abs(values).max()).all()


@pytest.mark.parametrize("size", [1e5, 1e8, 1e12, 1e30])
def test_enormous_scores_take_the_largest_and_take_no_time(size: float) -> None:
    """Of a run that diverges, say. Scores this far apart are an arg max; equal ones share."""
    rng = np.random.default_rng(6)
    n = 543  # as many tokens as in the test above, which has compiled it
    scores = np.append(rng.normal(0, size, n - 1), 0.0).astype(np.float32)
    scores[1] = scores[0]
    values = rng.standard_normal(n).astype(np.float32)
    tokens = np.concatenate([rng.integers(2, n - 1, (2 * n - 1, 3)), np.full((2 * n - 1, 1), n - 1)], axis=1)
    tokens = np.concatenate([tokens, [[0, 1, 0, n - 1]]])
    counts = np.stack([np.bincount(t, minlength=n) for t in tokens])
    F = np.array([np.mean(values[t[scores[t] == scores[t].max()]]) for t in tokens])
    model, phi, query = one_head(scores, values)
    (_, ours), gradient = summed(model, jnp.asarray(counts, jnp.float32), phi, query)
    assert_allclose(ours, F, rtol=1e-5, atol=1e-6)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradient))


def _neighbours(scores: np.ndarray, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """For each token two prompts in which no token decides alone: with its neighbours and two tokens below, and
    with one token of about a third of its weight."""
    order = np.argsort(scores)
    for rank, token in enumerate(order):
        near = order[np.clip(rank + np.array([-2, -1, 0, 1]), 0, len(order) - 1)]
        yield np.append(near, order[rng.integers(0, rank + 1, 2)])
        yield np.array([token, np.abs(scores - scores[token] + 1.1).argmin()])


def brute_force(model: Transformer, problem: FactualRecall, key: Array) -> np.ndarray:
    """The logits of every fact, from its prompt as a sequence; outputs as in phi, -inf where they are not offered."""
    prompts = Prompts.of(problem.table, T=problem.T, n_noise=problem.n_noise, p=problem.p)
    phi = jnp.asarray(problem.phi)

    @eqx.filter_jit
    def ask(model: Transformer, facts: Array, b: Array) -> Array:
        return model(phi[prompts.sequences(facts, key=jax.random.fold_in(key, b))]) @ phi.T

    blocks = []
    for b in range(-(-len(problem.table) // BLOCK)):
        rows = b * BLOCK + np.arange(BLOCK)
        facts = np.where(rows < len(problem.table), rows, 0).astype(np.int32)
        blocks.append(np.asarray(ask(model, jnp.asarray(facts), jnp.int32(b))))
    logits = np.concatenate(blocks)[: len(problem.table)]
    if problem.outputs == "answers":
        logits[:, : problem.n_tokens] = -np.inf
    return logits


def large_problem(outputs: str) -> FactualRecall:
    """More facts than a block, with gaps, asked unevenly; few answers, so that chance recalls a good share."""
    table = random_table(700, 2, 2, key=KEY)
    kept = np.random.default_rng(0).random(len(table)) < 0.9
    holed = FactTable(700, 2, 4, table.subjects[kept], table.relations[kept], table.answers[kept])
    return factual_recall(holed, D, key=KEY, T=6, n_noise=11, p=zipf(holed, 1.5, 0.5), outputs=outputs)


@eqx.filter_jit
def task_accuracy(model: Transformer, task: RecallFacts) -> Array:
    return task.accuracy(model, key=KEY)


@pytest.mark.parametrize("outputs", ["vocabulary", "answers"])
def test_every_fact_is_asked_and_judged_by_the_arg_max(outputs: str) -> None:
    problem = large_problem(outputs)
    # With W_V and W_O aligned to the answers, the whole vocabulary too gets some facts right.
    model = make(SHAPES["with MLP"]) if outputs == "answers" else _says_answers(problem)
    logits = brute_force(model, problem, KEY)
    target = problem.n_tokens + problem.table.answers
    best = np.sort(logits, axis=1)
    clear = best[:, -1] - best[:, -2] > 1e-4 * np.abs(best[:, -1])  # beyond the rounding of two ways to sum
    assert clear.mean() > 0.98
    recalled = recalled_facts(model, problem, key=KEY)
    assert_array_equal(recalled[clear], (logits.argmax(axis=1) == target)[clear])
    assert 0.1 < recalled.mean() < 0.9
    assert fact_accuracy(model, problem, key=KEY) == recalled.mean()
    task = RecallFacts.of(problem, batch=64, columns=1500 if outputs == "answers" else 0)  # padded, or not
    assert float(task_accuracy(model, task)) == pytest.approx(recalled.mean(), abs=1.5 * (~clear).mean() + 1e-6)


def _says_answers(problem: FactualRecall) -> Transformer:
    """Attends to all tokens alike, and maps each to one of the answers or to nothing."""
    answers = problem.phi[problem.n_tokens :]
    W_V = jax.random.normal(KEY, (1, 4, D))
    nothing = jnp.zeros((1, 4, D))
    return Transformer(nothing, nothing, W_V, jnp.asarray(answers)[None])


def test_ties_and_nonsense_are_not_recall() -> None:
    problem = large_problem("answers")
    model = make(SHAPES["with MLP"])
    silent = eqx.tree_at(lambda t: t.W_O, model, 0 * model.W_O)
    broken = eqx.tree_at(lambda t: t.W_O, model, jnp.nan * model.W_O)
    assert fact_accuracy(silent, problem, key=KEY) == 0.0
    assert fact_accuracy(broken, problem, key=KEY) == 0.0


@jitted_gradient
def task_loss(model: Transformer, task: RecallFacts) -> tuple[Array, None]:
    return task.loss(model, key=KEY), None


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("outputs", ["vocabulary", "answers"])
def test_the_loss_is_the_cross_entropy_of_its_batch(outputs: str) -> None:
    problem = some_problem(outputs)
    problem = FactualRecall(problem.table, problem.phi.astype(float), problem.T, zipf(problem.table), outputs)
    model = make(SHAPES["code"])
    prompts = Prompts.of(problem.table, T=problem.T, p=problem.p)

    @jitted_gradient
    def plain(model: Transformer) -> tuple[Array, None]:
        k_facts, k_prompts = jax.random.split(KEY)
        facts = prompts.draw(100, key=k_facts)
        F = model(jnp.asarray(problem.phi)[prompts.sequences(facts, key=k_prompts)])
        scores = F @ jnp.asarray(problem.U).T
        return optax.softmax_cross_entropy_with_integer_labels(scores, prompts.answers[facts]).mean(), None

    (expected, _), expected_gradient = plain(model)
    for columns, n_outputs in [(0, 0), (100, 150)]:
        task = RecallFacts.of(problem, batch=100, columns=columns, n_outputs=n_outputs)
        (value, _), gradient = task_loss(model, task)
        assert_allclose(value, expected, rtol=1e-9)
        for a, b in zip(jax.tree.leaves(gradient), jax.tree.leaves(expected_gradient), strict=True):
            assert_allclose(a, b, rtol=1e-7, atol=1e-10 * np.abs(b).max())


def test_an_empty_batch_is_refused() -> None:
    with pytest.raises(ValueError, match="batch=0"):
        RecallFacts.of(some_problem(), batch=0)


LARGE = """
from facthold.facts.problem import seeded_recall, seeded_table
from facthold.models.sizes import Shape
from facthold.train.protocols import Protocol
from facthold.train.race import train
problem = seeded_recall(seeded_table("random", 512, 512, 8, 0), 8, 0, "code")
assert (len(problem.table), len(problem.U)) == (512 * 512, 4096)
few = Protocol("few", "test", "adam", lr=1e-2, steps=4, check_every=4, futility=None)
run = train(problem, Shape(8, 2, 4, 8), few, 0).run
assert run.steps == 4 and 0 < run.best < 0.1, run
print(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1])
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_scores_of_a_large_table_are_never_held_at_once() -> None:
    """S = R = 512, D = 8: all facts against all answers are 4 GiB of scores.

    The peak is read from /proc: ru_maxrss of a child counts what its parent held when it started.
    """
    done = subprocess.run([sys.executable, "-c", LARGE], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    table = 512 * 512 * 4096 * 4
    assert int(done.stdout) * 1024 < table / 4
