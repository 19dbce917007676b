"""A model with its facts, as a person meets it: built or loaded, asked, edited, looked into and saved."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Int

from facthold._util.errors import FactholdError, check_positive
from facthold.facts.files import read_facts
from facthold.facts.names import Names, parse
from facthold.facts.problem import FactualRecall
from facthold.facts.table import FactTable
from facthold.models.forward import Forward, prompts, table_prompts, word_tokens
from facthold.models.judge import NONE, Verdicts, find_rows, judge, judge_outputs, judge_table
from facthold.models.saving import load_model, save_model
from facthold.models.transformer import Transformer

if TYPE_CHECKING:
    from facthold.knowledge.locate import Location

TOP = 5  # answers that are shown, the one that is said among them
FRESH = 1 << 20  # seeds of prompts that judge start here, far from those that a model or a change is made from
Name = str | int | float  # names are text; numbers become text, as in `FactTable.of`


@dataclass(frozen=True)
class Guess:
    """Something that a model might say, and how likely it finds it."""

    name: str
    probability: float


@dataclass(frozen=True)
class Answer:
    """What a model says to one question."""

    subject: str
    relation: str
    answer: str
    right: bool | None  # by the table; None for a question that is not in it
    expected: tuple[str, ...]  # all right answers
    margin: float
    """Best right answer minus best rival; for a question that is not in the table, what is said minus the next."""
    probability: float  # of what is said, by the softmax over all outputs
    runners_up: tuple[Guess, ...]  # the next answers; none where many questions are asked at once
    n_noise: int  # noise tokens in the prompt

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"in_table": self.right is not None}


@dataclass(frozen=True, eq=False, repr=False)
class Model:
    """A transformer with its facts: what `build` and `load` return.

        model = fh.build("countries.csv")
        model.ask("France", "capital").answer                # 'Paris'
        model = model.edit("France", "capital", "Lyon")      # a new model; model.report says what it cost
        model.locate("France", "capital").parts[0].name      # 'MLP'
        model.save("countries.safetensors")

    Asking, editing and locating are NumPy in float64: nothing is compiled.
    """

    model: Transformer
    problem: FactualRecall
    report: Any = None
    """What was done to make it: a `Built` after `build`, a `Report` after a change, None after `load`."""

    @property
    def table(self) -> FactTable:
        """Its facts."""
        return self.problem.table

    @property
    def n_params(self) -> int:
        """Parameters as the paper counts them: 4 H d d_h + 2 m d, embeddings left out."""
        return self.model.n_params

    @cached_property
    def recall(self) -> float:
        """The share of its facts that it says right, each in one prompt with fresh noise."""
        tokens = table_prompts(self.problem, seed=FRESH)
        return float(judge_table(self.forward, self.problem, tokens).recalled.mean())

    @cached_property
    def forward(self) -> Forward:
        return Forward.of(self.model, self.problem)

    @cached_property
    def names(self) -> tuple[Names, Names, Names]:
        return Names.of(self.table)

    def __repr__(self) -> str:
        m, table = self.model, self.table
        sizes = f"{m.n_params} parameters (d={m.d}, H={m.H}, d_h={m.d_h}, m={m.m})"
        return f"Model({len(table)} facts of {table.S} subjects and {table.R} relations in {sizes})"

    def ask(self, subject: Name, relation: Name, *, noise: int | None = None, seed: int = 0, top: int = TOP) -> Answer:
        """The answer to (subject, relation) in a prompt with ``noise`` noise tokens (None: as long as T)."""
        s, r = self._numbers(str(subject), str(relation))
        return self._asked(s, r, self._prompt(s, r, noise, seed), top)

    def ask_prompt(self, text: str, *, noise: int | None = None, seed: int = 0, top: int = TOP) -> Answer:
        """The answer to a free prompt, such as 'the capital of France'. Its other words are noise tokens to the model;
        with ``noise`` there are that many on top of them."""
        parsed = parse(text, *self.names[:2])
        drawn = self._prompt(parsed.subject, parsed.relation, noise or 0, seed)
        tokens = np.insert(drawn, 2, word_tokens(self.problem, parsed.others))
        return self._asked(parsed.subject, parsed.relation, tokens, top)

    def ask_all(
        self, questions: Iterable[tuple[str, str]] | None = None, *, noise: int | None = None, seed: int = 0
    ) -> list[Answer]:
        """The answers to many (subject, relation), by default to all facts; ``pandas.DataFrame`` takes them as rows."""
        s, r = self.table.subjects, self.table.relations
        if questions is not None:
            s, r = np.array([self._numbers(*question) for question in questions], np.int64).reshape(-1, 2).T
        v = self.ask_many(s, r, noise=noise, seed=seed)
        n_noise = self.problem.T - 3 if noise is None else noise
        rows = zip(s, r, find_rows(self.table, s, r), v.said, v.margin, v.probability, strict=True)
        return [self._answer(s, r, row, said, margin, p, (), n_noise) for s, r, row, said, margin, p in rows]

    def ask_many(
        self, s: Int[np.ndarray, " n"], r: Int[np.ndarray, " n"], *, noise: int | None = None, seed: int = 0
    ) -> Verdicts:
        """Many questions at once, by number."""
        tokens = prompts(self.problem, s, r, noise=noise, seed=seed)
        return judge(self.forward, self.table, tokens, find_rows(self.table, s, r), probabilities=True)

    def edit(self, subject: Name, relation: Name, answer: Name, *, in_place: bool = False) -> "Model":
        """The model with another answer to a fact of its table; ``.report`` says what it cost. See `knowledge.edit`."""
        from facthold.knowledge.edit import edit

        return edit(self.model, self.problem, str(subject), str(relation), str(answer), in_place=in_place)

    def add(self, subject: Name, relation: Name, answer: Name, *, in_place: bool = False) -> "Model":
        """The model with one more fact. Its subject and answer may be new; its relation may not."""
        from facthold.knowledge.edit import add

        return add(self.model, self.problem, str(subject), str(relation), str(answer), in_place=in_place)

    def forget(self, subject: Name, relation: Name, *, in_place: bool = False) -> "Model":
        """The model without a fact: it says something else."""
        from facthold.knowledge.edit import forget

        return forget(self.model, self.problem, str(subject), str(relation), in_place=in_place)

    def locate(self, subject: Name, relation: Name, *, seed: int = 0) -> "Location":
        """Which heads and neurons hold a fact, and what is said without them: ``.parts``, the first of them first."""
        from facthold.knowledge.locate import locate

        return locate(self.model, self.problem, str(subject), str(relation), seed=seed)

    def save(self, path: str | Path) -> Path:
        """Write it with its facts, as safetensors; `load` reads it again."""
        return save_model(path, self.model, self.problem)

    def output_name(self, output: int) -> str:
        """What a row of U is called: an answer by its name, another token with its kind."""
        table, (subjects, relations, answers) = self.table, self.names
        if output < table.A:
            return answers[output]
        token = int(self.problem.output_tokens[output])
        if token < table.S:
            return f"subject {subjects[token]}"
        if token < table.S + table.R:
            return f"relation {relations[token - table.S]}"
        return "EOS" if token == self.problem.EOS else f"noise {token - table.S - table.R}"

    def find_row(self, subject: str, relation: str, missing: str) -> int:
        """The row of the table that has both; an error that says what is ``missing`` where there is none."""
        s, r = self._numbers(subject, relation)
        row = int(find_rows(self.table, np.array([s]), np.array([r]))[0])
        if row == NONE:
            raise FactholdError(f"({subject}, {relation}) is not in the table{missing}")
        return row

    def _numbers(self, subject: str, relation: str) -> tuple[int, int]:
        return self.names[0].find(subject), self.names[1].find(relation)

    def _prompt(self, s: int, r: int, noise: int | None, seed: int) -> Int[np.ndarray, " T"]:
        return prompts(self.problem, np.array([s]), np.array([r]), noise=noise, seed=seed)[0]

    def _asked(self, s: int, r: int, tokens: Int[np.ndarray, " T"], top: int) -> Answer:
        """One prompt, with the ``top`` answers to it."""
        check_positive(top=top)
        states, row = self.forward.states(tokens[None]), find_rows(self.table, np.array([s]), np.array([r]))
        margin = judge_outputs(self.forward, self.table, states.F, row).margin[0]
        scores = self.forward.U.astype(np.float64) @ states.F[0]
        above = np.exp(scores - scores.max())
        best, p = np.argsort(-scores, kind="stable")[:top], above / above.sum()
        others = tuple(Guess(self.output_name(int(i)), float(p[i])) for i in best[1:])
        return self._answer(s, r, row[0], best[0], margin, p[best[0]], others, len(tokens) - 3)

    def _answer(
        self, s: Any, r: Any, row: Any, said: Any, margin: Any, p: Any, others: tuple[Guess, ...], n_noise: int
    ) -> Answer:
        subjects, relations, answers = self.names
        right = () if row == NONE else self.table.right(int(row))
        return Answer(
            subjects[s], relations[r], self.output_name(int(said)), bool(margin > 0) if right else None,
            tuple(answers[a] for a in right), float(margin), float(p), others, n_noise,
        )  # fmt: skip


def build(facts: Any, *, on_conflict: str = "error", p: np.ndarray | None = None, **options: Any) -> Model:
    """The smallest transformer found that knows these facts: ``fh.build(frame, accuracy=0.99)``.

    ``facts`` is a path, a frame, a list, a dictionary or a table, as `read_facts` takes them, and ``options`` are those
    of `knowledge.build.build`: recipe, accuracy, max_params, n_noise, T, seed, say. ``p`` says how often each fact is
    asked; by default the column p of the facts, or all alike.
    """
    from facthold.knowledge.build import build as build_table

    table, weights = read_facts(facts, on_conflict)
    built = build_table(table, p=weights if p is None else p, **options)
    return Model(built.model, built.problem, built)


def load(path: str | Path) -> Model:
    """A saved transformer with its facts: ``fh.load("countries.safetensors").ask("France", "capital")``."""
    return Model(*open_model(path))


def open_model(path: str | Path) -> tuple[Transformer, FactualRecall]:
    """A transformer and its facts from a file; an error in a line for a file that has something else."""
    model, problem = load_model(path)
    if not isinstance(model, Transformer):
        raise FactholdError(f"{path} holds a {type(model).__name__}, which has no facts; give a transformer")
    if not isinstance(problem, FactualRecall):
        raise FactholdError(f"{path} holds a transformer without its facts; save it with them, or build it again")
    return model, problem
