"""Facts as questions whose subject is found again among the tokens, with what the model says of each; and the two
halves of the subjects: in one a layer or a head is chosen, in the other it is judged."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from facthold.facts.table import Row
from facthold.lm.knowing import ask_facts
from facthold.lm.model import LanguageModel
from facthold.lm.prompts import TEMPLATES

LAST, SUBJECT = "last", "subject"
POSITIONS = {LAST: "the last token", SUBJECT: "the subject's last token"}


@dataclass(frozen=True)
class Question:
    """A fact in the words of its relation's first template, without examples."""

    fact: Row
    tokens: tuple[int, ...]
    subject: int  # the position of the subject's last token
    answer: int  # the answer's first token
    known: bool  # the answer is the first of all tokens
    best: bool  # it is the first of the relation's answers

    def position(self, name: str) -> int:
        return self.subject if name == SUBJECT else len(self.tokens) - 1


def questions(model: LanguageModel, rows: Sequence[Row]) -> list[Question]:
    """All facts of ``rows`` that can be judged by a first token, asked; in an order that hashes give."""
    found = []
    for one in ask_facts(model, rows, rows):
        if one.left_out:
            continue
        subject, relation, answer = one.fact
        before, _, after = TEMPLATES[relation][0].partition("{}")
        tokens = model.encode(before + subject + after)
        end = len(model.encode(before + subject)) - 1
        found.append(
            Question(one.fact, tuple(tokens), end, model.tokeniser.first(answer), one.rank == 1, one.best)
        )  # fmt: skip
    return sorted(found, key=lambda q: _digest(q.fact[0]))


def held(subject: str) -> bool:
    """Whether a subject is in the half that judges. It is there for all relations: what was chosen on others has not
    seen it."""
    return _digest(subject)[-1] % 2 == 1


def _digest(subject: str) -> bytes:
    return hashlib.sha256(subject.encode()).digest()


def answers(model: LanguageModel, rows: Sequence[Row]) -> np.ndarray:
    """The first tokens of all answers of the relations in ``rows``, each once."""
    return np.array(sorted({model.tokeniser.first(answer) for _, _, answer in rows}))


def relation_of(text: str) -> tuple[str, str, str] | None:
    """Which relation a prompt asks for, in which words, and of whom: ('capital', 'The capital of {} is', 'France').
    None: in words that are no template."""
    for relation, templates in TEMPLATES.items():
        for words in templates:
            before, _, after = words.partition("{}")
            subject = text[len(before) : len(text) - len(after)]
            if subject and text == before + subject + after:
                return relation, words, subject
    return None
