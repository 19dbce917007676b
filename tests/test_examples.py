"""The notebooks of examples/ run from their first cell to their last, and are stored without outputs. So does the
Python that the README opens with, and prints what it says."""

import ast
import json
import re
from pathlib import Path
from typing import Any

import pytest

from facthold.facts.files import read_facts
from facthold.lm.asking import ask
from facthold.lm.library import load

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.ipynb"))


def run(cells: list[dict[str, Any]]) -> dict[str, Any]:
    """All code cells, one after another; ``shown`` has what the last line of each would show."""
    names: dict[str, Any] = {"shown": []}
    for cell in cells:
        body = ast.parse("".join(cell["source"])).body
        if isinstance(body[-1], ast.Expr):
            body[-1] = _shown(body[-1])
        exec(compile(ast.Module(body, []), "cell", "exec"), names)
    return names


def _shown(last: ast.Expr) -> ast.stmt:
    call = ast.parse("shown.append(0)").body[0]
    assert isinstance(call, ast.Expr)
    assert isinstance(call.value, ast.Call)
    call.value.args = [last.value]
    return ast.fix_missing_locations(call)


def test_the_readme_opens_with_python_that_prints_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    code = (Path(__file__).parents[1] / "README.md").read_text().split("```python\n")[1].split("```")[0]
    exec(compile(code, "README.md", "exec"), {})
    comments = [line.split("  # ")[1] for line in code.splitlines() if "  # " in line]
    assert capsys.readouterr().out.splitlines() == comments
    assert len([line for line in code.splitlines() if line]) == 5


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_a_notebook_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    cells = [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]
    assert cells
    assert all(not cell["outputs"] and cell["execution_count"] is None for cell in cells)
    names = run(cells)
    assert names["model"].recall == 1.0
    assert names["edited"].report.done
    assert names["edited"].report.specificity == 1.0
    assert names["located"].answer == "Kumasi"
    assert names["shown"][-1] is True


def test_the_examples_that_commands_of_the_pages_name_are_there() -> None:
    """Every file under examples/ that a page names; those of the language model are asked and read."""
    root = Path(__file__).parents[1]
    pages = [root / "README.md", *(root / "docs").glob("*.md")]
    named = {name for page in pages for name in re.findall(r"examples/[\w.]+", page.read_text())}
    assert {"examples/mayors.csv", "examples/prompts.txt"} <= named
    assert not [name for name in named if not (root / name).exists()]
    rows = read_facts(root / "examples" / "mayors.csv")[0].to_rows()
    assert ("Leoti", "mayor") in {row[:2] for row in rows}
    prompts = (root / "examples" / "prompts.txt").read_text().splitlines()
    assert len(ask(load("tiny"), prompts)) == len(prompts) == 4
