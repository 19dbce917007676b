"""Cuts of a language model, by identities: full rank is the whole matrix, rank 0 takes it away."""

import numpy as np
import pytest

from facthold.lm import hooks
from facthold.lm.choices import MATRICES
from facthold.lm.from_layer import FromLayer
from facthold.lm.library import load
from facthold.lm.model import LanguageModel
from facthold.lm.prompts import facts_for
from facthold.lm.tiny import KNOWN, LAYER
from facthold.lm.truncation import PROMPT, full_rank, hits, located_facts, truncated, truncations

PROMPTS = ["The capital of France is", "The currency of Japan is the", "Madrid is located in"]


@pytest.fixture(scope="module")
def model() -> LanguageModel:
    return load("tiny")


@pytest.mark.parametrize("matrix", MATRICES)
def test_full_rank_is_the_model_to_the_bit(model: LanguageModel, matrix: str) -> None:
    cut = truncated(model, 2, matrix, full_rank(model, matrix))
    batch = model.batch(PROMPTS)
    np.testing.assert_array_equal(cut.run(batch).logits, model.run(batch).logits)


@pytest.mark.parametrize(
    ("matrix", "place"),
    [("mlp", "mlp"), ("W_down", "mlp"), ("W_up", "mlp"), ("W_gate", "mlp"), ("W_O", "attention"), ("W_V", "attention"),
     ("attention", "attention")],
)  # fmt: skip
def test_rank_0_takes_the_whole_part_away(model: LanguageModel, matrix: str, place: str) -> None:
    batch = model.batch(PROMPTS)
    without = model.run(batch, hooks={(place, 1): hooks.put(0.0)}).logits
    np.testing.assert_allclose(truncated(model, 1, matrix, 0).run(batch).logits, without, atol=1e-4)


def test_a_rank_is_that_of_the_matrix_and_nothing_is_nearer(model: LanguageModel) -> None:
    W = np.asarray(model.layers[0]["W_down"], np.float64)
    s = np.linalg.svd(W, compute_uv=False)
    for rank, cut in truncations(model, 0, "W_down", [1, 7, 40]).items():
        kept = np.asarray(cut.layers[0]["W_down"], np.float64)
        assert np.linalg.matrix_rank(kept, tol=1e-4 * s[0]) == rank
        np.testing.assert_allclose(np.linalg.norm(W - kept), np.sqrt((s[rank:] ** 2).sum()), rtol=1e-4)
        assert cut.layers[1] is model.layers[1]  # all others are shared


def test_wrong_cuts_name_what_is_wrong(model: LanguageModel) -> None:
    for layer, matrix, rank, says in (
        (3, "mlp", 0, "layer=3 must be from 0 to 2"), (-1, "mlp", 0, "layer=-1 must be from 0 to 2"),
        (0, "W_X", 0, "unknown matrix 'W_X'"), (0, "W_K", 33, "rank=33 must be from 0 to 32, the full rank of W_K"),
        (0, "mlp", -1, "rank=-1 must be"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=says):
            truncated(model, layer, matrix, rank)


def test_facts_are_those_that_the_model_knows(model: LanguageModel) -> None:
    facts = located_facts(model, facts_for("tiny"))
    assert {country for _, _, country in facts} == set(KNOWN)
    assert located_facts(model, facts_for("tiny")[::-1]) == facts  # whatever order they come in


def test_a_question_that_begins_at_a_layer_is_the_whole_one(model: LanguageModel) -> None:
    capitals, countries = ["Paris", "Tokyo", "Madrid"], ["France", "Japan", "Spain"]
    asked = FromLayer(model, [PROMPT.format(c) for c in capitals], countries, LAYER)
    cut = truncated(model, LAYER, "attention", 0)
    whole = cut.run(model.batch([PROMPT.format(c) for c in capitals])).logits
    np.testing.assert_allclose(asked.logits(cut), whole, atol=1e-5)
    prompts = [f"The capital of {c} is" for c in countries]
    known = hits(FromLayer(model, prompts, capitals, 2), model, capitals)
    assert known.first.all()
    assert known.fact.all()
    missed = hits(FromLayer(model, prompts, capitals[::-1], 2), model, capitals)
    assert missed.first.tolist() == missed.fact.tolist() == [False, True, False]
