"""Facts as prompts: the beginning of a sentence that ends with the answer, perhaps after examples of others."""

import hashlib
from collections.abc import Mapping, Sequence

from facthold._util.errors import FactholdError, find
from facthold.facts.table import Row
from facthold.lm.fetch import TINY

TEMPLATES: Mapping[str, tuple[str, ...]] = {
    "capital": (
        "The capital of {} is", "{}'s capital city is", "The capital city of {} is called",
        "Question: What is the capital of {}?\nAnswer:",
    ),
    "currency": (
        "The currency of {} is the", "{}'s official currency is the", "In {}, people pay with the",
        "Question: What is the currency of {}?\nAnswer: The",
    ),
    "language": (
        "The official language of {} is", "{}'s main language is", "In {}, people speak",
        "Question: What is the official language of {}?\nAnswer:",
    ),
    "region": (
        "{} is located on the continent of", "{} is a country in", "The continent on which {} lies is",
        "Question: On which continent is {}?\nAnswer:",
    ),
}  # fmt: skip
"""For each relation the prompt that questions take, and others that mean the same. They were written down before any
was tried on a language model."""


def prompt(relation: str, subject: str, *, template: int = 0, shots: Sequence[Row] = ()) -> str:
    """The question for a fact, after whole sentences about ``shots``: a line each, in the same words."""
    words = find("relation", relation, TEMPLATES)
    if not 0 <= template < len(words):
        raise ValueError(f"template={template}: there are {len(words)} of {relation}, counted from 0")
    examples = "".join(f"{words[template].format(s)} {answer}.\n" for s, _, answer in shots)
    return examples + words[template].format(subject)


def draw_shots(rows: Sequence[Row], fact: Row, n: int, seed: int) -> list[Row]:
    """n facts of the same relation about other subjects, drawn for each fact anew. By hashes: a fact's examples stay
    the same when others come or go."""
    others = [row for row in rows if row[1] == fact[1] and row[0] != fact[0]]
    if n > len(others):
        raise FactholdError(f"shots={n}: there are {len(others)} other facts of {fact[1]}; take fewer")
    return sorted(others, key=lambda row: hashlib.sha256("\0".join((f"{seed}", *fact, *row)).encode()).digest())[:n]


def by_hash(name: str) -> bytes:
    """What subjects are ordered by where any part of them is to be a random one, and the same on every machine."""
    return hashlib.sha256(name.encode()).digest()


def facts_for(model: str, relations: Sequence[str] | None = None) -> list[Row]:
    """The facts that a model is asked for: those about countries, or of the tiny model its own."""
    wanted = list(TEMPLATES) if relations is None else list(relations)
    for relation in wanted:
        find("relation", relation, TEMPLATES)
    if model == TINY:
        from facthold.lm.tiny import ROWS

        return [row for row in ROWS if row[1] in wanted]
    from facthold.facts.real import COUNTRIES

    return COUNTRIES.facts(wanted)
