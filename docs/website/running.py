"""The code of tutorials is run, and what it prints stands below it."""

import ast
import contextlib
import io
import os
import re
import tempfile
from collections.abc import Iterator
from typing import Any

CODE = re.compile(r"```python\n(.*?)```", re.DOTALL)


def with_outputs(text: str) -> str:
    """A page with what its blocks of Python print, all in one session, in a folder that is then thrown away."""
    with elsewhere():
        names: dict[str, Any] = {"__name__": "__main__"}
        return CODE.sub(lambda block: block[0] + printed(block[1], names), text)


def printed(code: str, names: dict[str, Any]) -> str:
    """The output of a block, with the value of its last line, as a block of text; nothing where there is none."""
    body, out = ast.parse(code).body, io.StringIO()
    last = ast.Expression(body.pop().value) if body and isinstance(body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(out):
        exec(compile(ast.Module(body, []), "page", "exec"), names)
        value = None if last is None else eval(compile(last, "page", "eval"), names)
        if value is not None:
            print(value)
    return f"\n\n```text\n{out.getvalue().rstrip()}\n```" if out.getvalue().strip() else ""


@contextlib.contextmanager
def elsewhere() -> Iterator[None]:
    here = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(here)
