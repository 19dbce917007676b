"""Kill every command at random moments, in every way, and print how often it ended well: `make kill`.

The moments follow from the seed and the machine's speed.
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from kill.harness import JOBS, WAYS, Trial, cluster, trial, undisturbed, why_not


def cell(trials: Sequence[Trial]) -> str:
    """'10 of 10 (8 cut off)', or '10 of 10 (8 cut off, 3 kept a part)'."""
    well, parts = sum(not one.problems for one in trials), sum(one.part for one in trials)
    kept = f", {parts} kept a part" if parts else ""
    return f"{well} of {len(trials)} ({sum(one.cut for one in trials)} cut off{kept})"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help=f"commands; none: all of {', '.join(JOBS)}")
    parser.add_argument("--moments", type=int, default=10, help="for each command and way (default: 10)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=1, help="trials at a time")
    given = parser.parse_args(arguments)
    lines, failed = [], 0
    for job in (JOBS[name] for name in given.names or JOBS):
        row = [f"`{job.name}`"]
        if reason := why_not(job, WAYS[0]):
            lines.append([*row, *[f"not tried: {reason}"] * len(WAYS)])
            continue
        with cluster(job) as options, tempfile.TemporaryDirectory(prefix="kill-") as folder:
            well = undisturbed(job, options, Path(folder))
            print(f"{job.name}: {well.seconds:.1f} s undisturbed, {well.changes} changes of its folder", flush=True)
            for way in WAYS:
                if reason := why_not(job, way):
                    row.append(f"not tried: {reason}")
                    continue
                seeds = [f"{given.seed} {job.name} {way} {i}" for i in range(given.moments)]
                with ThreadPoolExecutor(given.workers) as pool:
                    trials = list(pool.map(lambda s, w=way: trial(job, w, well, options, s), seeds))  # noqa: B023
                row.append(cell(trials))
                print(f"{job.name}, {way}: {row[-1]}", flush=True)
                for seed, one in zip(seeds, trials, strict=True):
                    failed += bool(one.problems)
                    for problem in one.problems:
                        print(f"  seed {seed!r}: {problem}", flush=True)
        lines.append(row)
    print("\n".join("| " + " | ".join(row) + " |" for row in [["command", *WAYS], ["---"] * (1 + len(WAYS)), *lines]))
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
