"""Watching facts being learnt: a few questions, and the stages so far. No terminal and no picture in here.

The model is linear attention, trained by `descend` on the exact loss. What it says to a question is the answer
that it gives most of its probability; where there is none, an answer is drawn from p-hat, anew at each look. So a model
that knows nothing but the relation says one plausible answer after another.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from facthold._util.keys import derive
from facthold.dynamics.descent import LearnFacts, descend
from facthold.dynamics.population import Start
from facthold.dynamics.schedule import NOISE_TOKENS, Schedule, T
from facthold.dynamics.stages import Levels, Rest, Stages, find_stages
from facthold.facts.names import Names
from facthold.facts.table import FactTable
from facthold.memory.embeddings import host_generator
from facthold.train.engine import Seen

CURVES = ("loss", "relation_loss", "subject_loss", "accuracy")
KNOWN = 0.5  # an answer is known if its probability is so far on the way from a mere guess to 1
SHOWN = 4  # questions that are chosen where none is given


def choose_questions(table: FactTable, seed: int) -> list[int]:
    """Facts of as many relations as there are; not the commonest answer of a relation, which a guess would hit."""
    generator = host_generator(derive("questions", seed))
    of_relation = []
    for r in range(table.R):
        rows = np.flatnonzero(table.relations == r)
        common = np.bincount(table.answers[rows]).argmax()
        telling = rows[table.answers[rows] != common]
        of_relation.append(generator.permutation(telling if len(telling) else rows))
    return [int(rows[i]) for i in range(SHOWN) for rows in of_relation if i < len(rows)][:SHOWN]


class AskedFacts(LearnFacts):
    """`LearnFacts` with even noise that also answers its questions aloud."""

    def observe(self, model: Any, *, key: PRNGKeyArray) -> Seen:
        log_p = jax.nn.log_softmax(self.logits(model, self.asked, key=key))
        r = self.prompts.relations[self.asked] - self.sets.of_subject.shape[0]
        right = jnp.take_along_axis(log_p, self.prompts.answers[self.asked][:, None], axis=1)[:, 0]
        plausible = jax.nn.logsumexp(jnp.where(self.sets.of_relation[r], log_p, -jnp.inf), axis=1)
        sure = log_p.max(axis=1) > math.log(KNOWN)
        said = jnp.where(sure, log_p.argmax(axis=1), jax.random.categorical(key, log_p))
        aloud = {"said": said, "p_right": jnp.exp(right), "p_plausible": jnp.exp(plausible)}
        return super().observe(model, key=key) | aloud


@dataclass
class Watching:
    """All that was seen so far of one run. The run writes it, and who shows it may read at any time."""

    table: FactTable
    questions: Sequence[int]  # facts that are asked for at each look, as rows of the table
    schedule: Schedule
    steps: list[int] = field(default_factory=list)
    looks: list[Seen] = field(default_factory=list)
    reached: Mapping[str, int] = field(default_factory=dict)
    """The look at which each stage was first seen: 'start', 'left', 'relation' or 'subject' (known alone), 'beyond' (it
    learns the other too), 'learnt'."""

    @cached_property
    def texts(self) -> list[str]:
        """The questions as a person asks them: 'France, capital'."""
        (subjects, relations, _), table = Names.of(self.table), self.table
        return [f"{subjects[table.subjects[row]]}, {relations[table.relations[row]]}" for row in self.questions]

    @cached_property
    def levels(self) -> Levels:
        return Levels.of(self.table)

    @property
    def stages(self) -> Stages:
        """From two looks on."""
        return find_stages(self.steps, self.curve("loss"), self.levels, relation_loss=self.curve("relation_loss"))

    def curve(self, name: str) -> Float[np.ndarray, " looks"]:
        return np.array([look[name] for look in self.looks], float)

    def said(self, look: int) -> list[str]:
        """What the model answered at this look, question by question."""
        names = Names.of(self.table)[2]
        return [names[a] for a in self.looks[look]["said"]]

    def verdicts(self, look: int) -> list[str]:
        """'known' where the model gives the fact most of its probability; 'by chance' where it says the right answer
        without; 'hallucinated' where it knows which answers the relation has and says one; else 'anything'."""
        seen = self.looks[look]
        # what a relation's answers get from a model that knows nothing is their share of all
        sets = [self.table.A_r(int(self.table.relations[row])) for row in self.questions]
        ignorant = np.array([len(answers) for answers in sets]) / self.table.A
        told = seen["p_plausible"] > ignorant + KNOWN * (1 - ignorant)
        told &= [int(a) in answers for a, answers in zip(seen["said"], sets, strict=True)]
        right = [a == self.table.answers[row] for a, row in zip(seen["said"], self.questions, strict=True)]
        return [
            "known" if known else "by chance" if hit else "hallucinated" if plausible else "anything"
            for known, hit, plausible in zip(seen["p_right"] > KNOWN, right, told, strict=True)
        ]

    def add(self, steps: int, seen: Seen) -> list[str]:
        """Take one look more; the stages that are new by it."""
        self.looks.append(seen)
        self.steps.append(steps)
        new = [stage for stage in self._passed() if stage not in self.reached]
        self.reached = {**self.reached, **dict.fromkeys(new, len(self.looks) - 1)}  # who reads the old one goes on
        return new

    def _passed(self) -> list[str]:
        """Stages that the curve so far has come to, in their order.

        A curve passes both levels of a partial guess on its way. It is at one of them if the model knows what the guess
        goes by, and the other less.
        """
        if len(self.steps) < 2:
            return ["start"]
        stages, now = self.stages, self.looks[-1]
        passed = ["start"] + ["left"] * (stages.left is not None)
        first = min(("relation", "subject"), key=lambda kind: now[f"{kind}_loss"])
        first = next((stage for stage in self.reached if stage in ("relation", "subject")), first)
        rest: Rest = getattr(stages, first)
        known = math.exp(-now[f"{first}_loss"]) > KNOWN
        if first in self.reached or (rest.begins is not None and rest.ends is None and known):
            passed.append(first)
        passed += ["beyond"] * (rest.ends is not None)
        return passed + ["learnt"] * (stages.converged is not None)

    def as_rows(self) -> list[list[Any]]:
        """A header, and a row for each look, with the answer to each question and the probability of the right one."""
        scalars = [name for name, value in self.looks[0].items() if np.ndim(value) == 0 and name != "loss_error"]
        scalars.sort(key=lambda name: CURVES.index(name) if name in CURVES else len(CURVES))
        columns = (column for text in self.texts for column in (text, f"p({text})"))
        rows: list[list[Any]] = [["step", *scalars, *columns]]
        for i, (step, look) in enumerate(zip(self.steps, self.looks, strict=False)):
            answers = zip(self.said(i), (f"{p:.6g}" for p in look["p_right"]), strict=True)
            numbers = (f"{float(look[name]):.6g}" for name in scalars)
            rows.append([step, *numbers, *(cell for pair in answers for cell in pair)])
        return rows


class _Enough(Exception):
    """The facts are learnt, or will not be."""


def watch(watching: Watching, *, seed: int = 0, heard: Callable[[list[str]], None] = lambda new: None) -> None:
    """Train to the end of the schedule, or until the facts are learnt. ``heard`` is told at each look which stages are
    new, in a thread of the engine; an exception of its own ends the run."""
    table, schedule = watching.table, watching.schedule
    asked = np.array(watching.questions, np.int32)
    task = AskedFacts.of(table, T=T, n_noise=NOISE_TOKENS, noise="even", batch=0, asked=asked)
    model = Start("equal", schedule.log_alpha).model(table.A, task.prompts.n_tokens)

    def listen(_: int, steps: int, accuracy: float, seen: Seen) -> None:
        # copies: a view would keep what the engine holds of all looks, at each of them
        heard(watching.add(steps, {name: np.array(value) for name, value in seen.items()}))
        if len(watching.steps) > 1 and (watching.stages.converged is not None or watching.stages.problem):
            raise _Enough

    with suppress(_Enough):
        descend(task, model, schedule.protocol, key=derive("watch", seed), listener=listen)
