"""Imbalance and small capacity (slides): margins, oscillations, when all is right, and what is forgotten."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Annotated

import numpy as np

from facthold.lab import Cell, Figure, Values
from facthold.lab.fields import Count, Each, Repeats, Whole
from facthold.studies.judging import FRESH
from facthold.studies.scaling.oscillation_cells import (
    PACE,
    Correlation,
    CrowdedPlane,
    Frequency,
    OrthogonalMargins,
    PairPaths,
    PairRuns,
    StepSize,
    StepSizes,
)
from facthold.studies.scaling.oscillation_panels import of, plot
from facthold.theory.imbalance import Particles

DifferentCorrelations = Annotated[tuple[float, ...], Each(Correlation, distinct=True)]
DifferentFrequencies = Annotated[tuple[float, ...], Each(Frequency, distinct=True)]


@dataclass(frozen=True)
class Grid:
    """Two tokens on a grid of angles, frequencies and step sizes; some whole paths; more tokens than d = 2 can hold."""

    correlations: DifferentCorrelations = tuple(np.linspace(0, 0.95, 20).round(3).tolist())
    frequencies: DifferentFrequencies = (0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95)
    step_sizes: StepSizes = tuple(float(2 ** (k / 2)) for k in range(-4, 29))
    steps: Count = 2048
    path_correlations: DifferentCorrelations = (-0.5, 0.5, 0.95)
    path_frequency: Frequency = 0.75
    path_step_sizes: StepSizes = (1.0, 4.0, 32.0)
    path_steps: Count = 200
    orthogonal: tuple[int, int] = (4, 4)  # N tokens, M outputs
    orthogonal_step_sizes: StepSizes = (0.1, 1.0, 10.0, 100.0)
    orthogonal_steps: Count = 100_000
    crowds: Annotated[tuple[tuple[int, int], ...], Each(distinct=True)] = ((3, 20_000), (30, 2000))
    """N tokens in d = 2, and steps."""
    crowd_step_size: StepSize = 3.0  # below 4 no step raises the loss, whatever the embeddings
    draws: Repeats = 200  # of the embeddings of each crowd
    first_seed: Whole = FRESH


PRESETS = {
    "smoke": Grid(
        correlations=(0.0, 0.5, 0.95), frequencies=(0.6, 0.75, 0.9), step_sizes=(1.0, 4.0, 16.0, 64.0, 1024.0),
        steps=128, path_steps=32, orthogonal_steps=1000, crowds=((3, 500), (30, 200)),
        draws=10, first_seed=0,
    ),
    "quick": Grid(),
    "paper": Grid(
        correlations=tuple(np.linspace(0, 0.98, 50).round(3).tolist()),
        frequencies=tuple(np.linspace(0.5, 0.98, 25).round(3).tolist()), steps=8192,
        step_sizes=tuple(float(2 ** (k / 4)) for k in range(-8, 57)), orthogonal_steps=1_000_000,
        crowds=((3, 100_000), (10, 30_000), (30, 10_000), (100, 3000)), draws=1000,
    ),
}  # fmt: skip


def cells(grid: Grid) -> list[Cell]:
    pairs = list(product(grid.correlations, grid.frequencies))
    N, M = grid.orthogonal
    return [
        OrthogonalMargins(N=N, M=M, step_sizes=grid.orthogonal_step_sizes, steps=grid.orthogonal_steps),
        *(
            PairPaths(correlation=c, frequency=grid.path_frequency, step_sizes=grid.path_step_sizes,
                      steps=grid.path_steps)
            for c in grid.path_correlations
        ),
        PairRuns(correlations=tuple(c for c, _ in pairs), frequencies=tuple(f for _, f in pairs),
                 step_sizes=grid.step_sizes, steps=grid.steps),
        *crowds(grid),
    ]  # fmt: skip


def crowds(grid: Grid) -> list[Cell]:
    """Those that the claim is about, too."""
    seeds = tuple(range(grid.first_seed, grid.first_seed + grid.draws))
    return [CrowdedPlane(N=N, step_size=grid.crowd_step_size, steps=steps, seeds=seeds) for N, steps in grid.crowds]


def says(rows: Sequence[Values]) -> list[str]:
    lines = []
    for r in of(rows, PairPaths):
        for eta, rises, last, loss in zip(r["step_sizes"], r["rises"], r["last_rise"], r["loss"], strict=True):
            several = "1 step raises" if rises == 1 else f"{rises} steps raise"
            when = f"{several} the loss, the last is step {last}" if rises else "no step raises the loss"
            lines.append(
                f"correlation {r['correlation']:g}, frequency {r['frequency']:g}, step {eta:g}: {when}; loss "
                f"{loss[-1]:.3g} after {len(loss) - 1} steps"
            )
    lines += [line for r in of(rows, PairRuns) for line in _of_pairs(r)]
    for r in of(rows, CrowdedPlane):
        lines += _of_crowd(r)
    return lines


def _of_pairs(r: Values) -> list[str]:
    first, rises = np.array(r["first_right"], float), np.array(r["rises"])
    eta = np.array(r["step_sizes"])
    safe = np.array(
        [Particles.pair(*pair).safe_pace / PACE for pair in zip(r["correlations"], r["frequencies"], strict=True)]
    )
    allowed = eta <= safe[:, None]
    if not allowed.any(axis=1).all():
        return []
    at = np.where(allowed, eta, 0).argmax(axis=1)
    calm, fast = first[np.arange(len(first)), at], first[:, eta.argmax()]
    lines = [f"{int((rises > 0).any(axis=1).sum())} of {len(rises)} pairs have a step size that raises the loss"]
    for name, some in (
        ("below 0.7", np.array(r["frequencies"]) < 0.7),
        ("of 0.75 or more", np.array(r["frequencies"]) >= 0.75),
    ):
        some = some & (calm >= 0) & (fast >= 0)
        if some.any():
            lines.append(
                f"frequencies {name}: with step {eta.max():g} all is right sooner than with the largest step up to 2 / "
                f"sharpness in {(fast < calm)[some].mean():.0%} of pairs, later in {(fast > calm)[some].mean():.0%}"
            )
    return lines


def _of_crowd(r: Values) -> list[str]:
    crowded = ~np.array(r["separable"])
    if not crowded.any():
        return [f"N = {r['N']}: all draws can be right as a whole"]
    most, last = (np.array(r[name], float)[crowded] for name in ("most", "masses_zero"))
    first, last = last[:, 1], last[:, -1]
    lost = np.array(r["best_zero"])[crowded] - last
    solved = np.array([m for m in r["solved"] if m is not None])
    return [
        f"N = {r['N']}, {crowded.sum()} of {len(crowded)} draws cannot be right as a whole: right after the first step "
        f"{first.mean():.3f}, at the end {last.mean():.3f}, at the least cross entropy {solved.mean():.3f}, at best "
        f"{most.mean():.3f}; from zero {np.mean(lost > 1e-9):.0%} of draws lose something again, {lost.mean():.3f} on "
        f"average"
    ]


FIGURE = Figure(
    "oscillations", "Imbalance and small capacity", "slides: optimization with imbalance and small capacity",
    "Gradient descent on the population cross entropy of a linear memory. Above: margins with orthonormal embeddings; "
    "two tokens with different outputs (solid: the largest step size, dotted: one that raises no loss), their loss, "
    "the Hessian's largest eigenvalue over 2 / step size, and the loss over w = W^T(u_1 - u_2) with the paths; the "
    "smallest step size that raises the loss at some step. Below: the first step after which both are right, against "
    "the step size and over correlation and frequency; N tokens in d = 2 with z mod 2 and frequencies 1/z: means over "
    "draws that no w has right, and one draw.",
    PRESETS, cells, plot, says=says,
    sees="Large steps raise the loss on the way, and have all right sooner.",
)  # fmt: skip
