"""Deliberate faults, one at a time: each is made in a copy of src, and claims and tests have to turn red there.

A claim turns red where its verdict was 'holds' or 'drifts' and is 'not decided' or 'fails', or was 'not decided' and
'fails'; an error is red too. A test turns red where it fails. Where healthy code fails, a fault shows nothing. A look
is a process of its own that imports facthold from the copy; the repository is never written to.
"""

import hashlib
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
SOURCE = ROOT / "src"
RESULTS = ROOT / "out" / "mutants.json"
ORDER = ("holds", "drifts", "not decided", "fails", "error")  # from the best verdict to the worst
GREEN = ("holds", "drifts", "passed")


@dataclass(frozen=True)
class Mutant:
    """A fault: in a file under src/facthold, ``old``, which stands there exactly once, becomes ``new``."""

    name: str
    file: str
    old: str
    new: str
    claims: tuple[str, ...] = ()  # that must turn red: 'id' at preset smoke, or 'id@preset'
    tests: tuple[str, ...] = ()  # that must turn red: 'folder/test_file.py::test_name', from tests/
    recipes: tuple[str, ...] = ()  # that it breaks
    stored: tuple[str, ...] = ()  # kinds of cells that it cannot reach: their rows are those of healthy code
    why: str = ""  # what it breaks, where the name does not say it

    def applied(self, source: Path = SOURCE) -> str:
        """The text of the file with the fault in it."""
        text = (source / "facthold" / self.file).read_text()
        if (n := text.count(self.old)) != 1:
            raise ValueError(f"mutant {self.name!r}: its old text stands {n} times in {self.file}, not once")
        if self.old == self.new:
            raise ValueError(f"mutant {self.name!r} changes nothing")
        return text.replace(self.old, self.new)


@dataclass(frozen=True)
class RowsMutant:
    """A fault in what was measured: the rows of a claim, changed before they are judged. For claims that take long."""

    name: str
    claim: str  # 'id@preset'
    change: str  # the name of a function in `rows`: from a row's values to others
    recipes: tuple[str, ...] = ()
    why: str = ""

    @property
    def claims(self) -> tuple[str, ...]:
        return (self.claim,)


AnyMutant = Mutant | RowsMutant


@contextmanager
def copied(mutant: Mutant | None = None) -> Iterator[Path]:
    """A copy of src with the fault in it; compiled files are copied too, as their times are."""
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        copy = Path(folder) / "src"
        shutil.copytree(SOURCE, copy)
        if mutant is not None:
            (copy / "facthold" / mutant.file).write_text(mutant.applied())
        yield copy


@contextmanager
def of_kinds(store: str, kinds: Sequence[str]) -> Iterator[str]:
    """A copy of the store with the rows of these kinds alone; none without kinds. If a fault does reach them it goes
    unseen, and the table of faults shows that."""
    if not (store and kinds):
        yield ""
        return
    with tempfile.TemporaryDirectory(prefix="rows-") as folder:
        path = Path(folder) / "rows.sqlite"
        shutil.copyfile(store, path)
        with closing(sqlite3.connect(path, isolation_level=None)) as db:
            db.execute(f"DELETE FROM results WHERE kind NOT IN ({', '.join('?' * len(kinds))})", tuple(kinds))
        yield str(path)


class Looker:
    """A process that looks, as `looking` has it. It is started when it is first used, and ends with this one."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[str] | None = None

    def __enter__(self) -> "Looker":
        return self

    def __exit__(self, *_: object) -> None:
        if self.process is not None and self.process.stdin is not None:
            self.process.stdin.close()
            self.process.wait()

    def look(
        self, source: Path, claims: Sequence[str], tests: Sequence[str], change: str = "", store: str = ""
    ) -> dict[str, str]:
        """The verdict of each claim and the outcome of each test, with facthold from this folder."""
        if self.process is None:
            environment = {n: v for n, v in os.environ.items() if not n.startswith(("PYTEST", "FACTHOLD_STORE"))}
            pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
            command = [sys.executable, str(HERE / "looking.py")]
            self.process = subprocess.Popen(command, cwd=ROOT, env=environment, text=True, **pipes)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with tempfile.TemporaryDirectory(prefix="look-") as folder:
            answer = Path(folder) / "answer.json"
            kept = store or str(Path(folder) / "store.sqlite")
            request = {"source": str(source), "claims": list(claims), "tests": list(tests), "change": change}
            print(json.dumps(request | {"store": kept, "answer": str(answer)}), file=self.process.stdin, flush=True)
            if self.process.stdout.readline() != "done\n":
                raise RuntimeError("the process that looks has ended")
            # without an answer facthold could not even be imported, or died
            return json.loads(answer.read_text()) if answer.exists() else dict.fromkeys((*claims, *tests), "error")


@dataclass(frozen=True)
class Outcome:
    """What one mutant did."""

    name: str
    healthy: dict[str, str]
    broken: dict[str, str]

    @property
    def red(self) -> list[str]:
        """The claims and tests that see it."""
        return [n for n, was in self.healthy.items() if n in self.broken and _worse(was, self.broken[n])]

    @property
    def missed(self) -> list[str]:
        """Those that should and do not, or that are not green without a fault."""
        return [name for name in self.broken if name not in self.red]


def _worse(was: str, now: str) -> bool:
    if was not in ORDER:  # of a test
        return was == "passed" and now != "passed"
    return was not in ("fails", "error") and now not in GREEN and ORDER.index(now) > ORDER.index(was)


class Results:
    """What was seen, by mutant and source: a run that was stopped goes on."""

    def __init__(self, path: Path | None = RESULTS) -> None:
        self.path, self.lock = path, Lock()
        self.kept: dict[str, Any] = json.loads(path.read_text()) if path is not None and path.exists() else {}

    def get(self, key: str) -> Any:
        return self.kept.get(key)

    def keep(self, key: str, value: Any) -> None:
        with self.lock:
            self.kept[key] = value
            if self.path is not None:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                part = self.path.with_suffix(".part")
                part.write_text(json.dumps(self.kept, indent=1, sort_keys=True))
                part.replace(self.path)


@cache
def _source() -> str:
    return _digest(sorted((SOURCE / "facthold").rglob("*.py")))


def fingerprint(name: str) -> str:
    """Of all that a claim or a test depends on: the sources, and for a test its file and what tests share."""
    if ".py" not in name:
        return _source()
    file = ROOT / "tests" / name.partition("::")[0]
    shared = (path for path in (ROOT / "tests").glob("*.py") if not path.name.startswith("test_"))
    return _digest([file, *sorted(shared)], _source())


def _digest(paths: Iterable[Path], start: str = "") -> str:
    digest = hashlib.sha256(start.encode())
    for path in paths:
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:12]


Only = Callable[[str], bool]  # which claims and tests are looked at
LIGHT: Only = lambda name: "@" not in name  # noqa: E731  no claims at presets that take long


def names_of(mutant: AnyMutant, only: Only = bool) -> list[str]:
    """The claims and tests that should see it."""
    return [name for name in (*mutant.claims, *(mutant.tests if isinstance(mutant, Mutant) else ())) if only(name)]


def healthy(names: Sequence[str], results: Results, looker: Looker | None, store: str = "") -> dict[str, str]:
    """What is seen without a fault."""
    return _seen("healthy", None, names, results, looker, "", store)


def run(mutant: AnyMutant, results: Results, looker: Looker | None, store: str = "", only: Only = bool) -> Outcome:
    """The mutant beside healthy code; both from what is kept, where it is of this source. Without a looker what is not
    kept is left out."""
    names = names_of(mutant, only)
    fault = (
        (mutant.file, mutant.old, mutant.new)
        if isinstance(mutant, Mutant)
        else (mutant.change, _digest([HERE / "rows.py"]))
    )
    own = hashlib.sha256(json.dumps(fault).encode()).hexdigest()[:12]
    if isinstance(mutant, Mutant):
        before = healthy(names, results, looker, store)
        with of_kinds(store, mutant.stored) as rows:
            broken = _seen(own, mutant, names, results, looker, store=rows)
    else:  # rows are those of the store
        before = healthy(names, results, looker, store)
        broken = _seen(own, None, names, results, looker, mutant.change, store)
        if "error" in broken.values():  # a judge that breaks down on such rows has not judged them
            raise ValueError(f"mutant {mutant.name!r}: its rows could not be judged")
    return Outcome(mutant.name, before, broken)


def _seen(
    of: str, fault: Mutant | None, names: Sequence[str], results: Results, looker: Looker | None, change: str = "",
    store: str = "",
) -> dict[str, str]:  # fmt: skip
    keys = {name: f"{of}/{name}/{fingerprint(name)}" for name in names}
    lacking = [name for name, key in keys.items() if results.get(key) is None]
    if lacking and looker is not None:
        with copied(fault) as source:
            for name, word in looker.look(source, *_sorted(lacking), change=change, store=store).items():
                results.keep(keys[name], word)
    return {name: word for name, key in keys.items() if (word := results.get(key)) is not None}


def _sorted(names: Iterable[str]) -> tuple[list[str], list[str]]:
    """Claims, then tests."""
    names = list(names)
    return [n for n in names if ".py" not in n], [n for n in names if ".py" in n]
