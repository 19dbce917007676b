"""How the program ends: the one place where a signal or an error becomes a line and an exit code."""

import errno
import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, NoReturn

from facthold._util.errors import FactholdError, printable, shorten
from facthold._util.files import abandon, written

BAD_INPUT, BROKEN = 2, 1
STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # exit codes 130, 143 and 129, as shells have them
AGAIN = 0.02  # seconds after which a signal is sent again
LONGEST_IMPORT = 10.0  # seconds after which an import is interrupted too: it may be a script that runs all of it


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


def listen(to: Callable[..., None] | signal.Handlers = interrupted.hear) -> None:
    """End in the same way whichever signal asks for it. One that this process was told to ignore (nohup) stays so."""
    if threading.current_thread() is threading.main_thread():
        for number in STOPS:
            if number == signal.SIGINT or signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, to)
        sys.unraisablehook = interrupted.lost


def done(*signal: object) -> None:
    """A signal to a command that has done its work has nothing left to stop."""


def stop(error: BaseException) -> NoReturn:
    """Say that the command was stopped, and what is left of it: as it says itself, by notes to the KeyboardInterrupt
    (of which a library may have made an error of its own), or as its files say."""
    listen(signal.SIG_IGN)  # a second Ctrl-C has nothing left to stop
    while not hasattr(error, "__notes__") and (before := error.__cause__ or error.__context__) is not None:
        error = before
    fail("; ".join(["interrupted", *getattr(error, "__notes__", [left()])]), 128 + interrupted.number)


def left() -> str:
    there = [path for path in dict.fromkeys(written) if path.exists()]
    if files := [str(path) for path in there if not path.name.startswith(".")]:
        return f"written before that: {', '.join(files)}"
    if there:
        return f"what was tried is kept in {there[0]}, and the same command goes on after it"
    return "no file was written"


def in_words(error: Exception) -> tuple[str, int]:
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


def fail(message: str, code: int) -> NoReturn:
    print("facthold:", printable(" ".join(message.split())), file=sys.stderr)
    leave(code)


def leave(code: int) -> NoReturn:
    """Leave at once: lanes may still be inside a compiled loop, and nothing of theirs is worth waiting for."""
    listen(done)
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
