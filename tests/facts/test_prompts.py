"""Prompts: drawn by p(s, r), laid out as section 4.1 says, and the same as sequences and as counts."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array
from numpy.testing import assert_allclose, assert_array_equal

from facthold.facts.problem import MOST_NOISE, check_distribution, factual_recall, uniform, zipf
from facthold.facts.prompts import Prompts, alias_table
from facthold.facts.table import NO_FACT, FactTable, random_table

KEY = jax.random.key(8)
TABLE = random_table(7, 5, 3, key=KEY)


@eqx.filter_jit
def sequences(prompts: Prompts, facts: Array) -> Array:
    return prompts.sequences(facts, key=KEY)


@eqx.filter_jit
def counts_of(prompts: Prompts, facts: Array) -> Array:
    return prompts.counts(facts, key=KEY)


def assert_by_chance(observed: np.ndarray, expected: np.ndarray) -> None:
    """Pearson's chi-square within 4 standard errors of its mean k (variance 2 k, and a little for rare classes)."""
    possible = expected > 0
    assert (observed[~possible] == 0).all()
    observed, expected = observed[possible], expected[possible]
    chi_square, k = ((observed - expected) ** 2 / expected).sum(), len(observed) - 1
    n = expected.sum()
    variance = 2 * k + ((n / expected).sum() - len(expected) ** 2 - 2 * len(expected) + 2) / n
    assert abs(chi_square - k) < 4 * math.sqrt(variance)


def weights(kind: str, table: FactTable) -> np.ndarray:
    rng = np.random.default_rng(3)
    if kind == "zeros":
        w = rng.exponential(size=len(table)) * (rng.random(len(table)) < 0.5)
        return w / w.sum()
    if kind == "one":
        return np.eye(len(table))[3]
    return {"uniform": uniform(table), "zipf": zipf(table, 1.0, 0.5), "dirichlet": rng.dirichlet(np.full(35, 0.1))}[
        kind
    ]


each_p = pytest.mark.parametrize("kind", ["uniform", "zipf", "dirichlet", "zeros", "one"])


def probabilities(keep: np.ndarray, other: np.ndarray) -> np.ndarray:
    """What an alias table draws: i kept, or j in the place of i."""
    p = keep.astype(float) / len(keep)
    np.add.at(p, other, (1 - keep.astype(float)) / len(keep))
    return p


@each_p
def test_an_alias_table_is_exact(kind: str) -> None:
    p = weights(kind, TABLE)
    ours = probabilities(*alias_table(p))
    assert_allclose(ours, p, rtol=1e-6, atol=1e-7 * p.max())  # keep is float32
    assert (ours[p == 0] == 0).all()


def test_a_large_alias_table_is_exact_though_its_sum_is_not() -> None:
    """p sums to 1 within 1e-6 only; what is never asked must still never be."""
    rng = np.random.default_rng(0)
    p = rng.exponential(size=200_000) * (rng.random(200_000) < 0.1)
    p *= (1 - 9e-7) / p.sum()
    ours = probabilities(*alias_table(p))
    assert_allclose(ours, p / p.sum(), rtol=1e-5, atol=1e-7 / 200_000)
    assert (ours[p == 0] == 0).all()


@each_p
def test_facts_are_drawn_by_p(kind: str) -> None:
    p, n = weights(kind, TABLE), 40_000
    facts = np.asarray(Prompts.of(TABLE, p=p).draw(n, key=KEY))
    if kind == "one":
        assert (facts == 3).all()
    else:
        assert_by_chance(np.bincount(facts, minlength=len(TABLE)), n * p)


def test_zipf_is_a_power_of_each_rank() -> None:
    assert_allclose(zipf(TABLE, 0.0, 0.0), uniform(TABLE), rtol=1e-12)
    p = zipf(TABLE, 2.0, 1.0)
    assert p.sum() == pytest.approx(1.0)
    of = {(s, r): w for s, r, w in zip(TABLE.subjects, TABLE.relations, p, strict=True)}
    assert of[0, 0] / of[3, 4] == pytest.approx(4**2 * 5)


def test_a_prompt_is_laid_out_as_in_section_4_1() -> None:
    problem = factual_recall(TABLE, 4, key=KEY, n_noise=6, T=9)
    prompts = Prompts.of(TABLE, T=9, n_noise=6)
    facts = jnp.asarray(np.tile(np.arange(len(TABLE)), 20), jnp.int32)
    tokens = np.asarray(sequences(prompts, facts))
    assert tokens.shape == (700, 9)
    assert (tokens[:, -1] == problem.EOS).all()
    first = tokens[:, :-1]
    is_subject, is_relation = first < TABLE.S, (first >= TABLE.S) & (first < TABLE.S + TABLE.R)
    assert (is_subject.sum(axis=1) == 1).all()
    assert (is_relation.sum(axis=1) == 1).all()
    assert_array_equal(first[is_subject], TABLE.subjects[facts])
    assert_array_equal(first[is_relation], TABLE.S + TABLE.relations[facts])
    noise = first[~is_subject & ~is_relation]
    assert set(noise.tolist()) == set(range(TABLE.S + TABLE.R, problem.EOS))  # all of them, and nothing else


@pytest.mark.parametrize("T", [3, 4, 8])
def test_positions_are_uniform_over_distinct_pairs(T: int) -> None:
    n = 20_000
    tokens = np.asarray(sequences(Prompts.of(TABLE, T=T), jnp.zeros(n, jnp.int32)))
    i, j = (tokens == 0).argmax(axis=1), (tokens == TABLE.S + TABLE.relations[0]).argmax(axis=1)
    pairs = np.bincount(i * (T - 1) + j, minlength=(T - 1) ** 2)
    distinct = 1 - np.eye(T - 1).ravel()
    assert_by_chance(pairs, n * distinct / distinct.sum())


@pytest.mark.parametrize("n_noise", [1, 2, 100, 1000, 40_000])
def test_noise_is_uniform(n_noise: int) -> None:
    """Also where n_noise does not divide 65536: 40,000 tokens would come once or twice as often without care."""
    n, T = 1 << 16, 32
    noise = np.asarray(Prompts.of(TABLE, T=T, n_noise=n_noise).noise(n, key=KEY)) - TABLE.S - TABLE.R
    assert noise.shape == (n, T - 3)
    counts = np.bincount(noise.ravel(), minlength=n_noise)
    assert len(counts) == n_noise
    if n_noise > 1:
        assert_by_chance(counts, np.full(n_noise, noise.size / n_noise))


def test_noise_of_one_prompt_is_independent() -> None:
    """Two positions of one prompt, from halves of one word and from two words: all pairs equally often."""
    n_noise = 5
    noise = np.asarray(Prompts.of(TABLE, T=32, n_noise=n_noise).noise(1 << 16, key=KEY)) - TABLE.S - TABLE.R
    for i, j in [(0, 1), (0, 15), (3, 28)]:
        pairs = np.bincount(noise[:, i] * n_noise + noise[:, j], minlength=n_noise**2)
        assert_by_chance(pairs, np.full(n_noise**2, len(noise) / n_noise**2))


@pytest.mark.parametrize("T", [3, 4, 5, 32])
def test_counts_are_those_of_the_sequences(T: int) -> None:
    prompts = Prompts.of(TABLE, T=T)
    facts = prompts.draw(50, key=jax.random.key(1))
    tokens, counts = sequences(prompts, facts), counts_of(prompts, facts)
    by_hand = np.stack([np.bincount(row, minlength=prompts.n_tokens) for row in np.asarray(tokens)])
    assert_array_equal(counts, by_hand)
    assert (by_hand.sum(axis=1) == T).all()


def test_padding_changes_nothing_but_the_width() -> None:
    p = zipf(TABLE)
    plain, wide = Prompts.of(TABLE, p=p), Prompts.of(TABLE, p=p, columns=64)
    assert (plain.n_tokens, wide.n_tokens, len(wide.subjects)) == (25, 64, 64)
    facts = plain.draw(300, key=KEY)
    assert_array_equal(facts, wide.draw(300, key=KEY))
    assert_array_equal(sequences(plain, facts), sequences(wide, facts))
    assert_array_equal(np.pad(counts_of(plain, facts), [(0, 0), (0, 39)]), counts_of(wide, facts))


def test_a_distribution_may_be_a_matrix() -> None:
    answers = np.array([[0, 1], [2, NO_FACT]], np.int32)
    table = FactTable.from_matrix(answers)
    assert_array_equal(check_distribution(np.array([[0.5, 0.2], [0.3, 0.0]]), table), [0.5, 0.2, 0.3])
    with pytest.raises(ValueError, match="not in the table"):
        check_distribution(np.array([[0.5, 0.2], [0.2, 0.1]]), table)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"T": 2}, "T=2 leaves no room"),
        ({"n_noise": 0}, "n_noise=0"),
        ({"n_noise": MOST_NOISE + 1}, "take fewer noise tokens"),
        ({"p": np.full(35, 1 / 36)}, "sums to 0.972222222"),
        ({"p": np.full(3, 1 / 3)}, "one number for each of 35 facts"),
        ({"p": np.append(np.full(34, 1 / 33), -1 / 33)}, "must not be negative"),
        ({"p": np.full(35, np.nan)}, "must not be negative or infinite"),
    ],
)
def test_wrong_prompts_are_refused(arguments: dict, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Prompts.of(TABLE, **arguments)


def test_a_problem_keeps_the_embeddings_of_a_smaller_one() -> None:
    small = factual_recall(random_table(5, 3, 4, key=KEY), 6, key=KEY)
    large = factual_recall(random_table(9, 3, 4, key=KEY), 6, key=KEY)
    assert_array_equal(small.phi[:5], large.phi[:5])  # subjects
    assert_array_equal(small.phi[5:8], large.phi[9:12])  # relations
    assert_array_equal(small.phi[8:16], large.phi[12:20])  # noise
    assert_array_equal(small.phi[small.EOS], large.phi[large.EOS])
    assert_array_equal(small.phi[small.n_tokens :], large.phi[large.n_tokens :])  # answers
    assert (small.n_noise, large.n_noise) == (8, 12)


@pytest.mark.parametrize("outputs", ["vocabulary", "answers"])
def test_outputs_are_known_by_their_token(outputs: str) -> None:
    problem = factual_recall(TABLE, 6, key=KEY, outputs=outputs)
    assert_array_equal(problem.U, problem.phi[problem.output_tokens])
    assert problem.output_tokens[0] == problem.n_tokens
    assert len(problem.U) == (TABLE.A if outputs == "answers" else len(problem.phi))


def test_wrong_problems_are_refused() -> None:
    with pytest.raises(ValueError, match="n_noise=0"):
        factual_recall(TABLE, 6, key=KEY, n_noise=0)
    with pytest.raises(ValueError, match="T=2"):
        factual_recall(TABLE, 6, key=KEY, T=2)
    with pytest.raises(ValueError, match="did you mean 'answers'"):
        factual_recall(TABLE, 6, key=KEY, outputs="answer")
    with pytest.raises(ValueError, match="do not fit in d=6"):
        factual_recall(TABLE, 6, key=KEY, embeddings="orthogonal")
