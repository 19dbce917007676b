"""Every option of every command that takes a number, and every command with cheap arguments that it runs with.

Options are found by looking, so that new ones are asked the same; a new command needs a line in `BASES`.
"""

import contextlib
import functools
import importlib
import io
import os
import signal
import tempfile
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, Union, get_args, get_origin, get_type_hints

import pytest
import typer

import known
from facthold.cli import app as program
from facthold.lab.store import Store
from facthold.models.saving import save_model

LONGEST = 40  # seconds of its own that a command may take here
AS_TEXT = {("plan", name) for name in ("subjects", "relations", "answers")}  # numbers that are not typed as such
FACTS = "subject,relation,answer\na,r,1\nb,r,2\na,q,3\nb,q,4\n"
CAPITALS = "subject,relation,answer\nFrance,capital,Rome\nSpain,capital,Lima\n"
LETTERS = "abracadabra, abraham, macabre bar\n"  # no nan and no inf can be drawn from its pairs
TABLE = "-S 2 -R 2 -D 2 -T 8"
BASES = {
    "facts": ["elements --subjects 3 -o new.csv"],
    "build": ["facts.csv -o new.safetensors", "facts.csv -o new.safetensors --recipe values"],
    "ask": ["model.safetensors France capital", "model.safetensors --file questions.csv"],
    "edit": ["model.safetensors France capital Rome -o new.safetensors"],
    "locate": ["model.safetensors France capital", "model.safetensors --all"],
    "explore": ["model.safetensors -o new.html", "--relations region --subjects 4 -o new.html"],
    "watch": [
        "facts.csv --steps 8", "facts.csv --steps 8 --optimiser adam",
        "--induction text.txt -K 1 -T 8 -d 8 --steps 2",
    ],
    "induction": ["text.txt --built -K 1 -T 8 -d 8", "text.txt -K 1 -T 8 -d 8 --steps 2 --batch 2"],
    "figure": ["fig6 --preset smoke --dry-run"],
    "verify": ["gradient-step --preset smoke"],
    "reproduce": ["fig6 --preset smoke --dry-run"],
    "plan": ["-S 8 -R 4 -D 4", "--facts facts.csv"],
    "make": [
        "-d 8 -N 8", "--recipe low-rank -d 8 -N 8 -m 4", "--recipe hermite-features -d 8 -N 8 -m 8",
        f"--recipe attention -d 8 --d-h 2 {TABLE}", f"--recipe attention-mlp -d 8 -m 16 {TABLE}",
        f"--recipe values-ridge -d 12 {TABLE}", "--recipe gated -d 8 -m 4 -S 2 -R 2 -D 2",
        f"--recipe train -d 4 -H 2 {TABLE} --draws 2",
    ],
    "capacity": [
        "-d 4 --seeds 1 --tolerance 0.5", "--recipe hermite-features -d 4 -m 4 --seeds 1 --tolerance 0.5",
        "--recipe train -d 4 -H 2 -D 2 -T 8 --tolerance 1",
    ],
    "bits": ["memory.safetensors", "memory.safetensors --bits 4"],
    "bench": ["--seconds 0.01"],
    "lm ask": ["France --model tiny"],
    "lm knows": ["--model tiny --store new.sqlite"],
    "lm locate": ["France --answer Paris --model tiny"],
    "lm truncate": ["France --model tiny --layer 1"],
    "lm edit": ["France --answer Rome --model tiny --layer 0 --force -o new.safetensors"],
    "lm teach": ["capitals.csv --model tiny -o new.safetensors"],
}  # fmt: skip
"""A way or more to call each command that takes numbers, which ends well within seconds."""


class Number(NamedTuple):
    """An option that takes a number or more, and how to call its command without it."""

    command: str
    flag: str
    times: int
    whole: bool
    base: str

    @property
    def slow(self) -> bool:
        """Whether the command takes seconds where it accepts the number: it compiles for other sizes each time."""
        trained = self.command == "induction" and "--built" not in self.base
        return trained or self.command == "watch" or "--recipe train" in self.base or "--recipe gated" in self.base

    def given(self, value: str) -> list[str]:
        """The command with this value of the option: where it is given twice, the last counts."""
        return [*self.command.split(), *self.base.split(), self.flag, *[value] * self.times]


@functools.cache
def commands() -> dict[str, Any]:
    for module in set(program.COMMANDS.values()):
        importlib.import_module(f"facthold.cli.{module}")
    group: Any = typer.main.get_command(program.app)
    below = {f"{name} {n}": c for name, one in group.commands.items() for n, c in getattr(one, "commands", {}).items()}
    return {name: one for name, one in group.commands.items() if not hasattr(one, "commands")} | below


def callbacks() -> dict[str, Any]:
    """The functions of all commands, those of a group by both names: 'lm ask'."""
    found = {c.name or _name(c.callback): c.callback for c in program.app.registered_commands}
    for group in program.app.registered_groups:
        one: Any = group.typer_instance
        found |= {f"{one.info.name} {c.name or _name(c.callback)}": c.callback for c in one.registered_commands}
    return found


@functools.cache
def numbers() -> list[Number]:
    """Every option that takes numbers, with each base of its command."""
    found = []
    for name, command in commands().items():
        hints = get_type_hints(callbacks()[name])
        for p in command.params:
            kinds = set(_parts(hints[p.name])) & {int, float} or ({int} if (name, p.name) in AS_TEXT else set())
            if p.param_type_name == "option" and kinds:
                flag, whole = max(p.opts, key=len), kinds == {int}
                found += [Number(name, flag, p.nargs, whole, base) for base in BASES[name]]
    return found


def _name(callback: Any) -> str:
    return callback.__name__.replace("_", "-")


def _parts(hint: Any) -> Iterator[Any]:
    if get_origin(hint) in (types.UnionType, Union, tuple):
        for part in get_args(hint):
            yield from _parts(part)
    else:
        yield hint


class Left(BaseException):
    """The program has ended."""


class TooLong(BaseException):
    """It has not."""


@functools.cache
def files() -> dict[str, bytes]:
    """The files that are there before a command runs: facts, questions, a transformer, a memory and a store."""
    from facthold.construct.linear import outer_product
    from facthold.memory.associations import seeded_problem

    with tempfile.TemporaryDirectory() as folder:
        problem = seeded_problem(8, 0, 24)
        memory = save_model(Path(folder) / "memory.safetensors", outer_product(problem), problem).read_bytes()
        model = save_model(Path(folder) / "model.safetensors", *known.countries()).read_bytes()
        Store(Path(folder) / "kept.sqlite").close()
        store = (Path(folder) / "kept.sqlite").read_bytes()
    return {
        "facts.csv": FACTS.encode(), "capitals.csv": CAPITALS.encode(),
        "questions.csv": b"subject,relation\nFrance,capital\n",
        "text.txt": LETTERS.encode(), "model.safetensors": model, "memory.safetensors": memory, "kept.sqlite": store,
    }  # fmt: skip


def contents(folder: str) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()}


def run(*arguments: str) -> tuple[int, str, str]:
    """The program in a folder with `files`, which must be as it was where it refuses."""
    code, out, err, here = 0, io.StringIO(), io.StringIO(), Path.cwd()

    def leave(given: int) -> None:
        nonlocal code
        code = given
        raise Left

    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr("facthold.cli.ending.leave", leave)
        patch.setattr("facthold.train.bench.BENCHES", ())  # half a minute each
        patch.setenv("COLUMNS", "1000")
        patch.delenv("FACTHOLD_STORE", raising=False)
        os.chdir(folder)
        for name, content in files().items():
            Path(name).write_bytes(content)
        try:
            with (
                contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), contextlib.suppress(Left),
                at_most(LONGEST, arguments),
            ):  # fmt: skip
                program.main(arguments)
        finally:
            os.chdir(here)
        if code:
            assert contents(folder) == files(), (arguments, sorted(contents(folder)))
    return code, out.getvalue(), err.getvalue()


@contextlib.contextmanager
def at_most(seconds: float, what: object) -> Iterator[None]:
    """Fail after so many seconds of this process, however busy the machine is."""

    def stop(*_: object) -> None:
        raise TooLong(f"{what} takes more than {seconds} s")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
