"""Fact tables: a*(s, r), the answer to each subject and relation (section 4.1)."""

from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from facthold._util.arguments import check_ordered, checked
from facthold._util.commands import count
from facthold._util.errors import check_one_of, check_positive, check_range, find, optional
from facthold._util.keys import PRNGKeyArray, fold

NO_FACT = -1  # where a table has no answer to (s, r), in `FactTable.matrix`
NO_MORE = np.zeros((0, 2), np.int32)  # `FactTable.also` of a table with one answer to each question
Row = tuple[str, str, str]  # subject, relation, answer
# What to do where (s, r) is given with several answers: refuse, keep the first, or take each as right.
ON_CONFLICT = ("error", "first", "all")


@dataclass(frozen=True)
class Labels:
    """What the tokens of a table are called."""

    subjects: tuple[str, ...]
    relations: tuple[str, ...]
    answers: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class FactTable:
    """Facts (s, r, a*(s, r)), one a row, for all of S x R or for a part of it.

        table = fh.FactTable.of([("France", "capital", "Paris"), ("Peru", "capital", "Lima")])

    Subjects, relations and answers are numbers from 0; the order of the rows is theirs alone. A fact that
    is given twice is kept once; one that is given with two answers is refused. Where several answers are
    right, a*(s, r) is the first of them and `also` has the others: each of them counts as recall. `matrix`,
    `C`, `D` and what else stands in the theorems is about a*.
    """

    S: int
    R: int
    A: int
    subjects: Int[np.ndarray, " facts"]
    relations: Int[np.ndarray, " facts"]
    answers: Int[np.ndarray, " facts"]
    labels: Labels | None = None
    also: Int[np.ndarray, "extra 2"] = field(default_factory=NO_MORE.copy)
    """Pairs (row, a): a further answer that is right for this row. Ordered by row, each pair once."""

    def __post_init__(self) -> None:
        check_positive(S=self.S, R=self.R, A=self.A)
        columns = {"subjects": self.S, "relations": self.R, "answers": self.A}
        for name, size in columns.items():
            values = np.asarray(getattr(self, name))
            if values.shape != (len(self),) or not np.issubdtype(values.dtype, np.integer):
                raise ValueError(f"{name} must be {len(self)} integers, one a fact, not an array of {values.shape}")
            check_range(name, values, size)
            object.__setattr__(self, name, values.astype(np.int32))
            if self.labels is not None and len(getattr(self.labels, name)) != size:
                raise ValueError(f"{len(getattr(self.labels, name))} labels for {size} {name}; give one each")
        self._check_also()
        self._keep_once()
        silent = np.setdiff1d(np.arange(self.R), self.relations)
        if len(silent):
            raise ValueError(f"relation {self.name('relations', silent[0])} has no facts; leave it out of the table")

    @classmethod
    @checked
    def of(cls, facts: Any, on_conflict: str = "error") -> "FactTable":
        """A table of ``facts``: the path of a file, a frame, a list, a dictionary or a table, as `read_facts` takes
        them. A column p is left out here; `read_facts` gives both."""
        from facthold.facts.files import read_facts

        return read_facts(facts, on_conflict)[0]

    @classmethod
    @checked
    def from_rows(cls, rows: Iterable[Sequence[Any]], on_conflict: str = "error") -> "FactTable":
        """A table from (subject, relation, answer) texts as they are; `of` cleans names and takes all else too.

        Where a question has several answers: 'error' refuses them, 'first' takes the first, 'all' makes each right.
        """
        check_one_of("on_conflict", on_conflict, ON_CONFLICT)
        check_ordered("rows", rows)
        facts = list(rows)
        for i, fact in enumerate(facts):
            if isinstance(fact, str | Set) or len(fact) != 3 or not all(isinstance(name, str) for name in fact):
                raise ValueError(f"row {i}: a fact is (subject, relation, answer) as text, not {fact!r}")
        if on_conflict == "first":  # before tokens are numbered: an answer that nobody gives is none
            kept: dict[tuple[str, str], str] = {}
            facts = [(s, r, a) for s, r, a in facts if kept.setdefault((s, r), a) == a]
        columns = list(zip(*facts, strict=True))
        if not columns:
            raise ValueError("a fact table needs at least one row (subject, relation, answer)")
        of = [{name: i for i, name in enumerate(dict.fromkeys(column))} for column in columns]
        s, r, a = (np.array([of[i][name] for name in column]) for i, column in enumerate(columns))
        also = NO_MORE
        if on_conflict == "all":
            first, row = _first_rows(s, r)
            also = np.stack([row, a], axis=1)
            s, r, a = s[first], r[first], a[first]
        return cls(len(of[0]), len(of[1]), len(of[2]), s, r, a, Labels(*map(tuple, of)), also)

    @classmethod
    def from_matrix(cls, answers: Int[np.ndarray, "S R"], A: int | None = None) -> "FactTable":
        """The table with a*(s, r) = answers[s, r]; `NO_FACT` where there is none."""
        s, r = np.nonzero(answers != NO_FACT)
        S, R = answers.shape
        return cls(S, R, int(answers.max()) + 1 if A is None else A, s, r, answers[s, r])

    def to_rows(self) -> list[Row]:
        """(subject, relation, answer) by name, a row for each right answer. A table without names has numbers."""
        from facthold.facts.names import Names

        s, r, a = Names.of(self)
        pairs = zip(self.subjects.tolist(), self.relations.tolist(), strict=True)
        return [(s[i], r[j], a[k]) for row, (i, j) in enumerate(pairs) for k in self.right(row)]

    def to_pandas(self) -> Any:
        """`to_rows` as a frame of pandas."""
        (pandas,) = optional("to_pandas needs pandas: pip install pandas", "pandas")
        return pandas.DataFrame(self.to_rows(), columns=["subject", "relation", "answer"])

    def __len__(self) -> int:
        return len(self.subjects)

    def __repr__(self) -> str:
        sizes = (count(self.S, "subject"), count(self.R, "relation"), count(self.A, "answer"))
        return f"FactTable({count(len(self), 'fact')}: {', '.join(sizes)})"

    @property
    def matrix(self) -> Int[np.ndarray, "S R"]:
        """a*(s, r), and `NO_FACT` where there is none."""
        table = np.full((self.S, self.R), NO_FACT, np.int32)
        table[self.subjects, self.relations] = self.answers
        return table

    def right(self, i: int) -> tuple[int, ...]:
        """Every right answer to the question of row i, a*(s, r) first."""
        start, end = np.searchsorted(self.also[:, 0], [i, i + 1])
        return (int(self.answers[i]), *self.also[start:end, 1].tolist())

    def take(self, rows: Int[np.ndarray, " part"]) -> "FactTable":
        """These rows of the table, in this order, with its tokens and all right answers of each."""
        columns = (self.subjects[rows], self.relations[rows], self.answers[rows])
        return FactTable(self.S, self.R, self.A, *columns, labels=self.labels, also=self.also_of(rows))

    def also_of(self, rows: Int[np.ndarray, " part"]) -> Int[np.ndarray, "extra 2"]:
        """The further answers of these rows, by their place among them."""
        place = np.full(len(self), NO_FACT, np.int32)
        place[rows] = np.arange(len(rows))
        also = np.stack([place[self.also[:, 0]], self.also[:, 1]], axis=1)
        return also[also[:, 0] != NO_FACT]

    def A_r(self, r: int) -> set[int]:
        """The answers of relation r."""
        return set(self.answers[self.relations == r].tolist())

    def A_s(self, s: int) -> set[int]:
        """The answers of subject s."""
        return set(self.answers[self.subjects == s].tolist())

    @cached_property
    def C(self) -> Int[np.ndarray, " A"]:
        """C(a), how many facts have the answer a (theorem 4)."""
        return np.bincount(self.answers, minlength=self.A)

    @cached_property
    def D(self) -> int:
        """The size of the largest A_r."""
        return int(np.bincount(self._relation_answers[:, 0]).max())

    @cached_property
    def assumption_1(self) -> bool:
        """Whether no answer serves two relations."""
        return len(np.unique(self._relation_answers[:, 1])) == len(self._relation_answers)

    @cached_property
    def _relation_answers(self) -> np.ndarray:
        """The pairs (r, a) that occur, each once."""
        return np.unique(np.stack([self.relations, self.answers], axis=1), axis=0)

    def joint(self, kind: str, p: np.ndarray | None = None) -> Float[np.ndarray, "tokens A"]:
        """p(z, a) for the relations or the subjects z, as ``kind`` says, or in one row for 'nothing' known."""
        tokens, n = {
            "relation": (self.relations, self.R), "subject": (self.subjects, self.S),
            "nothing": (np.zeros(len(self), int), 1),
        }[kind]  # fmt: skip
        found = np.zeros((n, self.A))
        np.add.at(found, (tokens, self.answers), 1 / len(self) if p is None else np.asarray(p, float))
        return found

    def given(self, kind: str, p: np.ndarray | None = None) -> Float[np.ndarray, "tokens A"]:
        """p*(a | r) or p*(a | s); a row of zeros for a token that is never asked about."""
        joint = self.joint(kind, p)
        return joint / np.maximum(joint.sum(axis=1, keepdims=True), np.finfo(float).tiny)

    def entropy_given(self, kind: str, p: np.ndarray | None = None) -> float:
        """Mean entropy of p*(a | z) in nats: the loss of the best guess from the relation, the subject or nothing."""
        joint, given = self.joint(kind, p), self.given(kind, p)
        return float(-(joint * np.log(np.where(joint > 0, given, 1.0))).sum())

    def _check_also(self) -> None:
        """Refuse further answers to rows that are not there, or that are no answers."""
        also = np.asarray(self.also)
        if also.ndim != 2 or also.shape[1] != 2 or not np.issubdtype(also.dtype, np.integer):
            raise ValueError(f"also must be pairs (row, answer) of integers, not an array of {also.shape}")
        check_range("the rows of also", also[:, 0], len(self))
        check_range("the answers of also", also[:, 1], self.A)
        object.__setattr__(self, "also", also.astype(np.int32))

    def _keep_once(self) -> None:
        """Drop repeated rows, and refuse two answers to one question that `also` does not name."""
        first, row = _first_rows(self.subjects, self.relations)
        other = np.flatnonzero(self.answers != self.answers[first][row])
        if len(other):
            a, b = (self.name("answers", self.answers[j]) for j in (first[row[other[0]]], other[0]))
            raise ValueError(
                f"the fact {self.question(other[0])} is given with two answers, {a} and {b}; keep one of them, "
                "or say which counts with on_conflict='first' or 'all' in from_rows"
            )
        for name in ("subjects", "relations", "answers"):
            object.__setattr__(self, name, getattr(self, name)[first])
        if len(self.also):
            pairs = np.stack([row[self.also[:, 0]], self.also[:, 1]], axis=1)
            pairs = pairs[pairs[:, 1] != self.answers[pairs[:, 0]]]
            pairs = pairs[np.sort(np.unique(pairs, axis=0, return_index=True)[1])]
            object.__setattr__(self, "also", pairs[np.argsort(pairs[:, 0], kind="stable")].astype(np.int32))

    def question(self, i: int | np.integer) -> str:
        """(s, r) of row i, for a message."""
        return f"({self.name('subjects', self.subjects[i])}, {self.name('relations', self.relations[i])})"

    def name(self, kind: str, i: int | np.integer) -> str:
        return str(i) if self.labels is None else repr(getattr(self.labels, kind)[i])


@checked
def random_table(S: int, R: int, D: int, *, key: PRNGKeyArray) -> FactTable:
    """Section 4.4: a*(s, r) uniform in r's own block of D answers, {rD, ..., rD + D - 1}; |A| = RD.

    Nested: the table for a larger S or R begins with that for a smaller one.
    ``fh.random_table(64, 8, 4, key=fh.derive("table", 0))``
    """
    return _blocks(S, R, D, key, lambda stream: stream.integers(0, D, S))


def balanced_table(S: int, R: int, D: int, *, key: PRNGKeyArray) -> FactTable:
    """Each answer of a relation serves S / D subjects, in random order: p*(a | r) is exactly uniform, as in figure 5.
    With D = S every fact has an answer of its own."""
    if D > 0 and S % D:
        raise ValueError(f"D={D} does not divide S={S}, so the answers cannot be balanced; take S={S // D * D or D}")
    return _blocks(S, R, D, key, lambda stream: stream.permutation(S) % D)


def random_share(table: FactTable, share: float, *, key: PRNGKeyArray) -> FactTable:
    """A random part of the table, with the same share of each relation's facts, and at least one of them where there
    are few; a share that leaves less than half a fact of every relation is refused."""
    if not 0 < share <= 1:
        raise ValueError(f"share={share} must be above 0 and at most 1")
    if share * (most := np.bincount(table.relations).max(initial=0)) < 0.5:
        raise ValueError(f"share={share:g} leaves nothing of {most} facts of a relation; take {0.5 / most:.2g} or more")
    kept = []
    for r in range(table.R):
        ours = np.flatnonzero(table.relations == r)
        n = max(1, round(share * len(ours)))
        kept.append(np.sort(_generator(key, r).permutation(ours)[:n]))
    return table.take(np.sort(np.concatenate(kept)))


TABLES = {"random": random_table, "balanced": balanced_table}


def make_table(kind: str, S: int, R: int, D: int, *, key: PRNGKeyArray) -> FactTable:
    """The table called ``kind``: 'random' or 'balanced'."""
    return find("table", kind, TABLES)(S, R, D, key=key)


def _generator(key: PRNGKeyArray, r: int) -> np.random.Generator:
    """A stream for each relation."""
    from facthold.memory.embeddings import host_generator

    return host_generator(fold(key, r))


def _blocks(S: int, R: int, D: int, key: PRNGKeyArray, draw: Callable[[np.random.Generator], np.ndarray]) -> FactTable:
    """The complete table whose relation r answers from its own block of D, as drawn for each subject."""
    check_positive(S=S, R=R, D=D)
    within = np.stack([draw(_generator(key, r)) for r in range(R)], axis=1)
    return FactTable.from_matrix((within + D * np.arange(R)).astype(np.int32), A=R * D)


def _first_rows(s: np.ndarray, r: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where each question (s, r) stands first, in the order of the rows, and for each row which of these it asks."""
    pair = s.astype(np.int64) * (int(r.max(initial=0)) + 1) + r
    _, first, of = np.unique(pair, return_index=True, return_inverse=True)
    order = np.argsort(first)
    return first[order], np.argsort(order)[of]
