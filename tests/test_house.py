"""The house stays as docs/architecture.md draws it, and stored results are found again."""

import ast
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import facthold
from facthold.lab.figure import PRESETS
from facthold.lab.registry import claims, figures
from facthold.studies.sizes.calibrations import cells as calibration_cells

SOURCE = Path(facthold.__file__).parent
PAGE = Path(__file__).parents[1] / "docs" / "architecture.md"
KEYS = Path(__file__).with_name("keys.json")
"""The first letters of the key of every cell. What changes here is computed again by everybody: raise the kind's
version, and make the calibrations of `plan` again where they are among them."""


def order() -> list[str]:
    """The packages in the order of the page: its lines 'name/   what it is', from the first to the last."""
    block = PAGE.read_text().split("```")[1]
    return [line.split("/")[0].strip() for line in block.splitlines() if "/" in line.split(" ")[0]]


def imports(path: Path) -> Iterator[str]:
    """The modules of ours that a file imports, wherever it does."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module == "facthold":
            yield from (f"facthold.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("facthold."):
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("facthold."))


def test_the_page_names_every_package() -> None:
    assert sorted(order()) == sorted(p.name for p in SOURCE.iterdir() if (p / "__init__.py").exists())


def test_no_module_imports_one_that_stands_below_it() -> None:
    place = {name: i for i, name in enumerate(order())}
    wrong = []
    for path in sorted(SOURCE.rglob("*.py")):
        package = path.relative_to(SOURCE).parts[0]
        for module in imports(path) if package in place else ():
            other = module.split(".")[1]
            if place.get(other, -1) > place[package]:
                wrong.append(f"{path.relative_to(SOURCE)} imports {module}")
    assert not wrong


def test_theory_imports_no_model() -> None:
    """A prediction cannot leak into what it judges."""
    ours = {module.split(".")[1] for path in SOURCE.joinpath("theory").rglob("*.py") for module in imports(path)}
    assert ours <= {"theory", "_util"}


def keys() -> dict[str, list[str]]:
    found = {f"figure {f.name}/{p}": f.cells(f.grid(p)) for f in figures().values() for p in PRESETS}
    found |= {f"claim {c.id}/{p}": c.cells(p) for c in claims().values() for p in PRESETS}
    found["plan"] = [cell for _, _, cell in calibration_cells()]
    return {name: [cell.key[:12] for cell in cells] for name, cells in found.items()}


@pytest.mark.slow
def test_every_cell_has_the_key_that_it_had() -> None:
    golden = {name: text.split() for name, text in json.loads(KEYS.read_text()).items()}
    now = keys()
    assert sorted(now) == sorted(golden)
    assert not [name for name in golden if now[name] != golden[name]]


def test_everything_that_is_drawn_is_drawn_by_the_thousand_too() -> None:
    """`make fuzz` has every test that Hypothesis draws for, and none of them says by itself how often."""
    root = Path(__file__).parents[1]
    drawing = [path for path in (root / "tests").rglob("test_*.py") if "from hypothesis import" in path.read_text()]
    (fuzzed,) = (line for line in (root / "Makefile").read_text().splitlines() if line.startswith("FUZZED := "))
    assert {str(path.relative_to(root)) for path in drawing if path != Path(__file__)} == set(fuzzed.split()[2:])
    assert not [path for path in drawing if "max_examples=" in path.read_text() and path != Path(__file__)]
