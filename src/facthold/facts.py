"""Fact tables: a*(s, r), the answer to each subject and relation (section 4.1)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Int, PRNGKeyArray

from facthold.embeddings import host_generator
from facthold.errors import check_positive, unknown
from facthold.keys import fold

NO_FACT = -1
"""Where a table has no answer to (s, r), in `FactTable.matrix`."""


@dataclass(frozen=True)
class Labels:
    """What the tokens of a table are called."""

    subjects: tuple[str, ...]
    relations: tuple[str, ...]
    answers: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class FactTable:
    """Facts (s, r, a*(s, r)), one a row, for all of S x R or for a part of it.

    Subjects, relations and answers are numbers from 0; the order of the rows is theirs alone. A fact that
    is given twice is kept once; one that is given with two answers is refused.
    """

    S: int
    R: int
    A: int
    subjects: Int[np.ndarray, " facts"]
    relations: Int[np.ndarray, " facts"]
    answers: Int[np.ndarray, " facts"]
    labels: Labels | None = None

    def __post_init__(self) -> None:
        check_positive(S=self.S, R=self.R, A=self.A)
        columns = {"subjects": self.S, "relations": self.R, "answers": self.A}
        for name, size in columns.items():
            values = np.asarray(getattr(self, name))
            if values.shape != (len(self),) or not np.issubdtype(values.dtype, np.integer):
                raise ValueError(f"{name} must be {len(self)} integers, one a fact, not an array of {values.shape}")
            if len(values) and not 0 <= values.min() <= values.max() < size:
                raise ValueError(f"{name} must lie between 0 and {size - 1}, not {values.min()} to {values.max()}")
            object.__setattr__(self, name, values.astype(np.int32))
            if self.labels is not None and len(getattr(self.labels, name)) != size:
                raise ValueError(f"{len(getattr(self.labels, name))} labels for {size} {name}; give one each")
        self._keep_once()
        silent = np.setdiff1d(np.arange(self.R), self.relations)
        if len(silent):
            raise ValueError(f"relation {self.name('relations', silent[0])} has no facts; leave it out of the table")

    @classmethod
    def from_rows(cls, rows: Iterable[Sequence[str]]) -> "FactTable":
        """A table from (subject, relation, answer) texts. Tokens are numbered as they first appear."""
        columns = list(zip(*(_three(row) for row in rows), strict=True))
        if not columns:
            raise ValueError("a fact table needs at least one row (subject, relation, answer)")
        of = [{name: i for i, name in enumerate(dict.fromkeys(column))} for column in columns]
        s, r, a = (np.array([of[i][name] for name in column]) for i, column in enumerate(columns))
        return cls(len(of[0]), len(of[1]), len(of[2]), s, r, a, Labels(*map(tuple, of)))

    @classmethod
    def from_matrix(cls, answers: Int[np.ndarray, "S R"], A: int | None = None) -> "FactTable":
        """The table with a*(s, r) = answers[s, r]; `NO_FACT` where there is none."""
        s, r = np.nonzero(answers != NO_FACT)
        S, R = answers.shape
        return cls(S, R, int(answers.max()) + 1 if A is None else A, s, r, answers[s, r])

    def __len__(self) -> int:
        return len(self.subjects)

    @property
    def complete(self) -> bool:
        """Whether every (s, r) has an answer."""
        return len(self) == self.S * self.R

    @property
    def matrix(self) -> Int[np.ndarray, "S R"]:
        """a*(s, r), and `NO_FACT` where there is none."""
        table = np.full((self.S, self.R), NO_FACT, np.int32)
        table[self.subjects, self.relations] = self.answers
        return table

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

    def entropy_given_relation(self, p: np.ndarray | None = None) -> float:
        """Mean entropy of p*(a | r) in nats: the loss of the best guess that knows the relation alone."""
        weights = np.full(len(self), 1 / len(self)) if p is None else np.asarray(p, float)
        joint = np.zeros((self.R, self.A))
        np.add.at(joint, (self.relations, self.answers), weights)
        conditional = np.divide(joint, joint.sum(axis=1, keepdims=True), out=np.ones_like(joint), where=joint > 0)
        return float(-(joint * np.log(conditional)).sum())

    def _keep_once(self) -> None:
        """Drop repeated rows, and refuse two answers to one question."""
        pair = self.subjects.astype(np.int64) * self.R + self.relations
        _, first, of = np.unique(pair, return_index=True, return_inverse=True)
        if len(first) == len(self):
            return
        other = np.flatnonzero(self.answers != self.answers[first][of])
        if len(other):
            i = other[0]
            s, r = self.name("subjects", self.subjects[i]), self.name("relations", self.relations[i])
            a, b = (self.name("answers", self.answers[j]) for j in (first[of[i]], i))
            raise ValueError(f"the fact ({s}, {r}) is given with two answers, {a} and {b}; keep one of them")
        for name in ("subjects", "relations", "answers"):
            object.__setattr__(self, name, getattr(self, name)[np.sort(first)])

    def name(self, kind: str, i: int | np.integer) -> str:
        return str(i) if self.labels is None else repr(getattr(self.labels, kind)[i])


def random_table(S: int, R: int, D: int, *, key: PRNGKeyArray) -> FactTable:
    """Section 4.4: a*(s, r) uniform in r's own block of D answers, {rD, ..., rD + D - 1}; |A| = RD.

    Nested: the table for a larger S or R begins with that for a smaller one.
    """
    check_positive(S=S, R=R, D=D)
    columns = [host_generator(fold(key, r)).integers(0, D, S) for r in range(R)]
    return _blocks(np.stack(columns, axis=1), D)


def balanced_table(S: int, R: int, D: int, *, key: PRNGKeyArray) -> FactTable:
    """Each answer of a relation serves S / D subjects, in random order: p*(a | r) is exactly uniform.

    This is the structured table of figure 5's kind. With D = S every fact has an answer of its own.
    """
    check_positive(S=S, R=R, D=D)
    if S % D:
        raise ValueError(f"D={D} does not divide S={S}, so the answers cannot be balanced; take S={S // D * D or D}")
    columns = [host_generator(fold(key, r)).permutation(S) % D for r in range(R)]
    return _blocks(np.stack(columns, axis=1), D)


def random_share(table: FactTable, share: float, *, key: PRNGKeyArray) -> FactTable:
    """A random part of the table, with the same share of each relation's facts, and at least one of them."""
    if not 0 < share <= 1:
        raise ValueError(f"share={share} must be above 0 and at most 1")
    kept = []
    for r in range(table.R):
        ours = np.flatnonzero(table.relations == r)
        n = max(1, round(share * len(ours)))
        kept.append(np.sort(host_generator(fold(key, r)).permutation(ours)[:n]))
    rows = np.sort(np.concatenate(kept))
    columns = (table.subjects[rows], table.relations[rows], table.answers[rows])
    return FactTable(table.S, table.R, table.A, *columns, labels=table.labels)


TABLES = {"random": random_table, "balanced": balanced_table}


def make_table(kind: str, S: int, R: int, D: int, *, key: PRNGKeyArray) -> FactTable:
    """The table called ``kind``: 'random' or 'balanced'."""
    if kind not in TABLES:
        raise unknown("table", kind, TABLES)
    return TABLES[kind](S, R, D, key=key)


def _blocks(within: np.ndarray, D: int) -> FactTable:
    """The complete table whose relation r answers from its own block of D."""
    R = within.shape[1]
    return FactTable.from_matrix((within + D * np.arange(R)).astype(np.int32), A=R * D)


def _three(row: Sequence[str]) -> Sequence[str]:
    if isinstance(row, str) or len(row) != 3:
        raise ValueError(f"a fact is (subject, relation, answer), not {row!r}")
    return row
