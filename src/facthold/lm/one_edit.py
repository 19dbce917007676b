"""One edit as a command makes it: the subject found in the prompt, the layer tried, and what it did told."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from facthold._util.errors import check_one_of
from facthold.lm.choices import COVARIANCES, VALUES
from facthold.lm.editing import (
    Changed,
    Edit,
    answer_token,
    changes,
    covariances,
    edited,
    plain_keys,
    subject_keys,
    text_keys,
    values,
)
from facthold.lm.model import LanguageModel
from facthold.lm.price import text_perplexity
from facthold.lm.prompts import by_hash, facts_for
from facthold.lm.questions import subject_place
from facthold.lm.tokeniser import Words

TRIED = (4, 2)  # layers L / 4 and L / 2
IN_C, CHOOSING, JUDGED = 64, 8, 16  # other subjects: whose keys are in C, that choose the layer, that are told


@dataclass(frozen=True, eq=False)
class Done:
    """What an edit did."""

    edit: Edit
    layer: int
    before: str  # what the prompt went on with
    said: str  # what it goes on with now
    took: bool
    kept: int  # of the subjects that are asked, those that are answered as before
    asked: int
    perplexity_before: float
    perplexity: float
    weights: Changed

    def record(self) -> dict[str, Any]:
        """What a file keeps of it."""
        return asdict(self.edit) | {"layer": self.layer}

    def as_json(self) -> dict[str, Any]:
        left = ("edit", "weights")
        return self.record() | {n: v for n, v in vars(self).items() if n not in left}


def find_subject(model: str, prompt: str, subject: str | None) -> str:
    """The subject that is named, or the longest name of a known one in the prompt."""
    if subject is not None:
        return subject  # whether it is there is said where its place is found
    there = [s for s in {s for s, _, _ in facts_for(model)} if s in prompt]
    if not there:
        raise ValueError(f"no known subject is in the prompt {prompt!r}; give --subject")
    return max(there, key=lambda s: (len(s), s))


def undone(before: LanguageModel, after: LanguageModel, made: Sequence[Mapping[str, Any]], name: str) -> list[str]:
    """Prompts of earlier edits that went on with their answers before the last edit, and no longer do."""
    answers = {record["prompt"]: record["answer"] for record in made}  # of a prompt that was edited twice the last
    if not answers:
        return []
    known = sorted({a for _, _, a in facts_for(name)})
    targets = np.array([answer_token(before, answer, known) for answer in answers.values()])
    batch = before.batch(list(answers))
    was, now = (np.asarray(model.run(batch).logits).argmax(1) == targets for model in (before, after))
    return [prompt for prompt, lost in zip(answers, was & ~now, strict=True) if lost]


def check_edit(
    words: Words, name: str, prompt: str, subject: str, answer: str, *, layer: int | None, covariance: str, value: str
) -> int:
    """The answer's token; an edit that cannot be made is refused."""
    check_one_of("covariance", covariance, COVARIANCES)
    check_one_of("value", value, VALUES)
    words.check_layer(layer)
    subject_place(words, prompt, subject)
    return answer_token(words, answer, sorted({a for _, _, a in facts_for(name)}))


def edit_once(
    model: LanguageModel, name: str, prompt: str, subject: str, answer: str, *, layer: int | None = None,
    covariance: str = "neighbours", value: str = "gradient",
) -> Done:  # fmt: skip
    """Edit a model, which may be an edited one of the model with this name."""
    target = check_edit(model, name, prompt, subject, answer, layer=layer, covariance=covariance, value=value)
    L, rows, made = model.config.L, facts_for(name), Edit(prompt, subject, answer.strip())
    others = sorted({s for s, _, _ in rows} - {subject}, key=by_hash)
    texts = [(prompt.replace(subject, s), s) for s in others if s not in prompt]
    ends = np.cumsum([min(JUDGED, len(texts) // 3), min(CHOOSING, len(texts) // 3), IN_C])
    judged, choosing, near = texts[: ends[0]], texts[ends[0] : ends[1]], texts[ends[1] : ends[2]]
    batches = [model.batch([text for text, _ in part]) for part in ([(prompt, subject)], choosing, judged)]

    def said(changed: LanguageModel, which: int) -> np.ndarray:
        return np.asarray(changed.run(batches[which]).logits).argmax(1)

    before = [said(model, which) for which in range(3)]
    if before[0][0] == target:
        raise ValueError(f"the prompt goes on with {answer.strip()!r} already: there is nothing to edit")
    best: tuple[tuple[bool, int], int, LanguageModel] | None = None
    for at in dict.fromkeys(L // part for part in TRIED) if layer is None else [layer]:
        C = covariances(text_keys(model, at), plain_keys(model, at, near))[covariance]
        after = edited(model, at, subject_keys(model, at, [made]), values(model, at, [made], value), C)
        score = bool(said(after, 0)[0] == target), int((said(after, 1) == before[1]).sum())
        if best is None or score > best[0]:
            best = score, at, after
    assert best is not None
    (took, _), at, after = best
    old, now = (model.tokeniser.shown(int(t)).strip() for t in (before[0][0], said(after, 0)[0]))
    kept = int((said(after, 2) == before[2]).sum())
    costs = text_perplexity(model), text_perplexity(after)
    return Done(made, at, old, now, took, kept, len(judged), *costs, changes(model, after))
