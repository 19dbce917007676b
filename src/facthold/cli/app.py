"""The `facthold` program: its commands, and the one place where an error becomes a line and an exit code."""

import importlib
import os
import signal
import sys
import threading
from collections.abc import Sequence
from typing import Any, NoReturn

import typer
from typer.core import TyperGroup
from typer.exceptions import Abort, Exit, TyperException

from facthold import __version__
from facthold._util.errors import FactholdError, unknown
from facthold.cli.basics import interrupted

INTERRUPTED, BAD_INPUT, BROKEN = 130, 2, 1
SECTIONS = {
    "Know your facts": {
        "facts": ("facts", "real facts from installed packages, as a file"),
        "build": ("build", "the smallest model found that knows a file of facts"),
        "ask": ("ask", "ask a model for a fact, or for a file of them"),
        "edit": ("edit", "change, add or forget a fact in a model, without training"),
        "locate": ("locate", "which heads and neurons hold a fact"),
        "watch": ("watch", "watch facts being learnt, live in the terminal"),
    },
    "Check the paper": {
        "figure": ("figure", "compute and draw one figure"),
        "verify": ("verify", "check claims: predicted, measured, verdict"),
        "reproduce": ("figure", "figures, claims and one report page"),
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
        "status": ("status", "how a long run in another terminal is going"),
        "bench": ("bench", "how fast this machine trains"),
    },
}
"""The commands by what a person wants to do: the module of this package that makes each, and what it is for."""
COMMANDS = {name: module for section in SECTIONS.values() for name, (module, _) in section.items()}
WITHOUT_CELLS = {"facts", "build", "bits", "ask", "edit", "locate", "watch", "plan", "make"}
"""Modules whose commands keep no results: there is nothing to say about them after Ctrl-C."""


class Commands(TyperGroup):
    """The help lists all commands and loads none: most of them need JAX, which takes seconds to import."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        for section, commands in SECTIONS.items():
            with formatter.section(section):
                formatter.write_dl([(name, outline) for name, (_, outline) in commands.items()])


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
    debug = "--debug" in arguments
    # --debug may stand anywhere
    arguments = (["--debug"] if debug else []) + ([a for a in arguments if a != "--debug"] or ["--help"])
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, _interrupt)
    try:
        _load(arguments)
        code = app(arguments, standalone_mode=False)
        code = INTERRUPTED if interrupted.is_set() else code if isinstance(code, int) else 0
    except Exit as stop:
        code = stop.exit_code
    except (KeyboardInterrupt, Abort):
        code = INTERRUPTED
    except TyperException as error:
        _fail(error.format_message(), BAD_INPUT)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        _leave(BROKEN)
    except (FactholdError, ValueError) as error:
        if debug:
            raise
        _fail(str(error), BAD_INPUT)
    except MemoryError as error:
        if debug:
            raise
        _fail(f"out of memory ({error}); take smaller sizes", BROKEN)
    except Exception as error:
        if debug:
            raise
        _fail(f"{type(error).__name__}: {error} (this is a defect; run again with --debug for where)", BROKEN)
    if code == INTERRUPTED:
        kept = "; cells that were finished are stored, and the same command goes on after them"
        nothing = COMMANDS.get(_command(arguments) or "") in WITHOUT_CELLS and "--calibrate" not in arguments
        _fail("interrupted" + ("" if nothing else kept), INTERRUPTED)
    _leave(code)


def _load(arguments: Sequence[str]) -> None:
    """Import the command that is asked for, and no other: a light one does not wait for the solvers of the rest."""
    command = _command(arguments)
    if command is not None:
        if command not in COMMANDS:
            raise unknown("command", command, COMMANDS)
        importlib.import_module(f"facthold.cli.{COMMANDS[command]}")


def _command(arguments: Sequence[str]) -> str | None:
    """The command that is asked for; None for the help and the version."""
    return next((argument for argument in arguments if not argument.startswith("-")), None)


def _interrupt(*_: object) -> None:
    interrupted.set()
    raise KeyboardInterrupt


def _fail(message: str, code: int) -> NoReturn:
    first_line = " ".join(message.split())
    print(f"facthold: {first_line}", file=sys.stderr)
    _leave(code)


def _leave(code: int) -> NoReturn:
    """Leave at once: lanes may still be inside a compiled loop, and nothing of theirs is worth waiting for."""
    sys.stdout.flush()
    sys.stderr.flush()
    if code == 0:
        sys.exit(0)
    os._exit(code)
