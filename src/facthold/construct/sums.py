"""What no sum of a part for s and a part for r can hold, at any size.

Attention alone scores the answers to (s, r) by u_s[a] + u_r[a]. Let a = a*(s, r) and b = a*(s, q) be two answers of one
subject. Then u_s[a] + u_r[a] > u_s[b] + u_r[b] and u_s[b] + u_q[b] > u_s[a] + u_q[a], so that

    (u_r - u_q)[a] > (u_r - u_q)[b].

Each subject with both relations demands such an order of two answers, whatever the embeddings and the size. Where the
demands of one pair of relations go round in a circle, no weights meet them; s1 -> (a, b), s2 -> (b, a) is the smallest
case. Subjects and relations may change places. With two relations in all (or two subjects) no circle means that sums
exist; with more of both it proves nothing.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from jaxtyping import Int
from scipy.sparse import csr_array
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

Rows = Int[np.ndarray, " _"]


def check_sums(table: FactTable) -> None:
    """Refuse a table that no sum of a part for s and a part for r can hold."""
    if (rows := contradiction(table)) is None:
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
