"""What is said on standard error while a command works."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape

messages = Console(stderr=True, highlight=False, soft_wrap=True)


@contextmanager
def working(what: str) -> Iterator[None]:
    """Say what is being done: a spinner on a terminal, one line elsewhere."""
    if messages.is_terminal:
        with messages.status(what):
            yield
    else:
        messages.print(what, markup=False)
        yield


EVERY = 10.0
"""Seconds between two lines about the same work, where there is no terminal."""


@contextmanager
def telling(what: str) -> Iterator[Callable[[str], None]]:
    """Say what is being done and how far it is: a spinner with a changing text on a terminal, a line now and then
    elsewhere."""
    if messages.is_terminal:
        with messages.status(what) as status:
            yield lambda news: status.update(f"{what}: {escape(news)}")
        return
    messages.print(what, markup=False)
    spoke, heard = -EVERY, ""  # the first news at once

    def say(news: str) -> None:
        nonlocal spoke, heard
        if news != heard and time.monotonic() - spoke > EVERY:
            messages.print(f"  {news}", markup=False)
            spoke, heard = time.monotonic(), news

    yield say
