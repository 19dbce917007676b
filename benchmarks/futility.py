"""Does the futility rule give the verdict of full-length training? It is asked on runs near capacity.

Trains every cell of a grid around the capacity to its full length, with no rule, keeps the accuracy curves,
and then applies the rule to the curves: a wrong verdict is a run that reaches its goal after the rule would
have given it up. Prints the verdicts and the steps that the rule saves.

    python benchmarks/futility.py [--curves FILE.npz] [--large] [--seeds 0 1 2]
"""

import argparse
import dataclasses
from pathlib import Path

import numpy as np

from facthold.recipes import memory_recipe, training_member
from facthold.studies.memories.capacity import Capacity
from facthold.train.engine import ROUNDING, fit
from facthold.train.protocols import Protocol

SHARES = (0.96, 0.98, 1.0, 1.02, 1.04, 1.08)
"""Sizes of the problems, as shares of the capacity of the first seeds."""
SIZES = (("train:linear-code", 16, 0), ("train:linear-code", 32, 0), ("train:mlp-code", 8, 8),
         ("train:mlp-code", 8, 32), ("train:mlp-code", 16, 16), ("train:mlp-text", 8, 32))  # fmt: skip
LARGE = (("train:linear-code", 45, 0), ("train:mlp-code", 16, 64), ("train:mlp-text", 16, 64))


def full_curves(name: str, d: int, m: int, seeds: tuple[int, ...]) -> list[tuple[str, np.ndarray]]:
    """The accuracy curves of full-length runs around the capacity."""
    recipe = memory_recipe(name)
    assert recipe.protocol is not None
    cell = Capacity(method=name, d=d, m=m, seeds=seeds, tolerance=0.03)
    capacity = cell.run()["N"]
    endless = dataclasses.replace(recipe.protocol, futility=None, goal=1.0)
    asked = [(round(share * capacity), seed) for share in SHARES for seed in seeds]
    runs = fit([training_member(recipe, cell.problem(N, seed), m, seed) for N, seed in asked], endless)
    return [(f"{name} d={d} m={m} N={N} seed={seed}", run.curve) for (N, seed), run in zip(asked, runs, strict=True)]


def judge(curve: np.ndarray, protocol: Protocol) -> tuple[bool, int, bool, int]:
    """Full verdict and its look; the rule's verdict and its look."""
    assert protocol.futility is not None
    n = protocol.steps // protocol.check_every
    curve = np.concatenate([curve, np.full(n - len(curve), curve[-1])])  # a run that was perfect has stopped
    goal = protocol.goal - ROUNDING
    reached = np.flatnonzero(np.nan_to_num(curve) >= goal)
    full, at = bool(len(reached)), int(reached[0]) + 1 if len(reached) else n
    looks = protocol.futility.given_up(curve, n, goal)
    return (full, at, full, at) if looks is None else (full, at, False, looks)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--curves", type=Path, help="keep the curves here, or read them if the file is there")
    parser.add_argument("--large", action="store_true", help="the larger sizes too (minutes)")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    options = parser.parse_args()
    if options.curves and options.curves.exists():
        curves = dict(np.load(options.curves))
    else:
        sizes = SIZES + (LARGE if options.large else ())
        curves = dict(pair for size in sizes for pair in full_curves(*size, tuple(options.seeds)))
        if options.curves:
            np.savez_compressed(options.curves, **curves)
    wrong, full_steps, rule_steps = [], 0, 0
    for name, curve in curves.items():
        protocol = memory_recipe(name.split()[0]).protocol
        assert protocol is not None
        full, at, ours, looks = judge(curve, protocol)
        full_steps += at * protocol.check_every
        rule_steps += looks * protocol.check_every
        if full != ours:
            wrong.append(f"{name}: reached the goal at step {at * protocol.check_every}, given up at "
                         f"{looks * protocol.check_every}")  # fmt: skip
    print(f"{len(curves)} runs, {len(wrong)} wrong verdicts, {full_steps / rule_steps:.2f} times fewer steps")
    print("\n".join(wrong))


if __name__ == "__main__":
    main()
