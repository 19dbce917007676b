"""The program itself: which module makes which command, and what each has to load."""

import subprocess
import sys

import pytest

from facthold._util.errors import FactholdError
from facthold.cli.app import COMMANDS, SECTIONS, _command, _load

HEAVY = {"jax", "jaxlib", "equinox", "optax", "diffrax", "matplotlib", "ray", "pyarrow", "pandas", "scipy.stats"}
"""Each takes a second or so to import."""


def python(script: str, *arguments: str) -> str:
    done = subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def loaded(*arguments: str) -> set[str]:
    """The heavy modules that the program has loaded when it has answered."""
    script = (
        "import sys, facthold.cli.app as app\n"
        "app._leave = lambda code: print('\\nLOADED', code, *sys.modules)\n"
        "app.main(sys.argv[1:])"
    )
    code, *modules = python(script, *arguments).splitlines()[-1].removeprefix("LOADED ").split()
    assert code == "0"
    return HEAVY & set(modules)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["--version"],
        ["list"],
        ["list", "--json"],
        ["plan", "--subjects", "1000", "--relations", "8", "--answers", "16"],
    ],
    ids=" ".join,
)
def test_what_only_describes_loads_nothing_heavy(arguments: list[str]) -> None:
    assert not loaded(*arguments)


def test_the_help_says_what_every_command_is_for_in_a_line() -> None:
    text = python("import sys; from facthold.cli import main; main(['--help'])")
    for section, commands in SECTIONS.items():
        assert section in text
        for name, (_, outline) in commands.items():
            assert any(line.split(None, 1) == [name, outline] for line in text.splitlines()), name
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize("module", sorted(set(COMMANDS.values())))
def test_every_command_is_in_the_module_that_is_said(module: str) -> None:
    """Each module alone, in a process of its own, makes the commands that `SECTIONS` says of it."""
    script = (
        "import importlib, sys, typer; from facthold.cli.app import app\n"
        "importlib.import_module(f'facthold.cli.{sys.argv[1]}')\n"
        "print(*typer.main.get_command(app).commands)"
    )
    assert set(python(script, module).split()) == {name for name, of in COMMANDS.items() if of == module}


def test_the_command_is_the_first_word_that_is_no_option() -> None:
    assert _command(["ask", "m", "France", "capital"]) == "ask"
    assert _command(["--debug", "edit", "--help"]) == "edit"
    assert _command(["--version"]) is None


def test_a_misspelt_command_is_told_the_nearest() -> None:
    with pytest.raises((ValueError, FactholdError), match="did you mean 'verify'"):
        _load(["verfy"])
