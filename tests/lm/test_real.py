"""The real model, where `facthold lm fetch` has got it: `make lm-test`. Skipped, with a word, where it is not there."""

import numpy as np
import pytest

from facthold.lm.asking import ask
from facthold.lm.fetch import SMOLLM2, find_file, missing
from facthold.lm.gguf import Gguf, tensor_name
from facthold.lm.library import load
from facthold.lm.model import LanguageModel
from facthold.lm.parts import contrast, decompose, kept_run
from facthold.lm.text import PARAGRAPH
from gguf_files import SHAPES, plain_logits

ABSENT = missing(SMOLLM2.sha256)
pytestmark = [pytest.mark.real_lm, pytest.mark.slow, pytest.mark.skipif(bool(ABSENT), reason=ABSENT)]


@pytest.fixture(scope="module")
def model() -> LanguageModel:
    return load(SMOLLM2.sha256)


def test_the_perplexity_of_a_paragraph_is_that_of_this_model(model: LanguageModel) -> None:
    """Any slip in the forward pass moves it: with rotary pairs as halves it is several times as large."""
    assert 14.7 < model.perplexity(PARAGRAPH) < 15.0


def test_logits_are_those_of_the_plain_implementation(model: LanguageModel) -> None:
    """All 30 layers in float64, one token and one head at a time, in code that shares nothing with ours."""
    file, c = Gguf(find_file(SMOLLM2.sha256)), model.config
    weights = {tensor_name(name, None): file.weight(name) for name in ("E", "g")}
    for layer in range(c.L):
        weights |= {f"blk.{layer}.{name}.weight": file._dequantised(f"blk.{layer}.{name}.weight") for name in SHAPES}
    tokens = model.encode("The capital of France is")
    sizes = {name: getattr(c, name) for name in ("L", "d", "m", "H", "G", "d_h", "theta", "eps")}
    plain = plain_logits(weights, tokens, **sizes)[-1]
    ours = np.asarray(model.run(model.batch(["The capital of France is"])).logits[0])
    np.testing.assert_allclose(ours, plain, atol=1e-3)  # of logits around 20


def test_it_knows_the_capital_of_france(model: LanguageModel) -> None:
    (found,) = ask(model, ["The capital of France is"])
    assert found.next[0].token == " Paris"
    assert found.next[0].probability > 0.5


def test_parts_of_a_margin_sum_to_it(model: LanguageModel) -> None:
    batch = model.batch(["The capital of France is", "The currency of Japan is the"])
    answers = np.array([model.tokeniser.first(a) for a in ("Paris", "Yen")])
    rivals = np.array([model.tokeniser.first(a) for a in ("Rome", "Euro")])
    run = kept_run(model, batch)
    margin = np.asarray(run.logits)[[0, 1], answers] - np.asarray(run.logits)[[0, 1], rivals]
    np.testing.assert_allclose(decompose(model, run, contrast(model, answers, rivals)).margin, margin, atol=1e-4)


def test_digits_are_single_tokens_and_texts_come_back(model: LanguageModel) -> None:
    tokeniser = model.tokeniser
    assert len(tokeniser.encode("1987", begin=False)) == 4
    assert tokeniser.decode(tokeniser.encode(PARAGRAPH, begin=False)) == PARAGRAPH
    assert tokeniser.begin == 0
