"""Does the futility rule for transformers give the verdict of full-length training?

Trains cells (a shape, a table, a seed; three learning rates each) around the capacity to their full length, with no
rule and no race, and keeps the accuracy curves. Then applies the rule to the curves: a wrong verdict is a cell that
reaches its goal at full length at one of its learning rates, and by the rule at none. The tests judge the stored
curves.

    python benchmarks/fact_futility.py                # judge the stored curves
    python benchmarks/fact_futility.py --train        # train those that are missing (half an hour for all)
"""

import argparse
import dataclasses
from collections import defaultdict
from pathlib import Path

import numpy as np

from facthold.studies.transformers.fact_capacity import FactCapacity
from facthold.train.engine import ROUNDING, fit
from facthold.train.protocols import Futility, protocol

CURVES = Path(__file__).parent / "data" / "fact_curves.npz"
CHOSEN_ON = (
    (1.0, 4.0, 16, (18, 20, 21, 22, 23, 24), (0,)),
    (0.5, 1.0, 16, (10, 11, 12, 13, 14), (0,)),
    (2.0, 0.5, 16, (13, 14, 15, 16, 17, 18), (0,)),
)
"""alpha, beta, d, the S and the seeds of the runs that the rule was chosen on."""
TRIED_ON = (
    (1.0, 4.0, 11, range(11, 17), (1, 2)),
    (2.0, 1.0, 11, range(8, 14), (1, 2)),
    (1.0, 1.0, 16, range(10, 16), (1, 2)),
)
"""The same of runs that it was then tried on: from what is learnt easily to what is not learnt."""


def train() -> None:
    """The accuracy curves of full-length runs; a run that is perfect stops. Stored table by table."""
    curves: dict[str, np.ndarray] = dict(np.load(CURVES)) if CURVES.exists() else {}
    for alpha, beta, d, sizes, seeds in CHOSEN_ON + TRIED_ON:
        cell = FactCapacity(alpha=alpha, beta=beta, d=d)
        endless = dataclasses.replace(cell.training, futility=None, goal=1.0)
        for S in sizes:
            asked = [(f"{cell.shape} d={d} S={S} seed={seed}: lr={member.lr:g}", member)
                     for seed in seeds for member in cell.members(S, seed)]  # fmt: skip
            alone = [member._replace(race=name) for name, member in asked if name not in curves]
            for member, run in zip(alone, fit(alone, endless), strict=True):
                curves[str(member.race)] = run.curve.astype(np.float32)
                print(f"{member.race}: {run.status} after {run.steps} steps, best {run.best:.4f}", flush=True)
            if alone:
                np.savez_compressed(CURVES, **curves)  # type: ignore[arg-type]


def of_protocol(curves: dict[str, np.ndarray], name: str) -> dict[str, np.ndarray]:
    """The curves at the learning rates that a protocol tries."""
    return {run: curve for run, curve in curves.items() if float(run.split("lr=")[1]) in protocol(name).lrs}


def judge(curves: dict[str, np.ndarray], rule: Futility, looks: int, goal: float) -> tuple[list[str], int, int, int]:
    """Cells with a wrong verdict, cells, those that reach the goal, and runs with a wrong verdict."""
    full: dict[str, list[bool]] = defaultdict(list)
    by_rule: dict[str, list[bool]] = defaultdict(list)
    for name, curve in curves.items():
        cell = name.split(":")[0]
        curve = np.concatenate([curve, np.full(max(looks - len(curve), 0), curve[-1])])[:looks]
        full[cell].append(bool((np.nan_to_num(curve) >= goal).any()))
        by_rule[cell].append(full[cell][-1] and rule.given_up(curve, looks, goal) is None)
    wrong = [cell for cell in full if any(full[cell]) != any(by_rule[cell])]
    runs = sum(a != b for cell in full for a, b in zip(full[cell], by_rule[cell], strict=True))
    return wrong, len(full), sum(map(any, full.values())), runs


def steps_saved(curves: dict[str, np.ndarray], rule: Futility, looks: int, goal: float) -> float:
    """Steps of races without the rule over steps with it."""
    cells: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for name, curve in curves.items():
        reached = np.flatnonzero(np.nan_to_num(curve[:looks]) >= goal)
        at = int(reached[0]) + 1 if len(reached) else looks + 1
        cells[name.split(":")[0]].append((at, rule.given_up(curve[:looks], looks, goal) or at))
    without = sum(min(looks, *(at for at, _ in runs)) * len(runs) for runs in cells.values())
    using = 0
    for runs in cells.values():
        end = min([looks, *(at for at, stop in runs if stop == at)])
        using += sum(min(stop, end) for _, stop in runs)
    return without / using


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", action="store_true", help="train the curves that are missing")
    if parser.parse_args().train:
        CURVES.parent.mkdir(exist_ok=True)
        train()
    curves = dict(np.load(CURVES))
    training = protocol("transformer-code")
    assert training.futility is not None
    for name in ("transformer-code", "transformer-short"):
        ours = of_protocol(curves, name)
        looks, goal = protocol(name).steps // training.check_every, training.goal - ROUNDING
        wrong, n, reach, runs = judge(ours, training.futility, looks, goal)
        saved = steps_saved(ours, training.futility, looks, goal)
        print(f"{name}: {n} cells, {reach} reach the goal; wrong verdicts: {len(wrong)} cells, {runs} of {len(ours)} "
              f"runs; {saved:.2f} times fewer steps")  # fmt: skip
        print("\n".join(wrong))


if __name__ == "__main__":
    main()
