"""The `facthold` program: its commands, and the one place where an error becomes a line and an exit code."""

import importlib
import os
import signal
import sys
import threading
from collections.abc import Sequence
from typing import NoReturn

import typer
from typer.exceptions import Abort, Exit, TyperException

from facthold import __version__
from facthold._util.errors import FactholdError
from facthold.cli.basics import interrupted

INTERRUPTED, BAD_INPUT, BROKEN = 130, 2, 1
COMMANDS = {
    "facts": "facts", "build": "build", "ask": "ask", "edit": "edit", "add": "edit", "forget": "edit",
    "locate": "locate", "watch": "watch", "plan": "plan", "bits": "bits", "bench": "bench", "construct": "construct",
    "figure": "figure", "reproduce": "figure",
    "list": "inspect", "results": "inspect", "memory": "memory", "capacity": "memory", "sweep": "sweep",
    "transformer": "transformer", "fact-capacity": "transformer", "verify": "verify",
}  # fmt: skip
"""The module of this package that makes each command, in the order in which the help lists them."""
WITHOUT_CELLS = {"facts", "build", "bits", "ask", "edit", "locate", "watch", "plan"}
"""Modules whose commands keep no results: there is nothing to say about them after Ctrl-C."""

app = typer.Typer(
    name="facthold",
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
        nothing = _modules(arguments) <= WITHOUT_CELLS and "--calibrate" not in arguments
        _fail("interrupted" + ("" if nothing else kept), INTERRUPTED)
    _leave(code)


def _load(arguments: Sequence[str]) -> None:
    """Import the commands that these arguments need.

    One command is one module, so that a light command does not wait for the figures, the sweep and the solvers.
    """
    wanted = _modules(arguments)
    for module in dict.fromkeys(COMMANDS.values()):
        if module in wanted:
            importlib.import_module(f"facthold.cli.{module}")


def _modules(arguments: Sequence[str]) -> set[str]:
    """The module of the command that is asked for. The help and a misspelt command need the names of all of them."""
    command = next((argument for argument in arguments if not argument.startswith("-")), None)
    if command is None and "--version" in arguments:
        return set()
    return {COMMANDS[command]} if command in COMMANDS else set(COMMANDS.values())


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
