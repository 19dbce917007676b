"""What a model still says right without a part: its value at one token is replaced by the mean over other prompts of
the same relation, so that what goes is what the part says of this subject, and not of the relation."""

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from facthold.lm.later import Later
from facthold.lm.model import Batch, LanguageModel
from facthold.lm.parts import Parts, contrast, decompose, kept_run
from facthold.lm.questions import Question

ANSWERS, RUNNER_UP, BEST_ANSWER = "answers", "runner-up", "best-answer"
CONTRASTS = {
    ANSWERS: "the mean of the relation's answers", RUNNER_UP: "the runner-up",
    BEST_ANSWER: "the best other answer of the relation",
}  # fmt: skip


def later(model: LanguageModel, questions: Sequence[Question], position: str) -> Later:
    """The questions, run, and ready to be changed at one of their tokens."""
    batch = Batch.of([q.tokens for q in questions])
    return Later(model, batch, np.array([q.position(position) for q in questions]))


def without_layers(run: Later, answers: np.ndarray, place: str) -> Bool[np.ndarray, "L n"]:
    """Which answers are still the first of all tokens without the attention, or without the MLP, of each layer."""
    layers = range(run.model.config.L)
    return np.stack([_right(run.put(place, i, run.means(place, i)), answers) for i in layers])


def without_heads(run: Later, answers: np.ndarray) -> Bool[np.ndarray, "L H n"]:
    """The same without each head."""
    c, found = run.model.config, []
    for i in range(c.L):
        means = run.means("heads", i)
        found.append([_right(run.put("heads", i, means, head=h), answers) for h in range(c.H)])
    return np.array(found)


def without_runs(run: Later, answers: np.ndarray, place: str, width: int) -> Bool[np.ndarray, "W n"]:
    """The same without the attention, or the MLPs, of so many layers in a row, together; from each layer on."""
    L = run.model.config.L
    means = [run.means(place, i) for i in range(L)]
    return np.stack([_right(run.put_all(place, i, means[i : i + width]), answers) for i in range(L - width + 1)])


def _right(logits: Float[Array, "n V"], answers: np.ndarray) -> Bool[np.ndarray, "n"]:
    return np.asarray(jnp.argmax(logits, -1)) == answers


def margins(
    model: LanguageModel, questions: Sequence[Question], rivals: np.ndarray, contrasts: Sequence[str] = (*CONTRASTS,)
) -> dict[str, Parts]:
    """The parts of each question's margin by contrast: against the mean of ``rivals`` without the answer itself, the
    best of all other tokens, and the best of the rivals."""
    run = kept_run(model, Batch.of([q.tokens for q in questions]))
    own = np.array([q.answer for q in questions])
    logits = np.asarray(run.logits).copy()
    logits[np.arange(len(own)), own] = -np.inf
    others = np.stack([rivals[rivals != answer] for answer in own])
    against = {
        ANSWERS: others, RUNNER_UP: logits.argmax(1),
        BEST_ANSWER: np.array([row[logits[i, row].argmax()] for i, row in enumerate(others)]),
    }  # fmt: skip
    return {name: decompose(model, run, contrast(model, own, against[name])) for name in contrasts}
