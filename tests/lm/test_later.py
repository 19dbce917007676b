"""Changes at one token: what is computed again is what the whole model computes."""

import jax.numpy as jnp
import numpy as np
import pytest

from facthold.lm import hooks
from facthold.lm.later import SITES, Later
from facthold.lm.library import load
from facthold.lm.model import Batch
from facthold.lm.prompts import facts_for
from facthold.lm.questions import POSITIONS, held, questions
from facthold.lm.tiny import KNOWN, SUBJECTS

PROMPTS = ["The capital of France is", "Peru is located on the continent of", "In the city of Rome people speak a"]


@pytest.mark.parametrize("at", ["last", "middle"])
@pytest.mark.parametrize("place", SITES)
def test_a_change_leads_to_what_the_whole_model_says(place: str, at: str) -> None:
    model = load("tiny")
    batch = model.batch(PROMPTS)
    assert len(set(batch.lengths)) == 3
    positions = batch.last if at == "last" else np.array([3, 1, 4])
    later = Later(model, batch, positions)
    for layer in range(model.config.L):
        value = 3 * later.values[place, layer] + 1
        whole = model.run(batch, hooks={(place, layer): hooks.put(value[:, None], at=positions)}).logits
        np.testing.assert_allclose(later.put(place, layer, value), whole, rtol=1e-4, atol=1e-4)
        same = later.put(place, layer, later.values[place, layer])
        np.testing.assert_allclose(same, model.run(batch).logits, rtol=1e-4, atol=1e-4)
    if place == "heads":
        whole = model.run(batch, hooks={("heads", 1): hooks.put(0.0, at=positions, head=2)}).logits
        found = later.put("heads", 1, jnp.zeros_like(later.values["heads", 1]), head=2)
        np.testing.assert_allclose(found, whole, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("place", ["attention", "mlp"])
def test_changes_in_several_layers_lead_to_what_the_whole_model_says(place: str) -> None:
    model = load("tiny")
    batch = model.batch(PROMPTS)
    later = Later(model, batch, batch.last)
    values = [2 * later.values[place, i] - 1 for i in (1, 2)]
    put = {(place, i): hooks.put(value[:, None], at=batch.last) for i, value in enumerate(values, 1)}
    whole = model.run(batch, hooks=put).logits
    np.testing.assert_allclose(later.put_all(place, 1, values), whole, rtol=1e-4, atol=1e-4)
    assert not np.allclose(later.put(place, 1, values[0]), whole, rtol=1e-2, atol=1e-2)


def test_means_are_those_of_the_other_prompts() -> None:
    model = load("tiny")
    batch = model.batch(PROMPTS)
    later = Later(model, batch, batch.last)
    values = np.asarray(later.values["mlp", 1])
    np.testing.assert_allclose(later.means("mlp", 1)[0], values[1:].mean(0), rtol=1e-4, atol=1e-6)
    with pytest.raises(ValueError, match="needs two prompts or more"):
        Later(model, model.batch(PROMPTS[:1]), np.array([1])).means("mlp", 1)


def test_questions_know_where_their_subject_ends() -> None:
    model = load("tiny")
    for relation in ("capital", "region"):
        found = questions(model, facts_for("tiny", [relation]))
        assert len(found) == len(SUBJECTS)
        for one in found:
            subject = one.fact[0]
            assert model.tokeniser.decode([one.tokens[one.position("subject")]]).strip() == subject
            assert one.position("last") == len(one.tokens) - 1
            assert one.known == (subject in KNOWN) or relation == "region"  # of four regions one may be guessed
            assert one.answer == model.tokeniser.first(one.fact[2])
        assert Batch.of([q.tokens for q in found]).lengths.tolist() == [len(q.tokens) for q in found]
    assert set(POSITIONS) == {"last", "subject"}
    assert 0 < sum(map(held, SUBJECTS)) < len(SUBJECTS)
