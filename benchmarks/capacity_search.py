"""One capacity search, by this engine and by a plain implementation, side by side in one run.

The plain side is what a researcher writes first, and what the authors' public code does: one model at a
time, a jitted step called from a Python loop, a look at the accuracy every steps/128, stop above the goal,
and a bisection over N from d to m d until the bracket is 1% wide. It runs in a process of its own, with JAX
as it comes: all cores for its one model. Ours is the `capacity` cell with the same protocol and tolerance.
It searches several seeds at once; times are given for one seed each.

    python benchmarks/capacity_search.py [-d 16] [-m 64] [--seeds 6] [--plain-seeds 1] [--json]
"""

import argparse
import json
import sys
import time
from itertools import islice
from typing import Any

import equinox as eqx

from facthold.recipes import memory_recipe, training_member
from facthold.studies.memories.capacity import Capacity
from facthold.train.bench import MemoryBench, in_fresh_process, peak_flops, plain_memory, run_bench
from facthold.train.tasks import StoreAssociations


def plain_search(cell: Capacity, seed: int) -> dict[str, Any]:
    """The authors' bisection for one seed."""
    recipe = memory_recipe(cell.method)
    assert recipe.protocol is not None
    start, steps = time.perf_counter(), 0
    low, high = cell.d, cell.m * cell.d
    while high / low > 1 + cell.tolerance and high - low > 1:
        N = (low + high) // 2
        problem = cell.problem(N, seed)
        task, losses, stored = StoreAssociations.of(problem, pad=False), [], False
        recalled = eqx.filter_jit(task.accuracy)
        run = plain_memory(training_member(recipe, problem, cell.m, seed).model, problem, recipe.protocol)
        for model, loss in islice(run, recipe.protocol.steps):
            losses.append(loss)
            if len(losses) % recipe.protocol.check_every == 0 and recalled(model) >= cell.goal:
                stored = True
                break
        steps += len(losses)
        low, high = (N, high) if stored else (low, N)
        verdict = "stored" if stored else "not stored"
        print(f"  plain, seed {seed}: N={N} {verdict} after {len(losses)} steps", file=sys.stderr, flush=True)
    return {"N": low, "steps": steps, "seconds": time.perf_counter() - start}


def plain_side(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Run the plain search in a fresh process."""
    sizes = ("-d", str(options.d), "-m", str(options.m), "--plain-seeds", str(options.plain_seeds))
    return json.loads(in_fresh_process(__file__, "--plain-side", *sizes))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-d", type=int, default=16)
    parser.add_argument("-m", type=int, default=64)
    parser.add_argument("--seeds", type=int, default=6, help="seeds of our search")
    parser.add_argument("--plain-seeds", type=int, default=1, help="seeds of the plain search")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--plain-side", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()

    cell = Capacity(method="train:mlp-code", d=options.d, m=options.m, seeds=tuple(range(options.seeds)))
    if options.plain_side:
        print(json.dumps([plain_search(cell, seed) for seed in range(options.plain_seeds)]))
        return
    start = time.perf_counter()
    ours = cell.run()
    ours_seconds = (time.perf_counter() - start) / options.seeds
    print(f"ours: N = {ours['N']} ({ours['N_min']} to {ours['N_max']}), {ours_seconds:.1f} s per seed", file=sys.stderr)
    plain = plain_side(options)
    plain_seconds = sum(run["seconds"] for run in plain) / len(plain)
    N = round(ours["N"] or cell.guess)
    step = run_bench(MemoryBench("mlp-code", N, options.d, options.m), seconds=6.0)
    spent = sum(
        probe["steps"] * MemoryBench("mlp-code", probe["N"], options.d, options.m).flops
        for seed in ours["per_seed"]
        for probe in seed["probes"]
    )
    peak = peak_flops()
    result = {
        "search": f"d={options.d} m={options.m}", "ours_N": ours["N"], "plain_N": [run["N"] for run in plain],
        "ours_seconds_per_seed": ours_seconds, "plain_seconds_per_seed": plain_seconds,
        "plain_steps": [run["steps"] for run in plain], "ratio": plain_seconds / ours_seconds,
        "step_ours_ms": step["ours_ms"], "step_plain_ms": step["plain_ms"], "share_of_peak": step["share_of_peak"],
        "peak_gflops": peak / 1e9, "search_share_of_peak": spent / (ours_seconds * options.seeds) / peak,
        "needed_mflops_per_step": MemoryBench("mlp-code", N, options.d, options.m).flops / 1e6,
    }  # fmt: skip
    print(json.dumps(result, indent=1) if options.json else "\n".join(f"{k:>24}: {v}" for k, v in result.items()))


if __name__ == "__main__":
    main()
