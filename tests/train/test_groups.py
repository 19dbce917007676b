"""Facts by groups of neurons: who shares a group, that groups do not hear each other, and that facts are recalled."""

import heapq
import random
from functools import cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array
from numpy.testing import assert_array_equal

from facthold._util.padding import geometric
from facthold.construct.attention import RESIDUAL
from facthold.construct.gates import Gates, gate_heads, gated_transformer
from facthold.facts.problem import FactualRecall, factual_recall
from facthold.facts.prompts import Prompts
from facthold.facts.table import FactTable
from facthold.measure.fact_recall import fact_margins
from facthold.models.memory import MLPMemory
from facthold.models.transformer import Transformer
from facthold.train import groups as module
from facthold.train.engine import Run
from facthold.train.gated import _Search, progress
from facthold.train.groups import FEWEST, FactGroup, _shared, fact_groups, join, store_group
from facthold.train.protocols import MARGIN

KEY = jax.random.key(41)
S, A, D, WIDTH = 40, 9, 24, 36


def a_table(turned: bool = False) -> FactTable:
    """40 subjects, three relations with the same nine answers, and a further right answer to every fifth question."""
    rng = np.random.default_rng(4)
    s, r = np.divmod(np.arange(3 * S), 3)
    answers = rng.integers(0, A, 3 * S)
    every_fifth = np.arange(0, 3 * S, 5)
    also = np.stack([every_fifth, (answers[every_fifth] + 1) % A], axis=1)
    return FactTable(3, S, A, r, s, answers, also=also) if turned else FactTable(S, 3, A, s, r, answers, also=also)


@cache
def gated(turned: bool = False, d: int = D) -> tuple[FactualRecall, Gates]:
    problem = factual_recall(a_table(turned), d, key=KEY, n_noise=8, T=10, outputs="answers")
    return problem, gate_heads(problem, d - 3, key=KEY)


def apart(monkeypatch: pytest.MonkeyPatch, problem: FactualRecall, gates: Gates) -> list[FactGroup]:
    """A group for each mark, also where it has few facts."""
    monkeypatch.setattr(module, "FEWEST", 1)
    return fact_groups(problem, gates)


@eqx.filter_jit
def hidden(model: Transformer, prompts: Prompts, facts: Array, phi: Array, key: Array) -> Array:
    """What the MLP's neurons say to a prompt of each fact, as a sequence."""
    X = phi[prompts.sequences(facts, key=key)]
    heads = jnp.einsum("hid,ntd,nht->nhi", model.W_V, X, model.attention(X))
    assert model.mlp is not None
    return model.mlp.features(heads.reshape(len(X), -1) @ model.W_O.reshape(-1, model.d))


def activations(model: Transformer, problem: FactualRecall) -> np.ndarray:
    prompts = Prompts.of(problem.table, T=problem.T, n_noise=problem.n_noise)
    facts = jnp.tile(jnp.arange(len(problem.table)), 8)
    return np.asarray(hidden(model, prompts, facts, jnp.asarray(problem.phi), KEY)).reshape(8, len(problem.table), -1)


@pytest.mark.parametrize("seed", range(5))
def test_every_mark_is_in_one_group_and_groups_are_large(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = np.concatenate([rng.integers(1, FEWEST // 4, 20), rng.integers(1, 2 * FEWEST, 6)])
    marked = rng.permutation(np.repeat(rng.permutation(100)[: len(sizes)], sizes))
    groups = _shared(marked)
    assert_array_equal(np.sort(np.concatenate(groups)), np.unique(marked))
    facts = [np.isin(marked, group).sum() for group in groups]
    assert min(facts) >= FEWEST // 2  # the last may be half as large
    assert sum(n < FEWEST for n in facts) <= 1
    alone = {int(mark) for mark in np.unique(marked) if (marked == mark).sum() >= FEWEST}
    with_others = [group for group in groups if len(group) > 1 and alone & set(group.tolist())]
    assert len(with_others) <= 1  # the last few facts, where they are less than half a group, go to another


def test_few_facts_in_all_are_one_group() -> None:
    for marked in (np.zeros(3, int), np.arange(5), np.repeat([4, 7, 9], 40)):
        (group,) = _shared(marked)
        assert_array_equal(group, np.unique(marked))
    assert [group.tolist() for group in _shared(np.repeat([3, 8], [FEWEST, FEWEST // 2]))] == [[3], [8]]
    assert [group.tolist() for group in _shared(np.repeat([3, 8], [FEWEST, FEWEST // 2 - 1]))] == [[3, 8]]


@pytest.mark.parametrize("turned", [False, True], ids=["S > R", "R > S"])
def test_groups_have_the_facts_of_their_marks(turned: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    problem, gates = gated(turned)
    table = problem.table
    marks = table.subjects if turned else table.S + table.relations
    (together,) = fact_groups(problem, gates)  # 120 facts are fewer than a group has
    assert_array_equal(together.rows, np.arange(len(table)))
    assert_array_equal(together.also, table.also)
    groups = apart(monkeypatch, problem, gates)
    assert_array_equal(np.sort(np.concatenate([group.rows for group in groups])), np.arange(len(table)))
    for group in groups:
        assert_array_equal(np.unique(marks[group.rows]), group.marks)
        assert_array_equal(group.problem.f, table.answers[group.rows])
        right = [{int(a)} for a in np.asarray(group.problem.f)]
        for i, a in group.also:
            right[i].add(int(a))
        assert right == [set(table.right(int(row))) for row in group.rows]
        codes = gates.codes[table.subjects[group.rows]] + gates.codes[table.S + table.relations[group.rows]]
        assert_array_equal(np.asarray(group.problem.E)[:, : gates.H], codes.astype(np.float32))
        assert not np.asarray(group.problem.E)[:, gates.H :].any()


@pytest.mark.parametrize("turned", [False, True], ids=["S > R", "R > S"])
def test_neurons_are_silent_at_the_marks_of_others(turned: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exactly, in float32 and in noise, whatever the neurons are; one of each group sees its mark alone."""
    problem, gates = gated(turned)
    groups, m = apart(monkeypatch, problem, gates), 12
    W, V = np.random.default_rng(6).standard_normal((2, len(groups), m, D)).astype(np.float32)
    W[:, 0, : gates.n_gates], W[:, 0, gates.n_gates :] = 0, 1e3
    memories = [MLPMemory(jnp.asarray(w), jnp.asarray(v)) for w, v in zip(W, V, strict=True)]
    said = activations(gated_transformer(problem, gates, join(gates, groups, memories, D)), problem)
    for i, (group, memory) in enumerate(zip(groups, memories, strict=True)):
        ours = said[:, :, i * m : (i + 1) * m]
        others = np.setdiff1d(np.arange(len(problem.table)), group.rows)
        assert_array_equal(ours[:, others], 0)
        alone = np.asarray(memory.features(group.problem.E))  # at its own marks a group says what it says alone
        scale = np.abs(np.asarray(memory.W)).max(axis=1) * np.abs(np.asarray(group.problem.E)).sum(axis=1).max()
        assert (np.abs(ours[:, group.rows] - alone) <= 1e-4 * scale).all()
        assert (alone > 1e-2).mean() > 0.2


def key_of(group: FactGroup) -> Array:
    return jax.random.fold_in(KEY, int(group.marks[0]))


@cache
def stored() -> tuple[Transformer, list[Run], list[tuple[float, float]]]:
    """The small table by a group for each relation, how training ended, and what a listener heard."""
    problem, gates = gated()
    heard: list[tuple[float, float]] = []
    runs: list[Run] = []
    real = module.fit
    with pytest.MonkeyPatch.context() as patch:
        groups = apart(patch, problem, gates)
        patch.setattr(module, "fit", lambda *given, **named: [runs.append(run) or run for run in real(*given, **named)])
        made = [
            store_group(g, WIDTH, 1.0, key=key_of(g), listener=lambda done, share: heard.append((done, share)))
            for g in groups
        ]
    assert [share for _, share in made] == [1.0, 1.0, 1.0]
    model = gated_transformer(problem, gates, join(gates, groups, [memory for memory, _ in made], D))
    return model, runs, heard


def test_a_small_table_is_stored_and_recalled_in_noise() -> None:
    """Each fact wins by the margin it was stored with, less the codes' own scores, and a hundredth for leak and
    rounding: a code in a prompt is off by less than a thousandth (`construct/test_gates.py`)."""
    model, _, _ = stored()
    assert model.m == 3 * WIDTH
    margins = fact_margins(model, gated()[0], key=KEY, draws=10)
    assert margins.shape == (10, 3 * S)
    codes = RESIDUAL * 2 * np.linalg.norm(gated()[1].codes, axis=1).max()  # of unit embeddings, at most
    assert margins.min() > 0.99 * MARGIN - 2 * codes


def test_the_listener_hears_how_far_each_group_has_come() -> None:
    _, runs, heard = stored()
    assert [share for _, share in heard] == [share for run in runs for share in run.curve.tolist()]
    assert all(0 < done <= 1 for done, _ in heard)


def test_neurons_that_pad_a_group_stay_zero() -> None:
    """Widths of a range share a loop: the neurons that are added for it are zero after training too."""
    _, runs, _ = stored()
    for run in runs:
        assert len(run.model.W) == geometric(WIDTH, 1.5) > WIDTH
        for W in (run.model.W, run.model.V):
            assert not np.asarray(W)[WIDTH:].any()
            assert (np.abs(np.asarray(W)[:WIDTH]).max(axis=1) > 0).all()


def test_the_share_is_that_of_the_facts_that_win_by_the_margin(monkeypatch: pytest.MonkeyPatch) -> None:
    """In too few neurons some facts win over all that is not right by the margin, and these alone are counted."""
    group = apart(monkeypatch, *gated())[0]
    memory, share = store_group(group, 4, 1.0, key=key_of(group))
    scores = np.asarray(memory.logits(group.problem.E, group.problem.U), float)
    n, f = len(group), np.asarray(group.problem.f)
    rivals = scores.copy()
    rivals[np.arange(n), f] = -np.inf
    rivals[group.also[:, 0], group.also[:, 1]] = -np.inf
    won = scores[np.arange(n), f] - rivals.max(axis=1) > MARGIN
    assert 0 < won.mean() < 1
    assert share == pytest.approx(won.mean(), abs=0.1 / n)


def searched(facts: int, tries: int, in_try: float = 0.0, held: float = 0.0, done: bool = False) -> _Search:
    """A search as far as `progress` sees it."""
    search = _Search.__new__(_Search)
    vars(search).update(group=range(facts), made=dict.fromkeys(range(tries)), in_try=in_try, held=held, done=done)
    return search


def test_progress_is_one_line_about_all_groups() -> None:
    """However many groups there are: facts that are held, groups that are done, and the time that is left."""
    waiting = [searched(100, 0) for _ in range(40)]
    assert progress(waiting, 1.0) == "0% of the facts held, 0 of 40 groups done"  # too early for a time
    done = searched(300, 4, held=1.0, done=True)
    half = searched(100, 1, in_try=1.0, held=0.5)  # two tries, where (2 x 5 + 4) / 3 are expected
    assert progress([done, half], 70.0) == "88% of the facts held, 1 of 2 groups done, about 13.3 s left"
    assert progress([done, half], 70.0, lanes=2).endswith("about 26.7 s left")  # one of them is idle
    assert progress([done, searched(100, 4, in_try=0.5)], 66.0).endswith("about 2.5 s left")  # not nothing


@pytest.mark.parametrize(("n", "lanes"), [(12, 2), (16, 3), (40, 3)])
@pytest.mark.parametrize("seed", range(5))
def test_the_time_left_is_within_a_factor_of_two_after_the_first_tenth(n: int, lanes: int, seed: int) -> None:
    """On a simulated clock: groups of unlike sizes, of 3 to 6 tries each, which take as long as they have facts, or end
    early. A tenth of the whole is as good as a factor of two. (Of a single group, nobody knows which try is its last.)
    """
    draw = random.Random(seed)
    facts = sorted((draw.choice([1, 1, 1, 2, 3, 4]) * draw.randint(100, 600) for _ in range(n)), reverse=True)
    tries = [[size * draw.uniform(0.6, 1.0) for _ in range(draw.randint(3, 6))] for size in facts]
    free, begun = [0.0] * lanes, []
    for one in tries:  # the largest first, each on the lane that is free first
        begun.append(heapq.heappop(free))
        heapq.heappush(free, begun[-1] + sum(one))
    total = max(free)
    for now in np.linspace(0.1, 0.99, 90) * total:
        searches = [_at(size, one, now - start) for size, one, start in zip(facts, tries, begun, strict=True)]
        told = progress(searches, now, lanes).partition(", about ")[2].removesuffix(" left")
        words = told.split()
        left = sum(float(n) * SECONDS[unit] for n, unit in zip(words[::2], words[1::2], strict=True))
        true = total - now
        assert true / 2 < left < 2 * true or abs(left - true) < total / 10, (now / total, told, true)


SECONDS = {"h": 3600, "min": 60, "s": 1}


def _at(facts: int, tries: list[float], seconds: float) -> _Search:
    """A search so many seconds after it began (before, where that is less than 0)."""
    ends = np.cumsum(tries)
    made = int((ends <= seconds).sum())
    if made == len(tries):
        return searched(facts, made, done=True)
    return searched(facts, made, in_try=max(0.0, 1 - (ends[made] - seconds) / tries[made]))
