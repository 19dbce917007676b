"""The edits cell: random edits one after another, what they leave of the memory, and how long they take."""

import math
import time
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np

from facthold._util.errors import check_positive, unknown
from facthold._util.keys import derive
from facthold.construct.gates import gate_heads, gated_transformer
from facthold.facts.names import Names
from facthold.facts.problem import FactualRecall
from facthold.facts.prompts import SEQUENCE
from facthold.facts.table import FactTable
from facthold.knowledge.build import NOISE
from facthold.knowledge.edit import edit
from facthold.knowledge.groups import LEARNING, MARGIN, fact_groups, join, store_group
from facthold.knowledge.judge import judge_table
from facthold.knowledge.readout import readout, shape
from facthold.lab.cells import Cell, Result
from facthold.memory.embeddings import host_generator
from facthold.models.forward import Forward, table_prompts
from facthold.models.transformer import Transformer
from facthold.studies.real_facts.storage_cell import READOUT, TRAINED, VARIANT, to_the_end, train_model
from facthold.studies.real_facts.table_size import RANDOM, check_source, source_spec, source_table
from facthold.studies.transformers.fact_capacity import step_seconds
from facthold.studies.transformers.variants import variant
from facthold.train import BATCH

Known = tuple[Transformer, FactualRecall]
MODELS = (READOUT, TRAINED)
JUDGED = 1 << 24
"""Seed of the prompts that judge here: no edit is made or checked with them."""


def wider_readout(table: FactTable, width: float, seed: int) -> Known:
    """The model of the method readout; every group of neurons ``width`` times as wide as the smallest found."""
    model, problem, widths = readout(table, accuracy=1.0, n_noise=NOISE, T=SEQUENCE, p=None, seed=seed)
    if width == 1:
        return model, problem
    _, n_gates = shape(table, NOISE)
    gates = gate_heads(problem, n_gates, key=derive("gates", seed))  # the same as there
    groups = fact_groups(problem, gates)
    memories = [
        store_group(group, math.ceil(width * found.m), 1.0, key=derive("wider", seed, i, width))[0]
        for i, (group, found) in enumerate(zip(groups, widths, strict=True))
    ]
    return gated_transformer(problem, gates, join(gates, groups, memories, problem.d)), problem


def random_edits(table: FactTable, n: int, seed: int) -> list[tuple[int, int]]:
    """n facts of the table, each once, with a new answer: another of its relation, or of the table if it has none."""
    draw = host_generator(derive("edits", seed))
    edits = []
    for row in draw.permutation(len(table))[:n].tolist():
        right = set(table.right(row))
        others = sorted(table.A_r(int(table.relations[row])) - right) or sorted(set(range(table.A)) - right)
        edits.append((row, others[int(draw.integers(len(others)))]))
    return edits


@dataclass(frozen=True, kw_only=True)
class Edits(Cell):
    """The share of edited and of untouched facts that are right, after each number of edits, and after building again.

    A fact is edited once at most. The seconds are those of the machine that it ran on, with what else ran there.
    """

    kind: ClassVar[str] = "edits"

    counts: tuple[int, ...]
    """Numbers of edits, rising."""
    model: str = READOUT
    """'readout' or 'trained'."""
    width: float = 1.0
    """Of a readout: its widths over the smallest that were found."""
    in_place: bool = False
    """Whether the weights that are there are changed alone: else a fact may get neurons of its own."""
    source: str = RANDOM
    S: int = 250
    R: int = 5
    D: int = 60
    """The table, as in `TableSize`."""
    d: int = 0
    H: int = 0
    d_h: int = 0
    m: int = 0
    protocol: str = "transformer-short"
    """Sizes of a trained model, and how it is trained."""
    seed: int = 0

    def __post_init__(self) -> None:
        check_source(self.source, self.S, self.R, self.D)
        if self.model not in MODELS:
            raise unknown("model", self.model, MODELS)
        if not self.counts or self.counts[0] < 1 or list(self.counts) != sorted(set(self.counts)):
            raise ValueError(f"counts={self.counts} must be rising numbers of edits, 1 or more")
        if self.source == RANDOM:
            if self.counts[-1] > self.S * self.R:
                raise ValueError(f"counts: {self.counts[-1]} edits need so many facts, and S R = {self.S * self.R}")
            if self.R * self.D < 2:
                raise ValueError(f"R={self.R} and D={self.D} leave no other answer to edit to; take D=2 or more")
        if self.model == TRAINED:
            check_positive(d=self.d, H=self.H, d_h=self.d_h)
            to_the_end(self.protocol)
        elif not (math.isfinite(self.width) and self.width >= 1):
            raise ValueError(f"width={self.width} must be at least 1, the smallest widths found")

    @property
    def spec(self) -> dict[str, Any]:
        """The fields, the versions of the packages with the facts, and by what the weights are found."""
        found = super().spec | source_spec(self.source)
        if self.model == TRAINED:
            training = to_the_end(self.protocol).spec
            return found | {"training": training, "variant": asdict(variant(VARIANT)), "batch": BATCH}
        return found | {"training": LEARNING.spec, "margin": MARGIN}

    @property
    def label(self) -> str:
        which = f"{self.model} at {self.width:g} widths" if self.model == READOUT else f"{self.model} d={self.d}"
        facts = f"S={self.S} R={self.R} D={self.D}" if self.source == RANDOM else self.source
        return f"{self.counts[-1]} edits{' in place' if self.in_place else ''} of {which}, {facts}"

    @property
    def cost(self) -> float:
        """Seconds: the edits, and two models."""
        facts = self.S * self.R or 7 * (self.S or 250)
        edits = self.counts[-1] * (0.05 + 1e-4 * facts)
        if self.model == READOUT:
            return edits + 2 * (4 + 0.015 * facts)
        training = to_the_end(self.protocol)
        size = {"d": self.d, "Hd_h": self.H * self.d_h, "m": self.m, "S": self.S, "R": self.R, "A": self.R * self.D}
        return edits + 2 * len(training.lrs or (training.lr,)) * training.steps * step_seconds(**size)

    def make(self, table: FactTable) -> Known | None:
        """A model of this table; None where training diverged."""
        if self.model == READOUT:
            return wider_readout(table, self.width, self.seed)
        size = {"d": self.d, "H": self.H, "d_h": self.d_h, "m": self.m}
        return train_model(table, **size, training=to_the_end(self.protocol), seed=self.seed)

    def run(self) -> Result:
        table = source_table(self.source, self.S, self.R, self.D, self.seed)
        if len(table) < self.counts[-1]:
            raise ValueError(f"counts: {self.counts[-1]} edits need so many facts, and {self.source} has {len(table)}")
        start = time.perf_counter()
        made = self.make(table)
        build_seconds = time.perf_counter() - start
        if made is None:
            return {"status": "diverged", "facts": len(table), "accuracy": None}
        model, problem = made
        accuracy = float(_recalled(model, problem).mean())
        edited, spent = np.zeros(len(table), bool), 0.0
        efficacy, specificity, seconds, more_params, n_params = [], [], [], [], model.n_params
        names = Names.of(table)
        for n, (row, a) in enumerate(random_edits(table, self.counts[-1], self.seed), start=1):
            s, r = int(table.subjects[row]), int(table.relations[row])
            start = time.perf_counter()
            after = edit(model, problem, names[0][s], names[1][r], names[2][a], in_place=self.in_place)
            spent += time.perf_counter() - start
            model, problem, edited[row] = after.model, after.problem, True
            if n in self.counts:
                right = _recalled(model, problem)
                efficacy.append(float(right[edited].mean()))
                specificity.append(float(right[~edited].mean()) if not edited.all() else None)
                seconds.append(spent)
                more_params.append(model.n_params - n_params)
        start = time.perf_counter()
        again = self.make(problem.table)
        again_seconds = time.perf_counter() - start
        return {
            "status": "found", "facts": len(table), "n_params": n_params, "accuracy": accuracy,
            "efficacy": efficacy, "specificity": specificity, "seconds": seconds, "more_params": more_params,
            "build_seconds": build_seconds,
            "again": None if again is None else float(_recalled(*again).mean()), "again_seconds": again_seconds,
        }  # fmt: skip


def _recalled(model: Transformer, problem: FactualRecall) -> np.ndarray:
    """Whether each fact of the table is right, in a prompt of its own."""
    return judge_table(Forward.of(model, problem), problem, table_prompts(problem, seed=JUDGED)).recalled
