"""Edits in closed form, by identities; and their file, which is whole and of its model or refused."""

from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from facthold._util.errors import FactholdError
from facthold.lm.editing import (
    NEIGHBOURS,
    Covariance,
    Edit,
    answer_token,
    changes,
    closed_form,
    covariances,
    edited,
    plain_keys,
    subject_keys,
    subject_place,
    text_keys,
    values,
)
from facthold.lm.edits_file import load_edits, save_edits, with_edits
from facthold.lm.library import load
from facthold.lm.model import LanguageModel
from facthold.lm.tokeniser import Tokeniser

EDIT = Edit("The capital of France is", "France", "Rome")


@pytest.fixture(scope="module")
def model() -> LanguageModel:
    return load("tiny")


@pytest.fixture(scope="module")
def after(model: LanguageModel) -> LanguageModel:
    near = plain_keys(model, 0, [(f"The capital of {s} is", s) for s in ("Spain", "Germany")])
    C = covariances(text_keys(model, 0), near)[NEIGHBOURS]
    return edited(model, 0, subject_keys(model, 0, [EDIT]), values(model, 0, [EDIT]), C)


def test_the_key_is_mapped_to_the_value_exactly_and_the_identity_moves_least() -> None:
    rng = np.random.default_rng(0)
    W, k, v, X = rng.normal(size=(5, 8)), rng.normal(size=8), rng.normal(size=5), rng.normal(size=(30, 8))
    for C in (Covariance(), Covariance(X), Covariance(X, X[:3])):
        np.testing.assert_allclose(closed_form(W, k, v, C) @ k, v, atol=1e-10)
    least = np.linalg.norm(closed_form(W, k, v, Covariance()) - W)
    assert least == pytest.approx(np.linalg.norm(v - W @ k) / np.linalg.norm(k))  # the least that any change can have
    assert np.linalg.norm(closed_form(W, k, v, Covariance(X)) - W) > least


def test_what_c_is_of_moves_less() -> None:
    """The change in C's norm is least: no other with W k = v has less. And Woodbury's system is C's own."""
    rng = np.random.default_rng(1)
    W, k, v, X = rng.normal(size=(5, 8)), rng.normal(size=8), rng.normal(size=5), rng.normal(size=(30, 8))
    C = Covariance(X)
    whole = C.ridge * np.eye(8) + X.T @ X / len(X)
    np.testing.assert_allclose(whole @ C.solve(k), k, atol=1e-9)
    moved = closed_form(W, k, v, C) - W
    other = rng.normal(size=(5, 8))
    other -= np.outer(other @ k, k) / (k @ k)  # leaves W k as it is
    assert abs(np.trace(moved @ whole @ other.T)) < 1e-9  # so that adding it only adds to the norm


def test_keys_of_a_layer_do_not_hang_on_its_own_w_down(model: LanguageModel, after: LanguageModel) -> None:
    np.testing.assert_array_equal(subject_keys(after, 0, [EDIT]), subject_keys(model, 0, [EDIT]))


def test_an_edit_takes_and_undoing_it_gives_the_same_bits(
    model: LanguageModel, after: LanguageModel, tmp_path: Path
) -> None:
    batch = model.batch([EDIT.prompt, "The capital of Poland is"])
    before = np.asarray(model.run(batch).logits)
    now = np.asarray(after.run(batch).logits)
    assert now[0].argmax() == model.tokeniser.first("Rome")
    assert now[1].argmax() == before[1].argmax()
    path = save_edits(tmp_path / "e.safetensors", "tiny", [EDIT], changes(model, after))
    kept = load_edits(path, "tiny")
    assert kept.made == ({"prompt": EDIT.prompt, "subject": "France", "answer": "Rome"},)
    assert list(kept.weights) == [(0, "W_down")]
    np.testing.assert_array_equal(with_edits(model, kept).run(batch).logits, now)
    np.testing.assert_array_equal(model.run(batch).logits, before)


def test_a_file_of_another_model_or_a_damaged_one_is_refused(
    model: LanguageModel, after: LanguageModel, tmp_path: Path
) -> None:
    path = save_edits(tmp_path / "e.safetensors", "tiny", [EDIT], changes(model, after))
    with pytest.raises(FactholdError, match=r"is of another model: of tiny, and this one is 0000.*; give --model tiny"):
        load_edits(path, "0" * 64)
    whole = path.read_bytes()
    for contents in (whole[:-1], whole[: len(whole) // 2], whole[:-9] + bytes([whole[-9] ^ 1]) + whole[-8:], b""):
        path.write_bytes(contents)
        with pytest.raises(FactholdError) as error:
            load_edits(path, "tiny")
        assert "\n" not in str(error.value)
    with pytest.raises(FactholdError, match="no such file of edits"):
        load_edits(tmp_path / "none.safetensors", "tiny")
    save_edits(tmp_path / "shape.safetensors", "tiny", [], {(0, "W_down"): jnp.zeros((3, 3))})
    with pytest.raises(ValueError, match="W_down of a layer has the shape"):
        with_edits(model, load_edits(tmp_path / "shape.safetensors", "tiny"))


def test_subjects_and_answers_that_cannot_be_meant_are_refused(
    model: LanguageModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert subject_place(model, EDIT.prompt, "France") == 4  # after the token that a prompt begins with
    for subject in ("Spain", "", "Franc"):
        with pytest.raises(ValueError, match=r"is not in the prompt|ends within a token"):
            subject_place(model, EDIT.prompt, subject)
    with pytest.raises(FactholdError, match=r"begins with the token '.*', that of .* too"):
        answer_token(model, "Xanadu", ["Xavier"])
    with pytest.raises(ValueError, match="answer='' is empty; give one"):
        answer_token(model, " ")
    with pytest.raises(FactholdError, match=r"answer='rome' begins with the token ' ', no letter of it; write 'Rome'"):
        answer_token(model, "rome")
    answer_token(model, "Rome")  # what it says to write can be written
    with pytest.raises(FactholdError, match="'東京' begins with the token ' ', no letter of it; give another answer"):
        answer_token(model, "東京")
    with monkeypatch.context() as patch:  # as in a model whose tokens have a space and the first byte of a letter
        patch.setattr(Tokeniser, "first", lambda self, answer: self.encode(answer, begin=False)[0])
        with pytest.raises(FactholdError, match=r"begins with the token number \d+, a part of a letter; give another"):
            answer_token(model, "東京")


@pytest.mark.parametrize("how", ["gradient", "closed"])
def test_values_are_one_for_each_edit_whatever_stands_beside_it(model: LanguageModel, how: str) -> None:
    other = Edit("The capital of Japan is", "Japan", "Berlin")
    both = values(model, 0, [EDIT, other], how)
    assert both.shape == (2, model.config.d)
    np.testing.assert_allclose(both[0], values(model, 0, [EDIT], how)[0], atol=1e-4)
