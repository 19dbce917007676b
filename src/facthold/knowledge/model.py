"""A model with its facts, as a person meets it: built or loaded, asked, edited, looked into and saved."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, Int
from scipy.special import softmax

from facthold import knowledge
from facthold._util.arguments import checked
from facthold._util.commands import count as counted
from facthold._util.errors import FactholdError, brief, check_positive, with_article
from facthold.facts.names import Names, UnknownName, as_text, parse
from facthold.facts.problem import FactualRecall
from facthold.facts.table import FactTable
from facthold.knowledge import tables
from facthold.models.forward import Forward, Indices, prompts, table_prompts, word_tokens
from facthold.models.judge import NONE, Verdicts, contest, find_rows, judge, judge_outputs, judge_table, right_answers
from facthold.models.saving import load_model, save_model
from facthold.models.transformer import Transformer

if TYPE_CHECKING:
    from facthold.knowledge.locate import Location
    from facthold.knowledge.report import Asked, Told

TOP = 5  # answers that are shown, the one that is said among them
FRESH = 1 << 20  # seeds of prompts that judge start here, far from those that a model or a change is made from
Name = Any  # text, or what a table takes for it (`names.as_text`): a number, a truth value, a date


@dataclass(frozen=True)
class Guess:
    """Something that a model might say, and how likely it finds it."""

    name: str
    probability: float


@dataclass(frozen=True)
class Stands:
    """How one right answer stands among all that a model might say."""

    name: str
    probability: float
    margin: float  # its score minus that of the best wrong output; below 0, a wrong one is ahead of it
    rank: int  # among all outputs, 1 for the one that is said
    among_first: bool  # whether it is among the first k, k the number of right answers


@dataclass(frozen=True)
class Answer:
    """What a model says to one question."""

    subject: str
    relation: str
    answer: str
    right: bool | None  # by the table; None for a question that is not in it
    expected: tuple[str, ...]  # all right answers
    margin: float  # best right answer minus best rival; for a question not in the table, what is said minus the next
    probability: float  # of what is said, by the softmax over all outputs
    runners_up: tuple[Guess, ...]  # the next answers; none where many questions are asked at once
    n_noise: int  # noise tokens in the prompt
    all: tuple[Stands, ...] = ()  # every right answer, the best first; none where many questions are asked at once

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"in_table": self.right is not None}


@dataclass(frozen=True, eq=False, repr=False)
class Model:
    """A transformer with its facts: what `build` and `load` return.

        model = fh.build("countries.csv")
        model.ask("France", "capital").answer                # 'Paris'
        model = model.edit("France", "capital", "Lyon")      # a new model; model.report says what it cost
        model.locate("France", "capital").sentence           # which parts of it hold the fact
        model.save("countries.safetensors")

    Asking, editing and locating are NumPy in float64: nothing is compiled.
    """

    model: Transformer
    problem: FactualRecall
    report: Any = None  # what made it: a `Built` after `build`, a `Report` after a change, None after `load`

    @property
    def table(self) -> FactTable:
        """Its facts."""
        return self.problem.table

    @property
    def n_params(self) -> int:
        """Parameters as the paper counts them: 4 H d d_h + 2 m d, embeddings left out."""
        return self.model.n_params

    @property
    def n_embeddings(self) -> int:
        """Numbers in the embeddings of all tokens, which stand beside the parameters."""
        return self.problem.n_embeddings

    @cached_property
    def recall(self) -> float:
        """The share of its facts that it says right, each in one prompt with noise of its own."""
        return float(judge_table(self.model, self.problem, seed=FRESH).recalled.mean())

    @property
    def facts_per_param(self) -> float:
        """Facts that it says right for each of its parameters."""
        return self.recall * len(self.table) / self.n_params

    @cached_property
    def forward(self) -> Forward:
        return Forward.of(self.model, self.problem)

    @cached_property
    def prompts_of_all(self) -> "Asked":
        """All facts in several fresh prompts, by which changes are judged."""
        return knowledge.report.Asked.of(self)

    @cached_property
    def told(self) -> "Told":
        """What it says in them."""
        return self.prompts_of_all.told(self)

    @cached_property
    def names(self) -> tuple[Names, Names, Names]:
        return Names.of(self.table)

    def __repr__(self) -> str:
        m, table = self.model, self.table
        sizes = f"{m.n_params} parameters (d={m.d}, H={m.H}, d_h={m.d_h}, m={m.m})"
        facts = f"{counted(len(table), 'fact')} of {counted(table.S, 'subject')} and {counted(table.R, 'relation')}"
        return f"Model({facts} in {sizes}, beside {self.n_embeddings} numbers of embeddings)"

    @checked
    def ask(self, subject: Name, relation: Name, *, noise: int | None = None, seed: int = 0, top: int = TOP) -> Answer:
        """The answer to (subject, relation) in a prompt with ``noise`` noise tokens (None: as long as T)."""
        s, r = self._numbers([(subject, relation)])
        return self._asked(s, r, prompts(self.problem, s, r, noise=noise, seed=seed)[0], top)

    @checked
    def ask_prompt(self, text: str, *, noise: int | None = None, seed: int = 0, top: int = TOP) -> Answer:
        """The answer to a free prompt, such as 'the capital of France'. Its other words are noise tokens to the model;
        with ``noise`` there are that many on top of them."""
        parsed = parse(text, *self.names[:2])
        s, r = np.array([parsed.subject]), np.array([parsed.relation])
        drawn = prompts(self.problem, s, r, noise=noise or 0, seed=seed)[0]
        return self._asked(s, r, np.insert(drawn, 2, word_tokens(self.problem, parsed.others)), top)

    @checked
    def ask_all(
        self, questions: Iterable[tuple[Name, Name]] | None = None, *, noise: int | None = None, seed: int = 0
    ) -> list[Answer]:
        """The answers to many (subject, relation), by default to all facts; ``pandas.DataFrame`` takes them as rows."""
        table = self.table
        s, r = (table.subjects, table.relations) if questions is None else self._numbers(map(_pair, count(), questions))
        v = self.ask_many(s, r, noise=noise, seed=seed)
        n_noise = self.problem.T - 3 if noise is None else noise
        rows = zip(s, r, find_rows(table, s, r), v.said, v.margin, v.probability, strict=True)
        return [self._answer(s, r, row, said, margin, p, (), n_noise) for s, r, row, said, margin, p in rows]

    def ask_many(self, s: Indices, r: Indices, *, noise: int | None = None, seed: int = 0) -> Verdicts:
        """Many questions at once, by number."""
        tokens = prompts(self.problem, s, r, noise=noise, seed=seed)
        return judge(self.forward, tokens, find_rows(self.table, s, r), probabilities=True)

    @checked
    def edit(self, subject: Name, relation: Name, answer: Name, *, in_place: bool = False) -> "Model":
        """The model with another answer to a fact of its table; a new answer gets an embedding of its own.

        ``.report`` says what it cost. See `knowledge.edit`, also for ``in_place``.
        """
        row = self.find_row(subject, relation, "; a new fact is added, not edited")
        problem, a = tables.with_answer(self.problem, _name("answer", answer), self._outputs())
        return knowledge.edit.changed(self, tables.replaced(problem, row, a), row, a, "edit", (a,), in_place)

    @checked
    def add(self, subject: Name, relation: Name, answer: Name, *, in_place: bool = False) -> "Model":
        """The model with one more fact. Subject and answer may be new; a new relation needs a new model."""
        (subjects, relations, _), relation = self.names, _name("relation", relation)
        if (r := relations.get(relation)) is None:
            raise FactholdError(
                f"unknown relation {relation!r}: no head attends to a new one, so build the model again with it; "
                f"{relations.hint(relation)}"
            )
        subject = _name("subject", subject)
        s = subjects.get(subject)  # as `ask` understands it; any other name is a new one
        if s is not None and find_rows(self.table, np.array([s]), np.array([r]))[0] != NONE:
            raise FactholdError(
                f"({subject}, {relation}) is in the table; to change its answer, edit it instead of adding it; "
                "for one more right answer, build the model again with both"
            )
        F = self._outputs()
        problem, a = tables.with_answer(self.problem, _name("answer", answer), F)
        if s is None:
            problem, s = tables.with_subject(problem, subject, F, knowledge.edit.distinct(self, r))
        after = tables.added(problem, s, r, a)
        return knowledge.edit.changed(self, after, len(after.table) - 1, a, "add", (a,), in_place)

    @checked
    def forget(self, subject: Name, relation: Name, *, in_place: bool = False) -> "Model":
        """The model without a fact of its table. It says the output that comes next instead.

        An arg max always says something, so that forgetting can only mean that the answer is not said.
        """
        if (again := self._forgotten(subject, relation)) is not None:
            return again.forget(subject, relation, in_place=in_place)
        row = self.find_row(subject, relation, "; there is nothing to forget")
        if len(self.table) == 1:
            raise FactholdError(
                "this is the only fact of the table, and a model without facts is none; delete its file"
            )
        asked, answers = right_answers(self.table, np.array([row]))
        F = self.forward.states(table_prompts(self.problem, np.array([row]))[0]).F
        rival = contest(self.forward.U, F, asked, answers).rivals[0, 0]
        return knowledge.edit.changed(self, self.problem, row, int(rival), "forget", tuple(answers.tolist()), in_place)

    def forgotten_answers(self, subject: Name, relation: Name) -> tuple[str, ...]:
        """What a fact that was forgotten had for answers; none where it is known, or never was."""
        s, r = self._numbers([(subject, relation)])
        answers = self.problem.forgotten[(self.problem.forgotten[:, :2] == (s[0], r[0])).all(axis=1), 2]
        return tuple(self.names[2][a] for a in answers)

    def _forgotten(self, subject: Name, relation: Name) -> "Model | None":
        """The model with a fact that was forgotten, and that it says again, back in its table; None where the table has
        it, or never had it."""
        s, r = self._numbers([(subject, relation)])
        was = (self.problem.forgotten[:, :2] == (s[0], r[0])).all(axis=1)
        if not was.any() or find_rows(self.table, s, r)[0] != NONE:
            return None
        if not knowledge.report.said_again(self)[was].any():
            raise FactholdError(
                f"({subject}, {relation}) was forgotten before, and the model does not say it; there is nothing to do"
            )
        return Model(self.model, tables.restored(self.problem, int(s[0]), int(r[0])))

    @checked
    def locate(self, subject: Name, relation: Name, *, seed: int = 0) -> "Location":
        """Which heads and neurons hold a fact: ``.sentence`` in words, ``.parts`` by how much is lost without each."""
        return knowledge.locate.locate(self, subject, relation, seed=seed)

    @checked
    def save(self, path: str | Path, *, redraw: bool | None = None) -> Path:
        """Write it with its facts, as safetensors; `load` reads it again. With ``redraw`` random embeddings are left
        out, and drawn again when it is read; by default that is so if they came from a file without them."""
        return save_model(path, self.model, self.problem, redraw=redraw)

    def output_name(self, output: int) -> str:
        """What a row of U is called: an answer by its name, another token with its kind, and once more where an answer
        has that very name."""
        table, (subjects, relations, answers) = self.table, self.names
        if output < table.A:
            return answers[output]
        token = int(self.problem.output_tokens[output])
        name = "EOS" if token == self.problem.EOS else f"noise {token - table.S - table.R}"
        if token < table.S:
            name = f"subject {subjects[token]}"
        elif token < table.S + table.R:
            name = f"relation {relations[token - table.S]}"
        while answers.exact(name) is not None:
            name = f"token {name}"
        return name

    def find_row(self, subject: Name, relation: Name, missing: str) -> int:
        """The row of the table that has both; an error that says what is ``missing`` where there is none."""
        row = int(find_rows(self.table, *self._numbers([(subject, relation)]))[0])
        if row == NONE:
            raise FactholdError(f"({subject}, {relation}) is not in the table{missing}")
        return row

    def _numbers(self, questions: Iterable[tuple[Name, Name]]) -> Int[np.ndarray, "2 n"]:
        subjects, relations, _ = self.names
        pairs = []
        for s, r in ((_name("subject", s), _name("relation", r)) for s, r in questions):
            if subjects.exact(s) is None and relations.exact(s) is not None and subjects.exact(r) is not None:
                raise UnknownName(f"unknown subject {s!r}, which is a relation; the subject comes first: {r!r} {s!r}")
            pairs.append((subjects.find(s), relations.find(r)))
        return np.array(pairs, np.int64).reshape(-1, 2).T

    def _outputs(self) -> Float[np.ndarray, "facts d"]:
        """F at a prompt of every fact."""
        return np.concatenate([states.F for _, states in self.forward.blocks(table_prompts(self.problem)[0])])

    def _asked(self, s: Indices, r: Indices, tokens: Int[np.ndarray, " T"], top: int) -> Answer:
        """One prompt, with the ``top`` answers to it."""
        check_positive(top=top)
        states, row = self.forward.states(tokens[None]), find_rows(self.table, s, r)
        margin = judge_outputs(self.forward, states.F, row).margin[0]
        scores = self.forward.U.astype(np.float64) @ states.F[0]
        best, p = np.argsort(-scores, kind="stable")[:top], softmax(scores)
        others = tuple(Guess(self.output_name(int(i)), float(p[i])) for i in best[1:])
        answer = self._answer(s[0], r[0], row[0], best[0], margin, p[best[0]], others, len(tokens) - 3)
        return replace(answer, all=self._stands(int(row[0]), scores, p))

    def _stands(self, row: int, scores: Float[np.ndarray, " M"], p: Float[np.ndarray, " M"]) -> tuple[Stands, ...]:
        """Every right answer of a row of the table, the best first."""
        right = [] if row == NONE else list(self.table.right(row))
        wrong = np.delete(scores, right).max(initial=-np.inf)
        ranks = {a: 1 + int((scores > scores[a]).sum()) for a in right}
        return tuple(
            Stands(self.output_name(a), float(p[a]), float(scores[a] - wrong), ranks[a], ranks[a] <= len(right))
            for a in sorted(right, key=lambda a: -scores[a])
        )

    def _answer(self, s: Any, r: Any, row: Any, said: Any, margin: Any, p: Any, others: tuple, n_noise: int) -> Answer:
        subjects, relations, answers = self.names
        right = () if row == NONE else self.table.right(int(row))
        return Answer(
            subjects[s], relations[r], self.output_name(int(said)), bool(margin > 0) if right else None,
            tuple(answers[a] for a in right), float(margin), float(p), others, n_noise,
        )  # fmt: skip


def _pair(row: int, question: Any) -> tuple[str, str]:
    where = f"questions, row {row}"
    if isinstance(question, str) or not isinstance(question, Sequence) or len(question) != 2:
        raise ValueError(f"{where}: {brief(question)} is no pair of a subject and a relation")
    return _name(f"{where}: subject", question[0]), _name(f"{where}: relation", question[1])


def _name(kind: str, given: Name) -> str:
    """A name as a table would have it."""
    if isinstance(given, float) and given != given:  # a frame's missing value
        raise FactholdError(f"{kind}: nan is a value that is missing, and no name; leave the fact out")
    if (text := as_text(given)) is None or (not text and not isinstance(given, str)):
        raise ValueError(f"{kind}={brief(given)} must be text or a number")
    return text


@checked
def load(path: str | Path) -> Model:
    """A saved transformer with its facts: ``fh.load("countries.safetensors").ask("France", "capital")``."""
    model, problem = load_model(path)
    if not isinstance(model, Transformer):
        raise FactholdError(
            f"{path} holds {with_article(type(model).__name__)}, which has no facts; give a transformer"
        )
    if not isinstance(problem, FactualRecall):
        raise FactholdError(f"{path} holds a transformer without its facts; save it with them, or build it again")
    return Model(model, problem)
