"""The `facthold` program: its commands, and the one place where an error becomes a line and an exit code."""

import errno
import importlib
import os
import re
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup
from typer.exceptions import Abort, Exit, TyperException

from facthold import __version__
from facthold._util.errors import FactholdError, FactholdWarning, check_number, printable, shorten, unknown
from facthold._util.files import abandon, check_not_store, same_file, written
from facthold.cli.options import FOLDER

BAD_INPUT, BROKEN = 2, 1
STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # exit codes 130, 143 and 129, as shells have them
AGAIN = 0.02  # seconds after which a signal is sent again
LONGEST_IMPORT = 10.0  # seconds after which an import is interrupted too: it may be a script that runs all of it
SECTIONS = {
    "Know your facts": {
        "facts": ("facts", "real facts from installed packages, as a file"),
        "build": ("facts", "the smallest model found that knows a file of facts"),
        "ask": ("ask", "ask a model for a fact, or for a file of them"),
        "edit": ("edit", "change, add or forget a fact in a model, without training"),
        "locate": ("ask", "which heads and neurons hold a fact"),
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


class Stop(threading.Event):
    """Set by Ctrl-C, and by the other signals that ask a process to end."""

    number: int = signal.SIGINT
    waited: float = 0.0  # seconds for imports

    def hear(self, number: int, frame: FrameType | None = None) -> None:
        self.number = number
        self.set()
        if self.waited < LONGEST_IMPORT and imports(frame):
            self.waited += AGAIN
            self.again()
        else:
            raise KeyboardInterrupt

    def lost(self, unraisable: Any) -> None:
        """The KeyboardInterrupt met a line from which none can be raised, such as a callback of the garbage collector:
        send the signal once more."""
        if self.is_set() and unraisable.exc_type is KeyboardInterrupt:
            self.again()
        else:
            sys.__unraisablehook__(unraisable)

    def again(self) -> None:
        """Send the signal once more, a moment later."""
        timer = threading.Timer(AGAIN, os.kill, (os.getpid(), self.number))
        timer.daemon = True
        timer.start()


def imports(frame: FrameType | None) -> bool:
    """Whether a module is being imported below this frame: native ones abort the process on an exception there."""
    while frame is not None and not frame.f_code.co_filename.startswith("<frozen importlib"):
        frame = frame.f_back
    return frame is not None


interrupted = Stop()


def heed() -> None:
    """Stop after Ctrl-C: a KeyboardInterrupt can get lost, if it meets the wrong line of a library."""
    if interrupted.is_set():
        raise KeyboardInterrupt


class Interrupted(BaseException):
    """A KeyboardInterrupt on its way through Typer, which would make an exit code of it and lose its notes."""


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
    _listen()
    written.clear()
    try:
        _load(arguments)
        code = app(arguments, standalone_mode=False)
        heed()
        _listen(_done)
    except Exit as stop:
        code = stop.exit_code
    except (KeyboardInterrupt, Interrupted, Abort) as stop:
        _stop(stop)
    except TyperException as error:
        _fail(error.format_message(), BAD_INPUT)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        _leave(BROKEN)
    except Exception as error:
        if interrupted.is_set():  # a library made another error of it
            _stop(error)
        if debug:
            raise
        _fail(*_in_words(error))
    _leave(code if isinstance(code, int) else 0)


def _listen(to: Callable[..., None] | signal.Handlers = interrupted.hear) -> None:
    """End in the same way whichever signal asks for it. One that this process was told to ignore (nohup) stays so."""
    if threading.current_thread() is threading.main_thread():
        for number in STOPS:
            if number == signal.SIGINT or signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, to)
        sys.unraisablehook = interrupted.lost


def _done(*signal: object) -> None:
    """A signal to a command that has done its work has nothing left to stop."""


def _stop(error: BaseException) -> NoReturn:
    """Say that the command was stopped, and what is left of it: as it says itself, by notes to the KeyboardInterrupt
    (of which a library may have made an error of its own), or as its files say."""
    _listen(signal.SIG_IGN)  # a second Ctrl-C has nothing left to stop
    while not hasattr(error, "__notes__") and (before := error.__cause__ or error.__context__) is not None:
        error = before
    _fail("; ".join(["interrupted", *getattr(error, "__notes__", [_left()])]), 128 + interrupted.number)


def _left() -> str:
    there = [path for path in dict.fromkeys(written) if path.exists()]
    if files := [str(path) for path in there if not path.name.startswith(".")]:
        return f"written before that: {', '.join(files)}"
    if there:
        return f"what was tried is kept in {there[0]}, and the same command goes on after it"
    return "no file was written"


def _in_words(error: Exception) -> tuple[str, int]:
    """What to print of an error, and the exit code."""
    if isinstance(error, FactholdError | ValueError):
        return str(error), BAD_INPUT
    if isinstance(error, MemoryError):
        return f"out of memory ({error}); take smaller sizes", BROKEN
    if isinstance(error, OSError) and error.errno in (errno.ENAMETOOLONG, errno.ELOOP):
        return f"{shorten(str(error.filename))}: {error.strerror}; give another name", BAD_INPUT
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EFBIG):
        return f"cannot write what it has to say: {error.strerror}", BAD_INPUT
    return f"{type(error).__name__}: {error} (this is a defect; run again with --debug for where)", BROKEN


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


def _fail(message: str, code: int) -> NoReturn:
    print("facthold:", printable(" ".join(message.split())), file=sys.stderr)
    _leave(code)


def _leave(code: int) -> NoReturn:
    """Leave at once: lanes may still be inside a compiled loop, and nothing of theirs is worth waiting for."""
    _listen(_done)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, AttributeError):  # a disk that is full, or a stream that was closed before (>&-)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1 if stream is sys.stdout else 2)
            code = code or BAD_INPUT
    if code == 0:
        sys.exit(0)
    abandon()
    os._exit(code)
