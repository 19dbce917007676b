"""Transformers: a training step, and a whole capacity search, by this engine and by a plain implementation.

The plain side is training as it is usually written: keys and values at all T positions, one model, a jitted step
called from a Python loop. It runs in a process of its own, with JAX as it comes: all cores for its one model. The
steps of both sides take turns. Our times are wall time divided by members; all lanes work.

The plain search is that of the authors' code: bisection of the integer S from 8 to 512, the learning rates one after
another until one succeeds, each to its full length. It would take hours, so it is extrapolated: at each S that it
visits, its step is timed; a table above the capacity costs all learning rates at full length, and one that is learnt
is counted as free. So the plain side is a lower bound.

    python benchmarks/transformer.py --step            # the four sizes
    python benchmarks/transformer.py --search [-d 32]  # alpha = 1, beta = 4, H = 8, D = 8
"""

import argparse
import json
import sys
import time
from typing import Any

from facthold.studies.transformers.fact_capacity import FactCapacity
from facthold.train.bench import BENCHES, TransformerBench, plain_ms, run_bench

AUTHORS_MS = (42, 150, 19, 121)
"""What the authors' public code takes for a step at each of the four sizes, on two idle cores."""


def step(seconds: float) -> list[dict[str, Any]]:
    """The four sizes, side by side."""
    rows = []
    benches = [bench for bench in BENCHES if isinstance(bench, TransformerBench)]
    for bench, authors_ms in zip(benches, AUTHORS_MS, strict=True):
        row = run_bench(bench, seconds)
        rows.append(row | {"authors_ms": authors_ms, "plain_against_authors": row["plain_ms"] / authors_ms})
        line = "{name}: ours {ours_ms:.2f} ms, plain {plain_ms:.1f} ms, {ratio:.1f} times; {share_of_peak:.0%} of"
        line += " {peak_gflops:.0f} GFLOP/s; plain / authors {plain_against_authors:.2f}"
        print(line.format(**rows[-1]), file=sys.stderr, flush=True)
    return rows


def search(d: int, seeds: int, protocol: str, seconds: float) -> dict[str, Any]:
    """Our search to the integer, and what the plain one would take to the same answer."""
    cell = FactCapacity(alpha=1.0, beta=4.0, d=d, protocol=protocol, seeds=tuple(range(seeds)))
    start = time.perf_counter()
    ours = cell.run()
    ours_seconds = (time.perf_counter() - start) / seeds
    print(f"ours: S = {ours['N']} ({ours['N_min']} to {ours['N_max']}), {ours_seconds:.0f} s per seed", file=sys.stderr)
    if ours["N"] is None:
        raise SystemExit(f"no capacity to compare at: {ours['status']}")
    capacity, plain, visited = round(ours["N"]), 0.0, []
    low, high = 8, 512
    while high - low > 1:
        S = (low + high) // 2
        if capacity >= S:
            low = S
            continue
        high = S
        ms = plain_ms(TransformerBench("transformer-code", cell.H, cell.sizes.d_h, d, cell.sizes.m, S, S, 8), seconds)
        spent = len(cell.training.lrs) * cell.training.steps * ms * 1e-3
        visited.append({"S": S, "plain_ms": ms, "seconds": spent})
        plain += spent
        print(f"plain: S = {S} is not learnt, {ms:.1f} ms per step, {spent:.0f} s", file=sys.stderr, flush=True)
    return {
        "cell": cell.label, "S": ours["N"], "S_min": ours["N_min"], "S_max": ours["N_max"], "facts": ours["facts"],
        "facts_per_parameter": ours["facts"] / cell.n_params, "ours_seconds_per_seed": ours_seconds,
        "plain_seconds_extrapolated": plain, "ratio": plain / ours_seconds, "plain_probes": visited,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--step", action="store_true")
    parser.add_argument("--search", action="store_true")
    parser.add_argument("-d", type=int, default=32)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--protocol", default="transformer-code")
    parser.add_argument("--seconds", type=float, default=6.0, help="for each measurement of a step")
    options = parser.parse_args()
    if options.step or not options.search:
        print(json.dumps(step(options.seconds), indent=1))
    if options.search:
        print(json.dumps(search(options.d, options.seeds, options.protocol, options.seconds), indent=1))


if __name__ == "__main__":
    main()
