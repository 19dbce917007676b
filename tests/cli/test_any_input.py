"""Numbers that no option can mean, and configs of any kind: one clear line each, whichever command they are given to.

Commands and options are found by looking, so that new ones are asked the same.
"""

import contextlib
import functools
import importlib
import io
import os
import tempfile
import time
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, Union, get_args, get_origin, get_type_hints

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from facthold.cli import app as program
from facthold.lab import registry
from facthold.recipes import recipes

NONSENSE = ("nan", "inf", "-inf", "", "words", "1e400", "-1e30", str(10**30), str(-(10**30)), "0x10", "1,5", "½", "1 2")
FILLED = {"model": "model.safetensors", "file": "facts.csv", "name": "fig6", "output": "new"}  # what has to be given
SLOW = 20.0  # seconds of its own that no refusal takes, the first one with all that it loads


class Number(NamedTuple):
    """An option that takes numbers."""

    command: str
    flag: str
    times: int
    required: tuple[str, ...]  # what the command cannot do without


@functools.cache
def numbers() -> list[Number]:
    for module in set(program.COMMANDS.values()):
        importlib.import_module(f"facthold.cli.{module}")
    group: Any = typer.main.get_command(program.app)
    found = []
    for name, command in group.commands.items():
        (callback,) = (c.callback for c in program.app.registered_commands if (c.name or _name(c.callback)) == name)
        hints, needed = get_type_hints(callback), []
        for p in command.params:
            if p.required:
                needed += ([max(p.opts, key=len)] if p.param_type_name == "option" else []) + [FILLED[p.name]]
        options = (p for p in command.params if p.param_type_name == "option")
        numeric = (p for p in options if {int, float} & set(_parts(hints[p.name])))
        found += [Number(name, max(p.opts, key=len), p.nargs, tuple(needed)) for p in numeric]
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


def run(*arguments: str) -> tuple[int, str, str]:
    """The program in an empty folder, which must be as empty afterwards where it refuses."""
    code, out, err, here = 0, io.StringIO(), io.StringIO(), Path.cwd()

    def leave(given: int) -> None:
        nonlocal code
        code = given
        raise Left

    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(program, "_leave", leave)
        patch.delenv("FACTHOLD_STORE", raising=False)
        os.chdir(folder)
        (Path(folder) / "facts.csv").write_text("subject,relation,answer\na,r,1\nb,r,2\na,q,3\nb,q,4\n")
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), contextlib.suppress(Left):
                program.main(arguments)
        finally:
            os.chdir(here)
        if code:
            assert os.listdir(folder) == ["facts.csv"]
    return code, out.getvalue(), err.getvalue()


def refused(*arguments: str) -> None:
    start = time.process_time()
    code, out, err = run(*arguments)
    lines = [line for line in err.splitlines() if line.startswith("facthold: ")]
    assert (code, out, len(lines)) == (2, "", 1), (arguments, code, out, err)
    assert "Traceback" not in err
    assert "defect" not in err
    assert time.process_time() - start < SLOW


def test_options_that_take_numbers_are_found() -> None:
    found = {(n.command, n.flag) for n in numbers()}
    assert {("capacity", "--tolerance"), ("build", "-T"), ("watch", "--lr"), ("make", "--zipf")} <= found


@pytest.mark.parametrize("value", NONSENSE)
def test_nonsense_is_refused_by_every_option_that_takes_a_number(value: str) -> None:
    for number in numbers():
        refused(number.command, *number.required, number.flag, *[value] * number.times)


@given(st.data())
def test_nonsense_is_refused_with_every_recipe(data: st.DataObject) -> None:
    number = data.draw(st.sampled_from([n for n in numbers() if n.command in ("make", "capacity")]))
    recipe = data.draw(st.sampled_from(sorted(recipes())))
    odd = st.floats().filter(lambda x: not abs(x) < 1e18).map(repr) | st.integers().map(lambda n: str(n + 10**18))
    value = data.draw(st.sampled_from(NONSENSE) | odd | st.text("abc-.", max_size=4))
    refused(number.command, "--recipe", recipe, number.flag, *[value] * number.times)


@pytest.mark.parametrize(
    "arguments",
    [
        "capacity --tolerance inf", "capacity --tolerance nan", "capacity --tolerance 1e9", "capacity --tolerance 1.5",
        "capacity --seeds 1000000000", "capacity -d 1000000", "capacity --recipe train -d 1000000",
        "capacity --recipe train -d 8 --beta 1e12", "capacity --recipe train -T 1000000",
        "make -N 1000000000", "make -d 1000000", "make --recipe train -d 1000000", "make --recipe train -T 1000000",
        "make --recipe train:mlp-code -m 1000000000000", "make --recipe values -d 10000000",
        "build facts.csv -o m.safetensors -T 1000000", "build facts.csv -o m.safetensors --noise-tokens 1000000000",
        "watch facts.csv --steps 9007199254740992", "bench --seconds 1e30", "bench --seconds 0",
    ],
)  # fmt: skip
def test_sizes_and_times_that_cannot_be_are_refused_at_once(arguments: str) -> None:
    refused(*arguments.split())


VALUES = st.recursive(
    st.sampled_from(["[]", "{}", "''", "nan", "inf", "-1", "0", "1.5", "1e400", "true", "1979-05-27", "'x'", "[[]]"])
    | st.integers(-(10**30), 10**30).map(str),
    lambda inner: st.lists(inner, max_size=3).map(lambda some: f"[{', '.join(some)}]"),
    max_leaves=4,
)


@given(st.data())
def test_any_config_is_cells_or_a_line(data: st.DataObject) -> None:
    figure = data.draw(st.sampled_from(list(registry.figures().values())))
    known = list(vars(next(iter(figure.presets.values()))))
    keys = data.draw(st.lists(st.sampled_from([*known, "nothing", "x.y"]), min_size=1, max_size=2, unique=True))
    name = data.draw(st.sampled_from([figure.name] * 8 + ["fig99", f"{figure.name}.{known[0]}"]))
    lines = [f"[{name}]", *(f"{key} = {data.draw(VALUES)}" for key in keys)]
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "config.toml"
        config.write_text("\n".join(lines))
        code, out, err = run("figure", figure.name, "--preset", "smoke", "--config", str(config), "--dry-run")
    assert code in (0, 2), (lines, err)
    if code:
        assert out == ""
        assert err.startswith("facthold: ")
        assert err.count("\n") == 1
        assert "defect" not in err


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[fig1]\nmlp_sizes = []\n", "fig1.mlp_sizes is empty; give one or more"),
        ("[fig1]\nlinear_d = [[]]\n", "must be int, not []"),
        ("[fig1]\ntolerance = nan\n", "must be a finite number"),
        ("[fig1]\ntolerance = 1e9\n", "must be at least 0 and at most 1"),
        (f"[fig1]\nn_seeds = {10**30}\n", "is too large"),
        ("[fig1]\nn_seeds = 1000000000\n", "must be at least 1 and at most 1000"),
        ("[fig4]\nd = [1000000000]\n", "of memory, and there is"),
    ],
)
def test_a_bad_config_is_one_line_and_makes_no_store(text: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(text)
    figure = text[1:5]
    code, _, err = run("figure", figure, "--preset", "smoke", "--config", str(tmp_path / "config.toml"), "-o", ".")
    assert code == 2
    assert says in err
    assert err.count("\n") == 1
