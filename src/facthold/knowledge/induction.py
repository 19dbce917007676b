"""An induction head for a text of one's own: made, judged on fresh sequences, and asked what it predicts and why."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from facthold._util.arguments import checked, checked_options
from facthold._util.errors import FactholdError
from facthold._util.keys import derive
from facthold.construct.induction import induction_head, untrained
from facthold.context.bigrams import Bigrams
from facthold.context.sequences import BigramTask
from facthold.knowledge.settings import MEMORIES, PROBES, Settings, check_sequence
from facthold.measure.in_context import Exam
from facthold.measure.probes import probes
from facthold.models.causal import CausalTransformer, split
from facthold.models.saving import check_finite
from facthold.train.engine import Member, Seen, fit
from facthold.train.in_context import PredictInContext

Heard = Callable[[int, float, Seen], None]  # is told at each evaluation: steps, accuracy, what was seen


class Look(NamedTuple):
    """Where a head looks most."""

    at: int  # from this position
    to: int
    token: str  # that stands there
    weight: float  # of the attention


@dataclass(frozen=True)
class Prediction:
    """What the model says after one position of a sequence, and where its heads look for it."""

    at: int
    token: str
    predicted: str
    probability: float
    next: str | None  # what follows in the sequence; None at its end
    told: tuple[str, ...]  # what has followed the token before, if it is a trigger: what the context says
    copies: Look  # of layer 2, from here: the token that it looks at is what it says, in an induction head
    finds: Look  # of layer 1, from there: the token before it, in an induction head

    @property
    def right(self) -> bool | None:
        """Whether it is what follows."""
        return None if self.next is None else self.predicted == self.next

    @property
    def as_told(self) -> bool | None:
        """Whether it is what the context says; None where it says nothing."""
        return self.predicted in self.told if self.told else None

    @property
    def by_induction(self) -> bool:
        """Whether layer 2 looks at a token that stands after the same one, and layer 1 from there at that one."""
        return self.finds.to == self.copies.to - 1 and self.finds.token == self.token


class Drawn(NamedTuple):
    """A sequence of the task, and its triggers."""

    text: str
    triggers: str


@dataclass(frozen=True)
class Induction:
    """A transformer of two layers for the bigram task of a text: ``fh.induction("my.txt").predict("to be, to")``."""

    model: CausalTransformer
    bigrams: Bigrams
    settings: Settings
    accuracy: float
    """The share of fresh outputs that are predicted, from the second occurrence of their trigger on."""
    error: float  # its standard error, over sequences
    judged: int  # outputs
    baselines: dict[str, float]
    """What rules without induction have right of the same outputs: see `facthold.context.baselines`."""
    probes: dict[str, float]
    """The share of its associations that each matrix holds: see `facthold.measure.probes`."""
    curves: dict[str, list[float]] = field(default_factory=dict)  # steps, accuracy and probes along training

    @cached_property
    def task(self) -> BigramTask:
        return task_of(self.bigrams, self.settings)

    @property
    def triggers(self) -> str | None:
        """The characters that are triggers in all sequences; None where each has its own."""
        if self.task.fixed is None:
            return None
        return "".join(self.bigrams.characters[i] for i in np.asarray(self.task.fixed))

    @checked
    def draw(self, seed: int = 0) -> Drawn:
        """A fresh sequence."""
        drawn = eqx.filter_jit(lambda task, key: task.draw(1, key=key))(self.task, derive("shown", seed))
        tokens, outputs, _ = (np.asarray(column)[0] for column in drawn)
        own = dict.fromkeys(tokens[:-1][outputs[1:]].tolist())
        triggers = "".join(self.bigrams.characters[i] for i in own) if self.triggers is None else self.triggers
        return Drawn("".join(self.bigrams.characters[i] for i in tokens), triggers)

    @checked
    def predict(self, sequence: str, triggers: str | None = None) -> list[Prediction]:
        """What the model says after each character of a sequence, with at most T of them. ``triggers`` are those that
        its triggers are taken for (default: the model's; where they are random, every character)."""
        check_sequence(sequence, self.bigrams, self.settings.T)
        tokens = self.bigrams.index(sequence)
        known = triggers if triggers is not None else self.triggers
        padded = np.zeros(self.settings.T, np.int32)  # one program for all lengths: no position sees a later one
        padded[: len(tokens)] = tokens
        says, p, *heads = (np.asarray(x)[: len(tokens)] for x in _looked(self.model, jnp.asarray(padded)))
        finds, copies = (
            [Look(t, int(s), sequence[s], float(w)) for t, (s, w) in enumerate(zip(*head, strict=True))]
            for head in (heads[:2], heads[2:])
        )
        found, followed = [], dict[str, list[str]]()
        for t, token in enumerate(sequence):
            after = sequence[t + 1] if t + 1 < len(sequence) else None
            told = tuple(followed.get(token, ())) if known is None or token in known else ()
            look = copies[t]
            said = self.bigrams.characters[says[t]]
            found.append(Prediction(t, token, said, float(p[t]), after, told, look, finds[look.to]))
            if after is not None:
                followed.setdefault(token, []).append(after)
        return found

    @checked
    def save(self, path: str | Path) -> Path:
        """Write it, with the counts of its text: ``Induction.load`` reads it again."""
        from facthold.knowledge.induction_files import save

        return save(path, self)

    @classmethod
    @checked
    def load(cls, path: str | Path) -> "Induction":
        from facthold.knowledge.induction_files import load

        return load(path)


@eqx.filter_jit
def _looked(model: CausalTransformer, tokens: Int[Array, " T"]) -> tuple[Array, ...]:
    """Of each position what is said and how likely, and where each head looks most and how much."""
    p = jax.nn.softmax(model(tokens[None])[0], axis=-1)
    each = [(beta.argmax(axis=-1), beta.max(axis=-1)) for beta in model.attention(tokens)]
    return p.argmax(axis=-1), p.max(axis=-1), *each[0], *each[1]


def task_of(bigrams: Bigrams, settings: Settings) -> BigramTask:
    return BigramTask.of(
        bigrams, settings.n_triggers(bigrams.N), settings.T, triggers=settings.triggers, random=settings.random
    )


@dataclass(frozen=True)
class Lesson:
    """A task that a model is to be made for, and the fresh sequences that it will be judged on."""

    bigrams: Bigrams
    settings: Settings
    task: BigramTask
    exam: Exam
    baselines: dict[str, float]

    @classmethod
    def of(cls, bigrams: Bigrams, settings: Settings) -> "Lesson":
        """Refuses what does not fit in memory, and a task in which there is nothing to learn."""
        settings.check_text(bigrams)
        task = task_of(bigrams, settings)
        exam = Exam.of(task, key=derive("judged", settings.seed))
        return cls(bigrams, settings, task, exam, exam.rules(bigrams.pi_b))

    def learnt(self, heard: Heard | None = None) -> Induction:
        """The model, built or trained, and how good it is."""
        task, settings = self.task, self.settings
        asked = np.arange(task.N) if task.fixed is None else np.asarray(task.fixed)
        key, curves = derive("induction", settings.seed, settings.dimension), dict[str, list[float]]()
        if settings.built:
            model = induction_head(task.N, task.T, settings.dimension, asked, key=key)
        else:
            model, curves = train(untrained(task.N, task.T, settings.dimension, key=key), task, settings, heard)
        check_finite({name: np.asarray(W) for name, W in zip(MEMORIES, _matrices(model), strict=True)})
        found = eqx.filter_jit(probes)(model, jnp.asarray(asked))
        held = {name: float(found[name]) for name in PROBES}
        return Induction(model, self.bigrams, settings, *self.exam.accuracy(model), self.baselines, held, curves)


@checked
def induction(text: str | Path | Bigrams | None = None, *, heard: Heard | None = None, **options: Any) -> Induction:
    """An induction head for the bigram task of a text, by training or (``built=True``) by the slides' construction:
    ``fh.induction("my.txt", K=3).accuracy``.

    Args:
        text: a file of text in UTF-8, of any length, or its `fh.Bigrams`. Default: the counts of tiny Shakespeare.
        heard: is told at each evaluation of the steps so far, the accuracy and the probes.
        options: K, T, d, steps, batch, lr, seed, triggers, random and built: see `facthold.knowledge.settings`.
    """
    settings = Settings(**checked_options(options, Settings))
    bigrams = text if isinstance(text, Bigrams) else Bigrams.shipped() if text is None else Bigrams.of_text(text)
    return Lesson.of(bigrams, settings).learnt(heard)


def _matrices(model: CausalTransformer) -> Sequence[Float[Array, "d d"]]:
    first, second = model.layers
    return first.W_KQ, second.W_KQ, second.W_OV


def train(
    start: CausalTransformer, data: BigramTask, settings: Settings, heard: Heard | None = None
) -> tuple[CausalTransformer, dict[str, list[float]]]:
    """The model after training its three matrices, and what was seen on the way; the first look is before a step."""
    varied, fixed = split(start, MEMORIES)
    task, key = PredictInContext.of(data, fixed, batch=settings.batch), derive("train", "induction", settings.seed)
    protocol = settings.protocol
    before = eqx.filter_jit(lambda task, m, key: (task.accuracy(m, key=key), task.observe(m, key=key)))
    accuracy, seen = jax.device_get(before(task, varied, key))
    steps, looks = [0], [{"accuracy": float(accuracy)} | {name: float(x) for name, x in seen.items()}]

    def listen(_: int, now: int, accuracy: float, seen: Seen) -> None:
        steps.append(now)
        looks.append({"accuracy": accuracy} | {name: float(x) for name, x in seen.items()})
        if heard is not None:
            heard(now, accuracy, looks[-1])

    if heard is not None:
        heard(0, float(accuracy), looks[0])
    (run,) = fit([Member(varied, task, key)], protocol, listener=listen)
    if run.status == "diverged":
        raise FactholdError(f"training diverged after {run.steps} steps with lr={settings.lr:g}; take a smaller lr")
    curves = {name: [look[name] for look in looks] for name in ("accuracy", *PROBES)}
    return eqx.combine(run.model, fixed), {"steps": [float(n) for n in steps], **curves}
