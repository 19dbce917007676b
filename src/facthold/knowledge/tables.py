"""Problems whose table grows or shrinks by one: the embeddings of all other tokens stay what they are."""

import hashlib
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from jaxtyping import Float

from facthold._util.errors import FactholdError
from facthold.facts.names import Names, blank, clean, unfit
from facthold.facts.problem import FactualRecall
from facthold.facts.table import FactTable, Labels

TRIES = 64  # embeddings that are drawn for a new name; the one that disturbs least, or is told apart best, is taken
SUBJECT_TRIES = 8  # for a subject each try is a pass over the table


def with_answer(problem: FactualRecall, name: str, F: Float[np.ndarray, "facts d"]) -> tuple[FactualRecall, int]:
    """The problem with an answer of this name, and its number. ``F`` is what the model says of each fact.

    Only the very name is the known answer: 'CO' is not 'Co'. A new answer is a new rival for every fact, so that of
    some embeddings the one is taken that comes least near to being said.
    """
    table = problem.table
    if (a := Names.of(table)[2].exact(name)) is not None:
        return problem, a
    larger = _one_more(table, "answer", "A", name)
    tried = _draw(problem.phi[problem.n_tokens :], "answer", name, TRIES)
    own = (F * problem.phi[problem.n_tokens + table.answers]).sum(axis=1)
    excess = F @ tried.T - own[:, None]
    order = np.lexsort((excess.max(axis=0), (excess > 0).sum(axis=0)))
    phi = np.concatenate([problem.phi, tried[order[:1]].astype(problem.phi.dtype)])
    return replace(problem, table=larger, phi=phi), table.A


def with_subject(
    problem: FactualRecall, name: str, F: Float[np.ndarray, "facts d"], told_apart: Callable[[FactualRecall], float]
) -> tuple[FactualRecall, int]:
    """The problem with a new subject, the last of them, and its number. All later tokens move up by one.

    Where the model may say any token, the new one is a rival for every fact, whose ``F`` is what the model says of it:
    some embeddings are taken of those that fewest facts would say. ``told_apart`` says how well the model sees the last
    subject of a problem; the best of these is taken.
    """
    table = problem.table
    larger = _one_more(table, "subject", "S", name)
    tried = _draw(problem.phi[: table.S], "subject", name, TRIES).astype(problem.phi.dtype)
    own = (F * problem.phi[problem.n_tokens + table.answers]).sum(axis=1)
    said = (own[:, None] <= F @ tried.T).sum(axis=0) if problem.outputs == "vocabulary" else np.zeros(len(tried))
    tried = tried[np.flatnonzero(said == said.min())[:SUBJECT_TRIES]]
    problems = (replace(problem, table=larger, phi=np.insert(problem.phi, table.S, row, axis=0)) for row in tried)
    return max(problems, key=told_apart), table.S  # one at a time: each has all embeddings


def replaced(problem: FactualRecall, row: int, a: int) -> FactualRecall:
    """The problem in which a row has this answer, and no other."""
    answers = problem.table.answers.copy()
    answers[row] = a
    also = problem.table.also
    return replace(problem, table=replace(problem.table, answers=answers, also=also[also[:, 0] != row]))


def added(problem: FactualRecall, s: int, r: int, a: int) -> FactualRecall:
    """The problem with one more fact, the last. Where p(s, r) is given, it is asked as often as the mean fact."""
    table = problem.table
    columns = zip((table.subjects, table.relations, table.answers), (s, r, a), strict=True)
    subjects, relations, answers = (np.append(column, value) for column, value in columns)
    p = None if problem.p is None else np.append(problem.p, problem.p.mean())
    larger = replace(table, subjects=subjects, relations=relations, answers=answers)
    forgotten = problem.forgotten[(problem.forgotten[:, :2] != (s, r)).any(axis=1)]  # what is known again may be said
    return replace(problem, table=larger, p=None if p is None else p / p.sum(), forgotten=forgotten)


def restored(problem: FactualRecall, s: int, r: int) -> FactualRecall:
    """The problem with a fact that was forgotten as its last one again, with all of its answers."""
    first, *more = (a for *fact, a in problem.forgotten.tolist() if fact == [s, r])
    larger = added(problem, s, r, first)
    rows = [(len(larger.table) - 1, a) for a in more]
    also = np.concatenate([larger.table.also, np.array(rows, np.int64).reshape(-1, 2)]).astype(larger.table.also.dtype)
    return replace(larger, table=replace(larger.table, also=also))


def without(problem: FactualRecall, row: int) -> FactualRecall:
    """The problem without one fact, whose answers are forgotten. A relation that has no other goes with it, and its
    token too: then it cannot be asked for.

    The other relations keep their names: a table of numbers has its numbers as labels from then on.
    """
    table, r = problem.table, int(problem.table.relations[row])
    keep = np.delete(np.arange(len(table)), row)
    p, phi = (None if problem.p is None else problem.p[keep]), problem.phi
    p = None if p is None or not p.sum() > 0 else p / p.sum()
    columns = {name: getattr(table, name)[keep] for name in ("subjects", "relations", "answers")}
    also = table.also[table.also[:, 0] != row]
    also = np.stack([also[:, 0] - (also[:, 0] > row), also[:, 1]], axis=1)
    R, labels, s = table.R, table.labels, int(table.subjects[row])
    forgotten = np.concatenate([problem.forgotten, [(s, r, a) for a in table.right(row)]])
    if r not in columns["relations"]:
        forgotten = forgotten[forgotten[:, 1] != r]
        forgotten[:, 1] -= forgotten[:, 1] > r
        columns["relations"] = columns["relations"] - (columns["relations"] > r)
        R, phi = R - 1, np.delete(phi, table.S + r, axis=0)
        subjects, relations, answers = (tuple(names.names) for names in Names.of(table))
        labels = Labels(subjects, relations[:r] + relations[r + 1 :], answers)
    smaller = FactTable(table.S, R, table.A, **columns, labels=labels, also=also)
    return replace(problem, table=smaller, phi=phi, p=p, forgotten=forgotten)


def _draw(like: Float[np.ndarray, "n d"], kind: str, name: str, n: int) -> Float[np.ndarray, "k d"]:
    """Embeddings by the name alone, of the size of those that there are: on their sphere, or else Gaussian."""
    digest = hashlib.sha256(f"{kind}:{clean(name)}".encode()).digest()
    generator = np.random.Generator(np.random.Philox(key=np.frombuffer(digest[:16], np.uint64)))
    rows = generator.standard_normal((n, like.shape[1]))
    norms = np.linalg.norm(like.astype(np.float64), axis=1)
    if norms.std() < 1e-3 * norms.mean():
        return rows * (norms.mean() / np.linalg.norm(rows, axis=1, keepdims=True))
    return rows * np.sqrt((norms**2).mean() / like.shape[1])


def _one_more(table: FactTable, kind: str, size: str, name: str) -> FactTable:
    """The table with one more token of this kind, whose number is its ``size``."""
    n, column, new = getattr(table, size), f"{kind}s", clean(name)
    if reason := unfit(new):
        raise FactholdError(f"the new {kind} {name!r} {reason}{'; give one that can be seen' if blank(new) else ''}")
    if table.labels is None and new != str(n):
        raise FactholdError(f"unknown {kind} {name!r}: the table has numbers, 0 to {n - 1}; a new one is {n}")
    labels = table.labels and replace(table.labels, **{column: (*getattr(table.labels, column), new)})
    return replace(table, labels=labels, **{size: n + 1})
