"""Try deliberate faults, all or some by name, and write what sees them into the table: `make mutants`.

What was seen is kept in out/mutants.json, by fault and source: a run that was stopped goes on where it was.
"""

import argparse
import shutil
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from threading import local

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from mutants.catalogue import MUTANTS
from mutants.harness import LIGHT, RESULTS, ROOT, AnyMutant, Looker, Mutant, Only, Outcome, Results, run

TABLE = ROOT / "docs" / "mutants.md"
STORED = ROOT / "out" / "findings.sqlite"  # of `make findings`
ONLY: dict[str, Only] = {
    "all": bool,
    "light": LIGHT,
    "tests": lambda name: ".py" in name,
    "claims": lambda name: ".py" not in name,
}
INTRODUCTION = """# Deliberate faults

Each line is a fault that was put into a copy of the code, one at a time (`make mutants`), and what turned red by it: a
claim whose verdict fell to "fails" or "not decided" (or from that to "fails"), or a test that failed.

| fault | in | claims that turn red | tests that turn red | that should and do not |
|---|---|---|---|---|
"""


def row(mutant: AnyMutant, outcome: Outcome) -> str:
    """A line of the table."""
    claims = ", ".join(
        f"{name.replace('@', ' at ')} ({outcome.broken[name]})" for name in outcome.red if ".py" not in name
    )
    tests = ", ".join(name.rpartition("::test_")[2].replace("_", " ") or name for name in outcome.red if ".py" in name)
    where = f"`{mutant.file}`" if isinstance(mutant, Mutant) else "the rows"
    unseen = ", ".join(outcome.missed) or ("" if outcome.red else "not tried")
    return f"| {mutant.name} | {where} | {claims} | {tests} | {unseen} |"


def write_table(tried: dict[str, str]) -> None:
    """The lines of the faults that were tried take the place of their old ones; the others stay as they are."""
    lines = TABLE.read_text().splitlines() if TABLE.exists() else []
    kept = {cells[1].strip(): line for line in lines if len(cells := line.split("|")) == 7} | tried
    TABLE.write_text(INTRODUCTION + "\n".join(kept[m.name] for m in MUTANTS if m.name in kept) + "\n")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="parts of names of faults; none: all")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--store", type=Path, default=STORED, help="rows of healthy claims; a copy of it is used")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--stored", action="store_true", help="look at nothing: the table of what is kept")
    parser.add_argument("--only", choices=ONLY, default="all", help="which claims and tests are looked at")
    given = parser.parse_args(arguments)
    chosen = [m for m in MUTANTS if not given.names or any(part in m.name for part in given.names)]
    results, outcomes, own, stack = Results(given.results), {}, local(), ExitStack()
    rows = given.results.with_suffix(".sqlite")  # what is not stored is computed into the copy
    if not given.stored and not rows.exists() and given.store.exists():
        rows.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(given.store, rows)

    def tried(mutant: AnyMutant) -> Outcome:
        start = time.perf_counter()
        if not hasattr(own, "looker"):
            own.looker = None if given.stored else stack.enter_context(Looker())
        outcome = run(mutant, results, own.looker, str(rows), ONLY[given.only])
        if not outcome.broken:
            return outcome
        seen = "caught" if outcome.red and not outcome.missed else "NOT caught" if not outcome.red else "caught in part"
        words = ", ".join(f"{n}: {outcome.healthy[n]} -> {outcome.broken[n]}" for n in outcome.broken)
        print(f"{seen:14s} {time.perf_counter() - start:5.1f} s  {mutant.name}\n{'':24s}{words}", flush=True)
        return outcome

    with stack, ThreadPoolExecutor(given.workers) as pool:
        for mutant, outcome in zip(chosen, pool.map(tried, chosen), strict=True):
            outcomes[mutant.name] = outcome
    missed = [name for name, outcome in outcomes.items() if outcome.missed or not outcome.red]
    if given.only == "all":
        write_table({m.name: row(m, outcomes[m.name]) for m in chosen})
    print(
        f"{len(chosen)} faults, {len(chosen) - len(missed)} caught" + (f"; not, or in part: {missed}" if missed else "")
    )
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
