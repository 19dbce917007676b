"""Watching an induction head being learnt: its accuracy, the probes of its memories, and the stages so far."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from facthold.knowledge.settings import PROBES, Settings

HALF = 0.5  # of its associations: from there on a probe is said to have turned on
CURVES = ("accuracy", *PROBES)
RULES = ("mode", "counts")  # that the accuracy passes


@dataclass
class Probing:
    """All that was seen so far of one run. The run writes it, and who shows it may read at any time."""

    settings: Settings
    baselines: Mapping[str, float]
    steps: list[int] = field(default_factory=list)
    looks: list[dict[str, float]] = field(default_factory=list)
    reached: Mapping[str, int] = field(default_factory=dict)
    """The look at which each stage was first seen: 'start', a probe by its name, a rule whose accuracy was passed."""

    def curve(self, name: str) -> np.ndarray:
        return np.array([look[name] for look in self.looks], float)

    def add(self, steps: int, seen: Mapping[str, Any]) -> list[str]:
        """Take one look more; the stages that are new by it."""
        self.looks.append({name: float(seen[name]) for name in CURVES})
        self.steps.append(steps)
        now = self.looks[-1]
        passed = ["start", *(name for name in PROBES if now[name] >= HALF)]
        passed += [rule for rule in RULES if now["accuracy"] > self.baselines[rule]]
        new = [stage for stage in passed if stage not in self.reached]
        self.reached = {**self.reached, **dict.fromkeys(new, len(self.looks) - 1)}  # who reads the old one goes on
        return new

    def half_of_final(self, name: str) -> int | None:
        """The step at which a curve first has half of what it has at the end; None where it does not grow to that."""
        curve = self.curve(name)
        return None if curve[0] >= curve[-1] / 2 else self.steps[int((curve >= curve[-1] / 2).argmax())]

    def as_rows(self) -> list[list[Any]]:
        """A header, and a row for each look."""
        rows: list[list[Any]] = [["step", *CURVES]]
        for step, look in zip(self.steps, self.looks, strict=False):
            rows.append([step, *(f"{look[name]:.6g}" for name in CURVES)])
        return rows
