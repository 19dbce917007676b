"""The error of memory schemes against a plain computation, and in blocks against all at once."""

import numpy as np
import pytest

from facthold.measure import schemes
from facthold.measure.schemes import scheme_errors, stored_errors
from facthold.memory import draw_embeddings
from facthold.memory.schemes import HeavyTailed

INPUTS, OUTPUTS = (1, 2), (3, 4)


def plain(q: np.ndarray, p: np.ndarray, f: np.ndarray, M: int, d: int, kind: str) -> tuple[float, float]:
    """A loop over tokens with W as a matrix, in float64: what is wrong of what is held, and of the rest."""
    E, U = draw_embeddings(kind, len(p), d, INPUTS).astype(float), draw_embeddings(kind, M, d, OUTPUTS).astype(float)
    W = sum(q[z] * np.outer(U[f[z]], E[z]) for z in range(len(p)))
    held = rest = 0.0
    for z in range(len(p)):
        scores = U @ W @ E[z]
        if scores[f[z]] <= np.delete(scores, f[z]).max():
            held, rest = (held + p[z], rest) if q[z] else (held, rest + p[z])
    return held, rest


@pytest.mark.parametrize(("M", "map"), [(5, "mod"), (40, "identity"), (60, "mod"), (3, "uniform")])
def test_errors_are_those_of_a_plain_loop(M: int, map: str) -> None:
    data = HeavyTailed(40, M, 1.5, map)
    p, f = data.p, data.f((7, 8))
    q = np.stack([p, (np.arange(40) < 20).astype(float), np.ones(40)])
    for d in (4, 12):
        found = scheme_errors(q, p, f, M, d, embeddings="gaussian", inputs=INPUTS, outputs=OUTPUTS)
        for k in range(len(q)):
            np.testing.assert_allclose(found[k], plain(q[k], p, f, M, d, "gaussian"), atol=1e-12)


def test_blocks_and_a_second_drawing_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    data = HeavyTailed(300, 5, 2.0)
    p, f, q = data.p, data.f((0, 0)), np.stack([data.p, np.ones(300)])
    whole = scheme_errors(q, p, f, 5, 16, embeddings="sphere", inputs=INPUTS, outputs=OUTPUTS)
    monkeypatch.setattr(schemes, "BLOCK", 16 * 7)
    np.testing.assert_allclose(
        scheme_errors(q, p, f, 5, 16, embeddings="sphere", inputs=INPUTS, outputs=OUTPUTS), whole, atol=1e-12
    )
    monkeypatch.setattr(schemes, "HELD", 0)
    np.testing.assert_allclose(
        scheme_errors(q, p, f, 5, 16, embeddings="sphere", inputs=INPUTS, outputs=OUTPUTS), whole, atol=1e-12
    )


def test_orthogonal_inputs_lose_what_is_not_held_alone() -> None:
    """Of a tie nothing is recalled; so what is not seen is wrong, and all else is right."""
    data = HeavyTailed(30, 30, 1.0, "identity")
    p, q = data.p, (np.arange(30) % 3 > 0).astype(float)
    found = scheme_errors(q[None], p, np.arange(30), 30, 30, embeddings="orthogonal", inputs=INPUTS, outputs=OUTPUTS)
    held, rest = found[0]
    assert held == 0
    assert rest == pytest.approx(p[q == 0].sum())
    with pytest.raises(ValueError, match="do not fit in d=8"):
        scheme_errors(q[None], p, np.arange(30), 30, 8, embeddings="orthogonal", inputs=INPUTS, outputs=OUTPUTS)


def test_one_output_is_always_right() -> None:
    data = HeavyTailed(10, 1, 2.0)
    q = np.zeros((1, 10))
    found = scheme_errors(q, data.p, data.f((0, 0)), 1, 4, embeddings="gaussian", inputs=INPUTS, outputs=OUTPUTS)
    assert found.sum() == 0


def test_what_is_stored_is_the_same_some_rows_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """From draws one by one, and with no k x M scores at once, as from all at once."""
    data = HeavyTailed(50, 40, 1.5)
    p, f = data.p, data.f((0, 0))
    monkeypatch.setattr(schemes, "BLOCK", 90 * 40)  # one draw
    whole = stored_errors(p, f, 40, 12, 30, words=(1, 1))
    monkeypatch.setattr(schemes, "BLOCK", 40 * 7)  # seven rows of one
    np.testing.assert_allclose(stored_errors(p, f, 40, 12, 30, words=(1, 1)), whole)


@pytest.mark.parametrize("k", [10, 12])
def test_tokens_that_are_alike_stand_for_each_other(k: int) -> None:
    """The mean is that of the error itself, with embeddings drawn token by token, and it is far less spread."""
    data = HeavyTailed(12, 5, 1.5)
    p, f = data.p[:k], data.f((0, 0))[:k]
    alike = stored_errors(p, f, 5, 12, 4000, words=(1, 1))
    plainly = np.array([
        scheme_errors(np.ones((1, k)), p, f, 5, 12, embeddings="gaussian", inputs=(2, i), outputs=(3, i)).sum()
        for i in range(4000)
    ])  # fmt: skip
    assert abs(alike.mean() - plainly.mean()) < 4 * np.hypot(alike.std(), plainly.std()) / 4000**0.5
    assert alike.std() < 0.7 * plainly.std()
