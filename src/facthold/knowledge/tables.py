"""Problems whose table grows or shrinks by one: the embeddings of all other tokens stay what they are."""

import hashlib
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from jaxtyping import Float

from facthold._util.errors import FactholdError
from facthold.facts.names import Names, clean, unfit
from facthold.facts.problem import FactualRecall
from facthold.facts.table import FactTable, Labels

TRIES = 64  # embeddings that are drawn for a new name; the one that disturbs least, or is told apart best, is taken
SUBJECT_TRIES = 8  # for a subject each try is a pass over the table


def with_answer(problem: FactualRecall, name: str, F: Float[np.ndarray, "facts d"]) -> tuple[FactualRecall, int]:
    """The problem with an answer of this name, and its number. ``F`` is what the model says of each fact.

    Only the very name is the known answer: 'CO' is not 'Co'.
    A new answer is a new rival for every fact, so that of some embeddings the one is taken that comes least near to
    being said.
    """
    table = problem.table
    a = Names.of(table)[2].exact(name)
    if a is not None:
        return problem, a
    _check_name("answer", name, table.A, table.labels)
    tried = _draw(problem.phi[problem.n_tokens :], "answer", name, TRIES)
    own = (F * problem.phi[problem.n_tokens + table.answers]).sum(axis=1)
    excess = F @ tried.T - own[:, None]
    order = np.lexsort((excess.max(axis=0), (excess > 0).sum(axis=0)))
    phi = np.concatenate([problem.phi, tried[order[:1]].astype(problem.phi.dtype)])
    labels = None if table.labels is None else replace(table.labels, answers=(*table.labels.answers, clean(name)))
    return replace(problem, table=replace(table, A=table.A + 1, labels=labels), phi=phi), table.A


def with_subject(
    problem: FactualRecall, name: str, told_apart: Callable[[FactualRecall], float]
) -> tuple[FactualRecall, int]:
    """The problem with a new subject, the last of them, and its number. All later tokens move up by one.

    ``told_apart`` says how well the model sees the last subject of a problem; the best of some embeddings is taken.
    """
    table = problem.table
    _check_name("subject", name, table.S, table.labels)
    labels = None if table.labels is None else replace(table.labels, subjects=(*table.labels.subjects, clean(name)))
    larger = replace(table, S=table.S + 1, labels=labels)
    tried = _draw(problem.phi[: table.S], "subject", name, SUBJECT_TRIES).astype(problem.phi.dtype)
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
    return replace(problem, table=larger, p=None if p is None else p / p.sum())


def without(problem: FactualRecall, row: int) -> FactualRecall:
    """The problem without one fact. A relation that has no other goes with it, and its token too.

    The other relations keep their names: a table of numbers has its numbers as labels from then on.
    """
    table, r = problem.table, int(problem.table.relations[row])
    keep = np.delete(np.arange(len(table)), row)
    p, phi = (None if problem.p is None else problem.p[keep]), problem.phi
    if p is not None:
        p = p / p.sum() if p.sum() > 0 else None
    columns = {name: getattr(table, name)[keep] for name in ("subjects", "relations", "answers")}
    also = table.also[table.also[:, 0] != row]
    also = np.stack([also[:, 0] - (also[:, 0] > row), also[:, 1]], axis=1)
    R, labels = table.R, table.labels
    if r not in columns["relations"]:
        columns["relations"] = columns["relations"] - (columns["relations"] > r)
        R, phi = R - 1, np.delete(phi, table.S + r, axis=0)
        subjects, relations, answers = (tuple(names.names) for names in Names.of(table))
        labels = Labels(subjects, relations[:r] + relations[r + 1 :], answers)
    smaller = FactTable(table.S, R, table.A, **columns, labels=labels, also=also)
    return replace(problem, table=smaller, phi=phi, p=p)


def _draw(like: Float[np.ndarray, "n d"], kind: str, name: str, n: int) -> Float[np.ndarray, "k d"]:
    """Embeddings by the name alone, of the size of those that there are: on their sphere, or else Gaussian."""
    digest = hashlib.sha256(f"{kind}:{clean(name)}".encode()).digest()
    generator = np.random.Generator(np.random.Philox(key=np.frombuffer(digest[:16], np.uint64)))
    rows = generator.standard_normal((n, like.shape[1]))
    norms = np.linalg.norm(like.astype(np.float64), axis=1)
    if norms.std() < 1e-3 * norms.mean():
        return rows * (norms.mean() / np.linalg.norm(rows, axis=1, keepdims=True))
    return rows * np.sqrt((norms**2).mean() / like.shape[1])


def _check_name(kind: str, name: str, n: int, labels: Labels | None) -> None:
    if reason := unfit(clean(name)):
        raise FactholdError(f"the new {kind} {name!r} {reason}")
    if labels is None and clean(name) != str(n):
        raise FactholdError(f"unknown {kind} {name!r}: the table has numbers, 0 to {n - 1}; a new one is {n}")
