"""Locating: the parts add up to the margin, and ablation agrees with them."""

from collections.abc import Callable

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

import known
from facthold._util.errors import FactholdError
from facthold.knowledge.locate import DIRECT, TIE, locate_all
from facthold.knowledge.model import Model
from facthold.models.forward import Forward, table_prompts
from facthold.models.judge import judge_table
from known import Known

MODELS: dict[str, Callable[[], Known]] = {
    "built": known.countries,
    "vocabulary": lambda: known.countries("vocabulary"),
    "numbers": known.numbers,
    "attention alone": known.attention_alone,
    "with bias": known.random_model,
}


@pytest.fixture(params=MODELS)
def model_and_problem(request: pytest.FixtureRequest) -> Known:
    return MODELS[request.param]()


def test_the_parts_of_every_fact_add_up_to_its_margin(model_and_problem: Known) -> None:
    model, problem = model_and_problem
    found = locate_all(Model(model, problem))
    told = judge_table(model, problem)
    np.testing.assert_array_equal(found.margin, told.margin)
    parts = np.concatenate([found.direct, found.through, found.bias[:, None]], axis=1)
    # 2^-53 for each of the products of which a part is made, as many as there are dimensions and neurons
    tolerance = (problem.d + model.m + parts.shape[1]) * 2.0**-53 * np.abs(parts).sum(axis=1)
    assert (np.abs(parts.sum(axis=1) - found.margin) <= 4 * tolerance).all()
    assert (np.abs(found.direct.sum(axis=1) + found.mlp - found.margin) <= 4 * tolerance).all()
    assert (model.mlp is not None and model.mlp.b is not None) == bool(np.any(found.bias))


def test_an_activation_that_cannot_be_split_is_one_part() -> None:
    model, problem = known.polynomial()
    found = locate_all(Model(model, problem))
    assert not found.through.any()
    total = found.direct.sum(axis=1) + found.mlp
    np.testing.assert_allclose(total, found.margin, atol=1e-12 * np.abs(found.direct).sum())


def test_ablating_is_setting_weights_to_zero(model_and_problem: Known) -> None:
    model, problem = model_and_problem
    found, whole = locate_all(Model(model, problem)), judge_table(model, problem).said
    without = [eqx.tree_at(lambda t: t.W_O, model, model.W_O.at[h].set(0)) for h in range(model.H)]
    if model.mlp is not None:
        without.append(eqx.tree_at(lambda t: t.mlp.V, model, jnp.zeros_like(model.mlp.V)))
    columns = [*range(model.H), *([len(found.components) - 1] if model.mlp is not None else [])]
    for c, ablated in zip(columns, without, strict=True):
        told = judge_table(ablated, problem)
        scale = np.abs(found.contributions).max()
        np.testing.assert_allclose(found.ablated[:, c], told.margin, rtol=1e-6, atol=1e-9 * scale)
        np.testing.assert_array_equal(found.changed[:, c], told.said != whole)


def test_without_its_direct_path_a_model_is_its_mlp() -> None:
    model, problem = known.random_model()
    found = locate_all(Model(model, problem))
    c = found.components.index(DIRECT)
    states = Forward.of(model, problem).states(table_prompts(problem)[0])
    scores = (states.hidden @ np.asarray(model.mlp.V, np.float64)) @ problem.U.T
    rows = np.arange(len(scores))
    own = scores[rows, problem.table.answers]
    scores[rows, problem.table.answers] = -np.inf
    np.testing.assert_allclose(found.ablated[:, c], own - scores.max(axis=1), atol=1e-9)


def test_a_tie_is_not_what_the_model_says() -> None:
    """Without the direct path nothing is left where no neuron is on: all scores are zero."""
    model, problem = known.random_model()
    off = eqx.tree_at(lambda m: m.mlp.b, model, jnp.full_like(model.mlp.b, -1e6))
    facts = Model(off, problem)
    found = locate_all(facts)
    c, recalled = found.components.index(DIRECT), judge_table(off, problem).recalled
    assert recalled.any()
    np.testing.assert_array_equal(found.ablated[:, c], 0)
    assert found.changed[recalled, c].all()
    row = int(np.flatnonzero(recalled)[0])
    table = problem.table
    location = facts.locate(int(table.subjects[row]), int(table.relations[row]))
    (part,) = [part for part in location.parts if part.name == DIRECT]
    assert part.changed
    assert part.says == TIE


@pytest.mark.parametrize("which", ["built", "numbers", "attention alone"])
def test_without_what_is_named_first_the_answer_changes_wherever_it_changes_at_all(which: str) -> None:
    """Of a fact that is held: the margin falls below zero before the answer is another."""
    found = locate_all(Model(*MODELS[which]()))
    assert (found.margin > 0).all()
    by_rank = found.changed_by_rank()
    assert by_rank[0] == found.changed.any(axis=1).mean() > by_rank[-1]
    assert (np.diff(by_rank) <= 0).all()
    for fact, order in enumerate(found.order):  # what counts most is first, whatever it adds
        assert (np.diff(found.ablated[fact, order]) >= 0).all()


def test_a_fact_that_is_not_held_is_said_not_to_be() -> None:
    model = Model(*known.random_model())
    told = model.ask_all()
    wrong, right = (next(a for a in told if a.right is value) for value in (False, True))
    assert model.locate(wrong.subject, wrong.relation).sentence.startswith("It is not held: ")
    assert "hold" in model.locate(right.subject, right.relation).sentence.partition("not held")[0]


def test_one_fact_in_words() -> None:
    model, problem = known.countries()
    found = Model(model, problem).locate("france", "capital")
    everything = locate_all(Model(model, problem))
    assert (found.subject, found.relation, found.answer) == ("France", "capital", "Paris")
    assert found.margin == pytest.approx(Model(model, problem).ask("France", "capital").margin)
    assert found.margin == pytest.approx(everything.margin[0])
    assert [part.name for part in found.parts] == [everything.components[c] for c in everything.order[0]]
    falls = [found.margin - part.ablated for part in found.parts]
    assert falls == sorted(falls, reverse=True)  # what counts comes first
    assert found.mlp + found.direct == pytest.approx(found.margin)
    assert found.mlp > 0.9 * found.margin  # a built model has its facts there
    assert found.sentence.startswith("The MLP holds ")
    heads = found.heads
    assert sum(part.direct + part.through for part in heads) == pytest.approx(found.margin)
    for part in heads:  # heads of other tokens look at EOS, those without any at everything, and add nothing
        if not part.attends.startswith(("subject", "relation")):
            assert abs(part.contribution) < 1e-3 * found.margin
    assert sum(part.attends.startswith("relation") for part in heads) == 1
    assert len(found.neurons) == 5


def test_a_pair_that_is_not_in_the_table_is_held_nowhere() -> None:
    with pytest.raises(FactholdError, match="is not in the table, so no weights hold it"):
        Model(*known.countries()).locate("Sudan", "official_language")
