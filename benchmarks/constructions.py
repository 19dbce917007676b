"""Facts into weights: how long building takes beside training, at the same table, and what both hold.

For each table the construction `selected` at a size that holds all of it, and training by a protocol at the same
number of parameters or the next shape above. Times include compiling on both sides; a second build shows it without.

    python benchmarks/constructions.py [--protocol transformer-short]
"""

import argparse
import json
import sys
import time
from typing import Any

from facthold._util.keys import derive
from facthold.facts.problem import seeded_recall, seeded_table
from facthold.measure.fact_recall import fact_accuracy, fact_margins
from facthold.models.sizes import Shape
from facthold.recipes import fact_recipe
from facthold.recipes.base import Sizes
from facthold.train.protocols import protocol
from facthold.train.race import train

TABLES = ((16, 18, 46, 16, 64), (32, 32, 96, 32, 128), (45, 45, 120, 45, 180))
"""S = R with D = 8; d and m of what is built; d and m of what is trained, with H = 8 and H d_h = d (40 at d = 45)."""


def compare(S: int, d: int, m: int, trained_d: int, trained_m: int, name: str) -> dict[str, Any]:
    table = seeded_table("random", S, S, 8, 0)
    problem, seconds = seeded_recall(table, d, 0), []
    for _ in range(2):
        start = time.perf_counter()
        model = fact_recipe("selected").construct(problem, Sizes(m=m), seed=0)
        seconds.append(time.perf_counter() - start)
    recalled = float((fact_margins(model, problem, key=derive("ask", 0), draws=10) > 0).mean())
    asked = seeded_recall(table, trained_d, 0, "code")
    start = time.perf_counter()
    run = train(asked, Shape(trained_d, 8, trained_d // 8, trained_m), protocol(name), seed=0).run
    trained_seconds = time.perf_counter() - start
    return {
        "facts": len(table), "built_params": model.n_params, "built_recall": recalled, "built_seconds": seconds[0],
        "built_again_seconds": seconds[1],
        "trained_params": run.model.n_params, "trained_seconds": trained_seconds,
        "trained_recall": fact_accuracy(run.model, asked, key=derive("ask", 0)),
        "trained": run.status, "ratio": trained_seconds / seconds[0],
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--protocol", default="transformer-code")
    options = parser.parse_args()
    rows = []
    for sizes in TABLES:
        rows.append(compare(*sizes, options.protocol))
        line = "{facts} facts: built {built_recall:.2%} in {built_params} parameters, {built_seconds:.1f} s "
        line += "({built_again_seconds:.1f} s again); trained {trained_recall:.2%} in {trained_params} parameters, "
        line += "{trained_seconds:.1f} s ({trained}); {ratio:.0f} times"
        print(line.format(**rows[-1]), file=sys.stderr, flush=True)
    print(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
