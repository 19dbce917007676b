"""Ask a model for a fact, and judge what it says by the table that it was made for."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int

from facthold._util.errors import FactholdError, check_positive
from facthold.facts.names import Names, parse
from facthold.facts.problem import FactualRecall
from facthold.knowledge.judge import NONE, Verdicts, find_rows, judge
from facthold.models.forward import Forward, prompts, word_tokens
from facthold.models.saving import load_model
from facthold.models.transformer import Transformer

TOP = 5
"""Answers that are shown, the one that is said among them."""


def open_model(path: str | Path) -> tuple[Transformer, FactualRecall]:
    """A transformer and its facts from a file; an error in a line for a file that has something else."""
    model, problem = load_model(path)
    if not isinstance(model, Transformer):
        raise FactholdError(f"{path} holds a {type(model).__name__}, which has no facts; give a transformer")
    if not isinstance(problem, FactualRecall):
        raise FactholdError(f"{path} holds a transformer without its facts; save it with them, or build it again")
    return model, problem


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
    right: bool | None
    """By the table; None for a question that is not in it."""
    expected: tuple[str, ...]
    """All right answers."""
    margin: float
    """Best right answer minus best rival; for a question that is not in the table, what is said minus the next."""
    probability: float
    """Of what is said, by the softmax over all outputs."""
    runners_up: tuple[Guess, ...]
    n_noise: int
    """Noise tokens in the prompt."""

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"in_table": self.right is not None}


@dataclass(frozen=True, eq=False)
class Knowledge:
    """A model with its facts, ready to be asked."""

    model: Transformer
    problem: FactualRecall

    @cached_property
    def forward(self) -> Forward:
        return Forward.of(self.model, self.problem)

    @cached_property
    def names(self) -> tuple[Names, Names, Names]:
        return Names.of(self.problem.table)

    def ask(self, subject: str, relation: str, *, noise: int | None = None, seed: int = 0, top: int = TOP) -> Answer:
        """The answer to (subject, relation) in a prompt with ``noise`` noise tokens (None: as long as T)."""
        subjects, relations, _ = self.names
        s, r = subjects.find(subject), relations.find(relation)
        return self._answer(s, r, self._prompt(s, r, noise, seed), top)

    def ask_prompt(self, text: str, *, noise: int | None = None, seed: int = 0, top: int = TOP) -> Answer:
        """The answer to a free prompt, such as 'the capital of France'. Its other words are noise tokens to the model;
        with ``noise`` there are that many on top of them."""
        found = parse(text, *self.names[:2])
        drawn = self._prompt(found.subject, found.relation, noise or 0, seed)
        return self._answer(
            found.subject, found.relation, np.insert(drawn, 2, word_tokens(self.problem, found.others)), top
        )

    def ask_many(
        self, s: Int[np.ndarray, " n"], r: Int[np.ndarray, " n"], *, noise: int | None = None, seed: int = 0
    ) -> Verdicts:
        """Many questions at once, by number."""
        table, tokens = self.problem.table, prompts(self.problem, s, r, noise=noise, seed=seed)
        return judge(self.forward, table, tokens, find_rows(table, s, r), probabilities=True)

    def output_name(self, output: int) -> str:
        """What a row of U is called: an answer by its name, another token with its kind."""
        table, (subjects, relations, answers) = self.problem.table, self.names
        if output < table.A:
            return answers[output]
        token = int(self.problem.output_tokens[output])
        if token < table.S:
            return f"subject {subjects[token]}"
        if token < table.S + table.R:
            return f"relation {relations[token - table.S]}"
        return "EOS" if token == self.problem.EOS else f"noise {token - table.S - table.R}"

    def _prompt(self, s: int, r: int, noise: int | None, seed: int) -> Int[np.ndarray, " T"]:
        return prompts(self.problem, np.array([s]), np.array([r]), noise=noise, seed=seed)[0]

    def _answer(self, s: int, r: int, tokens: Int[np.ndarray, " T"], top: int) -> Answer:
        check_positive(top=top)
        table, (subjects, relations, answers) = self.problem.table, self.names
        scores = self.forward.U.astype(np.float64) @ self.forward.states(tokens[None]).F[0]
        above = np.exp(scores - scores.max())
        probabilities = above / above.sum()
        row = int(find_rows(table, np.array([s]), np.array([r]))[0])
        right = np.array(table.right(row) if row != NONE else [], np.int64)
        said = int(scores.argmax())
        own = scores[right] if len(right) else scores[[said]]
        rivals = np.delete(scores, right if len(right) else said)
        margin = float(own.max() - rivals.max(initial=-np.inf))
        best = np.argsort(-scores, kind="stable")[1:top]
        return Answer(
            subject=subjects[s],
            relation=relations[r],
            answer=self.output_name(said),
            right=None if row == NONE else margin > 0,
            expected=tuple(answers[a] for a in right),
            margin=margin,
            probability=float(probabilities[said]),
            runners_up=tuple(Guess(self.output_name(int(i)), float(probabilities[i])) for i in best),
            n_noise=len(tokens) - 3,
        )


def find_pairs(
    knowledge: Knowledge, questions: Sequence[tuple[str, str]]
) -> tuple[Int[np.ndarray, " n"], Int[np.ndarray, " n"]]:
    """The numbers of (subject, relation) by name; NONE for a name that is not known, or not clear."""
    subjects, relations, _ = knowledge.names
    numbers = [[_number(names, name) for names, name in zip((subjects, relations), q, strict=True)] for q in questions]
    pairs = np.array(numbers, np.int64).reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1]


def _number(names: Names, name: str) -> int:
    try:
        i = names.get(name)
    except FactholdError:
        return NONE
    return NONE if i is None else i
