"""Training protocols by name. The paper's text and the authors' code differ; both are here.

A protocol fixes everything about a run but the model, the task and the seed, and every result names
the one that it used.
"""

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp

from facthold.errors import check_positive, unknown

OPTIMISERS = ("adam", "sgd")


@dataclass(frozen=True)
class Futility:
    """When a run cannot succeed any more: its accuracy, extrapolated in log2(steps), stays below the goal.

    The best accuracy b(t) of these runs grows at most about evenly in log2 t. A run stops at step t when
    even ``optimism`` times its gain in the last doubling (taken as at least ``least``), kept up for all
    doublings that are left and ``slack`` more, does not reach the goal:

        b(t) + optimism * max(b(t) - b(t/2), least) * (log2(steps / t) + slack) < goal.

    So a run near its goal goes on to the end. ``benchmarks/futility.py`` compares the verdicts of this
    rule with those of full-length runs.
    """

    optimism: float = 2.0
    least: float = 0.03
    slack: float = 0.3
    after: float = 1 / 32
    """Share of the steps before which no run is given up."""

    def hopeless(self, now: Any, half: Any, looks: Any, all_looks: int, goal: float) -> Any:
        """The rule, for floats and for traced arrays: best accuracy now and at half the looks so far."""
        gain = jnp.maximum(now - half, self.least)
        projected = now + self.optimism * gain * (jnp.log2(all_looks / looks) + self.slack)
        return (looks >= self.after * all_looks) & (looks >= 2) & (projected < goal)


@dataclass(frozen=True)
class Protocol:
    """How a model is trained."""

    name: str
    source: str
    """Where it stands: the paper's place, or the authors' public code."""
    optimiser: str
    lr: float
    steps: int
    check_every: int
    """Steps between two looks at the accuracy."""
    goal: float = 0.99
    """Accuracy at which a run has succeeded, at any look (the paper's 'maximum accuracy')."""
    bias: bool = False
    """Whether the MLP's first layer has a bias."""
    futility: Futility | None = Futility()

    def __post_init__(self) -> None:
        check_positive(steps=self.steps, check_every=self.check_every)
        if self.optimiser not in OPTIMISERS:
            raise unknown("optimiser", self.optimiser, OPTIMISERS)
        if self.steps % self.check_every:
            raise ValueError(f"check_every={self.check_every} does not divide steps={self.steps}")
        if not 0 < self.goal <= 1:
            raise ValueError(f"goal={self.goal} must be above 0 and at most 1")


# AdamW with the weight decay 0 that the authors' code gives it is Adam.
PROTOCOLS = {
    p.name: p
    for p in (
        Protocol("linear-code", "authors' code", "adam", lr=1000.0, steps=2**12, check_every=32),
        Protocol("mlp-code", "authors' code", "adam", lr=3e-2, steps=2**15, check_every=256, bias=True),
        Protocol("mlp-text", "appendix A.3", "adam", lr=1e-2, steps=2**14, check_every=64),
    )
}


def protocol(name: str) -> Protocol:
    """The protocol with this name."""
    if name not in PROTOCOLS:
        raise unknown("protocol", name, PROTOCOLS)
    return PROTOCOLS[name]
