"""Everything in README and docs that one may type: Python runs, commands are commands, and those of the README run."""

import re
import shlex
import warnings
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import equinox as eqx
import pytest

import facthold as fh
import known
from every_option import commands
from facthold.cli import main
from facthold.construct.induction import untrained
from facthold.lab.registry import claims, figures
from facthold.lab.runner import run_cells
from facthold.lab.store import Store
from facthold.models.causal import CausalTransformer
from facthold.models.memory import MLPMemory
from facthold.studies.memories.capacity import Capacity

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
TUTORIALS = [path for path in PAGES if path.name.startswith("tutorial-")]
SLOW = {"tutorial-figure.md", "context.md", "export.md", "oscillations.md", "sweeps.md", "tour.md"}
ELSEWHERE = {"sharp.md": "studies/memories/test_sharp.py"}
"""Pages whose Python takes minutes: a test that stands there runs it at a small size."""
ROWS = [row for row in known.ROWS if row[0] != "South Africa"]  # which has two capitals
PLACEHOLDERS = {"COMMAND", "ID", "..."}


def python(path: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", path.read_text(), re.DOTALL)


def typed(path: Path) -> Iterator[tuple[str, bool]]:
    """What is typed into a terminal, without what follows a # or a |: indented lines, which are whole commands, and
    what stands between backticks in a sentence, which may be a part."""
    text = re.sub(r"```python\n.*?```", "", path.read_text(), flags=re.DOTALL).replace("\\\n", " ")
    for block, span in re.findall(r"^ {4}(facthold [^\n]*)|`(facthold [^`]*)`", text, re.MULTILINE):
        yield re.sub(r"\s+# .*", "", (block or " ".join(span.split())).partition(" | ")[0]), bool(block)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that the snippets name."""
    here = tmp_path_factory.mktemp("snippets")
    fh.write_facts(here / "countries.csv", ROWS)
    fh.write_facts(here / "languages.csv", ROWS)
    (here / "my.txt").write_text((ROOT / "CONTRIBUTING.md").read_text())
    fh.build(ROWS, recipe="gated").save(here / "facts.safetensors")
    with pytest.raises(SystemExit, match=r"0|None"):
        main(["bits", str(here / "facts.safetensors"), "--bits", "8", "-o", str(here / "small.safetensors")])
    problem = fh.random_problem(20, 16, key=fh.derive("snippets", 0))
    fh.save_model(here / "table.safetensors", fh.make_memory("layerwise", problem, m=16), problem)
    with Store(here / "facthold-results.sqlite") as store:
        run_cells([Capacity(method="outer-product", d=16)], store, title="snippets")
    return here


def with_memories() -> CausalTransformer:
    model = untrained(N=7, T=10, d=16, key=fh.derive("snippets", 1))
    memories = [MLPMemory.init(16, 8, key=fh.derive("snippets", i)) for i in range(2)]
    return eqx.tree_at(lambda m: [la.F for la in m.layers], model, memories, is_leaf=lambda x: x is None)


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=pytest.mark.slow if path.name in SLOW else ())
        for path in PAGES
        if python(path) and path.name not in ELSEWHERE
    ],
    ids=lambda path: path.name,
)
def test_python_runs_as_it_stands(
    path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """All of a page in one session, in its order."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("FACTHOLD_STORE", str(folder / "facthold-results.sqlite"))
    names: dict[str, Any] = {"__name__": "__main__"}
    if path.name == "context.md":  # the model that its second snippet truncates
        names["model"] = with_memories()
    for code in python(path):
        if "import torch" in code and find_spec("torch") is None:
            warnings.warn(f"{path.name}: PyTorch is not installed, and its snippet did not run", stacklevel=1)
            continue
        exec(compile(code, path.name, "exec"), names)


@pytest.mark.parametrize("path", [path for path in PAGES if [*typed(path)]], ids=lambda path: path.name)
def test_commands_are_there_with_the_options_that_they_are_given(path: Path) -> None:
    known_commands = commands()
    for line, whole in typed(path):
        words = shlex.split(line)[1:]
        if not words or words[0].startswith("-") or words == ["lm"] or PLACEHOLDERS & set(words):
            continue
        name = " ".join(words[:2]) if words[0] == "lm" else words[0]
        assert name in known_commands, line
        command, given = known_commands[name], words[len(name.split()) :]
        options = {option for p in command.params for option in (*p.opts, *p.secondary_opts)} | {"--help"}
        assert {word for word in given if re.match(r"--?[a-zA-Z]", word)} <= options, line
        if whole and given and "--help" not in given and "[" not in line:  # a pattern of commands
            context = command.make_context(name, list(given))
            assert set(context.params.get("ids") or ()) <= set(claims()), line
            named = {"figure": ["name"], "reproduce": ["names"]}.get(name, [])
            assert {one for key in named for one in _listed(context.params[key])} <= set(figures()), line


def _listed(given: str | list[str] | None) -> list[str]:
    return [given] if isinstance(given, str) else given or []


@pytest.mark.slow
def test_the_commands_of_the_readme_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As they stand, one after another; of the countries three relations, so that the model is built in seconds."""
    monkeypatch.chdir(tmp_path)
    block = re.findall(r"(?:^ {4}facthold .*\n)+", (ROOT / "README.md").read_text(), re.MULTILINE)[0]
    lines = [re.sub(r"\s+# .*", "", line) for line in block.splitlines()]
    assert [shlex.split(line)[1] for line in lines] == ["facts", "build", "ask", "edit", "explore"]
    for line in lines:
        words = shlex.split(line)[1:]
        if words[0] == "facts":
            words += ["--relations", "capital,region,currency", "--subjects", "60"]
        with pytest.raises(SystemExit) as ended:
            main(words)
        assert not ended.value.code, line
    assert (tmp_path / "page.html").exists()


def test_what_takes_minutes_is_run_elsewhere() -> None:
    for page, test in ELSEWHERE.items():
        assert f'"{page}"' in (ROOT / "tests" / test).read_text()


def test_every_tutorial_has_code_that_can_fail() -> None:
    assert len(TUTORIALS) == 3  # the fourth is a notebook
    for path in TUTORIALS:
        assert sum("assert " in code for code in python(path)) >= 2, path.name
