"""One prompt: what each head and MLP adds to the margin of an answer, and what the model says without it."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import jax.numpy as jnp
import numpy as np

from facthold._util.errors import FactholdError, find
from facthold.facts.table import Row
from facthold.lm.ablation import ANSWERS, BEST_ANSWER, CONTRASTS, RUNNER_UP
from facthold.lm.later import Later
from facthold.lm.model import Batch, LanguageModel
from facthold.lm.parts import contrast, decompose, kept_run
from facthold.lm.prompts import TEMPLATES
from facthold.lm.questions import answers, relation_of
from facthold.lm.tokeniser import Words

OTHERS = 16  # prompts of the same relation that a part is replaced by the mean of
TOP = 12


@dataclass(frozen=True)
class Part:
    """A head, or an MLP."""

    name: str
    layer: int
    head: int | None  # None: the MLP
    contribution: float
    ablated: float | None = None  # the margin without it, against the same rivals; of the largest parts alone
    says: str | None = None
    changed: bool | None = None


@dataclass(frozen=True)
class Location:
    """The margin of an answer at the last token, taken apart; parts by how much they add, up or down."""

    prompt: str
    answer: str
    rival: str  # in words, or the token
    says: str  # the best of all tokens
    margin: float
    embedding: float
    attention: float
    mlp: float
    replaced_by: str  # what a part is replaced by, where the margin without it is given
    parts: tuple[Part, ...]

    @property
    def sentence(self) -> str:
        """Attention or MLP, against these rivals."""
        first, other = ("Attention", "the MLPs") if self.attention >= self.mlp else ("The MLPs", "attention")
        verb = "adds" if first == "Attention" else "add"
        most, least = max(self.attention, self.mlp), min(self.attention, self.mlp)
        return f"{first} {verb} {most:.4g}, {other} {least:.4g}; against other rivals it may be the other way round."

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"sentence": self.sentence}


def one_token(model: Words, name: str, text: str) -> int:
    """The token of a word that goes on after a prompt; one of several tokens is refused."""
    tokens = model.tokeniser.encode(f" {text}", begin=False) if text.strip() else []
    if not tokens:
        raise ValueError(f"{name}={text!r} is empty; give a word")
    if len(tokens) > 1:
        first = model.tokeniser.decode(tokens[:1]).strip()
        whole = first and "\N{REPLACEMENT CHARACTER}" not in first
        way = f"; answers are judged by their first one: give {first!r}" if whole else ""
        raise ValueError(f"{name}={text!r} is not one token of the model but {len(tokens)}{way}")
    return tokens[0]


def check_located(
    words: Words, prompt: str, answer: str, against: str, relation: str | None, layer: int | None
) -> tuple[list[int], int, str | None]:
    """The prompt's tokens, the answer's and the relation; what cannot be located is refused."""
    words.check_layer(layer)
    tokens, own, asked = words.encode(prompt), one_token(words, "answer", answer), relation_of(prompt)
    if relation is not None:
        find("relation", relation, TEMPLATES)
    relation = relation or (asked[0] if asked else None)
    if against in (ANSWERS, BEST_ANSWER):
        if relation is None:
            raise FactholdError(
                f"against={against} needs a relation, and the prompt has the words of none: give --relation, one of "
                f"{', '.join(TEMPLATES)}"
            )
    elif against != RUNNER_UP and one_token(words, "against", against) == own:
        raise ValueError(f"against={against!r} is the answer itself; give another token")
    return tokens, own, relation


def locate(
    model: LanguageModel, prompt: str, answer: str, rows: Sequence[Row], *, against: str = RUNNER_UP,
    relation: str | None = None, layer: int | None = None, top: int = TOP,
) -> Location:  # fmt: skip
    """Take a margin apart. ``against``: 'runner-up', 'answers' (the mean of the relation's answers in ``rows``),
    'best-answer' (the best other one of these) or a token. ``relation`` is read from the prompt's words,
    where they are those of a template. ``layer``: its parts alone. The ``top`` largest parts are also ablated."""
    c, asked = model.config, relation_of(prompt)
    tokens, own, relation = check_located(model, prompt, answer, against, relation, layer)
    run = kept_run(model, Batch.of([tokens]))
    logits = np.asarray(run.logits)[0]
    rivals = _rivals(model, logits, own, against, relation, rows)
    parts = decompose(model, run, contrast(model, np.array([own]), rivals[None]))
    found = [Part(f"layer {i} head {h}", i, h, float(parts.heads[0, i, h])) for i in range(c.L) for h in range(c.H)] + [
        Part(f"layer {i} MLP", i, None, float(parts.mlps[0, i])) for i in range(c.L)
    ]
    order = sorted((p for p in found if layer in (None, p.layer)), key=lambda part: -abs(part.contribution))
    later, how = _later(model, tokens, asked, rows)
    best = int(logits.argmax())
    rival = CONTRASTS[ANSWERS] if against == ANSWERS else _text(model, int(rivals[0]))
    rival = f"{rival!r}, {CONTRASTS[against]}" if against in (RUNNER_UP, BEST_ANSWER) else rival
    return Location(
        prompt, answer, rival, _text(model, best),
        margin=float(parts.margin[0]), embedding=float(parts.embedding[0]), attention=float(parts.heads[0].sum()),
        mlp=float(parts.mlps[0].sum()), replaced_by=how,
        parts=(*(_ablated(model, later, part, own, rivals, best) for part in order[:top]), *order[top:]),
    )  # fmt: skip


def _rivals(
    model: LanguageModel, logits: np.ndarray, own: int, against: str, relation: str | None, rows: Sequence[Row]
) -> np.ndarray:
    if against == RUNNER_UP:
        best = np.argsort(-logits, kind="stable")[:2]
        return best[best != own][:1]
    if against not in (ANSWERS, BEST_ANSWER):
        return np.array([one_token(model, "against", against)])
    found = answers(model, [row for row in rows if row[1] == relation])
    found = found[found != own]
    return found if against == ANSWERS else found[[logits[found].argmax()]]


def _later(
    model: LanguageModel, tokens: Sequence[int], asked: tuple[str, str, str] | None, rows: Sequence[Row]
) -> tuple[Later, str]:
    """The prompt, ready to be changed at its last token: beside others that ask the same of other subjects."""
    prompts, how = [list(tokens)], "zero"
    if asked is not None:
        relation, words, subject = asked
        others = [s for s, r, _ in rows if r == relation and s != subject][:OTHERS]
        prompts += [model.encode(words.format(other)) for other in others]
        how = f"its mean over {len(others)} other prompts of {relation}" if others else how
    batch = Batch.of(prompts)
    return Later(model, batch, batch.last), how


def _ablated(model: LanguageModel, later: Later, part: Part, own: int, rivals: np.ndarray, best: int) -> Part:
    place = "mlp" if part.head is None else "heads"
    there = later.values[place, part.layer]
    value = later.means(place, part.layer) if len(there) > 1 else jnp.zeros_like(there)
    logits = np.asarray(later.put(place, part.layer, value, head=part.head))[0]
    says, margin = int(logits.argmax()), float(logits[own] - logits[rivals].mean())
    return replace(part, ablated=margin, says=_text(model, says), changed=says != best)


def _text(model: LanguageModel, token: int) -> str:
    """A token as words have it; one that is nothing but white space as it is."""
    text = model.tokeniser.shown(token)
    return text.strip() or repr(text)
