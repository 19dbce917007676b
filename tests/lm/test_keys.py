"""Real embeddings as keys and values: what is read, and the measures of how they spread."""

import numpy as np
import pytest

from facthold.lm import keys
from facthold.lm.library import load
from facthold.lm.model import Batch


def test_participation_counts_directions() -> None:
    assert keys.participation(np.eye(12)[:5]) == pytest.approx(5)
    X = np.random.default_rng(0).standard_normal((4000, 32))
    assert keys.participation(keys.directions(X)) == pytest.approx(32, rel=0.02)
    X[:, 0] *= 6  # C = diag(36, 1, ..., 1)
    assert keys.participation(X) == pytest.approx((36 + 31) ** 2 / (36**2 + 31), rel=0.1)
    inner = keys.centred(X) @ keys.centred(X).T
    others = inner[~np.eye(len(X), dtype=bool)]
    assert keys.participation(keys.centred(X)) == pytest.approx(1 / np.mean(others**2), rel=0.02)


def test_streams_are_those_of_the_whole_model_at_the_last_token() -> None:
    model, names = load("tiny"), ["Spain", "Fra", "Tokyo"]
    found = keys.streams(model, names, 2)
    for name, x in zip(names, found, strict=True):
        whole = model.run(Batch.of([model.encode(f"The city of {name}")]), keep=[("stream", 2)])["stream", 2][0]
        last = np.asarray(whole)[len(model.encode(f"The city of {name}")) - 1]
        np.testing.assert_allclose(x, last / np.sqrt((last**2).mean() + model.config.eps), rtol=1e-4, atol=1e-5)


def test_the_first_layers_alone_are_those_of_the_model() -> None:
    model = load("tiny")
    assert model.first(2).config.L == 2
    with pytest.raises(ValueError, match="layer=4: the model has 3"):
        model.first(4)


def test_names_and_words_are_many_and_each_once() -> None:
    names = keys.names_for("tiny")
    assert len(names) == len(set(names)) > 200
    model = load("tiny")
    texts = [model.tokeniser.decode([t]) for t in keys.words(model)]
    assert " Paris" in texts
    assert all(text.startswith(" ") and text[1:].isalpha() for text in texts)
    assert len(keys.names_for("any other model")) > 8192


def test_whitening_makes_the_least_squares_of_the_scores() -> None:
    """Without a ridge, C_U^-1 (sum_x u_x e_x^T) C_E^-1 is the W whose scores are nearest to the unit matrix."""
    random = np.random.default_rng(1)
    spread = np.geomspace(1, 0.2, 12)
    E, U = (random.standard_normal((40, 12)) * spread for _ in range(2))
    W = keys.whitener(U) @ (U.T @ E) @ keys.whitener(E) / 40**2
    nearest = np.linalg.pinv(U) @ np.linalg.pinv(E).T
    np.testing.assert_allclose(W, nearest, atol=0.1 * np.abs(nearest).max())
    assert ((U @ W @ E.T).argmax(0) == np.arange(40)).sum() > ((U @ (U.T @ E) @ E.T).argmax(0) == np.arange(40)).sum()


def test_what_is_alike_has_the_same_mean_and_covariance() -> None:
    random = np.random.default_rng(2)
    X = random.standard_normal((3000, 6)) @ random.standard_normal((6, 6)) + 3
    Y = keys.alike(X, random)
    np.testing.assert_allclose(Y.mean(0), X.mean(0), atol=0.3)
    np.testing.assert_allclose(np.cov(Y.T), np.cov(X.T), atol=0.1 * np.cov(X.T).max())
