"""A recipe, a figure or a claim is one file: put into a folder, it is found wherever its like are."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

MEMORY = """
from facthold.recipes.base import LINEAR, MemoryRecipe


def store(problem, m, key):
    from facthold.construct.linear import outer_product

    return outer_product(problem)


TOY = MemoryRecipe(
    name="toy-memory", family=LINEAR, place="a test", outline="the outer product by another name",
    build=store, guess=lambda d, m: 0.02 * d * d,
)
"""
FACTS = """
from facthold.models.sizes import Shape
from facthold.recipes.base import FactRecipe, Sizing


def solve(problem, sizes, key):
    from facthold.construct.selected import solved_values

    return solved_values(problem, 1)


TOY = FactRecipe(
    name="toy-facts", place="a test", outline="values by another name", size="d", build=solve, margin=1.0,
    sizing=Sizing(
        size="d", x=lambda q: (q.S + q.R,), law="S + R", guess=lambda q: float(q.S + q.R), least=lambda q: 3,
        shape=lambda q, d: Shape(d, q.S + q.R, 1, 0), tables=((4, 2, 2), (8, 2, 2), (12, 2, 2), (16, 2, 2)),
    ),
)
"""
FIGURE = """
from dataclasses import dataclass
from typing import ClassVar

from facthold.lab.cells import Cell
from facthold.lab.fields import Count, Counts
from facthold.lab.figure import Figure


@dataclass(frozen=True, kw_only=True)
class Square(Cell):
    kind: ClassVar[str] = "toy-square"
    n: Count

    def run(self):
        return {"square": self.n**2}


@dataclass(frozen=True)
class Grid:
    n: Counts = (1, 2, 3)


def plot(rows):
    from matplotlib.figure import Figure as Canvas

    canvas = Canvas()
    canvas.subplots().plot([row["n"] for row in rows], [row["square"] for row in rows])
    return canvas


TOY = Figure(
    name="toy-figure", title="Squares", place="a test", caption="n squared.",
    presets=dict.fromkeys(("smoke", "quick", "paper"), Grid()), cells=lambda grid: [Square(n=n) for n in grid.n],
    plot=plot,
)
"""
CLAIM = """
from facthold.lab.claim import Claim, Judgement
from facthold.lab.registry import cells_of

TOY = Claim(
    "toy-claim", "a test", "The square of n is n times n.", cells_of("toy-figure"),
    lambda rows: Judgement("n n", "n^2", "exact", all(row["square"] == row["n"] * row["n"] for row in rows)),
)
"""
LOOK = """
import json
import sys
from dataclasses import replace

from facthold.lab import api
from facthold.lab.registry import figure
from facthold.plan.calibrations import Calibrations
from facthold.plan.plan import plan
from facthold.recipes import recipes
from facthold.studies.sizes.calibrations import calibration, cells


def main():
    found = {"recipes": list(recipes()), "figures": list(api.figures()), "claims": list(api.claims())}
    sizes = {"subjects": 10, "relations": 2, "answers": 2}
    rows = {row["recipe"]: row for row in plan(**sizes).to_rows()}
    found |= {"planned": rows["toy-facts"], "loaded": [name for name in ("jax", "matplotlib") if name in sys.modules]}
    ladder = figure("ladder")
    rungs = [cell for cell in ladder.cells(ladder.grid("smoke")) if cell.method == "toy-memory"]
    efficiency = figure("efficiency")
    bits = [cell for cell in efficiency.cells(efficiency.grid("quick")) if getattr(cell, "model", "") == "toy-facts"]
    found["efficiency"] = [cell.S for cell in bits]
    found |= {"ladder": [cell.d for cell in rungs], "capacity": replace(rungs[0], seeds=(0,)).run()["status"]}
    measured = [
        calibration(name, goal, cell, {"status": "found", "size": cell.S + 2 + i % 2, "n_params": 1.0, "seconds": 1.0})
        for i, (name, goal, cell) in enumerate(cells(["toy-facts"]))
    ]
    rows = {row["recipe"]: row for row in plan(**sizes, calibrations=Calibrations({"gflops": 1.0}, measured)).to_rows()}
    found["calibrated"] = rows["toy-facts"]
    store, out = sys.argv[1:]
    api.run_figure("toy-figure", "smoke", store=store)
    made = api.reproduce("toy-figure", preset="smoke", store=store, out=out)
    found |= {"page": made.page.read_text(), "verdicts": {claim.id: claim.verdict for claim in made.claims}}
    from facthold.facts.table import FactTable
    from facthold.knowledge.build import build

    built = build(FactTable.from_rows([("x", "r", "a"), ("y", "r", "b"), ("x", "q", "c")]), recipe="toy-facts")
    found["built"] = [built.report.recipe, built.report.recall]
    print(json.dumps(found))


if __name__ == "__main__":
    main()
"""


def _look(folder: Path, **files: str) -> subprocess.CompletedProcess[str]:
    """What a fresh process sees with these files in a folder of one's own."""
    plugins = folder / "plugins"
    plugins.mkdir()
    for name, text in files.items():
        (plugins / f"{name}.py").write_text(text)
    script = folder / "look.py"
    script.write_text(LOOK)
    arguments = [sys.executable, str(script), str(folder / "store.sqlite"), str(folder / "out")]
    environment = os.environ | {"FACTHOLD_PLUGINS": str(plugins)}
    return subprocess.run(arguments, capture_output=True, text=True, env=environment, check=False)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    done = _look(tmp_path_factory.mktemp("toys"), memory=MEMORY, facts=FACTS, figure=FIGURE, claim=CLAIM)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_every_toy_is_in_the_lists(found: dict[str, Any]) -> None:
    assert {"toy-memory", "toy-facts", "outer-product", "values"} <= set(found["recipes"])
    assert {"toy-figure", "fig1", "ladder"} <= set(found["figures"])
    assert {"toy-claim", "plan-sizes"} <= set(found["claims"])


def test_a_memory_recipe_is_a_rung_of_the_ladder(found: dict[str, Any]) -> None:
    assert found["ladder"] == [16, 22]
    assert found["capacity"] == "found"


def test_a_fact_recipe_is_planned_and_builds(found: dict[str, Any]) -> None:
    assert found["efficiency"] == [4, 6, 8]
    assert found["planned"]["reason"] == "not calibrated at an accuracy of 1"
    assert found["calibrated"]["reason"] is None
    assert found["calibrated"]["H"] == 12
    assert 12 <= found["calibrated"]["d"] <= 16
    assert found["built"] == ["toy-facts", 1.0]


def test_a_figure_and_a_claim_are_in_the_report(found: dict[str, Any]) -> None:
    assert found["verdicts"]["toy-claim"] == "runs"  # its smoke cells support no verdict
    assert "toy-claim" in found["page"]
    assert "Squares" in found["page"]


def test_what_is_planned_or_listed_loads_nothing_slow(found: dict[str, Any]) -> None:
    assert found["loaded"] == []


def test_two_of_a_name_and_a_broken_file_are_one_line(tmp_path: Path) -> None:
    for name, text, message in (
        ("again", MEMORY.replace("toy-memory", "outer-product"), "two recipes are called 'outer-product'"),
        ("broken", "import nothing_of_this_name", "broken.py: ModuleNotFoundError"),
    ):
        folder = tmp_path / name
        folder.mkdir()
        done = _look(folder, **{name: text})
        assert done.returncode != 0
        assert message in done.stderr
