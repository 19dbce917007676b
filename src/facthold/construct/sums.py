"""What no sum of a part for s and a part for r can hold, at any size.

Attention alone scores the answers to (s, r) by u_s[a] + u_r[a]. Let a = a*(s, r) and b = a*(s, q) be two answers of one
subject. Then u_s[a] + u_r[a] > u_s[b] + u_r[b] and u_s[b] + u_q[b] > u_s[a] + u_q[a], so that

    (u_r - u_q)[a] > (u_r - u_q)[b].

Each subject with both relations demands such an order of two answers, whatever the embeddings and the size. Where the
demands of one pair of relations go round in a circle, no weights meet them; s1 -> (a, b), s2 -> (b, a) is the smallest
case. Subjects and relations may change places. With two relations in all (or two subjects) no circle means that sums
exist. With more of both a linear program decides, in the numbers u_s[a] and u_r[a] of answers that s and r have: one
that they do not have may be as low as one likes, so that a rival is an answer of both s and r. A number that is only
ever wanted large, or only small, meets all that is demanded of it; what is left when these are taken out is mostly
nothing, which decides tables of any size.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int
from scipy.optimize import linprog
from scipy.sparse import csr_array, hstack
from scipy.sparse.csgraph import breadth_first_order, connected_components

from facthold._util.commands import count
from facthold.facts.table import FactTable

CELLS = 1 << 22  # subjects times relations whose shared answers are counted at once
BLOCK = 1 << 20  # pairs of facts that are joined at once, where one relation does not have more
MOST_PAIRS = 1 << 24
"""Pairs of subjects are looked at too while their facts make so few pairs; pairs of relations always (or the other way
round, where that is less work)."""
STARTS = 64  # answers from which a shortest circle is looked for, where none has length two
NAMED = 4  # facts that a message names
MOST_JOINED = 1 << 23  # pairs of facts that share a subject (or a relation) and are looked at for rivals
LARGEST = 1 << 13  # demands of a linear program, which then takes seconds
EXACT = 1e-6  # by which what a linear program has shown may be off, where multipliers sum to 1 and margins are 1

Rows = Int[np.ndarray, " _"]


class Decision(NamedTuple):
    """Whether sums hold a table. Neither a conflict nor a doubt: they do."""

    conflict: Rows | None  # facts, as rows of the table, that no sums hold together
    doubt: str | None = None  # why it is not known


@lru_cache(maxsize=1)  # `plan` asks for the conflict and for the doubt
def decide(table: FactTable) -> Decision:
    """By circles, by what remains of the demands, and by a linear program where that is small."""
    if (circle := contradiction(table)) is not None:
        return Decision(circle)
    found = _by_program(table, np.arange(len(table)))  # of several right answers the first is to win
    if found.conflict is None or not len(table.also):
        return found
    single = _by_program(table, np.setdiff1d(np.arange(len(table)), table.also[:, 0]))
    return Decision(single.conflict, "which of several right answers has to win is open")


def doubt(table: FactTable) -> str | None:
    """Why it is not known whether sums hold this table; None: they do, or `check_sums` refuses it."""
    found = decide(table)
    return None if found.conflict is not None else found.doubt


def check_sums(table: FactTable) -> None:
    """Refuse a table that no sum of a part for s and a part for r can hold."""
    if (rows := decide(table).conflict) is None:
        return
    named = ", ".join(f"{table.question(i)} -> {table.name('answers', table.answers[i])}" for i in rows[:NAMED])
    more = f" and {len(rows) - NAMED} more" if len(rows) > NAMED else ""
    raise ValueError(
        f"no sum of a part for s and a part for r holds these {len(rows)} facts, at any size: {named}{more}; "
        "take a recipe with an MLP: attention-mlp, selected or gated"
    )


def contradiction(table: FactTable) -> Rows | None:
    """Facts, as rows of the table, that no sums hold together; None where there is no circle of demands.

    Two rows for each demand of the circle, in its order. A circle of two demands is taken where the first block of
    relations with any has one; else a short one, the best from `STARTS` answers. A fact with several right answers
    demands nothing: which of them wins is open.
    """
    single = np.setdiff1d(np.arange(len(table)), table.also[:, 0])
    both = (table.relations, table.subjects), (table.subjects, table.relations)
    sides = [(_shared(table, single, few), few, many) for few, many in both]
    n_pairs = [int((np.bincount(many[rows]).astype(np.int64) ** 2).sum()) for rows, _, many in sides]
    for side in np.argsort(n_pairs, kind="stable")[: 2 if max(n_pairs) <= MOST_PAIRS else 1]:
        for above, below, facts in _demands(table, *sides[side]):
            if (circle := _circle(above, below)) is not None:
                return facts[circle].ravel()
    return None


def _shared(table: FactTable, rows: Rows, few: Rows) -> Rows:
    """The rows whose answer serves two relations or more: no other answer can stand in a circle."""
    answers = table.answers[rows]
    pairs = _distinct(few[rows].astype(np.int64) * table.A + answers)
    return rows[np.bincount(pairs % table.A, minlength=table.A)[answers] > 1]


def _demands(
    table: FactTable, rows: Rows, few: Rows, many: Rows
) -> Iterator[tuple[Rows, Rows, Int[np.ndarray, "_ 2"]]]:
    """The pairs of facts that share a token of the kind ``many``, in blocks of whole tokens of the kind ``few``: the
    answer that must stand above, the one that it must stand above, both in numbers of their own for each pair of the
    kind few, and the two facts."""
    by_many, by_few = (rows[np.argsort(kind[rows], kind="stable")] for kind in (many, few))
    counts = np.bincount(many[rows], minlength=int(many.max(initial=0)) + 1)
    start, n_partners = np.cumsum(counts) - counts, counts[many]  # a fact is among its partners
    tokens, starts = np.unique(few[by_few], return_index=True)
    block = np.append(0, np.cumsum(n_partners[by_few]))[starts] // BLOCK
    first_of_block = starts[np.unique(block, return_index=True)[1]] if len(tokens) else starts
    a, few = table.answers.astype(np.int64), few.astype(np.int64)
    for part in np.split(by_few, first_of_block[1:]):
        n = n_partners[part]
        i = np.repeat(part, n)
        rank = np.arange(len(i)) - np.repeat(np.cumsum(n) - n, n)
        j = by_many[start[many[i]] + rank]
        demanded = (few[i] < few[j]) & (a[i] != a[j])
        i, j = i[demanded], j[demanded]
        order = (few[i] * (few.max(initial=0) + 1) + few[j]) * table.A
        yield order + a[i], order + a[j], np.stack([i, j], axis=1)


def _circle(above: Rows, below: Rows) -> list[int] | None:
    """Demands that go round in a circle, as indices, or None."""
    # An answer in a circle has one above it and one below it.
    both = np.intersect1d(_distinct(above), _distinct(below), assume_unique=True)
    if not len(both):
        return None
    tail, head = (np.minimum(np.searchsorted(both, side), len(both) - 1) for side in (above, below))
    inside = np.flatnonzero((both[tail] == above) & (both[head] == below))
    tail, head = tail[inside], head[inside]
    graph = csr_array((np.ones(len(inside)), (tail, head)), shape=(len(both), len(both)))
    n, component = connected_components(graph, connection="strong")
    if n == len(both):
        return None
    swapped = (graph * graph.T).nonzero()[0]
    sizes = np.bincount(component)
    smallest = np.argmin(np.where(sizes > 1, sizes, len(both) + 1))
    starts = swapped[:1] if len(swapped) else np.flatnonzero(component == smallest)[:STARTS]
    into = graph.tocsc()
    nodes = min((_shortest_through(int(v), graph, into) for v in starts), key=len)
    steps = zip(nodes, [*nodes[1:], nodes[0]], strict=True)
    return [int(inside[np.flatnonzero((tail == u) & (head == v))[0]]) for u, v in steps]


def _distinct(values: Rows) -> Rows:
    """np.unique of numbers from 0 on, by a sort: its hash table is far slower on a million of them."""
    ordered = np.sort(values)
    return ordered[np.diff(ordered, prepend=-1) > 0]


def _shortest_through(v: int, graph: Any, into: Any) -> list[int]:
    """The nodes of a shortest circle through v, from v on."""
    order, before = breadth_first_order(graph, v)
    last = order[np.isin(order, into.indices[into.indptr[v] : into.indptr[v + 1]])][0]  # the nearest with a way to v
    nodes = [int(last)]
    while nodes[-1] != v:
        nodes.append(int(before[nodes[-1]]))
    return nodes[::-1]


def _by_program(table: FactTable, rows: Rows) -> Decision:
    """Whether sums exist in which a* wins each of these facts."""
    if (demands := _rivals(table, rows)) is None:
        return Decision(None, f"more than {MOST_JOINED:,} pairs of facts share a subject and a relation")
    i, a = demands
    right = _numbers(table, i, table.answers[i])
    wrong = _numbers(table, i, a)
    while len(i):  # u that is only wanted large, or only small, meets each demand that it is in
        held = (np.isin(right, wrong) & np.isin(wrong, right)).all(axis=1)
        if held.all():
            break
        i, right, wrong = i[held], right[held], wrong[held]
    if len(i) > LARGEST:
        return Decision(None, f"{len(i):,} comparisons of answers depend on each other, and {LARGEST:,} can be decided")
    return _solved(i, right, wrong) if len(i) else Decision(None)


def _numbers(table: FactTable, i: Rows, a: Rows) -> Int[np.ndarray, "_ 2"]:
    """Which two of all u_s[a] and u_r[a] make the score of answer a to the question of row i."""
    tokens = np.stack([table.subjects[i], table.S + table.relations[i]], axis=1).astype(np.int64)
    return tokens * table.A + a[:, None]


def _rivals(table: FactTable, rows: Rows) -> tuple[Rows, Rows] | None:
    """Each of these facts with each wrong answer that both its subject and its relation have; None: too many pairs."""
    a, sides = table.answers[rows].astype(np.int64), (table.subjects[rows], table.relations[rows])
    many, few = sorted(sides, key=lambda side: int((np.bincount(side).astype(np.int64) ** 2).sum()))
    counts = np.bincount(many)
    n = counts[many]  # a fact is among those that share its token
    if n.sum() > MOST_JOINED:
        return None
    order = np.argsort(many, kind="stable")
    i = np.repeat(np.arange(len(rows)), n)
    rank = np.arange(len(i)) - np.repeat(np.cumsum(n) - n, n)
    rival = a[order[(np.cumsum(counts) - counts)[many[i]] + rank]]
    keys = few.astype(np.int64) * table.A
    pairs = rows[i] * table.A + rival
    right = np.concatenate([rows * table.A + a, table.also[:, 0].astype(np.int64) * table.A + table.also[:, 1]])
    pairs = np.unique(pairs[np.isin(keys[i] + rival, keys + a) & ~np.isin(pairs, right)])
    return pairs // table.A, pairs % table.A


def _solved(i: Rows, right: Int[np.ndarray, "n 2"], wrong: Int[np.ndarray, "n 2"]) -> Decision:
    """The largest margin up to 1, by a linear program: 1 where sums exist, as they can be made larger; else 0, and its
    multipliers are demands that add up to 0 > 0."""
    numbers, at = np.unique(np.concatenate([wrong, right], axis=1), return_inverse=True)
    n, signs = len(i), np.array([1.0, 1.0, -1.0, -1.0])
    ends = np.arange(0, 4 * n + 1, 4)
    against = csr_array((np.tile(signs, n), at.ravel(), ends), shape=(n, len(numbers)))
    cost = np.append(np.zeros(len(numbers)), -1.0)
    bounds = [(None, None)] * len(numbers) + [(None, 1.0)]
    with_margin = hstack([against, np.ones((n, 1))], format="csr")
    found = linprog(cost, A_ub=with_margin, b_ub=np.zeros(n), bounds=bounds, method="highs")
    if found.status == 0 and (against @ found.x[:-1]).max() < -1 + EXACT:
        return Decision(None)
    if found.status == 0:
        weights = -found.ineqlin.marginals
        if abs(weights.sum() - 1) < EXACT and np.abs(against.T @ weights).max() < EXACT:
            return Decision(np.unique(i[weights > EXACT / n]))
    return Decision(None, f"its linear program was not solved: {found.message}")


def check_intersections(table: FactTable) -> None:
    """Refuse facts whose right answers are not the only ones that their subject and their relation share."""
    if (unclear := np.flatnonzero(_shared_wrong(table) > 0)).size:
        raise ValueError(
            f"{count(len(unclear), 'fact')} {'has' if len(unclear) == 1 else 'have'} more than one answer that both "
            "subject and relation have, "
            f"so that adding the two cannot tell them apart; the first is {table.question(unclear[0])}. "
            f"Take a construction with an MLP"
        )


def _shared_wrong(table: FactTable) -> Int[np.ndarray, " facts"]:
    """How many answers the subject and the relation of each fact share that are not right for it.

    From the sparse sets A_s and A_r, in blocks of subjects: S x A and S x R are never held.
    """
    of_s, of_r = _answer_sets(table.subjects, table.S, table), _answer_sets(table.relations, table.R, table)
    right = np.ones(len(table), np.int64)  # a*(s, r) is in both sets, a further answer may be
    row, also = table.also[:, 0], table.also[:, 1]
    np.add.at(right, row, of_s[table.subjects[row], also] * of_r[table.relations[row], also])
    shared = np.zeros(len(table), np.int64)
    size = max(1, CELLS // table.R)
    for start in range(0, table.S, size):
        here = np.flatnonzero(table.subjects // size == start // size)
        common = (of_s[start : start + size] @ of_r.T).toarray()
        shared[here] = common[table.subjects[here] - start, table.relations[here]]
    return shared - right


def _answer_sets(tokens: Int[np.ndarray, " facts"], n: int, table: FactTable) -> csr_array:
    """The answers of each subject, or of each relation, as rows of zeros and ones."""
    sets = csr_array((np.ones(len(tokens), np.int32), (tokens, table.answers)), shape=(n, table.A))
    sets.data[:] = 1  # one for an answer that is given twice, too
    return sets
