"""Heads as gates: what they attend to, and that the residual stream holds their codes whatever noise a prompt has."""

from collections.abc import Callable
from functools import cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array
from numpy.testing import assert_allclose, assert_array_equal

from facthold.construct.attention import LEAK, RESIDUAL, beta_for
from facthold.construct.dimensions import GAP, gate_sight, gate_threshold, gated_dimensions
from facthold.construct.gates import Gates, _least_seen, gate_heads, gated_transformer
from facthold.facts.problem import FactualRecall, factual_recall
from facthold.facts.prompts import Prompts
from facthold.facts.table import FactTable, random_share, random_table
from facthold.models.memory import MLPMemory
from facthold.models.transformer import Transformer

KEY = jax.random.key(31)
ROUND = float(np.finfo(np.float32).eps) / 2
"""What rounding to float32 changes of a number at most, as a share of it."""
N_NOISE, T = 10, 12
SILENT = FactTable(60, 3, 12, *np.array([(s, r, (s + r) % 4 + 4 * r) for s in range(0, 60, 2) for r in range(3)]).T)
TABLES: dict[str, tuple[FactTable, str]] = {
    "S > R": (random_table(60, 3, 4, key=KEY), "sphere"),
    "R > S": (random_table(3, 60, 4, key=KEY), "sphere"),
    "S = R": (random_table(5, 5, 4, key=KEY), "sphere"),
    "sparse": (random_share(random_table(60, 3, 4, key=KEY), 0.4, key=KEY), "gaussian"),
    "silent subjects": (SILENT, "gaussian"),
}


def identity(d: int) -> MLPMemory:
    """relu(x) - relu(-x) = x."""
    both = jnp.concatenate([jnp.eye(d), -jnp.eye(d)])
    return MLPMemory(both, both)


@cache
def built(name: str) -> tuple[FactualRecall, Gates, Transformer]:
    table, embeddings = TABLES[name]
    problem = factual_recall(table, 32, key=KEY, n_noise=N_NOISE, T=T, embeddings=embeddings)
    gates = gate_heads(problem, 16, key=KEY)
    return problem, gates, gated_transformer(problem, gates, identity(problem.d))


@eqx.filter_jit
def sequences(prompts: Prompts, facts: Array) -> Array:
    return prompts.sequences(facts, key=KEY)


@eqx.filter_jit
def output(model: Transformer, X: Array) -> Array:
    return model(X)


@eqx.filter_jit
def attended(model: Transformer, X: Array) -> Array:
    return model.attention(X)


def asked(problem: FactualRecall) -> tuple[np.ndarray, np.ndarray]:
    """Prompts as sequences, and the fact that each asks for: random noise, and noise that is one token all along."""
    table, n = problem.table, len(problem.table)
    prompts = Prompts.of(table, T=T, n_noise=N_NOISE)
    random = np.asarray(sequences(prompts, jnp.arange(n)))
    same = np.where(is_noise(problem, random), table.S + table.R + np.arange(n)[:, None] % N_NOISE, random)
    return np.concatenate([random, same]), np.tile(np.arange(n), 2)


def is_noise(problem: FactualRecall, tokens: np.ndarray) -> np.ndarray:
    return (tokens >= problem.table.S + problem.table.R) & (tokens < problem.EOS)


def rounding(problem: FactualRecall, gates: Gates) -> np.ndarray:
    """By how much weights in float32 change each head's scores at most: those of keys, and of the query once more."""
    return 2 * ROUND * (np.abs(gates.keys) @ np.abs(problem.prompt_phi.astype(float)).T).max(axis=1)


@pytest.mark.parametrize("wide", [True, False], ids=["float64", "float32"])
@pytest.mark.parametrize("name", TABLES)
def test_the_residual_stream_holds_the_codes_whatever_the_noise(name: str, wide: bool) -> None:
    """With the identity as MLP the transformer says the codes, once as it stands and once times RESIDUAL."""
    problem, gates, model = built(name)
    tokens, facts = asked(problem)
    with jax.enable_x64(wide):
        model = jax.tree.map(lambda W: W.astype(float if wide else np.float32), model)
        said = np.asarray(output(model, problem.phi[tokens].astype(float if wide else np.float32)))
    assert said.dtype == (np.float64 if wide else np.float32)
    table, phi = problem.table, problem.prompt_phi.astype(float)
    codes = gates.codes[table.subjects] + gates.codes[table.S + table.relations]
    # What others take of the attention; rounding of two scores, where the sigmoid's slope is 1/4; rounding of sums.
    values = np.abs(gates.reading @ phi.T).max(axis=1)
    terms = 1 if wide else problem.d + 2
    of_sums = (8 if wide else 8 + 2 * problem.d + T) * ROUND * (np.abs(gates.reading) @ np.abs(phi).T).max(axis=1)
    tolerance = values * (2 * LEAK + terms * rounding(problem, gates) / 2) + of_sums
    error = np.abs(said[:, : gates.H] - (1 + RESIDUAL) * codes[facts])
    assert (error <= (1 + RESIDUAL) * tolerance).all()
    assert_array_equal(said[:, gates.H :], 0)
    assert (np.abs(codes[:, : gates.n_gates]).max(axis=1) > 10 * tolerance.max()).all()  # they say something


@pytest.mark.parametrize("name", TABLES)
def test_noise_takes_no_more_than_its_leak(name: str) -> None:
    """Of a gate: noise and the mark's token. Of a mark's head: all but its token, or all but EOS where that is not."""
    problem, gates, model = built(name)
    tokens, _ = asked(problem)
    with jax.enable_x64(True):
        wide = jax.tree.map(lambda W: W.astype(float), model)
        attention = np.asarray(attended(wide, problem.phi[tokens].astype(float)))
    leak = LEAK * np.exp(2 * rounding(problem, gates))  # two scores, rounded
    outside = (is_noise(problem, tokens) | np.isin(tokens, gates.few))[:, None]
    of_gates = np.where(outside, attention[:, : gates.n_gates], 0).sum(axis=2)
    assert (of_gates <= leak[: gates.n_gates]).all()
    assert of_gates.max() > LEAK / 1000  # beta is not much larger than it has to be
    for i, token in enumerate(gates.few):
        right = tokens == token
        right[~right.any(axis=1), -1] = True
        outside_it = np.where(right, 0, attention[:, gates.n_gates + i]).sum(axis=1)
        assert (outside_it <= leak[gates.n_gates + i]).all()


def test_the_kind_with_fewer_tokens_has_a_head_each() -> None:
    for name, few in {"S > R": 60 + np.arange(3), "R > S": np.arange(3), "S = R": 5 + np.arange(5)}.items():
        problem, gates, model = built(name)
        assert_array_equal(gates.few, few)
        assert (gates.n_gates, gates.H, model.H, model.d_h) == (16, 16 + len(few), 16 + len(few), 1)
        marks = gates.codes[few, 16:]
        own = np.diag(marks)
        assert (own > 0.5).all()
        assert (np.abs(marks - np.diag(own)) <= LEAK * np.abs(gates.reading[16:] @ problem.phi[few].T)).all()
        many = np.setdiff1d(np.arange(problem.table.S + problem.table.R), few)
        assert_array_equal(gates.codes[few, :16], 0)
        assert_array_equal(gates.codes[many, 16:], 0)


def test_the_conditions_on_a_key_hold() -> None:
    """Noise and relations score at least GAP less than EOS, one of them just so much; w does not see EOS."""
    problem, gates, _ = built("sparse")
    beta = beta_for(np.full(1, GAP), T)[0]
    scores = gates.keys[: gates.n_gates] @ problem.prompt_phi.astype(float).T / beta
    gap = scores[:, [problem.EOS]] - scores[:, 60 : problem.EOS]
    assert_allclose(gap.min(axis=1), GAP, rtol=1e-5)  # the search is in float32
    assert_allclose(gates.reading @ problem.phi[problem.EOS].astype(float), 0, atol=1e-12)


@pytest.mark.parametrize("embeddings", ["sphere", "gaussian"])
@pytest.mark.parametrize("n_noise", [8, 200])
def test_every_subject_is_seen(embeddings: str, n_noise: int) -> None:
    """A gate is open to s where s scores above EOS: to about so many as the count of dimensions says."""
    d, n_gates = gated_dimensions(3, 150, 1.0, n_noise)
    problem = factual_recall(random_table(150, 3, 4, key=KEY), d, key=KEY, n_noise=n_noise, T=T, embeddings=embeddings)
    gates = gate_heads(problem, n_gates, key=KEY)
    phi = problem.phi.astype(float)
    opened = phi[:150] @ gates.keys[:n_gates].T > gates.keys[:n_gates] @ phi[problem.EOS]
    # The count is for embeddings of one length. Short ones, among Gaussians, score less: one gate may be all.
    assert opened.sum(axis=1).min() >= (2 if embeddings == "sphere" else 1)
    seen, *_ = gate_sight(150, n_noise + 3, d)
    assert 0.75 * seen < opened.sum(axis=0).mean() < 1.5 * seen
    codes = gates.codes[:150, :n_gates]
    whole = np.abs(gates.reading[:n_gates] @ phi[:150].T).T
    assert_array_equal(np.abs(codes) >= 0.5 * whole, opened)  # the sigmoid of what is above 0
    assert np.linalg.matrix_rank(codes) == n_gates


def test_gates_are_made_for_what_the_others_do_not_see() -> None:
    score, seen_by = np.zeros((2, 6)), np.array([0.0, 5.0, 5.0, 0.0, 5.0, 0.5])
    chosen = _least_seen(score, seen_by, 2)
    assert_array_equal(np.sort(chosen[0]), [0, 3])
    assert 5 in chosen[1]  # what the first was made for counts as seen
    score[:, 1] = 100.0  # what a key sees anyway
    assert 1 in _least_seen(score, seen_by, 2)[0]


def test_d_grows_slowly_with_the_noise() -> None:
    """As a logarithm where they are many against the subjects. One equation for each would take as many dimensions."""
    ds = [gated_dimensions(4, 60, 900.0, n)[0] for n in (64, 256, 1024, 4096, 16384)]
    assert ds == sorted(ds)
    assert ds[-1] < 3 * ds[0]
    assert max(np.diff(ds)) <= 15
    many = [gated_dimensions(4, 2500, 60_000.0, n)[0] for n in (1024, 4096, 16384, 65536)]
    assert many[-1] < many[0] * 64**0.45  # with fewer noise tokens than S^2 it is a power, and a small one
    assert gate_threshold(4096, 8, 8) == np.inf  # no key of 8 dimensions can have so many below, and 8 above
    assert gate_threshold(2, 1, 32) == 0


def problem_of(d: int, S: int = 60, n_noise: int = N_NOISE) -> FactualRecall:
    return factual_recall(random_table(S, 3, 4, key=KEY), d, key=KEY, n_noise=n_noise, T=T)


REFUSED: dict[str, Callable[[], Gates]] = {
    "0 gates.*3 tokens need d >= 4, and d=32": lambda: gate_heads(problem_of(32), 0, key=KEY),
    "30 gates.*3 tokens need d >= 33, and d=32": lambda: gate_heads(problem_of(32), 30, key=KEY),
    "d=24 is too small for 4 gates that keep 1003 tokens below EOS.*larger d, or fewer": lambda: gate_heads(
        problem_of(24, n_noise=1000), 4, key=KEY
    ),
    "d=7 is too small for a head that tells one token from 404.*larger d": lambda: gate_heads(
        problem_of(7, S=401, n_noise=1), 4, key=KEY
    ),
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_does_not_fit_is_refused(message: str) -> None:
    with pytest.raises(ValueError, match=message):
        REFUSED[message]()


def test_the_smallest_d_is_enough() -> None:
    d, n_gates = gated_dimensions(3, 60, 1.0, N_NOISE)
    assert n_gates + 3 == gate_heads(problem_of(d), n_gates, key=KEY).H
