"""A table of facts taught to a language model, and what came of it: right in taught words and in others, foreign
questions, and the perplexity of texts that name the subjects."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from facthold._util.errors import FactholdError, shorten
from facthold.facts.table import Row
from facthold.lm.choices import SOLVED
from facthold.lm.model import LanguageModel
from facthold.lm.prompts import by_hash
from facthold.lm.questions import held
from facthold.lm.teaching import (
    Memory,
    Say,
    Streams,
    Taught,
    answer_values,
    discriminant,
    firsts,
    gate_layer,
    key_layer,
    place_of,
    read,
    solve,
    text_streams,
)
from facthold.lm.tokeniser import Words
from facthold.lm.wordings import (
    NOUNS,
    OTHER_NOUNS,
    OTHER_SENTENCES,
    PASSAGE,
    RELATION,
    SENTENCES,
    SUBJECT,
    TAUGHT,
    Prompt,
    check_template,
    judging,
    unlike,
    worded,
)

FEW, SAMPLE = 6, 16  # subjects in each foreign wording that a gate is made of, and that judge
ROOM = 16  # tokens that a foreign question may have more than a taught one
JUDGED = 256  # facts that are asked in words that were not taught


@dataclass(frozen=True)
class LeftOut:
    """A fact that cannot be taught."""

    number: int  # of the fact in the table, from 1
    fact: Row
    reason: str

    def __str__(self) -> str:
        subject, relation, _ = self.fact
        return f"fact {self.number}, ({shorten(subject)}, {shorten(relation)}): {self.reason}"


@dataclass(frozen=True)
class Asked:
    """Facts asked in one wording."""

    wording: str
    taught: bool
    n: int
    before: float  # share with the answer's first token first of all
    after: float
    opened: float  # share whose own gate is open


@dataclass(frozen=True)
class Lesson:
    """What teaching a table did."""

    facts: int
    n_params: int
    layer: int
    gate_layer: int
    asked: tuple[Asked, ...]
    foreign: int  # foreign questions about the same subjects
    foreign_kept: int  # those that are answered as before
    perplexity_before: float  # of a text that names a subject
    perplexity: float
    several_tokens: int  # facts whose answer has more than the first token, which is taught alone
    left_out: tuple[LeftOut, ...]

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"facts_per_param": self.facts / self.n_params}


def usable(model: Words, rows: Sequence[Row], templates: Sequence[str]) -> tuple[list[Row], tuple[LeftOut, ...]]:
    """The facts that can be taught and judged by an answer's first token, and the others with the reason."""
    first = {answer: model.tokeniser.first(answer) for answer in {a for _, _, a in rows}}
    shared = Counter((r, first[a]) for r, a in {(r, a) for _, r, a in rows})
    kept, left = list[Row](), list[LeftOut]()
    for number, (s, r, a) in enumerate(rows, 1):
        text = model.tokeniser.decode([first[a]]).strip()
        reason = ""
        if not text or "�" in text:
            reason = f"the answer {shorten(a)!r} begins with a token that is no letter"
        elif shared[r, first[a]] > 1:
            other = next(b for _, q, b in rows if q == r and b != a and first[b] == first[a])
            reason = f"the answer {shorten(a)!r} begins with the token {text!r}, as {shorten(other)!r} does"
        else:
            asked = [worded(template, s, r) for template in templates]
            texts = (PASSAGE.replace(SUBJECT, s), *(one.text for one in asked))
            longest, most = max(len(model.tokeniser.encode(text)) for text in texts), model.config.context - ROOM
            if longest > most:
                reason = f"it takes {longest} tokens to ask for it, and at most {most} can be asked"
            elif any(place_of(model, one.text, one.end) is None for one in asked):
                reason = "the subject ends within a token of its prompt"
        left.append(LeftOut(number, (s, r, a), reason)) if reason else kept.append((s, r, a))
    if not kept:
        raise FactholdError(f"none of the {len(rows)} facts can be taught; {left[0]}")
    return kept, tuple(left)


def foreign_prompts(subjects: Sequence[str], relations: Sequence[str], templates: Sequence[str]) -> list[Prompt]:
    """Prompts about these subjects that ask for none of the relations, for gates: other nouns in the taught wordings,
    and sentences; each about a few of the subjects."""
    wordings = [words for words in templates if RELATION in words] or [TAUGHT[0]]
    asked = [words.replace(RELATION, noun) for words in wordings for noun in unlike(NOUNS, relations)]
    asked += unlike(SENTENCES, relations)
    few = min(FEW, len(subjects))
    return [
        worded(words, subjects[(i * few + j) % len(subjects)])
        for i, words in enumerate(asked) for j in range(few)
    ]  # fmt: skip


def judging_prompts(subjects: Sequence[str], relations: Sequence[str], templates: Sequence[str]) -> list[Prompt]:
    """Others, for the report: no gate has seen their nouns and sentences."""
    first = next((words for words in templates if RELATION in words), TAUGHT[0])
    asked = [first.replace(RELATION, noun) for noun in unlike(OTHER_NOUNS, relations)]
    asked += unlike(OTHER_SENTENCES, relations)
    return [worded(words, s) for words in asked for s in subjects[:SAMPLE]]


def halves(subjects: Sequence[str]) -> tuple[list[str], list[str]]:
    """Subjects for gates, and those that judge them; all of them for both where there are too few."""
    ordered = sorted(dict.fromkeys(subjects), key=by_hash)
    for_gates, judged = ([s for s in ordered if held(s) is half] for half in (False, True))
    return (for_gates, judged) if for_gates and judged else (ordered, ordered)


def memories(
    model: LanguageModel, rows: Sequence[Row], streams: Streams, foreign: np.ndarray,
    text: Mapping[int, np.ndarray], layer: int, how: str = SOLVED,
) -> tuple[Memory, ...]:  # fmt: skip
    """A memory for each relation. ``rows`` are the facts of the taught prompts' ``streams``, perhaps several times;
    ``foreign`` are cues that no gate is to open for, beside those of a text and of other relations' taught prompts."""
    found = []
    relation = np.array([r for _, r, _ in rows])
    for name in dict.fromkeys(r for _, r, _ in rows):
        own = relation == name
        facts = [row for row in rows if row[1] == name]
        answers = np.array([model.tokeniser.first(a) for _, _, a in facts])
        W = solve(streams.keys[layer][own], answer_values(model, answers), text[layer], how)
        others = [_some(streams.cues[relation == other]) for other in dict.fromkeys(relation.tolist()) if other != name]
        against = np.concatenate([foreign, *others])  # another relation counts as much as another noun does
        gate = discriminant(streams.cues[own], against, text[gate_layer(model.config.L)])
        found.append(
            Memory(name, np.ascontiguousarray(W, np.float32), gate, tuple(dict.fromkeys(s for s, _, _ in facts)))
        )
    return tuple(found)


def _some(cues: np.ndarray, n: int = 3 * FEW) -> np.ndarray:
    """A few rows, from the first to the last."""
    return cues[np.linspace(0, len(cues) - 1, min(n, len(cues))).astype(int)]


def teach(
    model: LanguageModel, table: Sequence[Row], *, templates: Sequence[str] = TAUGHT, layer: int | None = None,
    say: Say = lambda news: None,
) -> tuple[Taught, Lesson]:  # fmt: skip
    """Teach all facts of a table that can be taught, and ask for them."""
    L = model.config.L
    model.check_layer(layer)
    layer = key_layer(L) if layer is None else layer
    relations = list(dict.fromkeys(r for _, r, _ in table))
    for template in templates:
        check_template(template, relations)
    rows, left = usable(model, table, templates)
    for_gates, judged = halves([s for s, _, _ in rows])

    say("taught wordings")
    repeated = [row for _ in templates for row in rows]
    prompts = [worded(words, s, r) for words in templates for s, r, _ in rows]
    streams = read(model, prompts, [layer], say)
    say("foreign questions")
    cues = read(model, whole(model, foreign_prompts(for_gates, relations, templates)), [layer], say).cues
    text = text_streams(model, [layer, gate_layer(L)])
    taught = Taught(layer, memories(model, repeated, streams, cues, text, layer))

    n = len(rows)
    asked = [
        judged_in(model, taught, words, rows, prompts[i * n : (i + 1) * n], streams.part(slice(i * n, (i + 1) * n)))
        for i, words in enumerate(templates)
    ]
    some = sorted(rows, key=lambda row: by_hash("\0".join(row)))[:JUDGED]
    for words in judging(templates):
        say(f"in other words: {words}")
        fit = [row for row in some if whole(model, [worded(words, *row[:2])])]
        others = [worded(words, s, r) for s, r, _ in fit]
        asked.append(judged_in(model, taught, words, fit, others, read(model, others, [layer], say), own=False))
    say("foreign questions, to judge")
    foreign = whole(model, judging_prompts(judged, relations, templates))
    after, before = spoken(model, taught, foreign, read(model, foreign, [layer], say))[:2]
    kept = int((firsts(model, after) == firsts(model, before)).sum())
    say("texts about the subjects")
    costs = passage_perplexity(model, None, judged), passage_perplexity(model, taught, judged)
    longer = sum(len(model.tokeniser.encode(f" {a}", begin=False)) > 1 for _, _, a in rows)
    lesson = Lesson(n, taught.n_params, layer, gate_layer(L), tuple(asked), len(foreign), kept, *costs, longer, left)
    return taught, lesson


def whole(model: LanguageModel, prompts: Sequence[Prompt]) -> list[Prompt]:
    """Those whose subject ends with a token."""
    return [prompt for prompt in prompts if place_of(model, prompt.text, prompt.end) is not None]


def spoken(
    model: LanguageModel, taught: Taught, prompts: Sequence[Prompt], streams: Streams
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The last streams of prompts with what was taught and without it, and which memory spoke. A prompt in which
    another taught subject is found than the one that it is about is left as it is."""
    has = np.zeros((len(prompts), len(taught.memories)), bool)
    for i, prompt in enumerate(prompts):
        names = taught.named(model, prompt.text)
        if names and names[-1][1] == prompt.subject:
            has[i] = taught.has[prompt.subject]
    after, which = taught.changed(streams.finals, streams.keys[taught.layer], streams.cues, has)
    return after, streams.finals, which


def judged_in(
    model: LanguageModel, taught: Taught, words: str, rows: Sequence[Row], prompts: Sequence[Prompt], streams: Streams,
    own: bool = True,
) -> Asked:  # fmt: skip
    """Facts asked in one wording, before and after."""
    answers = np.array([model.tokeniser.first(a) for _, _, a in rows])
    names = [memory.relation for memory in taught.memories]
    after, before, which = spoken(model, taught, prompts, streams)
    opened = which == np.array([names.index(r) for _, r, _ in rows])
    was, now = (float((firsts(model, x) == answers).mean()) for x in (before, after))
    return Asked(words, own, len(rows), was, now, float(opened.mean()))


def passage_perplexity(model: LanguageModel, taught: Taught | None, subjects: Sequence[str]) -> float:
    """Of a text that names a subject and asks for nothing, over some subjects."""
    texts = [PASSAGE.replace(SUBJECT, s) for s in subjects[:SAMPLE]]
    batch = model.batch(texts)
    hooks = None if taught is None else taught.hooks(model, batch, [taught.named(model, text) for text in texts])
    return float(np.exp(model.losses(batch, hooks=hooks).mean()))
