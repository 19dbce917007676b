"""Training protocols by name. The paper's text and the authors' code differ; both are here."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from facthold._util.arguments import checked
from facthold._util.errors import check_one_of, check_positive, find
from facthold._util.memory import Parts, bytes_of
from facthold.models.sizes import Shape

# adam-95 forgets second moments within about 20 steps (b2 = 0.95): on batches it stores more in as many steps.
# sgd-momentum is that of the public code for the bigram task: momentum 0.9, weight decay 1e-4.
# adam-0 is Adam with both betas 0, as the public code for memory schemes has it: g / (|g| + 1e-8). sign is its limit.
# sign and muon have no momentum: `train.directions`.
OPTIMISERS = ("adam", "adam-95", "sgd", "sgd-momentum", "adam-0", "sign", "muon")
AUTHORS = "authors"  # the success rule of the authors' code
RULES = ("best", "final", AUTHORS)
BATCH = 1 << 10  # prompts in a step of training on facts


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
    after: float = 1 / 32  # share of the steps before which no run is given up

    def hopeless(self, now: Any, half: Any, looks: Any, all_looks: int, goal: float) -> Any:
        """The rule, for floats and for traced arrays: best accuracy now and at half the looks so far."""
        import jax.numpy as jnp

        gain = jnp.maximum(now - half, self.least)
        projected = now + self.optimism * gain * (jnp.log2(all_looks / looks) + self.slack)
        return (looks >= self.after * all_looks) & (looks >= 2) & (projected < goal)

    def given_up(self, curve: np.ndarray, all_looks: int, goal: float) -> int | None:
        """The look at which a run with this accuracy curve is given up before it reaches the goal; None: never."""
        best = np.maximum.accumulate(np.nan_to_num(curve))
        for looks in range(2, len(best)):
            if best[looks - 1] >= goal:
                return None
            if self.hopeless(best[looks - 1], best[looks // 2 - 1], looks, all_looks, goal):
                return looks
        return None


@dataclass(frozen=True)
class Protocol:
    """All of a run but model, task and seed: ``fh.protocol("mlp-text")``, or ``dataclasses.replace`` of one."""

    name: str
    source: str
    """Where it stands: the paper's place, or the authors' public code."""
    optimiser: str
    lr: float
    steps: int
    check_every: int
    """Steps between two looks at the accuracy."""
    goal: float = 0.99
    """Accuracy at which a run has succeeded."""
    bias: bool = False
    """Whether the MLP's first layer has a bias."""
    futility: Futility | None = Futility()
    lrs: tuple[float, ...] = ()
    """Learning rates that are tried side by side, of which the best counts. Empty: ``lr`` alone."""
    rule: str = "best"
    """'best': the goal reached at any look (the paper's 'maximum accuracy'); 'final': held at the end; 'authors': as
    'best', but a look is at a batch of prompts drawn as in training, and not at every fact."""
    decay: bool = False
    """Whether the learning rate falls evenly to zero over the steps: batches then stop shaking what is learnt."""

    @property
    def spec(self) -> dict[str, Any]:
        """What a result was trained by, as JSON values. Fields that came later are left out while they are not used,
        so that results from before are found again."""
        unused = {"lrs": (), "rule": "best", "decay": False}
        return {name: value for name, value in asdict(self).items() if name not in unused or value != unused[name]}

    def __post_init__(self) -> None:
        check_positive(steps=self.steps, check_every=self.check_every)
        check_one_of("optimiser", self.optimiser, OPTIMISERS)
        check_one_of("success rule", self.rule, RULES)
        if self.steps % self.check_every:
            raise ValueError(f"check_every={self.check_every} does not divide steps={self.steps}")
        if not 0 < self.goal <= 1:
            raise ValueError(f"goal={self.goal} must be above 0 and at most 1")


SLOW_START = Futility(optimism=1.5, after=1 / 8)
"""For transformers: their accuracy stays near that of a guess at first, for longer at a small learning rate, and then
grows faster than that of memories. Chosen on runs of one seed; ``benchmarks/fact_futility.py`` tries it on others."""

LRS = (1e-3, 3e-3, 1e-2)  # the learning rates that the authors' code tries in turn for each transformer

# AdamW with the weight decay 0 that the authors' code gives it is Adam.
PROTOCOLS = {
    p.name: p
    for p in (
        Protocol("linear-code", "authors' code", "adam", lr=1000.0, steps=2**12, check_every=32),
        Protocol("mlp-code", "authors' code", "adam", lr=3e-2, steps=2**15, check_every=256, bias=True),
        Protocol("mlp-text", "appendix A.3", "adam", lr=1e-2, steps=2**14, check_every=64),
        Protocol("transformer-code", "authors' code", "adam", lr=3e-3, steps=2**14, check_every=128, lrs=LRS,
                 futility=SLOW_START),
        Protocol("transformer-smoke", "ours: hardly any steps", "adam", lr=1e-2, steps=2**9, check_every=64),
        Protocol("transformer-short", "ours: half the steps, the two larger learning rates", "adam", lr=3e-3,
                 steps=2**13, check_every=128, lrs=LRS[1:], futility=SLOW_START),
    )
}  # fmt: skip
LEARNING = Protocol(
    "facts", "ours: batches of a relation's facts, the learning rate falls to zero", "adam-95", lr=2e-2, steps=1024,
    check_every=64, goal=1.0, futility=Futility(after=1 / 2), decay=True,
)  # fmt: skip
"""Of the groups of neurons that hold a relation's facts (`train.groups`)."""
MARGIN = 1.0  # by how much an answer must win in it, so that rounding, noise and an edit elsewhere cannot tip it


ODD = 64  # times d: above it a size was given by itself


@checked
def protocol(name: str) -> Protocol:
    """The protocol with this name: ``fh.protocol("transformer-code").steps``."""
    return find("protocol", name, PROTOCOLS)


def training_memory(shape: Shape, S: int, R: int, A: int, T: int, n_noise: int | None = None) -> Parts:
    """Bytes that it takes to train such a transformer on such a table, by what they grow with: weights, gradients and
    Adam's moments at three learning rates; table and embeddings; scores and prompts of a batch for each rate."""
    batch = 3.0 * BATCH / 2

    def of_tokens(n: int) -> float:
        return bytes_of(embeddings=float(n) * shape.d, scores=batch * 3 * n)

    largest, size = max(shape._asdict().items(), key=lambda one: one[1])
    odd = size > ODD * shape.d  # usually all follow from d; where one does not, it is the one to lower
    return {
        f"{largest}={size}" if odd else f"d={shape.d}": bytes_of(
            weights=7.5 * shape.n_params, scores=batch * 4 * (shape.H * shape.d_h + shape.m)
        ),
        f"S={S}": bytes_of(facts=float(S) * R) + of_tokens(S + R + 1 + (0 if n_noise else S + R)),
        **({f"n_noise={n_noise}": of_tokens(n_noise)} if n_noise else {}),
        f"D={A // R or 1}": bytes_of(embeddings=float(A) * shape.d, scores=batch * 3 * A),
        f"T={T}": bytes_of(scores=batch * 4 * T),
    }


def step_seconds(shape: Shape, S: int, R: int, D: int) -> float:
    """A guess at the seconds of one training step on facts, on one lane: its multiplications, and what is not
    multiplied."""
    d, Hd_h, m = shape.d, shape.H * shape.d_h, shape.m
    flops = 2 * BATCH * ((2 * R * D + 6 * m + 3 * Hd_h) * d + 4 * (S + R) * Hd_h)
    return flops / 5e10 + 3e-4
