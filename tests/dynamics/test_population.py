"""The population of prompts, against every multiset of noise, and these against a sum over every sequence."""

from collections.abc import Iterator
from itertools import permutations, product

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from enumerated import enumerated
from facthold.dynamics.population import KINDS, Population, Watched, population
from facthold.facts.problem import uniform, zipf
from facthold.facts.table import FactTable, balanced_table, random_table

KEY = jax.random.key(0)
TABLE = random_table(4, 3, 2, key=KEY)
T, N_NOISE = 6, 3
P = zipf(TABLE, 1.0, 0.5)
TOKENS = TABLE.S + TABLE.R + N_NOISE + 1
EXACT = 1e-12
"""Sums of a few hundred numbers of size 1 in float64."""


@pytest.fixture(autouse=True)
def _float64() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def pooled_prompts() -> Population:
    return population(TABLE, T=T, n_noise=N_NOISE)


def all_prompts(p: np.ndarray | None = None) -> Population:
    return enumerated(TABLE, T=T, n_noise=N_NOISE, p=p)


def random_Theta(tokens: int, *, alike: bool, seed: int = 2) -> np.ndarray:
    """Theta(a, z) at random; ``alike``: the same for every noise token, and drawn as for one of them."""
    rng, first = np.random.default_rng(seed), TABLE.S + TABLE.R
    Theta = rng.normal(size=(TABLE.A, TOKENS))
    if not alike:
        return Theta
    return np.concatenate([Theta[:, :first], np.repeat(Theta[:, first, None], tokens - first - 1, 1), Theta[:, -1:]], 1)


def log_softmax(logits: np.ndarray) -> np.ndarray:
    top = logits.max(axis=-1, keepdims=True)
    return logits - top - np.log(np.exp(logits - top).sum(axis=-1, keepdims=True))


def prompt_losses(ours: Population, Theta: np.ndarray) -> np.ndarray:
    log_p = log_softmax(ours.counts @ Theta.T)
    return -log_p[np.arange(len(log_p)), ours.answers]


def loss(ours: Population, Theta: np.ndarray) -> float:
    return float(ours.weights @ prompt_losses(ours, Theta))


def pull(ours: Population, Theta: np.ndarray) -> np.ndarray:
    watched = Watched.of(ours)
    return np.asarray(watched.pull(watched.counts @ jnp.asarray(Theta).T))


def over_all_sequences(Theta: np.ndarray, ps: np.ndarray) -> tuple[float, np.ndarray]:
    """The loss and its pull as section 4.1 draws prompts: every place of s and r, every noise token at every other."""
    total, sums = 0.0, np.zeros_like(Theta)
    places = list(permutations(range(T - 1), 2))
    noises = list(product(range(N_NOISE), repeat=T - 3))
    for s, r, a, p in zip(TABLE.subjects, TABLE.relations, TABLE.answers, ps, strict=True):
        for i, j in places:
            for noise in noises:
                z = np.zeros(T, int)
                z[[i, j, T - 1]] = s, TABLE.S + r, TOKENS - 1
                z[[t for t in range(T - 1) if t not in (i, j)]] = TABLE.S + TABLE.R + np.array(noise)
                log_p = log_softmax(Theta[:, z].sum(axis=1))
                chance = p / len(places) / len(noises)
                total -= chance * log_p[a]
                np.add.at(sums.T, z, chance * (np.eye(TABLE.A)[a] - np.exp(log_p)))
    return total, sums


def test_enumerated_is_the_sum_over_every_sequence() -> None:
    """For weights that differ from one noise token to the next, and facts that are not asked alike."""
    Theta, ours = random_Theta(TOKENS, alike=False), all_prompts(P)
    expected, expected_pull = over_all_sequences(Theta, P)
    assert loss(ours, Theta) == pytest.approx(expected, rel=EXACT)
    assert_allclose(pull(ours, Theta), expected_pull, atol=EXACT)
    assert len(np.unique(np.c_[ours.facts, ours.counts], axis=0)) == len(ours.counts)  # no prompt twice


def test_the_pull_is_the_gradient_in_Theta() -> None:
    """Lemma 4, by automatic differentiation of the loss."""
    Theta, ours = random_Theta(TOKENS, alike=False), all_prompts(P)

    def of_Theta(Theta: jax.Array) -> jax.Array:
        log_p = jax.nn.log_softmax(jnp.asarray(ours.counts) @ Theta.T)
        return -(jnp.asarray(ours.weights) * log_p[jnp.arange(len(ours.facts)), jnp.asarray(ours.answers)]).sum()

    assert_allclose(pull(ours, Theta), -jax.grad(of_Theta)(jnp.asarray(Theta)), atol=EXACT)
    assert_allclose(pull(ours, Theta).sum(axis=0), 0, atol=EXACT)  # why sum_a W_OV(a, z) never moves


def test_one_column_is_enough_where_noise_tokens_weigh_the_same() -> None:
    pooled, listed = pooled_prompts(), all_prompts()
    one, all_tokens = random_Theta(pooled.counts.shape[1], alike=True), random_Theta(TOKENS, alike=True)
    expected, _ = over_all_sequences(all_tokens, uniform(TABLE))
    for ours, Theta in ((pooled, one), (listed, all_tokens)):
        assert loss(ours, Theta) == pytest.approx(expected, rel=EXACT)
    by_pool, by_all, first = pull(pooled, one), pull(listed, all_tokens), TABLE.S + TABLE.R
    assert_allclose(by_all[:, :first], by_pool[:, :first], atol=EXACT)
    assert_allclose(by_all[:, -1], by_pool[:, -1], atol=EXACT)
    # Each noise token moves as the pooled column does, so that equal weights stay equal.
    assert_allclose(by_all[:, first:-1], np.repeat(by_pool[:, first, None], N_NOISE, axis=1), atol=EXACT)
    assert np.abs(by_pool[:, first]).max() > 1e-3


def test_mobility_is_a_share_of_the_pooled_noise_alone() -> None:
    mobility = pooled_prompts().mobility
    assert_array_equal(np.flatnonzero(mobility != 1), [TABLE.S + TABLE.R])
    assert mobility[TABLE.S + TABLE.R] == 1 / N_NOISE


@pytest.mark.parametrize(("ours", "p"), [(pooled_prompts(), None), (all_prompts(), None), (all_prompts(P), P)])
def test_weights_are_probabilities_and_counts_are_prompts(ours: Population, p: np.ndarray | None) -> None:
    shares = uniform(TABLE) if p is None else p
    assert ours.weights.sum() == pytest.approx(1, abs=EXACT)
    assert_allclose(np.bincount(ours.facts, ours.weights), shares, atol=EXACT)
    assert_array_equal(ours.counts.sum(axis=1), T)
    assert_array_equal(ours.counts[:, ours.columns("subject")].argmax(axis=1), TABLE.subjects[ours.facts])
    assert_array_equal(ours.counts[:, ours.columns("relation")].argmax(axis=1), TABLE.relations[ours.facts])
    for kind, total in zip(KINDS, (1, 1, T - 3, 1), strict=True):
        assert_array_equal(ours.counts[:, ours.columns(kind)].sum(axis=1), total)
    assert_array_equal(ours.answers, TABLE.answers[ours.facts])


def test_prompts_without_noise_are_the_facts() -> None:
    ours = population(TABLE, T=3, n_noise=2)
    assert not ours.counts[:, ours.columns("noise")].any()
    assert len(ours.counts) == len(TABLE)
    assert ours.weights.sum() == pytest.approx(1, abs=EXACT)


@pytest.mark.parametrize("kind", ["relation", "subject"])
def test_given_is_the_conditional_distribution(kind: str) -> None:
    """p*(a | r) = sum_s p(s | r) 1(a = a*(s, r)), fact by fact."""
    of = {"relation": TABLE.relations, "subject": TABLE.subjects}[kind]
    expected = np.zeros((len(TABLE), TABLE.A))
    for i, token in enumerate(of):
        alike = np.flatnonzero(of == token)
        for j in alike:
            expected[i, TABLE.answers[j]] += P[j] / P[alike].sum()
    assert_allclose(TABLE.given(kind, P)[of], expected, atol=EXACT)


def test_given_a_token_that_is_never_asked_about_is_nothing() -> None:
    p = np.where(TABLE.relations == 1, 0.0, 1.0)
    assert_array_equal(TABLE.given("relation", p / p.sum())[1], 0.0)
    assert np.isfinite(TABLE.given("subject", p / p.sum())).all()


def test_given_a_relation_of_a_balanced_table_is_uniform() -> None:
    table = balanced_table(6, 2, 3, key=KEY)
    assert_allclose(table.given("relation"), np.eye(2).repeat(3, axis=1) / 3, atol=EXACT)


def test_part_of_a_table_has_subjects_without_facts() -> None:
    table = FactTable(3, 2, 4, np.array([0, 0, 1]), np.array([0, 1, 0]), np.array([0, 2, 1]))
    ours = population(table, T=5, n_noise=2)
    assert ours.counts.shape == (3, 3 + 2 + 1 + 1)
    assert_allclose(table.given("relation")[0], [0.5, 0.5, 0, 0], atol=EXACT)


def message(**given: object) -> str:
    """What is said about a wrong argument: one line."""
    with pytest.raises(ValueError, match=r".") as raised:
        population(TABLE, **({"T": T, "n_noise": N_NOISE} | given))  # type: ignore[arg-type]
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_wrong_arguments_are_named() -> None:
    assert "T=2" in message(T=2)
    assert "T >= 3" in message(T=2)
    assert "n_noise=0" in message(n_noise=0)


def test_a_long_prompt_of_few_noise_tokens_is_enumerated() -> None:
    """2^(T - 3) is no float here, though all probabilities are."""
    ours = enumerated(FactTable(1, 1, 2, *np.zeros((3, 1), int)), T=1203, n_noise=2)
    assert len(ours.counts) == 1201
    assert ours.weights.sum() == pytest.approx(1, abs=1e-9)
    noise = ours.counts[:, ours.columns("noise")]
    assert ours.weights @ noise[:, 0] == pytest.approx(600, rel=1e-9)
    assert ours.weights @ (noise[:, 0] - 600) ** 2 == pytest.approx(300, rel=1e-9)
