"""Training embeddings: gradients reach every part that is trained, and no other; padding is never moved."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from facthold.facts.problem import FactualRecall, factual_recall
from facthold.facts.table import random_table
from facthold.measure.fact_recall import fact_accuracy
from facthold.memory.associations import Problem, random_problem
from facthold.models.embedded import EmbeddedTransformer, roomy
from facthold.models.memory import LinearMemory, MLPMemory
from facthold.models.transformer import Transformer
from facthold.train.embedded import RecallWithEmbeddings, StoreWithEmbeddings, training
from facthold.train.engine import Member, fit
from facthold.train.protocols import Protocol
from facthold.train.tasks import RecallFacts, StoreAssociations

KEY = jax.random.key(7)
SHORT = Protocol("short", "test", "adam", lr=3e-2, steps=16, check_every=8, goal=1.0, futility=None)


def recall(d: int = 6, S: int = 5) -> FactualRecall:
    return factual_recall(random_table(S, 2, 3, key=KEY), d, key=KEY, n_noise=3, T=6, outputs="answers")


def model(problem: FactualRecall, task: RecallWithEmbeddings) -> EmbeddedTransformer:
    return task.start(Transformer.init(problem.d, 2, 3, 4, key=KEY))


def test_a_memory_scores_as_with_the_same_fixed_embeddings() -> None:
    problem = random_problem(20, 6, key=KEY)
    F = MLPMemory.init(6, 9, key=KEY)
    learned, fixed = StoreWithEmbeddings.of(problem), StoreAssociations.of(problem)
    assert learned.loss(learned.start(F)) == pytest.approx(float(fixed.loss(F)), rel=1e-5)
    assert learned.accuracy(learned.start(F)) == fixed.accuracy(F)


def test_every_embedding_of_a_memory_gets_its_gradient_and_padding_none() -> None:
    problem = random_problem(20, 6, key=KEY)
    task = StoreWithEmbeddings.of(problem)
    found = eqx.filter_grad(lambda m: task.loss(m))(task.start(LinearMemory.init(6, key=KEY)))

    def plain(E: jax.Array, U: jax.Array) -> jax.Array:
        scores = E @ LinearMemory.init(6, key=KEY).W.T @ U.T
        return optax.softmax_cross_entropy_with_integer_labels(scores, problem.f).mean()

    dE, dU = jax.grad(plain, argnums=(0, 1))(problem.E, problem.U)
    assert_allclose(found.E[:20], dE, atol=1e-6)
    assert_allclose(found.U[:20], dU, atol=1e-6)
    assert len(found.E) > 20
    assert_array_equal(found.E[20:], 0)
    assert_array_equal(found.U[20:], 0)


def test_a_transformer_recalls_as_with_the_same_fixed_embeddings() -> None:
    problem = recall()
    learned, fixed = RecallWithEmbeddings.of(problem, batch=32), RecallFacts.of(problem, batch=32)
    start = model(problem, learned)
    assert start.weights is not None
    assert learned.loss(start, key=KEY) == pytest.approx(float(fixed.loss(start.weights, key=KEY)), rel=1e-5)
    assert learned.accuracy(start, key=KEY) == fixed.accuracy(start.weights, key=KEY)


def test_gradients_of_embeddings_are_differences() -> None:
    """Of EOS too, which is both a token of the prompt and what asks."""
    problem = recall()
    task = RecallWithEmbeddings.of(problem, batch=64)
    start, EOS = model(problem, task), problem.EOS
    found = eqx.filter_grad(lambda m: task.loss(m, key=KEY))(start)
    for at, part in (((EOS, 1), "others"), ((0, 2), "others"), ((problem.table.S, 0), "others"), ((1, 3), "U")):
        moved = [
            task.loss(eqx.tree_at(lambda m: getattr(m, part), start, getattr(start, part).at[at].add(h)), key=KEY)  # noqa: B023
            for h in (1e-2, -1e-2)
        ]
        slope = float(moved[0] - moved[1]) / 2e-2
        assert float(getattr(found, part)[at]) == pytest.approx(slope, rel=0.05, abs=2e-4), (at, part)


@pytest.mark.parametrize(
    ("trained", "moved"), [("all", {"weights", "others", "U"}), ("weights", {"weights"}), ("subjects", {"subjects"})]
)
def test_what_is_trained_moves_and_nothing_else(trained: str, moved: set[str]) -> None:
    problem = recall()
    task = RecallWithEmbeddings.of(problem, batch=32)
    start = model(problem, task)
    if trained == "subjects":
        start = start.for_subjects(start.phi[:5], slice(5, None))
    race = training(task, start, trained, (1e-2, 3e-2), key=KEY)
    run = fit(race, SHORT)[0]
    end = race[0].task.whole(run.model)  # type: ignore[attr-defined]
    for name in ("weights", "others", "U", "subjects"):
        before, after = (jax.tree.leaves(getattr(m, name)) for m in (start, end))
        same = [np.array_equal(a, b) for a, b in zip(before, after, strict=True)]
        assert not any(same) if name in moved else all(same), name


def test_new_subjects_leave_all_other_tokens_as_they_are() -> None:
    problem = recall()
    start = model(problem, RecallWithEmbeddings.of(problem))
    new = start.for_subjects(-start.phi[:3], slice(5, problem.n_tokens))
    assert_array_equal(new.phi[3:], start.phi[5:])
    assert_array_equal(new.phi[:3], -start.phi[:3])
    assert new.weights is start.weights


def test_learned_facts_are_recalled_by_the_model_with_its_embeddings() -> None:
    """What training says is what the measure says of the same weights and embeddings."""
    problem = recall(d=8)
    task = RecallWithEmbeddings.of(problem, batch=64)
    race = training(task, model(problem, task), "all", (3e-2,), key=KEY)
    run = fit(race, dataclasses.replace(SHORT, steps=512, check_every=64))[0]
    assert run.status == "reached"
    end = race[0].task.whole(run.model)  # type: ignore[attr-defined]
    phi = np.concatenate([end.phi, end.U])
    assert fact_accuracy(end.weights, dataclasses.replace(problem, phi=phi, drawing=None), key=KEY) == 1.0
    assert np.abs(phi - problem.phi).max() > 0.05


@pytest.mark.parametrize("learned", [False, True])
@pytest.mark.parametrize("m", [0, 8])
def test_zeros_that_make_a_memory_wider_are_never_moved(learned: bool, m: int) -> None:
    """So that a padded model of dimension d is one of dimension d, step by step."""
    problem = random_problem(12, 4, key=KEY)

    def initial(d: int) -> Any:
        return MLPMemory.init(d, m * d // 4, key=KEY) if m else LinearMemory.init(d, key=KEY)

    E, U = (jnp.pad(X, ((0, 0), (0, 3))) for X in (problem.E, problem.U))
    ends = []
    for F, ours in ((initial(4), problem), (roomy(initial(4), initial(7)), Problem(E, U, problem.f))):
        task: Any = (StoreWithEmbeddings if learned else StoreAssociations).of(ours)
        run = fit([Member(task.start(F) if learned else F, task, KEY)], SHORT)[0]
        ends.append(jax.tree.leaves(run.model))
    for small, large in zip(*ends, strict=True):
        inside = tuple(slice(n) for n in small.shape)
        assert_allclose(large[inside], small, atol=2e-5)
        assert np.abs(large).sum() == pytest.approx(np.abs(large[inside]).sum(), rel=1e-6)


def test_zeros_that_make_a_transformer_wider_are_never_moved() -> None:
    problem = recall(d=4)
    wide = dataclasses.replace(problem, phi=np.pad(problem.phi, [(0, 0), (0, 4)]), drawing=None)
    small, large = (Transformer.init(d, 2, d // 2, 2 * d, key=KEY) for d in (4, 8))
    ends = []
    for ours, weights in ((problem, small), (wide, roomy(small, large))):
        task = RecallWithEmbeddings.of(ours, batch=32)
        ends.append(jax.tree.leaves(fit(training(task, task.start(weights), "all", (1e-2,), key=KEY), SHORT)[0].model))
    for a, b in zip(*ends, strict=True):
        inside = tuple(slice(n) for n in a.shape)
        assert_allclose(b[inside], a, atol=2e-4)
        assert np.abs(b).sum() == pytest.approx(np.abs(b[inside]).sum(), rel=1e-6)


def test_more_room_changes_no_loss_and_no_recall() -> None:
    memory, F = random_problem(20, 6, key=KEY), LinearMemory.init(6, key=KEY)
    tight, wide = (StoreAssociations.of(memory, least=least) for least in (0, 128))
    assert len(wide.counted) == 128
    assert wide.loss(F) == pytest.approx(float(tight.loss(F)), rel=1e-5)
    assert wide.accuracy(F) == tight.accuracy(F)
    problem = recall()
    small = RecallWithEmbeddings.of(problem, batch=32, columns=problem.n_tokens)
    large = RecallWithEmbeddings.of(problem, batch=32, columns=problem.n_tokens, rows=500)
    assert len(large.questions.prompts.subjects) == 1024  # the next power of four
    start = model(problem, small)
    assert large.loss(start, key=KEY) == pytest.approx(float(small.loss(start, key=KEY)), rel=1e-5)
    assert large.accuracy(start, key=KEY) == small.accuracy(start, key=KEY)


def test_parts_that_are_left_out_are_named() -> None:
    problem = recall()
    task = RecallWithEmbeddings.of(problem)
    start = model(problem, task)
    with pytest.raises(ValueError, match="unknown trained part 'weight'"):
        start.split("weight")
    with pytest.raises(ValueError, match="subjects stand apart where they are trained alone"):
        start.split("subjects")
    with pytest.raises(ValueError, match="combine this model"):
        _ = start.split("all")[1].phi
