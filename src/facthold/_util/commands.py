"""Words for what commands print: other commands, which can be pasted into a shell as they are, shares and times."""

import math
import shlex
from typing import Any

DIGITS = 4  # of a share that a message offers


def command(name: str, *arguments: Any, **options: Any) -> str:
    """``command("figure", "fig1", store="my results.sqlite", plot_only=True)`` is
    "facthold figure fig1 --store 'my results.sqlite' --plot-only". What is None or False was not given."""
    words = ["facthold", name, *map(str, arguments)]
    for option, value in options.items():
        if value is not None and value is not False:
            words.append(f"-{option}" if len(option) == 1 else f"--{option.replace('_', '-')}")
            words += [] if value is True else [f"{value:g}" if isinstance(value, float) else str(value)]
    return shlex.join(words)


def count(n: int | str, what: str) -> str:
    """'1 cell', '2 cells'. A number may come as it is written: '1,024'."""
    return f"{n} {what}" + ("" if str(n) == "1" else "s")


def offered(share: float) -> float:
    """A share as a message names it, never rounded up: whoever asks for it gets it."""
    return math.floor(share * 10**DIGITS) / 10**DIGITS


def duration(seconds: float) -> str:
    """'8.4 s', '12 min 5 s', '3 h 20 min', '12 d 7 h', '4e+03 years'."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, days = minutes // 60, minutes // (60 * 24)
    if hours < 48:
        return f"{hours} h {minutes % 60} min"
    return f"{days} d {hours % 24} h" if days < 2 * 365 else f"{days / 365.25:.2g} years"
