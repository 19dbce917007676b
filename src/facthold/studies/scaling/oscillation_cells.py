"""Gradient descent on a few associations (slides: imbalance and small capacity): what the figure and its claims run.

All have the population loss, so that nothing is drawn but embeddings. Outputs are orthonormal; with two of them
|u_1 - u_2|^2 = 2, and the pace of `theory.imbalance` is twice the step size.
"""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np

from facthold._util.keys import derive
from facthold._util.memory import Parts, bytes_of
from facthold.lab import Cell, Result
from facthold.lab.fields import Between, Count, Each, Positive, Seeds

PACE = 2.0  # per step size, with two orthonormal outputs
Correlation = Annotated[float, Between(least=-0.999, most=0.999)]
Frequency = Annotated[float, Between(least=0.001, most=0.999)]  # of the first of two tokens
StepSize = Annotated[float, Between(low=0, most=1e9)]  # from there on every step size is the perceptron's
StepSizes = Annotated[tuple[float, ...], Each(StepSize, distinct=True)]
Correlations = Annotated[tuple[float, ...], Each(Correlation)]
Frequencies = Annotated[tuple[float, ...], Each(Frequency)]
LOOKS = 8  # per decade of steps, where not all are kept


def frequencies_of(N: int) -> np.ndarray:
    """p_z ~ 1 / z."""
    p = 1 / np.arange(1.0, N + 1)
    return p / p.sum()


def looked_at(steps: int) -> np.ndarray:
    """0, 1 and so many steps per decade up to the last."""
    n = max(2, round(LOOKS * np.log10(max(steps, 2))) + 1)
    return np.unique(np.concatenate([[0], np.geomspace(1, steps, n).round().astype(int)]))


def pair_embeddings(correlation: float) -> np.ndarray:
    """Two unit vectors in the plane."""
    return np.array([[1.0, 0.0], [correlation, (1 - correlation**2) ** 0.5]])


@dataclass(frozen=True, kw_only=True)
class OrthogonalMargins(Cell):
    """Margins along the steps of N tokens with orthonormal embeddings, frequencies ~ 1/z and f(z) = z mod M."""

    kind: ClassVar[str] = "orthogonal-margins"
    counts_no_facts: ClassVar[str] = "margins are measured, not facts"

    N: Count
    M: Annotated[int, Between(least=2)]
    step_sizes: StepSizes
    steps: Count
    seed: int = 0

    @property
    def needed(self) -> Parts:
        d, looks = max(self.N, self.M), len(looked_at(self.steps))
        return {
            f"N={self.N}": bytes_of(scores=float(len(self.step_sizes)) * (self.N * self.M + looks * (self.N + d * d)))
        }

    @property
    def cost(self) -> float:
        return 1.5 + 2e-6 * self.steps * (3 + len(self.step_sizes))

    def run(self) -> Result:
        from facthold.dynamics.imbalance import descend
        from facthold.memory.embeddings import embed

        d, n = max(self.N, self.M), len(self.step_sizes)
        E, U = (
            _orthonormal(embed("orthogonal", size, d, key=derive("orthogonal margins", name, self.seed)))
            for name, size in (("E", self.N), ("U", self.M))
        )
        f, p, times = np.arange(self.N) % self.M, frequencies_of(self.N), looked_at(self.steps)
        path = descend(np.tile(E, (n, 1, 1)), U, f, np.tile(p, (n, 1)), np.array(self.step_sizes), times)
        return {"times": times.tolist(), "margins": path.margins.tolist()}


def _orthonormal(rows: Any) -> np.ndarray:
    """Rows that are orthonormal in float32, to the last digit of float64."""
    Q, R = np.linalg.qr(np.asarray(rows, np.float64).T)
    return (Q * np.sign(np.diag(R))).T


@dataclass(frozen=True, kw_only=True)
class PairPaths(Cell):
    """Two tokens with different outputs: every step of some runs, with loss, margins, sharpness and w."""

    kind: ClassVar[str] = "pair-paths"
    counts_no_facts: ClassVar[str] = "two associations are followed"

    correlation: Correlation
    frequency: Frequency
    step_sizes: StepSizes
    steps: Count

    @property
    def needed(self) -> Parts:
        return {f"steps={self.steps}": bytes_of(scores=16.0 * len(self.step_sizes) * self.steps)}

    @property
    def cost(self) -> float:
        return 2.5 + 2e-5 * self.steps * len(self.step_sizes)

    def run(self) -> Result:
        path = _pairs([self.correlation], [self.frequency], self.step_sizes, np.arange(self.steps + 1), sharp=True)
        return {
            "loss": path.loss.tolist(), "margins": path.margins.tolist(), "sharpness": path.sharpness.tolist(),
            "w": (path.W[:, :, 0] - path.W[:, :, 1]).tolist(), "rises": path.rises.tolist(),
            "last_rise": path.last_rise.tolist(),
        }  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class PairRuns(Cell):
    """Two tokens with different outputs, at many correlations, each with its frequency, and step sizes: when all is
    right for the first time, when something is wrong for the last, and which steps raise the loss. By pair, then by
    step size; -1 where it never came."""

    kind: ClassVar[str] = "pair-runs"
    counts_no_facts: ClassVar[str] = "two associations are followed"

    correlations: Correlations
    frequencies: Frequencies
    step_sizes: StepSizes
    steps: Count

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.correlations) != len(self.frequencies):
            raise ValueError(
                f"frequencies has {len(self.frequencies)} values for {len(self.correlations)} correlations; give each "
                "pair one of both"
            )

    @property
    def needed(self) -> Parts:
        return {
            f"step_sizes={len(self.step_sizes)}": bytes_of(scores=64.0 * len(self.step_sizes) * len(self.correlations))
        }

    @property
    def cost(self) -> float:
        return 1.5 + 4e-7 * self.steps * len(self.correlations) * len(self.step_sizes)

    def run(self) -> Result:
        path = _pairs(self.correlations, self.frequencies, self.step_sizes, np.array([self.steps]))
        shape = (len(self.correlations), len(self.step_sizes))
        names = ("first_right", "last_wrong", "first_rise", "last_rise", "rises")
        found = {name: getattr(path, name).reshape(shape).tolist() for name in names}
        return found | {"last_loss": path.loss[:, -1].reshape(shape).tolist()}


def _pairs(correlations: Any, frequencies: Any, step_sizes: Any, times: np.ndarray, sharp: bool = False) -> Any:
    """The runs of each pair with each step size, in this order."""
    from facthold.dynamics.imbalance import descend

    E = np.repeat([pair_embeddings(c) for c in correlations], len(step_sizes), axis=0)
    p = np.repeat([[f, 1 - f] for f in frequencies], len(step_sizes), axis=0)
    return descend(E, np.eye(2), np.arange(2), p, np.tile(step_sizes, len(correlations)), times, sharp=sharp)


@dataclass(frozen=True, kw_only=True)
class CrowdedPlane(Cell):
    """N tokens in d = 2 with f(z) = z mod 2 and frequencies ~ 1/z: the probability of what is right, from zero and from
    the best memory there is, beside that of the least cross entropy, solved for. A draw of embeddings for each seed."""

    kind: ClassVar[str] = "crowded-plane"
    counts_no_facts: ClassVar[str] = "there is only one map f*(z) = z mod 2"

    N: Annotated[int, Between(least=3)]
    step_size: StepSize
    steps: Count
    seeds: Seeds
    start: Positive = 8.0  # the length of w at the start from the best memory

    @property
    def needed(self) -> Parts:
        looks = len(looked_at(self.steps))
        return {f"N={self.N}": bytes_of(scores=2.0 * len(self.seeds) * (self.N + 6) * looks)}

    @property
    def cost(self) -> float:
        return 2 + 3e-8 * self.steps * len(self.seeds) * (20 + 2 * self.N)

    def run(self) -> Result:
        from facthold.dynamics.imbalance import descend
        from facthold.memory.embeddings import embed
        from facthold.theory.plane import best_direction, least_cross_entropy, mass, separable

        f, p, times = np.arange(self.N) % 2, frequencies_of(self.N), looked_at(self.steps)
        draws = [
            np.asarray(embed("sphere", self.N, 2, key=derive("crowded plane", self.N, seed)), np.float64)
            for seed in self.seeds
        ]
        signed = [E * (1.0 - 2 * f)[:, None] for E in draws]
        best = [best_direction(x, p) for x in signed]
        least = [None if separable(x) else least_cross_entropy(x, p) for x in signed]
        u = np.array([1.0, -1.0])  # u_1 - u_2: W = u w^T / 2 has W^T u = w
        first = np.concatenate([np.zeros((len(draws), 2, 2)), [np.outer(u, self.start * w) / 2 for w in best]])
        path = descend(
            np.concatenate([draws, draws]), np.eye(2), f, np.tile(p, (2 * len(draws), 1)),
            np.full(2 * len(draws), self.step_size), times, start=first,
        )  # fmt: skip
        masses = (path.margins > 0) @ p
        halves: dict[str, Any] = {"zero": np.s_[: len(draws)], "best": np.s_[len(draws) :]}
        w = path.W[:, :, 0] - path.W[:, :, 1]
        shown = int(np.argmax([mass(b, x, p) - (1 if v is None else mass(v, x, p)) for x, b, v in
                               zip(signed, best, least, strict=True)]))  # fmt: skip
        return {
            "times": times.tolist(),
            "separable": [v is None for v in least],
            "most": [mass(b, x, p) for b, x in zip(best, signed, strict=True)],
            "solved": [None if v is None else mass(v, x, p) for v, x in zip(least, signed, strict=True)],
            **{f"masses_{name}": masses[half].tolist() for name, half in halves.items()},
            **{f"best_{name}": path.best[half].tolist() for name, half in halves.items()},
            "last_loss": path.loss[halves["zero"], -1].tolist(),
            "shown": {
                "seed": self.seeds[shown], "signed": signed[shown].tolist(),
                "least": None if least[shown] is None else list(least[shown]),  # type: ignore[arg-type]
                **{name: w[half][shown].tolist() for name, half in halves.items()},
            },
        }  # fmt: skip
