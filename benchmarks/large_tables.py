"""A build of a large table: what it multiplies, counted from the sizes, and how one large group is learnt.

python benchmarks/large_tables.py                         # count, for all airports
python benchmarks/large_tables.py --group city --width 433 --passes 200
"""

import argparse
import math
import time
from collections.abc import Callable

import facthold  # noqa: F401  before NumPy: it fixes the threads

# isort: split
import jax
import numpy as np

from facthold._util.padding import geometric, next_power_of_two, padded
from facthold.facts.names import Names
from facthold.facts.real import real_facts
from facthold.facts.table import FactTable
from facthold.knowledge.build import SHORT
from facthold.train import gated, groups
from facthold.train.protocols import BATCH, LEARNING
from facthold.train.sampled import FEWEST, LOOKED, OTHERS, RIVALS, SAMPLE

BEFORE, NOW = "before", "now"
ROOMY = 1.5  # times the guess, before


def counted(table: FactTable, n_noise: int | None) -> dict[str, dict[str, float]]:
    """Operations, two for each multiplication, of the first width of each group; what is polished is left out."""
    d, n_gates = gated.dimensions(table, n_noise)
    M = 2 * (table.S + table.R) + 1 + table.A if n_noise is None else table.S + table.R + n_noise + 1 + table.A
    judged = 2.0 * len(table) * M * d
    ways: dict[str, tuple[float, Callable[[int], int], int, int]] = {
        BEFORE: (ROOMY, lambda m: geometric(m, 1.5), LOOKED, 1 + len(SHORT)),
        NOW: (1.0, padded, SAMPLE, 1),
    }
    found = {}
    for name, (roomy, wider, looked, passes) in ways.items():
        steps_of = looks = neurons = 0.0
        for r in range(table.R):
            f = table.answers[table.relations == r]
            m = math.ceil(gated._weights(f) * roomy / (n_gates + d))
            steps = -(-groups.EPOCHS * len(f) // (BATCH * LEARNING.check_every)) * LEARNING.check_every
            own = len(np.unique(f))
            rivals = OTHERS + (RIVALS if own > RIVALS else max(FEWEST, next_power_of_two(own)))
            steps_of += steps * (10.0 * BATCH * wider(m) * d + 4.0 * BATCH * rivals * d)
            looks += steps / LEARNING.check_every * 2.0 * looked * d * M
            neurons += m
        params = 4 * d * (n_gates + min(table.S, table.R)) + 2 * neurons * d
        found[name] = {
            "training": steps_of, "looks": looks, "judging": passes * judged, "parameters": params,
            "facts per parameter": len(table) / params,
        }  # fmt: skip
    return found


def learnt(table: FactTable, relation: str, m: int, passes: int) -> None:
    """One group, and what each Gauss-Newton step makes of it."""
    groups.EPOCHS = passes
    prepared = gated.prepared(table, 32)
    r = Names.of(table)[1].find(relation)
    group = next(g for g in prepared.groups if (table.relations[g.rows] == r).all())
    print(f"{len(group)} facts, d={prepared.problem.d}, {group.problem.M} outputs, {m} neurons")
    start, before = time.process_time(), 0.0

    def heard(done: float, share: float) -> None:
        nonlocal before
        if done >= groups.TRAINED:
            before = before or time.process_time() - start
            print(f"{share:.4%} right after {time.process_time() - start:.1f} s of processor time", flush=True)

    _, share = groups.store_group(group, m, 1.0, key=jax.random.key(1), listener=heard)
    print(f"training {before:.1f} s, the rest {time.process_time() - start - before:.1f} s, {share:.4%} right")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--group")
    parser.add_argument("--subjects", type=int, default=8000)
    parser.add_argument("--width", type=int, default=433)
    parser.add_argument("--passes", type=int, default=groups.EPOCHS)
    args = parser.parse_args()
    if args.group:
        learnt(real_facts("airports", subjects=args.subjects), args.group, args.width, args.passes)
    else:
        for n_noise in (32, None):
            for way, sizes in counted(real_facts("airports"), n_noise).items():
                print(
                    f"{n_noise or 'as many'} noise tokens, {way}: "
                    + ", ".join(f"{k} {v:.3g}" for k, v in sizes.items())
                )
