"""Transformers that hold facts without training: their weights, what they attend to, and recall of every fact."""

import math
from collections.abc import Callable
from functools import cache
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array
from numpy.testing import assert_allclose, assert_array_equal

from facthold.construct.attention import LEAK, attention_only, gaps, hebbian_keys, partition, partition_into
from facthold.construct.attention_mlp import attention_and_mlp, largest_partition, two_subspaces
from facthold.construct.selected import READOUTS, selecting_attention, solve_values, solved_values
from facthold.facts.problem import FactualRecall, factual_recall
from facthold.facts.prompts import Prompts
from facthold.facts.table import NO_FACT, FactTable, random_table
from facthold.measure.fact_recall import BLOCK, fact_margins, recalled_facts
from facthold.memory.activations import RELU, Polynomial
from facthold.models.saving import load_model, save_model
from facthold.models.transformer import Transformer

KEY = jax.random.key(21)
SINGLE = float(np.finfo(np.float32).eps)
COMPLETE = random_table(8, 8, 4, key=KEY)
HALF = np.random.default_rng(0).random((8, 8)) < 0.5
SILENT = np.arange(8)[:, None] != 3  # subject 3 has no facts
TABLES = {
    "complete": COMPLETE,
    "half": FactTable.from_matrix(np.where(HALF, COMPLETE.matrix, NO_FACT), A=32),
    "silent subject": FactTable.from_matrix(np.where(SILENT, COMPLETE.matrix, NO_FACT), A=32),
}
BUILDS: dict[str, tuple[int, Callable[[FactualRecall], Transformer]]] = {
    "attention": (256, lambda problem: attention_only(problem, 9, 128, key=KEY, per_head=2)),  # one head to spare
    "MLP": (129, lambda problem: attention_and_mlp(problem, 1024, key=KEY, per_subset=2)),
    "values": (16, lambda problem: solved_values(problem, 2)),
} | {how: (16, lambda problem, how=how: selecting_attention(problem, 64, key=KEY, how=how)) for how in READOUTS}
SELECTING = {"attention": 2, "MLP": 2, "values": 2, "convex": 1}
"""Tokens that a head serves in each of them."""


@cache
def build(name: str, table: str = "complete") -> tuple[FactualRecall, Transformer]:
    d, make = BUILDS[name]
    problem = factual_recall(TABLES[table], d, key=KEY, T=16)
    return problem, make(problem)


@cache
def asked() -> tuple[np.ndarray, np.ndarray]:
    """Prompts of the complete table as sequences and as counts, each fact 16 times: first those of `fact_margins`."""
    prompts = Prompts.of(COMPLETE, T=16)
    facts, key = jnp.tile(jnp.arange(64), BLOCK // 64), jax.random.fold_in(KEY, 0)
    return np.asarray(prompts.sequences(facts, key=key)), np.asarray(prompts.counts(facts, key=key))


def small(d: int = 24, table: FactTable = COMPLETE, embeddings: str = "sphere") -> FactualRecall:
    return factual_recall(table, d, key=KEY, T=16, embeddings=embeddings)


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("name", BUILDS)
def test_every_fact_is_recalled_in_any_noise(name: str, table: str) -> None:
    problem, model = build(name, table)
    margins = fact_margins(model, problem, key=KEY, draws=20)
    assert margins.shape == (20, len(problem.table))
    assert (margins > 0).all()


@pytest.mark.parametrize("name", BUILDS)
def test_they_are_what_training_returns(name: str) -> None:
    problem, model = build(name)
    H, d_h, m = {"attention": (9, 128, 0), "MLP": (8, 129, 1024), "values": (8, 2, 0)}.get(name, (16, 1, 64))
    sigma = RELU if model.mlp is None else model.mlp.sigma
    like = eqx.filter_eval_shape(lambda: Transformer.init(problem.d, H, d_h, m, key=KEY, sigma=sigma))
    assert jax.tree.structure(model) == jax.tree.structure(like)
    assert [(a.shape, a.dtype) for a in jax.tree.leaves(model)] == [(a.shape, a.dtype) for a in jax.tree.leaves(like)]


@pytest.mark.parametrize("embeddings", ["sphere", "gaussian"])
def test_keys_and_queries_are_the_sum_of_the_proof(embeddings: str) -> None:
    """W_K^T W_Q = beta sum_z phi(z) phi(EOS)^T + beta/2 phi(EOS) phi(EOS)^T, over |phi(EOS)|^2 where it is not 1."""
    problem, beta = small(embeddings=embeddings), 5.0
    phi, EOS = problem.phi.astype(float), problem.phi[problem.EOS].astype(float)
    unit = EOS if embeddings == "sphere" else EOS / (EOS @ EOS)
    for model, repeat in (
        (attention_only(problem, 8, 3, key=KEY, per_head=2, beta=beta), 1),
        (attention_and_mlp(problem, 2, key=KEY, d_h=9, per_subset=2, beta=beta), 3),
    ):
        W_K, W_Q = np.asarray(model.W_K, float), np.asarray(model.W_Q, float)
        for h, tokens in enumerate(np.repeat(partition(problem, 2), repeat, axis=0)):
            expected = beta * np.outer(phi[tokens].sum(axis=0) + EOS / 2, unit)
            assert_allclose(W_K[h].T @ W_Q[h], expected, rtol=0, atol=4 * SINGLE * np.abs(expected).max())


@pytest.mark.parametrize("name", SELECTING)
def test_attention_is_a_selection(name: str) -> None:
    """In prompts as sequences, each head gives all but LEAK to its subset's token, or to EOS where there is none."""
    problem, model = build(name)
    (tokens, _), subsets = asked(), partition(problem, SELECTING[name])
    W_K, W_Q = np.asarray(model.W_K, float), np.asarray(model.W_Q, float)
    keys = np.einsum("hid,hie,e->hd", W_K, W_Q, problem.phi[problem.EOS])
    scores = (problem.phi @ keys.T)[tokens]
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    leak = LEAK * math.exp(4 * SINGLE * np.abs(scores).max())  # weights are float32
    for h, subset in enumerate(subsets):
        right = np.isin(tokens, subset)
        right[~right.any(axis=1), -1] = True
        assert (right.sum(axis=1) == 1).all()
        assert (weights[~right, h].reshape(len(tokens), -1).sum(axis=1) <= leak).all()
    assert not any(np.asarray(W[len(subsets) :]).any() for W in (model.W_V, model.W_O))  # spare heads say nothing


@pytest.mark.parametrize("d", [3, 4, 9, 24])
def test_two_subspaces(d: int) -> None:
    problem = small(d, embeddings="gaussian")
    P, Q = two_subspaces(problem, key=KEY)
    assert P.shape == Q.shape == ((d - 1) // 2, d)
    both = np.concatenate([P, Q])
    assert_allclose(both @ both.T, np.eye(len(both)), atol=1e-13)
    assert_allclose(both @ problem.phi[problem.EOS].astype(float), 0, atol=1e-13)


@pytest.mark.parametrize("d_h", [5, 12, 24, 40])
def test_heads_of_a_subset_project(d_h: int) -> None:
    """sum_h W_O^T W_V over the ceil(d / d_h) heads of a subset: one projection for subjects, and one for relations."""
    problem, repeat = small(), math.ceil(24 / d_h)
    model = attention_and_mlp(problem, 1, key=KEY, d_h=d_h, per_subset=4)
    assert repeat * 4 == model.H
    W_O, W_V = (np.asarray(W, float).reshape(4, repeat * d_h, 24) for W in (model.W_O, model.W_V))
    maps = np.einsum("nid,nie->nde", W_O, W_V)
    tolerance = 24 * SINGLE
    assert_allclose(maps[[0, 2]], maps[[1, 3]], rtol=0, atol=tolerance)  # subjects, then relations
    for i, j in ((0, 0), (2, 2), (0, 2)):
        assert_allclose(maps[i] @ maps[j], maps[i] if i == j else 0, atol=tolerance)
        assert np.trace(maps[i]) == pytest.approx((24 - 1) // 2, abs=tolerance)
        assert_allclose(maps[j] @ problem.phi[problem.EOS], 0, atol=tolerance)


def test_the_largest_partition_is_one_for_which_lemma_1_holds() -> None:
    problem = small(129)
    subsets = largest_partition(problem)
    assert_array_equal(np.sort(np.concatenate(subsets)), np.arange(16))
    assert gaps(problem, hebbian_keys(problem, subsets), subsets).min() > 0
    twice = partition(problem, 2 * len(subsets[0]))
    assert gaps(problem, hebbian_keys(problem, twice), twice).min() <= 0
    assert max(map(len, partition_into(problem, 5))) == 4  # 2 + 2 subsets; with 3 a subset there would be 3 + 3


@eqx.filter_jit
def both_views(model: Transformer, tokens: Array, counts: Array, phi: Array) -> tuple[Array, Array]:
    n_tokens = counts.shape[1]
    return model(phi[tokens]) @ phi.T, model.of_counts(counts, phi[:n_tokens], phi[n_tokens - 1]) @ phi.T


@pytest.mark.parametrize("name", ["attention", "MLP", "values", "layerwise"])
def test_counts_and_sequences_say_the_same(name: str) -> None:
    """Both views in float64, and the margins as they are measured, in float32 from counts."""
    (problem, model), (tokens, counts) = build(name), asked()
    with jax.enable_x64(True):
        wide = jax.tree.map(lambda a: a.astype(float), model)
        logits, by_counts = map(np.asarray, both_views(wide, tokens[:64], counts[:64].astype(float), problem.phi))
    assert logits.dtype == float
    assert_allclose(by_counts, logits, rtol=1e-9, atol=1e-9 * np.abs(logits).max())
    target = problem.n_tokens + problem.table.answers[:, None]
    rivals = np.where(np.arange(len(problem.phi)) == target, -np.inf, logits)
    margins = np.take_along_axis(logits, target, axis=1)[:, 0] - rivals.max(axis=1)
    tolerance = (model.H * model.d_h + model.m + model.d) * SINGLE * np.abs(logits).max()  # so many terms are summed
    assert_allclose(fact_margins(model, problem, key=KEY)[0], margins, rtol=0, atol=tolerance)


def test_margins_are_positive_exactly_where_facts_are_recalled() -> None:
    """More facts than a block, and a model that holds some of them."""
    problem = factual_recall(random_table(400, 3, 4, key=KEY), 24, key=KEY, T=6)
    model = attention_only(problem, 12, 8, key=KEY)
    recalled = recalled_facts(model, problem, key=KEY)
    margins = fact_margins(model, problem, key=KEY, draws=2)
    assert_array_equal(margins[0] > 0, recalled)
    assert 0 < recalled.sum() < len(recalled) == 1200
    assert not np.array_equal(margins[0], margins[1])  # fresh noise


def test_an_infinite_score_is_no_recall() -> None:
    """Answers score about 2 and rivals about 1: times 2.4e38, some answers alone leave float32."""
    problem, model = build("attention")
    loud = eqx.tree_at(lambda t: t.W_O, model, 2.4e38 * model.W_O)
    recalled = recalled_facts(loud, problem, key=KEY)
    assert not recalled.all()
    assert_array_equal(fact_margins(loud, problem, key=KEY)[0] > 0, recalled)


def test_ridge_values_are_the_additive_least_squares() -> None:
    """With orthogonal embeddings the scores are the projection of the one-hot answers onto sums of s and of r.

    For a complete table it is the mean over r and over s: an answer wins by how often it occurs, whatever d is.
    """
    problem, n = small(72, embeddings="orthogonal"), np.arange(64)
    u = solve_values(problem, "ridge")
    scores = (u[COMPLETE.subjects] + u[8 + COMPLETE.relations]) @ problem.phi[problem.n_tokens :].T
    wanted = np.zeros((64, 32))
    wanted[n, COMPLETE.answers] = 1
    grid = wanted.reshape(8, 8, 32)  # s, r, a
    fitted = grid.mean(axis=0) + grid.mean(axis=1, keepdims=True) - grid.mean(axis=(0, 1))
    assert_allclose(scores, fitted.reshape(64, 32), rtol=0, atol=4e-6)  # a ridge of 1e-6


@pytest.mark.parametrize("name", BUILDS)
def test_saved_and_loaded_they_say_the_same(name: str, tmp_path: Path) -> None:
    problem, model = build(name)
    loaded, its_problem = load_model(save_model(tmp_path / "facts.safetensors", model, problem))
    assert jax.tree.structure(loaded) == jax.tree.structure(model)
    assert_array_equal(fact_margins(loaded, its_problem, key=KEY), fact_margins(model, problem, key=KEY))
    if name == "MLP":
        assert loaded.mlp.sigma == Polynomial((0.0, 0.0, 1.0))
        assert recalled_facts(loaded, its_problem, key=KEY).all()


SWAPPED = FactTable.from_rows([("s1", "r1", "a"), ("s1", "r2", "b"), ("s2", "r1", "b"), ("s2", "r2", "a")])
REFUSED: dict[str, Callable[[], Transformer]] = {
    "d=2 has no room.*take d >= 3": lambda: attention_only(small(2), 4, 4, key=KEY),
    "d=2 has no.*take d >= 3": lambda: attention_and_mlp(small(2), 4, key=KEY),
    "d=2 has.*take d >= 3": lambda: solved_values(small(2)),
    "d=2.*take d >= 3": lambda: selecting_attention(small(2), 4, key=KEY),
    "H=1 is too few.*at least 2": lambda: attention_only(small(), 1, 4, key=KEY),
    "H=3 heads of 4 tokens each are too few.*needs 4": lambda: attention_only(small(), 3, 4, key=KEY, per_head=4),
    "d=24 has no room for two heads of d_h=13; take d >= 26": lambda: selecting_attention(small(), 4, key=KEY, d_h=13),
    "d_h=1 has two directions.*serves 4 tokens": lambda: selecting_attention(small(4), 4, key=KEY, d_h=1),
    "m=0.*at least 1": lambda: attention_and_mlp(small(), 0, key=KEY),
    "m=0.*a width of at least 1": lambda: selecting_attention(small(), 0, key=KEY),
    r"'relu' has no.*p \+ k = 3": lambda: attention_and_mlp(small(), 4, key=KEY, k=2, sigma=RELU),
    r"p \+ k = 2.*smaller p and k": lambda: attention_and_mlp(small(), 4, key=KEY, sigma=Polynomial((1.0, 1.0))),
    "d_h=24 tokens.*d=24; take d_h < d": lambda: solved_values(small(), 24),
    "4 facts.*'s1', 'r1'.*with an MLP": lambda: attention_only(small(table=SWAPPED), 4, 4, key=KEY),
    "unknown.*'layerwize'; did you mean 'layerwise'": lambda: selecting_attention(small(), 4, key=KEY, how="layerwize"),
    "unknown.*'rigde'; did you mean 'ridge'": lambda: solved_values(small(), how="rigde"),
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_cannot_work_is_refused(message: str) -> None:
    with pytest.raises(ValueError, match=message):
        REFUSED[message]()


def test_facts_that_nothing_additive_holds() -> None:
    """s + r mod 2: what is linear in the codes says nothing of the answer."""
    s, r = np.divmod(np.arange(16), 4)
    table = FactTable(4, 4, 2, s, r, (s + r) % 2)
    problem = factual_recall(table, 16, key=jax.random.key(3))
    model = selecting_attention(problem, 64, key=jax.random.key(4))
    assert (fact_margins(model, problem, key=jax.random.key(5), draws=3) > 0).all()
