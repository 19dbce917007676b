"""One capacity search, by this engine and by a plain implementation, side by side in one run.

The plain side is what a researcher writes first, and what the authors' public code does: one model at a
time, a jitted step called from a Python loop, a look at the accuracy every steps/128, stop above the goal,
and a bisection over N from d to m d until the bracket is 1% wide. Ours is the `capacity` cell with the same
tolerance. Both use the same protocol, and ours searches all seeds while the plain side searches one: times
are given for one seed each.

    python benchmarks/capacity_search.py [-d 16] [-m 64] [--seeds 6] [--plain-seeds 1] [--json]
"""

import argparse
import json
import time

from facthold.train.lanes import configure

configure()

from facthold.bench import Bench, PlainRun, needed_flops, peak_flops, run_bench  # noqa: E402
from facthold.experiments.capacity import Capacity  # noqa: E402
from facthold.experiments.methods import method  # noqa: E402
from facthold.measure.capacity import Search  # noqa: E402


def plain_search(cell: Capacity, seed: int) -> tuple[int, int, float]:
    """The authors' bisection for one seed: capacity, steps made and seconds."""
    way = method(cell.method)
    assert way.protocol is not None
    start, steps = time.perf_counter(), 0
    low, high = cell.d, cell.m * cell.d
    while high / low > 1 + cell.tolerance and high - low > 1:
        N = (low + high) // 2
        run = PlainRun(way, cell.problem(N, seed), cell.m, seed)
        best = run.train(way.protocol.steps, goal=cell.goal)
        steps += len(run.losses)
        low, high = (N, high) if best >= cell.goal else (low, N)
        print(
            f"  plain, seed {seed}: N={N} {'stored' if low == N else 'not stored'} after {len(run.losses)} steps",
            flush=True,
        )
    return low, steps, time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-d", type=int, default=16)
    parser.add_argument("-m", type=int, default=64)
    parser.add_argument("--seeds", type=int, default=6, help="seeds of our search")
    parser.add_argument("--plain-seeds", type=int, default=1, help="seeds of the plain search")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()

    cell = Capacity(method="train:mlp-code", d=options.d, m=options.m, seeds=tuple(range(options.seeds)))
    assert isinstance(cell.search, Search)
    start = time.perf_counter()
    ours = cell.run()
    ours_seconds = (time.perf_counter() - start) / options.seeds
    print(f"ours: N = {ours['N']} ({ours['N_min']} to {ours['N_max']}), {ours_seconds:.1f} s a seed", flush=True)
    plain = [plain_search(cell, seed) for seed in range(options.plain_seeds)]
    plain_seconds = sum(seconds for *_, seconds in plain) / len(plain)
    N = round(ours["N"] or cell.guess)
    step = run_bench(Bench("train:mlp-code", N, options.d, options.m), seconds=6.0)
    result = {
        "search": f"d={options.d} m={options.m}", "ours_N": ours["N"], "plain_N": [N for N, *_ in plain],
        "ours_seconds_per_seed": ours_seconds, "plain_seconds_per_seed": plain_seconds,
        "plain_steps": [steps for _, steps, _ in plain], "ratio": plain_seconds / ours_seconds,
        "step_ours_ms": step["ours_ms"], "step_plain_ms": step["plain_ms"], "share_of_peak": step["share_of_peak"],
        "peak_gflops": peak_flops() / 1e9,
        "needed_mflops_per_step": needed_flops(N, N, options.d, options.m) / 1e6,
    }  # fmt: skip
    print(json.dumps(result, indent=1) if options.json else "\n".join(f"{k:>24}: {v}" for k, v in result.items()))


if __name__ == "__main__":
    main()
