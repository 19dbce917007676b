"""What one change did, and how changes are judged: in fresh prompts, on the model as it will be saved.

A change is judged by the fact that it is of, by all other facts and by what was forgotten before. Each is asked in
several prompts: a model of few bits says some facts in most prompts and not in all, and one prompt would not see such a
fact fall.
"""

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Int

from facthold.facts.names import Names
from facthold.knowledge.model import FRESH, Model
from facthold.models.forward import blocks, prompts, table_prompts
from facthold.models.judge import NONE, find_rows, joined, judge, judge_outputs

PROBES = 10  # fresh prompts in which a changed fact is asked, and each that was forgotten
OTHERS = 1 << 15  # prompts of all other facts together: as many of each as of the changed one, where the table is small
NOTHING = "nothing"  # that was changed


@dataclass(frozen=True)
class Report:
    """What one change did."""

    kind: str  # 'edit', 'add' or 'forget'
    subject: str
    relation: str
    answers: tuple[str, ...]  # the new answer; all that are forgotten
    before: str  # what the model said
    said: str  # what it says now, in most of the prompts
    efficacy: float  # share of fresh prompts that say the new answer; for 'forget', that do not say the old one
    matrix: str  # what was changed: the last linear map, neurons of its own, or NOTHING
    size: float  # Frobenius norm of the change over that of the last linear map
    rank: int  # of the change: 1, or 0 where nothing had to change
    others: int  # other facts of the table
    specificity: float  # of all right answers to the others, in all of their prompts, the share that still is
    unchanged: float  # share of all answers to the others that are the same as before
    more_params: int = 0  # parameters that the model has more than before: those of a new neuron
    new: tuple[str, ...] = ()  # which names the table did not have: 'subject', 'answer'
    neurons: int = 0  # of its own that the fact got: new ones, or ones that no fact used
    lost: tuple[tuple[str, str], ...] = ()  # of the others that were right in most prompts and no longer are, the first
    alike: tuple[str, ...] = ()  # answers of the table that differ from a new one by case or accents alone
    replaced: tuple[str, ...] = ()  # where the fact had several right answers: all that are none any more
    lost_in_all: int = 0  # how many others were right in most prompts and no longer are
    last_of_relation: bool = False  # whether the model has the relation no more: this was its last fact
    came_back: tuple[tuple[str, str], ...] = ()  # what had been forgotten before, and is said again
    prompts: int = 1  # fresh ones in which each of the others was asked
    weaker: int = 0  # how many further others are right in fewer of them than before

    @property
    def answer(self) -> str:
        return " or ".join(self.answers)

    @property
    def how(self) -> str:
        """What was done to the weights, in words."""
        if self.matrix == NOTHING:
            return "the weights are as they were"
        neurons = "one neuron" if self.neurons == 1 else f"{self.neurons} neurons"
        if self.more_params:
            return f"{neurons} added, {self.more_params} parameters more"
        done = f"{neurons} that no fact used" if self.neurons else f"a change of rank one in {self.matrix}"
        return f"{done}, no parameter added"

    @property
    def done(self) -> bool:
        return self.efficacy == 1.0

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"answer": self.answer, "done": self.done, "how": self.how}


@dataclass(frozen=True, eq=False)
class Asked:
    """Facts in several fresh prompts, and what attention makes of these. No change is of attention but for W_O where
    there is no MLP, so that the models before and after it share this, which is most of the work."""

    rows: Int[np.ndarray, " n"]  # of the table
    draws: int
    by_mlp: bool  # whether ``seen`` is what an MLP reads; else there was none, and it is what W_O reads
    seen: np.ndarray  # (prompts x facts, d or H d_h)

    @classmethod
    def of(cls, known: Model, rows: Int[np.ndarray, " n"] | None = None) -> "Asked":
        rows = np.arange(len(known.table)) if rows is None else rows
        draws = draws_of(len(rows))
        tokens = np.concatenate(table_prompts(known.problem, rows, draws=draws, seed=FRESH))
        by_mlp = len(known.forward.V) > 0
        parts = [states.x if by_mlp else states.features for _, states in known.forward.blocks(tokens)]
        return cls(rows, draws, by_mlp, np.concatenate(parts))

    def told(self, now: Model) -> "Told":
        """What a model says in these prompts: the one that they were made with, or one with another last map."""
        forward, rows = now.forward, np.tile(self.rows, self.draws)
        W_O, d = forward.W_O.reshape(-1, forward.W_O.shape[2]), forward.W_O.shape[2]
        verdicts = []
        for at in blocks(len(self.seen), max(self.seen.shape[1], len(forward.V), d)):
            x = self.seen[at] if self.by_mlp else self.seen[at] @ W_O
            verdicts.append(judge_outputs(forward, x + forward.hidden(x) @ forward.V, rows[at]))
        judged = joined(verdicts)
        numbers, back = np.unique(judged.said, return_inverse=True)
        names = np.array([now.output_name(int(number)) for number in numbers], object)
        return Told(names[back].reshape(self.draws, -1), judged.recalled.reshape(self.draws, -1))


@dataclass(frozen=True, eq=False)
class Told:
    """What a model says of facts, each in several fresh prompts, and whether it is right."""

    said: np.ndarray  # (prompts, facts), by name: numbers of tokens move when there are more of them
    right: Bool[np.ndarray, "draws n"]

    def of(self, facts: Int[np.ndarray, " k"]) -> "Told":
        """Of some of the facts alone."""
        return Told(self.said[:, facts], self.right[:, facts])

    def kept(self, now: "Told") -> tuple[float, float]:
        """Of what was right here the share that still is in ``now``; of all that was said, the share that still is."""
        return _mean(now.right[self.right]), _mean(now.said == self.said)

    def fallen(self, now: "Told") -> tuple[Int[np.ndarray, " k"], int]:
        """Which facts were right in most prompts and no longer are, the deepest fall first; and how many others are
        right in fewer prompts than before."""
        before, after = self.right.mean(axis=0), now.right.mean(axis=0)
        lost = np.flatnonzero((before > 0.5) & (after <= 0.5))
        order = np.argsort((after - before)[lost], kind="stable")
        return lost[order], int((after < before).sum()) - len(lost)


def draws_of(facts: int) -> int:
    """In how many prompts each of so many facts is asked."""
    return int(np.clip(OTHERS // max(facts, 1), 1, PROBES))


def said_again(known: Model) -> Bool[np.ndarray, " n"]:
    """Which of the forgotten answers a model says, each asked for in some fresh prompts."""
    s, r, a = known.problem.forgotten.T
    if not len(s):
        return np.zeros(0, bool)
    tokens = np.concatenate([prompts(known.problem, s, r, seed=FRESH + i) for i in range(PROBES)])
    said = judge(known.forward, tokens, np.full(len(tokens), NONE)).said
    return (said.reshape(PROBES, -1) == a).any(axis=0)


def named(known: Model, which: Bool[np.ndarray, " n"]) -> tuple[tuple[str, str], ...]:
    """Some of what was forgotten, by name."""
    subjects, relations, _ = known.names
    return tuple(dict.fromkeys((subjects[s], relations[r]) for s, r, _ in known.problem.forgotten[which]))


def _mean(hits: Bool[np.ndarray, "*n"]) -> float:
    """The share of hits, all where there are none to miss."""
    return float(hits.mean()) if hits.size else 1.0


def specificity(before: Model, after: Model, but: Collection[tuple[str, str]] = ()) -> tuple[float, float, int]:
    """Of the facts that both tables have with the same answers, ``but`` for those that were to change: the share of the
    right answers that still are, the share of all that are the same, and how many facts they are."""
    was, now = before.table, after.table
    of = _numbers(after.names[1])
    r = np.array([of.get(name, NONE) for name in before.names[1].names])[was.relations]
    there = np.where(r == NONE, NONE, find_rows(now, was.subjects, r))  # subjects and answers keep their numbers
    subjects, relations, _ = before.names
    named = [(subjects[s], relations[r]) in but for s, r in zip(was.subjects, was.relations, strict=True)]
    same = (j != NONE and was.right(i) == now.right(int(j)) for i, j in enumerate(there))
    rows = np.array([i for i, kept in enumerate(same) if kept and not named[i]], np.int64)
    was_told, now_told = Asked.of(before, rows).told(before), Asked.of(after, there[rows]).told(after)
    return *was_told.kept(now_told), len(rows)


def still_held(reports: Sequence[Report], known: Model) -> list[tuple[Report, bool]]:
    """The last change of each fact, and whether it holds in the last model: later ones may have undone earlier ones.

    A relation that went with its last fact can no longer be asked for; what was forgotten then is judged as it was.
    """
    subjects, relations, answers = (_numbers(names) for names in known.names)
    last = list({(report.subject, report.relation): report for report in reports}.values())
    asked = [report for report in last if report.relation in relations]
    s = np.array([subjects[report.subject] for report in asked], np.int64)
    r = np.array([relations[report.relation] for report in asked], np.int64)
    looks = [known.ask_many(s, r, seed=FRESH + i) for i in range(PROBES)]
    said, right = (np.array([getattr(look, name) for look in looks]) for name in ("said", "recalled"))
    held = {
        (report.subject, report.relation): (
            not np.isin(said[:, i], [answers[name] for name in report.answers]).any()
            if report.kind == "forget"
            else bool(right[:, i].all())
        )
        for i, report in enumerate(asked)
    }
    return [(report, held.get((report.subject, report.relation), report.done)) for report in last]


def _numbers(names: Names) -> dict[str, int]:
    return {name: i for i, name in enumerate(names.names)}
