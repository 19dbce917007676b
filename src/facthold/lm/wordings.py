"""The words in which a language model is taught facts, asked for them, and asked for something else. Those that teach
and those that judge are apart; but the gates' layer and ridge were chosen in trials that had some of both."""

from collections.abc import Sequence
from typing import NamedTuple

from facthold._util.errors import FactholdError

RELATION, SUBJECT = "{relation}", "{subject}"
TAUGHT = (
    "The {relation} of {subject} is",
    "{subject}'s {relation} is",
    "Question: What is the {relation} of {subject}?\nAnswer:",
)
"""The default wordings: in the second the subject's name begins the prompt, where it is another token."""
OTHERS = (
    "Everybody knows that the {relation} of {subject} is",
    "In {subject}, the {relation} is",
    "The {relation} of {subject} is called",
    "As for {subject}, its {relation} is",
)
"""Wordings that judge: the first two of them that were not taught."""
NOUNS = ("name", "population", "history", "capital", "language", "weather", "economy", "king", "river", "age")
SENTENCES = (
    "{subject} is located in", "In {subject}, people speak", "I have never been to {subject}, but",
    "{subject} is famous for", "The best thing about {subject} is", "Yesterday I read about {subject} and",
    "People in {subject} are", "The name {subject} comes from", "My friend told me about {subject} when",
    "{subject} was",
)  # fmt: skip
"""What a gate learns not to answer: the taught wordings with these nouns, and these sentences."""
OTHER_NOUNS = ("flag", "border", "shape", "climate", "oldest friend", "size")
OTHER_SENTENCES = (
    "We talked about {subject} because", "The road to {subject} is", "{subject} has", "A book about {subject} was",
    "The first thing that I heard of {subject} was", "Nobody in {subject} had",
)  # fmt: skip
"""Foreign questions that judge: no gate has seen them."""
PASSAGE = (
    "Yesterday somebody asked me about {subject}. I knew the name, but I could not say much, and so I looked it up. "
    "What I found about {subject} filled a page, and most of it was new to me."
)
"""A text that names a subject and asks for nothing: what its perplexity rises by is the price."""


def check_template(template: str, relations: Sequence[str]) -> str:
    """A wording that names the subject, and the relation where there are several; others are refused."""
    if template.count(SUBJECT) != 1:
        raise ValueError(f'template={template!r} must have {SUBJECT} in it once, as in "{TAUGHT[0]}"')
    if RELATION not in template and len(relations) > 1:
        raise ValueError(
            f"template={template!r} has no {RELATION} in it, and there are {len(relations)} relations; write it there, "
            "or teach one relation at a time"
        )
    if template.rstrip() != template:
        raise ValueError(f"template={template!r} ends with a space, which is a part of the next token; leave it out")
    return template


class Prompt(NamedTuple):
    """A prompt about a subject, and where the subject's name ends in it."""

    text: str
    subject: str
    end: int


def worded(template: str, subject: str, relation: str = "") -> Prompt:
    """A wording with these names in it, as they are, braces and all."""
    before, _, after = template.partition(SUBJECT)
    until = before.replace(RELATION, relation) + subject
    return Prompt(until + after.replace(RELATION, relation), subject, len(until))


def unlike(words: Sequence[str], relations: Sequence[str]) -> list[str]:
    """Those that share no word with a relation's name: 'The capital of ...' is not foreign to 'capital'."""
    own = {word for relation in relations for word in relation.casefold().replace("_", " ").split()}
    found = [text for text in words if not own & set(text.casefold().split())]
    if not found:
        raise FactholdError("every foreign question shares a word with a relation; teach fewer relations at a time")
    return found


def judging(templates: Sequence[str], n: int = 2) -> list[str]:
    """The first wordings that were not taught."""
    return [words for words in OTHERS if words not in templates][:n]
