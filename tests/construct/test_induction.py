"""The induction head from three memories."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from facthold._util.draws import normal
from facthold._util.keys import derive
from facthold.construct.induction import SHARPNESS, induction_head
from facthold.context.bigrams import Bigrams
from facthold.context.sequences import BigramTask
from facthold.measure.probes import probe, probes
from facthold.memory.embeddings import embed

TASK = BigramTask.of(Bigrams.shipped(), T=64)
TRIGGERS = np.asarray(TASK.fixed)


@eqx.filter_jit
def right(model: object, task: BigramTask, key: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    tokens, *_ = sequences = task.draw(64, key=key)
    return model(tokens)[:, :-1].argmax(-1) == tokens[:, 1:], sequences.counted[:, 1:], tokens


def share(d: int, seed: int = 0, **wish: object) -> float:
    model = induction_head(65, TASK.T, d, TRIGGERS, key=derive("induction", seed), **wish)
    hits, counted, _ = right(model, TASK, derive("asked", seed))
    return float((hits & counted).sum() / counted.sum())


@pytest.mark.parametrize("length_one", [False, True])
def test_the_matrices_are_the_sums_of_the_slides(length_one: bool) -> None:
    model = induction_head(65, 20, 32, TRIGGERS, key=derive("sums"), length_one=length_one)
    E, P, U = (np.asarray(x, np.float64) for x in (model.E, model.P, model.U))
    for vectors in (E, P, U):
        assert (np.linalg.norm(vectors, axis=1).std() < 1e-6) == length_one
    first, second = model.layers
    keys = E @ np.asarray(first.W_OV, np.float64).T
    sums = {
        "W_KQ^1": SHARPNESS * sum(np.outer(P[t], P[t - 1]) for t in range(1, 20)),
        "W_KQ^2": SHARPNESS * sum(np.outer(E[k], keys[k]) for k in TRIGGERS),
        "W_OV^2": sum(np.outer(U[k], E[k]) for k in range(65)),
    }
    for name, W in (("W_KQ^1", first.W_KQ), ("W_KQ^2", second.W_KQ), ("W_OV^2", second.W_OV)):
        np.testing.assert_allclose(np.asarray(W), sums[name], atol=1e-4)


def test_more_sharpness_does_not_help() -> None:
    """What is left are noise and a wrong arg max, which an inverse temperature makes only surer."""
    for d in (128, 192):
        for seed in range(4):
            assert share(d, seed, c=4 * SHARPNESS) <= share(d, seed) + 0.005


def test_embeddings_of_one_length_need_fewer_dimensions() -> None:
    gained = [share(128, seed, length_one=True) - share(128, seed) for seed in range(4)]
    assert np.mean(gained) > 2 * np.std(gained, ddof=1) / 2


def test_remapping_keeps_lengths_and_leaves_nothing_of_the_direction() -> None:
    """|W u| near 1 and u^T W u of order 1/sqrt(d): its mean square is 1/d."""
    d = 512
    W = np.asarray(normal(derive("W"), (d, d), scale=d**-0.5))
    u = np.asarray(embed("gaussian", 400, d, key=derive("u")))
    remapped = u @ W.T
    lengths, overlaps = np.linalg.norm(remapped, axis=1), (u * remapped).sum(axis=1)
    assert abs(lengths.mean() - 1) < 0.02
    assert lengths.std() < 3 / np.sqrt(d)
    assert (overlaps**2).mean() * d == pytest.approx(1, abs=4 * np.sqrt(2 / 400) + 4 / np.sqrt(d))


def test_all_probes_are_one_and_the_outputs_are_recalled() -> None:
    model = induction_head(65, TASK.T, 256, TRIGGERS, key=derive("induction", 0))
    assert {name: float(value) for name, value in probes(model, jnp.asarray(TRIGGERS)).items()} == pytest.approx(
        dict.fromkeys(probes(model, jnp.asarray(TRIGGERS)), 1.0)
    )
    assert share(256) > 0.99


def test_without_an_inverse_temperature_attention_is_nearly_even_and_most_outputs_are_missed() -> None:
    model = induction_head(65, TASK.T, 256, TRIGGERS, key=derive("induction", 0), c=1.0)
    _, _, tokens = right(model, TASK, derive("asked", 0))
    beta = np.asarray(model.attention(tokens[0])[0])
    previous = np.mean([beta[t, t - 1] for t in range(32, 64)])
    assert previous < 0.1
    assert share(256, c=1.0) < 0.8


def test_position_0_is_what_the_construction_gets_wrong() -> None:
    """It can attend to itself alone, and so looks as if it stood after its own token: where a sequence begins with a
    trigger, that trigger's output is sought there too."""
    model = induction_head(65, TASK.T, 256, TRIGGERS, key=derive("induction", 0), silent_first=False)
    hits, counted, tokens = map(np.asarray, right(model, TASK, derive("asked", 0)))
    asked = tokens[:, :-1]
    from_start = counted & (asked == tokens[:, :1])
    elsewhere = counted & ~from_start
    assert hits[elsewhere].mean() > 0.99
    assert hits[from_start].mean() < hits[elsewhere].mean() - 0.05
    assert share(256) > share(256, silent_first=False)


def test_a_probe_counts_what_the_arg_max_gives() -> None:
    E, f = jnp.eye(3, 4), jnp.arange(3)
    W = jnp.zeros((4, 4)).at[jnp.array([0, 2, 1]), f].set(1.0)  # 0 -> 0, 1 -> 2, 2 -> 1
    assert float(probe(W, E, E, f)) == pytest.approx(1 / 3)
    assert float(probe(jnp.zeros((4, 4)), E, E, f)) == 0.0  # all equal is no recall
    allowed = jnp.asarray([[True, True, True], [True, True, False], [True, False, True]])
    assert float(probe(W + 0.1 * jnp.eye(4), E, E, f, allowed)) == 1.0
