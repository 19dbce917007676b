"""The `facthold` program: its commands, and what holds for all of them."""

import importlib
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.exceptions import Abort, Exit, TyperException

from facthold import __version__
from facthold._util.errors import FactholdError, FactholdWarning, check_number, printable, unknown
from facthold._util.files import check_not_store, same_file, written
from facthold.cli import ending
from facthold.cli.ending import BAD_INPUT, BROKEN, Interrupted, heed, interrupted
from facthold.cli.options import FOLDER

SECTIONS = {
    "Know your facts": {
        "facts": ("facts", "real facts from installed packages, as a file"),
        "build": ("facts", "the smallest model found that knows a file of facts"),
        "ask": ("ask", "ask a model for a fact, or for a file of them"),
        "edit": ("edit", "change, add or forget a fact in a model, without training"),
        "locate": ("ask", "which heads and neurons hold a fact"),
        "explore": ("explore", "a page that asks a model and takes it apart, in the browser"),
        "watch": ("watch", "watch facts being learnt, live in the terminal"),
    },
    "Facts in context": {
        "induction": ("induction", "an induction head for a text: what it predicts and why"),
    },
    "A real language model": {
        "lm": ("lm", "fetch one, ask it, see what it knows; facthold lm lists more"),
    },
    "Check the paper": {
        "figure": ("paper", "compute and draw one figure"),
        "verify": ("paper", "check claims: predicted, measured, verdict"),
        "reproduce": ("paper", "figures, claims and one report page"),
    },
    "Size a model": {
        "plan": ("plan", "how large a model must be for so many facts"),
        "make": ("make", "one memory or transformer of a given size, and what it recalls"),
        "capacity": ("capacity", "the most that a memory or transformer of a given size holds"),
        "bits": ("bits", "how few bits per weight a model still needs"),
    },
    "Look around": {
        "list": ("inspect", "figures, claims, recipes and protocols"),
        "results": ("inspect", "what is stored, as a table, CSV or Parquet"),
        "status": ("inspect", "how a long run in another terminal is going"),
        "bench": ("inspect", "how fast this machine trains"),
    },
}
"""The commands by what a person wants to do: the module of this package that makes each, and what it is for."""
COMMANDS = {name: module for section in SECTIONS.values() for name, (module, _) in section.items()}
ALIASES = {"goal": "accuracy", "method": "recipe"}  # fields of cells that options have another name for
STANDARD = "-"  # by which other programs mean their standard output
VALUE = r"""'[^']*'|"[^"]*"|\(\)|[^\s,;:()]+"""


class Commands(TyperGroup):
    """The help lists all commands and loads none: most of them need JAX, which takes seconds to import."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as stop:
            raise Interrupted from stop

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        for section, commands in SECTIONS.items():
            with formatter.section(section):
                formatter.write_dl([(name, outline) for name, (_, outline) in commands.items()])


class Group(TyperGroup):
    """Commands below a name, such as `facthold lm ask`. The name alone is its help."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, args or ["--help"])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] not in self.commands:
            raise unknown(f"command of {ctx.info_name}", args[0], self.commands)
        return super().resolve_command(ctx, args)


class Command(TyperCommand):
    """A command whose errors speak of its options, where the library speaks of arguments."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        typed, *_ = self.make_parser(ctx).parse_args(args=list(args))
        if not typed.get("help"):
            self.check_swallowed(ctx, typed)
        rest = super().parse_args(ctx, args)
        for p in self.params:  # as a path, an empty text is the folder that one is in
            if typed.get(p.name) == "" and (isinstance(ctx.params[p.name], Path) or "FILE" in (p.metavar or "")):
                name = max(p.opts, key=len) if p.param_type_name == "option" else (p.metavar or str(p.name)).upper()
                raise FactholdError(f"{name.strip('[]')} is empty; give a name")
            text = typed.get(p.name)  # a path forgets the slash that it ends in
            if p.name == "output" and isinstance(text, str) and text.endswith("/") and p.metavar != FOLDER:
                there = "is a folder" if Path(text).is_dir() else "would be a folder"
                raise FactholdError(f"--output {text} {there}; give the name of a file")
        return rest

    def check_swallowed(self, ctx: Any, typed: Mapping[str, Any]) -> None:
        """Refuse an option where the value of another is due: the value was forgotten, and the option would be lost."""
        parameters = self.get_params(ctx)
        names = {name for p in parameters for name in (*p.opts, *p.secondary_opts) if p.param_type_name == "option"}
        for p in parameters:
            given = typed.get(p.name) if p.param_type_name == "option" else None  # an argument comes after -- alone
            for value in given if isinstance(given, list | tuple) else [given]:
                if isinstance(value, str) and value.partition("=")[0] in names:
                    raise FactholdError(
                        f"{max(p.opts, key=len)} {value} is an option, and no name; write ./{value} if a file is meant"
                    )

    def invoke(self, ctx: Any) -> Any:
        try:
            check_numbers(ctx.params)
            check_apart(ctx.params)
            with notes():
                return super().invoke(ctx)
        except (FactholdError, ValueError) as error:
            raise FactholdError(in_options(str(error), self.params)) from error


@contextmanager
def notes() -> Iterator[None]:
    """Warnings of ours are a line each on standard error."""
    with warnings.catch_warnings():
        others = warnings.showwarning

        def say(
            message: Warning | str, category: type[Warning], filename: str, lineno: int, file: Any = None,
            line: str | None = None,
        ) -> None:  # fmt: skip
            if issubclass(category, FactholdWarning):
                typer.echo(printable(str(message)), err=True)
            else:
                others(message, category, filename, lineno, file, line)

        warnings.simplefilter("always", FactholdWarning)
        warnings.showwarning = say
        yield


def check_numbers(given: Mapping[str, Any]) -> None:
    """Refuse numbers that no option can mean, whichever command they are given to."""
    for name, value in given.items():
        for number in value if isinstance(value, list | tuple) else [value]:
            check_number(name, number)


def check_apart(given: Mapping[str, Any]) -> None:
    """Refuse an output that is read too, whichever command it is given to: what is there would be lost. So would the
    store, which is written before the output."""
    output = given.get("output")
    if not isinstance(output, Path):
        return
    if str(output) == STANDARD:
        raise ValueError("output=- would be a file of that name; give another name, or ./-")
    if _is_standard(output):
        raise ValueError(f"output={output} is where this command says what it did; give the name of a file")
    if "store" in given:
        from facthold.lab.store import default_store_path

        check_not_store(output, given["store"] or default_store_path())
    if not output.exists():  # a text of the same letters is a name then, such as that of an answer
        return
    for name, value in given.items():
        for path in value if isinstance(value, list | tuple) else [value]:
            if name != "output" and isinstance(path, Path | str) and same_file(output, path):
                raise ValueError(f"output={output} is the input {path} itself, which would be lost; give another name")


def _is_standard(output: Path) -> bool:
    """Whether a file is what standard output goes to; where that goes nowhere, nothing is lost."""
    try:
        return os.path.samestat(output.stat(), os.fstat(1)) and not os.path.samefile(output, os.devnull)
    except OSError:
        return False


def in_options(message: str, parameters: Iterable[Any]) -> str:
    """The message with the options of a command for its arguments: 'd_h=0 must be ...' becomes '--d-h 0 must be ...'.

    An argument is a name before '=', one of several words such as max_params, or one after 'give' or 'another'. One
    that has no option is as the usage has it: 'text=a.txt' becomes 'TEXT a.txt'.
    """
    parameters = list(parameters)
    flags = {p.name: max(p.opts, key=len) for p in parameters if p.param_type_name == "option"}
    flags |= {name: flags[option] for name, option in ALIASES.items() if option in flags and name not in flags}

    places = {p.name: str(p.name).upper() for p in parameters if p.param_type_name == "argument"}

    def option(match: re.Match[str]) -> str:
        before, name, value = match["before"] or "", match["name"], match["value"]
        if value is not None:
            return f"{before}{(flags | places)[name]} {value.strip(chr(39)) or value}"
        if name in places:
            return match[0]
        return before + (flags[name] if before or ("_" in name and len(name) > 3) else name)

    names = "|".join(map(re.escape, flags | places))
    return re.sub(
        rf"(?P<before>another |give )?(?<![\w.-])(?P<name>{names})\b(?:=(?P<value>{VALUE}))?", option, message
    )


app = typer.Typer(
    name="facthold",
    cls=Commands,
    help="A laboratory for factual recall: how many facts fit in how many parameters, and which weights hold them.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
command = partial(app.command, cls=Command)  # makes a function a command of the program


def group(name: str, help: str) -> Callable[..., Any]:
    """A name for several commands: what makes a function one of them."""
    below = typer.Typer(name=name, cls=Group, help=help, add_completion=False, rich_markup_mode=None)
    app.add_typer(below)
    return partial(below.command, cls=Command)


@app.callback(invoke_without_command=True)
def _options(
    version: bool = typer.Option(False, "--version", help="Print the version and stop."),
    debug: bool = typer.Option(False, "--debug", help="Show the whole traceback of an error."),
) -> None:
    if version:
        typer.echo(f"facthold {__version__}")
        raise typer.Exit


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the program. Errors that a user can do something about are one line on standard error."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed by whoever started this
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115
    debug = "--debug" in arguments
    # --debug may stand anywhere
    arguments = (["--debug"] if debug else []) + ([a for a in arguments if a != "--debug"] or ["--help"])
    ending.listen()
    written.clear()
    try:
        _load(arguments)
        code = app(arguments, standalone_mode=False)
        heed()
        ending.listen(ending.done)
    except Exit as stop:
        code = stop.exit_code
    except (KeyboardInterrupt, Interrupted, Abort) as stop:
        ending.stop(stop)
    except TyperException as error:
        dashed = re.match(r"No such option: (-[^-]\S*)", words := error.format_message())
        way_out = f"; a name that begins with - comes last, after --: ... -- {dashed[1]}" if dashed else ""
        ending.fail(f"{words.rstrip('.') if way_out else words}{way_out}", BAD_INPUT)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        ending.leave(BROKEN)
    except Exception as error:
        if interrupted.is_set():  # a library made another error of it
            ending.stop(error)
        if debug:
            raise
        ending.fail(*ending.in_words(error))
    ending.leave(code if isinstance(code, int) else 0)


def _load(arguments: Sequence[str]) -> None:
    """Import the command that is asked for, and no other: a light one does not wait for the solvers of the rest."""
    name = _command(arguments)
    if name in COMMANDS:
        importlib.import_module(f"facthold.cli.{COMMANDS[name]}")
    elif name is not None and name not in {getattr(made.callback, "__name__", "") for made in app.registered_commands}:
        raise unknown("command", name, COMMANDS)


def _command(arguments: Sequence[str]) -> str | None:
    """The command that is asked for; None for the help and the version."""
    return next((argument for argument in arguments if not argument.startswith("-")), None)
