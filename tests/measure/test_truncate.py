"""Truncation: the best part of each rank, of which matrices, and what two factors really save."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from facthold._util.keys import derive
from facthold.construct.induction import untrained
from facthold.measure.truncate import best_rank, matrices, rank_of_share, truncate
from facthold.models.causal import CausalTransformer
from facthold.models.generic import GenericTransformer
from facthold.models.memory import LinearMemory, LowRankMemory, MLPMemory
from facthold.models.transformer import Transformer

D, M = 12, 48
TOKENS = jax.random.randint(derive("tokens"), (3, 10), 0, 7)


def causal(*memories: object) -> CausalTransformer:
    model = untrained(N=7, T=10, d=D, key=derive("causal"))
    memories = memories or tuple(MLPMemory.init(D, M, key=derive("F", i)) for i in range(2))
    return eqx.tree_at(lambda m: [la.F for la in m.layers], model, list(memories), is_leaf=lambda x: x is None)


def facts(H: int = 2, d_h: int = 6) -> Transformer:
    return Transformer.init(D, H, d_h, M, key=derive("facts"), bias=True)


def products(model: Transformer) -> np.ndarray:
    heads = zip(np.asarray(model.W_O, np.float64), np.asarray(model.W_V, np.float64), strict=True)
    return np.concatenate([out.T @ value for out, value in heads], axis=1)


def same(a: object, b: object) -> bool:
    return all((x == y).all() for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True))


@pytest.mark.parametrize("r", range(10))
def test_what_is_missing_are_the_smallest_singular_values(r: int) -> None:
    """Eckart and Young: in the Frobenius norm their root sum of squares, in the spectral norm the largest of them."""
    W = np.random.default_rng(0).standard_normal((9, 14))
    kept, error = best_rank(W, r)
    s = np.linalg.svd(W, compute_uv=False)
    assert np.linalg.matrix_rank(kept) == min(r, 9)
    np.testing.assert_allclose(np.linalg.norm(W - kept), np.sqrt((s[r:] ** 2).sum()), atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(W - kept, 2), s[r] if r < 9 else 0, atol=1e-12)
    assert error == pytest.approx(np.linalg.norm(W - kept) / np.linalg.norm(W), abs=1e-12)


def test_no_other_matrix_of_that_rank_is_nearer() -> None:
    rng = np.random.default_rng(1)
    W = rng.standard_normal((8, 6))
    best = np.linalg.norm(W - best_rank(W, 2)[0])
    for _ in range(50):  # the best for random columns: a projection
        Q, _ = np.linalg.qr(rng.standard_normal((8, 2)))
        assert np.linalg.norm(W - Q @ Q.T @ W) > best


@pytest.mark.parametrize("name", matrices(causal()))
def test_full_rank_is_the_model_and_rank_0_drops_the_matrix(name: str) -> None:
    model = causal()
    assert same(truncate(model, {name: D}).model, model)
    assert same(truncate(model, {name: D + 5}).model, model)
    without = truncate(model, {name: 0}).model
    dropped = [np.asarray(new) for old, new in zip(jax.tree.leaves(model), jax.tree.leaves(without), strict=True)
               if not np.array_equal(old, new)]  # fmt: skip
    assert len(dropped) == (2 if name.startswith("F^") else 1)
    assert not any(W.any() for W in dropped)


@pytest.mark.parametrize("name", ["F^2", "F.W^2", "F.V^2"])
def test_a_dropped_memory_adds_nothing(name: str) -> None:
    model = causal()
    without = eqx.tree_at(lambda m: m.layers[1].F, model, None)
    np.testing.assert_array_equal(np.asarray(truncate(model, {name: 0}).model(TOKENS)), np.asarray(without(TOKENS)))


def test_one_matrix_is_cut_and_the_others_are_left() -> None:
    model, names = causal(), {"W_KQ^1", "W_OV^1", "F^1", "F.W^1", "F.V^1", "W_KQ^2", "W_OV^2", "F^2", "F.W^2", "F.V^2"}
    assert set(matrices(model)) == names
    cut = truncate(model, {"W_OV^2": 3}).model
    assert np.linalg.matrix_rank(np.asarray(cut.layers[1].W_OV)) == 3
    assert same(eqx.tree_at(lambda m: m.layers[1].W_OV, cut, model.layers[1].W_OV), model)


def test_several_at_once_are_the_same_as_one_after_the_other() -> None:
    model = causal()
    at_once = truncate(model, {"F^1": 2, "W_KQ^2": 1})
    in_turn = truncate(truncate(model, {"W_KQ^2": 1}).model, {"F^1": 2})
    assert same(at_once.model, in_turn.model)
    assert [part.name for part in at_once.parts] == ["F.W^1", "F.V^1", "W_KQ^2"]


def test_memories_of_other_kinds_have_their_own_matrices() -> None:
    model = causal(LinearMemory.init(D, key=derive("l")), LowRankMemory.init(D, 4, key=derive("r")))
    assert {"F^1", "F.W^1", "F^2", "F.W_1^2", "F.W_2^2"} < set(matrices(model))
    assert "F.V^1" not in matrices(model)


@pytest.mark.parametrize("r", [0, 1, 5, 9, 10, 12])
def test_two_factors_have_r_times_rows_and_columns_which_may_be_more(r: int) -> None:
    (part,) = truncate(causal(), {"F.V^1": r}).parts
    assert (part.stored, part.factored) == (M * D, r * (M + D))
    assert part.saved == M * D - r * (M + D)
    assert (part.saved < 0) == (r > M * D / (M + D))  # 9.6
    square = truncate(causal(), {"W_OV^1": r})
    assert square.saved == D * D - 2 * r * D
    both = truncate(causal(), {"F.V^1": r, "W_OV^1": r})
    assert both.saved == part.saved + square.saved


@pytest.mark.parametrize(("H", "d_h"), [(2, 6), (3, 2), (1, 12), (4, 6)])
@pytest.mark.parametrize("r", [0, 1, 4])
def test_heads_are_cut_as_one_matrix(H: int, d_h: int, r: int) -> None:
    """U U^T M is the best part of M, computed here from its own singular values."""
    model = facts(H, d_h)
    cut = truncate(model, {"W_OV": r})
    np.testing.assert_allclose(products(cut.model), best_rank(products(model), r)[0], atol=1e-5)
    assert same(eqx.tree_at(lambda m: m.W_O, cut.model, model.W_O), model)
    (part,) = cut.parts
    lost = np.linalg.norm(products(cut.model) - products(model)) / np.linalg.norm(products(model))
    assert part.error == pytest.approx(lost, rel=1e-4)
    assert part.full == min(D, H * d_h)
    assert part.stored == 2 * H * d_h * D
    ways = {r * (D + H * D), r * (D + H * d_h) + (H * d_h * D if r else 0)}
    assert part.factored == min(ways)


def test_of_a_transformer_for_facts() -> None:
    model = facts()
    assert set(matrices(model)) == {"mlp", "mlp.W", "mlp.V", "W_OV"}
    assert set(matrices(Transformer.init(D, 2, 6, key=derive("no mlp")))) == {"W_OV"}
    for name in matrices(model):
        assert same(truncate(model, {name: D}).model, model)
    X = jax.random.normal(derive("X"), (3, 4, D))
    without = eqx.tree_at(lambda m: m.mlp, model, None)
    for name in ("mlp", "mlp.V"):
        np.testing.assert_array_equal(np.asarray(truncate(model, {name: 0}).model(X)), np.asarray(without(X)))
    assert not np.asarray(truncate(model, {"W_OV": 0}).model.W_O).any()
    biased = eqx.tree_at(lambda m: m.mlp.b, model, jnp.ones(M))
    constant = np.asarray(truncate(biased, {"mlp.W": 0}).model.mlp(X))  # a bias is left without the first matrix
    np.testing.assert_allclose(
        constant, np.broadcast_to(np.asarray(model.mlp.V).sum(axis=0), constant.shape), atol=1e-5
    )


def test_what_cannot_be_cut_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="unknown matrix 'W_VO\\^1'; did you mean 'W_OV\\^1'"):
        truncate(causal(), {"W_VO^1": 1})
    with pytest.raises(ValueError, match="r=-1 must be at least 0"):
        truncate(causal(), {"W_OV^1": -1})
    with pytest.raises(ValueError, match="GenericTransformer has no matrices"):
        truncate(GenericTransformer.init(7, 10, 8, key=derive("g")), {"W_OV^1": 1})


def test_a_share_of_d_is_at_least_one_unless_it_is_none() -> None:
    assert [rank_of_share(share, 64) for share in (0, 0.001, 0.01, 0.05, 0.1, 0.2, 1)] == [0, 1, 1, 3, 6, 13, 64]
    with pytest.raises(ValueError, match=r"share=1.2 must be between"):
        rank_of_share(1.2, 64)
