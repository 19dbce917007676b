"""What a language model knows: the rank of an answer's first token, and which facts can be judged by it."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from facthold.facts.table import Row
from facthold.lm.model import LanguageModel, batches
from facthold.lm.prompts import draw_shots, prompt
from facthold.lm.tokeniser import Tokeniser

AMBIGUOUS, CONTAINED = "ambiguous", "contained"
TOP = 5


@dataclass(frozen=True)
class Known:
    """What a model says of one fact."""

    fact: Row
    rank: int  # of the answer's first token among all tokens; 1 is the best
    best: bool  # whether no other answer of the relation is above it
    copied: bool  # whether the model's first token is the subject's
    left_out: str  # why it is not judged: 'ambiguous', 'contained', or nothing


def reason_left_out(fact: Row, rows: Sequence[Row], first: Callable[[str], int]) -> str:
    """Why a fact says nothing of what a model knows. Ambiguous: another answer of the relation begins with the same
    token. Contained: the answer is in the subject's name, or that in the answer, so that reading it is enough."""
    subject, relation, answer = fact
    one, other = subject.casefold(), answer.casefold()
    if one in other or other in one:
        return CONTAINED
    others = {a for _, r, a in rows if r == relation} - {answer}
    return AMBIGUOUS if first(answer) in {first(a) for a in others} else ""


def ask_facts(
    model: LanguageModel, facts: Sequence[Row], rows: Sequence[Row], *, shots: int = 0, seed: int = 0,
    template: int = 0,
) -> list[Known]:  # fmt: skip
    """Ask for each of these ``facts``, with ``shots`` examples before it. ``rows`` are all facts: what examples are
    drawn from, and whose answers are the rivals."""
    first = _remembered(model.tokeniser)
    prompts = [
        model.encode(prompt(r, s, template=template, shots=draw_shots(rows, (s, r, a), shots, seed)))
        for s, r, a in facts
    ]
    answers = {r: sorted({first(a) for _, relation, a in rows if relation == r}) for r in {r for _, r, _ in facts}}
    found: dict[int, Known] = {}
    for places, batch in batches(prompts):
        for i, logits in zip(places, np.asarray(model.run(batch).logits), strict=True):
            subject, relation, answer = fact = facts[i]
            own = logits[first(answer)]
            found[int(i)] = Known(
                fact, 1 + int((logits > own).sum()), bool(own >= logits[answers[relation]].max()),
                int(logits.argmax()) in (first(subject), model.tokeniser.encode(subject, begin=False)[0]),
                reason_left_out(fact, rows, first),
            )  # fmt: skip
    return [found[i] for i in range(len(facts))]


def _remembered(tokeniser: Tokeniser) -> Callable[[str], int]:
    """The first token of an answer, looked up once for each."""
    known: dict[str, int] = {}
    return lambda answer: known[answer] if answer in known else known.setdefault(answer, tokeniser.first(answer))


def majority(facts: Sequence[Row]) -> float:
    """The share of facts of one relation that its most frequent answer gets right: what needs no subject."""
    return Counter(a for _, _, a in facts).most_common(1)[0][1] / len(facts) if facts else float("nan")


def copying(facts: Sequence[Row], tokeniser: Tokeniser) -> float:
    """The share of facts whose answer begins with the token that the subject begins with: what copying gets right."""
    return sum(tokeniser.first(s) == tokeniser.first(a) for s, _, a in facts) / len(facts) if facts else float("nan")
