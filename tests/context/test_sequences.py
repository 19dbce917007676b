"""The bigram task: what is drawn has the statistics of its definition."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from facthold._util.keys import derive
from facthold.context.baselines import baselines
from facthold.context.bigrams import Bigrams
from facthold.context.sequences import BigramTask, Sequences, alias_tables

draw = eqx.filter_jit(lambda task, n, key: task.draw(n, key=key))
SHAKESPEARE = Bigrams.shipped()


def drawn(task: BigramTask, n: int, seed: int = 0) -> Sequences:
    return Sequences(*map(np.asarray, draw(task, n, derive("sequences", seed))))


def by_hand(sequences: Sequences, triggers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Token by token, from the definition: which tokens are outputs, and how often their trigger occurred before."""
    tokens = sequences.tokens
    outputs, before = np.zeros(tokens.shape, bool), np.zeros(tokens.shape, int)
    for i, z in enumerate(tokens):
        occurred: dict[int, int] = {}
        for t in range(1, len(z)):
            last = int(z[t - 1])
            if last in triggers:
                outputs[i, t], before[i, t] = True, occurred.get(last, 0)
                occurred[last] = occurred.get(last, 0) + 1
    return outputs, before


def test_aliases_give_each_row_its_distribution() -> None:
    pi = np.concatenate([SHAKESPEARE.pi_b, SHAKESPEARE.pi_u[None], np.eye(65)[:1]])
    accept, alias = alias_tables(pi)
    kept = accept / 2**32
    found = np.zeros_like(pi)
    np.add.at(found, (np.arange(len(pi))[:, None], alias), (1 - kept) / 65)
    np.testing.assert_allclose(found + kept / 65, pi, atol=1e-9)


def test_an_output_follows_its_trigger_all_through_a_sequence_and_all_else_is_marked() -> None:
    task = BigramTask.of(SHAKESPEARE, T=64)
    sequences = drawn(task, 200)
    outputs, before = by_hand(sequences, np.asarray(task.fixed))
    np.testing.assert_array_equal(sequences.outputs, outputs)
    np.testing.assert_array_equal(sequences.before[outputs], before[outputs])
    for z, is_output in zip(sequences.tokens, outputs, strict=True):
        told: dict[int, int] = {}
        for t in np.flatnonzero(is_output):
            assert told.setdefault(int(z[t - 1]), int(z[t])) == z[t]


def test_what_is_no_output_follows_the_bigrams_of_the_text() -> None:
    task = BigramTask.of(SHAKESPEARE)
    sequences = drawn(task, 4000)
    first, second = sequences.tokens[:, :-1], sequences.tokens[:, 1:]
    free = ~sequences.outputs[:, 1:]
    counts = np.zeros((65, 65))
    np.add.at(counts, (first[free], second[free]), 1)
    assert (counts[np.asarray(task.fixed)] == 0).all()
    total = counts.sum(axis=1, keepdims=True)
    expected = total * SHAKESPEARE.pi_b
    assert (counts[expected == 0] == 0).all()  # no pair that the text has not
    often = expected > 50
    z = (counts - expected)[often] / np.sqrt(expected * (1 - SHAKESPEARE.pi_b) + 1e-9)[often]
    assert np.abs(z).max() < 5  # of about 600 pairs
    assert 0.9 < (z**2).mean() < 1.1
    starts = np.bincount(sequences.tokens[:, 0], minlength=65)
    assert np.abs(starts - 4000 * SHAKESPEARE.pi_u).max() < 5 * np.sqrt(4000 * SHAKESPEARE.pi_u.max())


def test_outputs_are_uniform_or_from_pi_o_and_may_be_triggers() -> None:
    def first_outputs(task: BigramTask, seed: int) -> np.ndarray:
        sequences = drawn(task, 3000, seed)
        return np.bincount(sequences.tokens[sequences.outputs & (sequences.before == 0)], minlength=65)

    counts = first_outputs(BigramTask.of(SHAKESPEARE), 1)
    even = counts.sum() / 65
    assert np.abs(counts - even).max() < 5 * np.sqrt(even)
    pi_o = np.zeros(65)
    pi_o[[3, 7]] = 1, 3
    counts = first_outputs(BigramTask.of(SHAKESPEARE, pi_o=pi_o), 2)
    assert counts.sum() == counts[3] + counts[7]
    assert counts[7] / counts.sum() == pytest.approx(0.75, abs=5 * np.sqrt(0.19 / counts.sum()))


def test_random_triggers_are_others_in_each_sequence_by_how_frequent_they_are() -> None:
    task = BigramTask.of(SHAKESPEARE, K=1, random=True)
    sequences = drawn(task, 4000)
    found = [{int(z) for z in tokens[:-1][is_output[1:]]} for tokens, is_output in
             zip(sequences.tokens, sequences.outputs, strict=True)]  # fmt: skip
    assert max(map(len, found)) == 1
    space = SHAKESPEARE.characters.index(" ")
    # a frequent trigger is nearly sure to occur in 256 tokens, so that its share is that of the unigrams
    share = np.mean([triggers == {space} for triggers in found])
    assert share == pytest.approx(SHAKESPEARE.pi_u[space], abs=4 * np.sqrt(0.15 * 0.85 / 4000))


@pytest.mark.slow
def test_the_statistics_are_those_of_the_published_sampler() -> None:
    """29.4% of positions, 1.2% and 54.1% (20,000 sequences, +- 0.3 points)."""
    task = BigramTask.of(SHAKESPEARE)
    found = []
    for i in range(10):
        sequences = draw(task, 2000, derive("statistics", i))
        rules = baselines(sequences, jnp.asarray(SHAKESPEARE.pi_b, jnp.float32))
        found.append([float(sequences.counted.mean()), *(float(rules[name]) for name in ("bigram", "mode"))])
    mean = np.mean(found, axis=0)
    error = np.std(found, axis=0, ddof=1) / np.sqrt(len(found))
    assert (np.abs(mean - [0.294, 0.012, 0.541]) < 3 * error + [0.0005, 0.0005, 0.003]).all(), (mean, error)


def test_without_what_the_bigrams_explain_counts_of_tokens_say_less() -> None:
    """As docs/context.md has it: 48%."""
    sequences = draw(BigramTask.of(SHAKESPEARE), 2000, derive("counts", 0))
    nothing = jnp.zeros_like(jnp.asarray(SHAKESPEARE.pi_b, jnp.float32))
    assert float(baselines(sequences, nothing)["counts"]) == pytest.approx(0.48, abs=0.015)


def test_with_one_trigger_the_mode_is_always_right() -> None:
    sequences = draw(BigramTask.of(SHAKESPEARE, K=1), 200, derive("mode", 0))
    assert float(baselines(sequences, jnp.asarray(SHAKESPEARE.pi_b, jnp.float32))["mode"]) == 1.0


def test_baselines_are_those_of_their_definition() -> None:
    task = BigramTask.of(SHAKESPEARE, K=3, T=48)
    sequences = drawn(task, 60)
    pi_b, triggers = SHAKESPEARE.pi_b, set(np.asarray(task.fixed).tolist())
    right = dict.fromkeys(("bigram", "mode", "counts"), 0)
    for z, is_output, before in zip(*sequences, strict=True):
        for t in np.flatnonzero(is_output & (before > 0)):
            past, last = z[:t], z[t - 1]
            told = np.bincount(past[is_output[:t]], minlength=65)
            explained = sum((pi_b[i] for i in past if int(i) not in triggers), np.zeros(65))
            excess = np.bincount(past, minlength=65) - explained - ((past == last).sum() - 1)
            guesses = {"bigram": pi_b[last].argmax(), "mode": told.argmax(), "counts": np.abs(excess).argmin()}
            for name, guess in guesses.items():
                right[name] += guess == z[t]
    rules = baselines(Sequences(*map(jnp.asarray, sequences)), jnp.asarray(pi_b, jnp.float32))
    for name, count in right.items():
        assert float(rules[name]) == pytest.approx(count / sequences.counted.sum(), abs=2e-3), name


def test_noise_comes_in_place_of_outputs() -> None:
    task = BigramTask.of(SHAKESPEARE, K=1, noise=0.5)
    assert int(task.noise_token) == SHAKESPEARE.most_frequent(2)[1]
    sequences = drawn(task, 1000)
    noisy = sequences.tokens[sequences.outputs] == int(task.noise_token)
    assert noisy.mean() == pytest.approx(0.5 + 0.5 / 65, abs=5 * np.sqrt(0.25 / noisy.size) + 0.01)


def test_a_key_draws_the_same_sequences_each_time() -> None:
    task = BigramTask.of(SHAKESPEARE, T=32)
    np.testing.assert_array_equal(drawn(task, 50, 3).tokens, drawn(task, 50, 3).tokens)
    assert (drawn(task, 50, 3).tokens != drawn(task, 50, 4).tokens).any()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"K": 0}, "K=0 must be at least 1"),
        ({"K": 65}, "K=65 triggers leave none of the 65 characters"),
        ({"T": 3}, "T=3: a trigger"),
        ({"triggers": "aa"}, "must be different characters"),
        ({"triggers": ""}, "must be different characters"),
        ({"triggers": "ab", "random": True}, "leave out random=True"),
        ({"noise": 1.0}, "noise=1.0 must be at least 0 and below 1"),
        ({"pi_o": np.zeros(65)}, "pi_o must have a weight"),
        ({"pi_o": np.ones(3)}, "pi_o must have a weight"),
    ],
)
def test_wrong_arguments_are_named(wrong: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        BigramTask.of(SHAKESPEARE, **wrong)


def test_many_characters_are_drawn_by_their_chances() -> None:
    """With N above 2^8 a fraction in float32 would have too few bits left."""
    N = 300
    counts = np.zeros((N, N), np.int64)
    counts[:, 0], counts[:, 1] = 2**16 - 1, 1  # the second column is rare, and its chance is to be kept
    text = Bigrams(tuple(map(chr, range(0x100, 0x100 + N))), np.ones(N, np.int64), counts)
    task = BigramTask.of(text, K=1, T=4, triggers=chr(0x100 + N - 1))
    words = jax.random.bits(derive("words"), (1 << 20,), jnp.uint32)
    after = eqx.filter_jit(lambda task, words: task._next(jnp.zeros(len(words), jnp.int32), words))
    found = np.asarray(after(task, words))
    assert set(np.unique(found)) == {0, 1}
    assert (found == 1).sum() == pytest.approx(16, abs=5 * 4)
