"""Commands that the program prints as hints: they can be pasted into a shell as they are."""

import shlex
from typing import Any


def command(name: str, *arguments: Any, **options: Any) -> str:
    """``command("figure", "fig1", store="my results.sqlite", plot_only=True)`` is
    "facthold figure fig1 --store 'my results.sqlite' --plot-only". What is None or False was not given."""
    words = ["facthold", name, *map(str, arguments)]
    for option, value in options.items():
        if value is not None and value is not False:
            words.append(f"-{option}" if len(option) == 1 else f"--{option.replace('_', '-')}")
            words += [] if value is True else [f"{value:g}" if isinstance(value, float) else str(value)]
    return shlex.join(words)
