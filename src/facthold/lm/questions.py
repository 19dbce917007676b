"""Facts as questions whose subject is found again among the tokens, with what the model says of each; and the two
halves of the subjects: in one a layer or a head is chosen, in the other it is judged."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from facthold.facts.table import Row
from facthold.lm.knowing import ask_facts
from facthold.lm.model import LanguageModel
from facthold.lm.prompts import TEMPLATES, by_hash, prompt
from facthold.lm.tokeniser import Words

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
        text = prompt(relation, subject)
        place, first = subject_place(model, text, subject), model.tokeniser.first(answer)
        found.append(Question(one.fact, tuple(model.encode(text)), place, first, one.rank == 1, one.best))
    return sorted(found, key=lambda q: by_hash(q.fact[0]))


def held(subject: str) -> bool:
    """Whether a subject is in the half that judges. It is there for all relations: what was chosen on others has not
    seen it."""
    return by_hash(subject)[-1] % 2 == 1


def subject_place(model: Words, prompt: str, subject: str) -> int:
    """The position of the subject's last token in a prompt."""
    start = prompt.rfind(subject) if subject.strip() else -1
    if start < 0:
        raise ValueError(f"subject={subject!r} is not in the prompt {prompt!r}; give another subject")
    before, whole = model.encode(prompt[: start + len(subject)]), model.encode(prompt)
    if whole[: len(before)] != before:
        raise ValueError(f"subject={subject!r} ends within a token of {prompt!r}; give another subject")
    return len(before) - 1


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
