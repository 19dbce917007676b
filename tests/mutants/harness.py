"""Deliberate faults, one at a time: each is made in a copy of src, and claims and tests have to turn red there.

A claim turns red where its verdict is worse than that of the healthy code, and 'not decided' or 'fails'; an error is red
too. A test turns red where it fails. Healthy code has to be green at the same claim and test, else a fault shows
nothing. Each look is a process of its own that imports facthold from the copy; the repository is never written to.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
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


def look(source: Path, claims: Sequence[str], tests: Sequence[str], change: str = "", store: str = "") -> dict[str, str]:
    """The verdict of each claim and the outcome of each test, with facthold from this folder."""
    seen: dict[str, str] = {}
    # apart: pytest checks shapes in what it imports, and must be the first to import it
    for kind, names in (("claims", claims), ("tests", tests)):
        if not names:
            continue
        with tempfile.TemporaryDirectory(prefix="look-") as folder:
            answer = Path(folder) / "answer.json"
            asked = json.dumps({"kind": kind, "names": list(names), "change": change, "store": store or f"{folder}/s.sqlite"})
            environment = os.environ | {"PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1"}
            for name in ("PYTEST_XDIST_WORKER", "PYTEST_CURRENT_TEST", "PYTEST_ADDOPTS", "FACTHOLD_STORE"):
                environment.pop(name, None)
            command = [sys.executable, str(HERE / "looking.py"), asked, str(answer)]
            done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
            if answer.exists():
                seen |= json.loads(answer.read_text())
            else:  # facthold could not even be imported
                seen |= dict.fromkeys(names, "error")
                if not _complains(done.stderr):
                    raise RuntimeError(f"{command}: {done.stderr[-2000:]}")
    return seen


def _complains(stderr: str) -> bool:
    return "Error" in stderr or "Exception" in stderr


@dataclass(frozen=True)
class Outcome:
    """What one mutant did."""

    name: str
    healthy: dict[str, str]
    broken: dict[str, str]

    @property
    def red(self) -> list[str]:
        """The claims and tests that see it."""
        return [n for n, was in self.healthy.items() if was in GREEN and _worse(was, self.broken.get(n, "error"))]

    @property
    def missed(self) -> list[str]:
        """Those that should and do not, or that are not green without a fault."""
        return [name for name in self.healthy if name not in self.red]


def _worse(was: str, now: str) -> bool:
    if was == "passed":
        return now != "passed"
    return now not in GREEN and ORDER.index(now) > ORDER.index(was)


class Results:
    """What was seen, by mutant and source: a run that was stopped goes on."""

    def __init__(self, path: Path | None = RESULTS) -> None:
        self.path = path
        self.kept: dict[str, Any] = json.loads(path.read_text()) if path is not None and path.exists() else {}

    def get(self, key: str) -> Any:
        return self.kept.get(key)

    def keep(self, key: str, value: Any) -> None:
        self.kept[key] = value
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            part = self.path.with_suffix(".part")
            part.write_text(json.dumps(self.kept, indent=1, sort_keys=True))
            part.replace(self.path)


def fingerprint() -> str:
    """Of all sources and tests."""
    digest = hashlib.sha256()
    for folder in (SOURCE / "facthold", ROOT / "tests"):
        for path in sorted(folder.rglob("*.py")):
            if HERE not in path.parents:
                digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def run(mutant: AnyMutant, results: Results, of: str, store: str = "") -> Outcome:
    """The mutant beside healthy code; both from what is kept, where it is of this source."""
    tests = mutant.tests if isinstance(mutant, Mutant) else ()
    own = hashlib.sha256(json.dumps(asdict(mutant), sort_keys=True).encode()).hexdigest()[:12]
    kept = store if isinstance(mutant, RowsMutant) else ""
    healthy = {name: results.get(f"{of}/healthy/{name}") for name in (*mutant.claims, *tests)}
    if lacking := [name for name, word in healthy.items() if word is None]:
        with copied() as source:
            for name, word in look(source, *_sorted(lacking), store=kept).items():
                healthy[name] = word
                results.keep(f"{of}/healthy/{name}", word)
    broken = results.get(f"{of}/{mutant.name}/{own}")
    if broken is None:
        with copied(mutant if isinstance(mutant, Mutant) else None) as source:
            change = mutant.change if isinstance(mutant, RowsMutant) else ""
            broken = look(source, *_sorted(healthy), change=change, store=kept)
        results.keep(f"{of}/{mutant.name}/{own}", broken)
    return Outcome(mutant.name, healthy, broken)


def _sorted(names: Iterable[str]) -> tuple[list[str], list[str]]:
    """Claims, then tests."""
    names = list(names)
    return [n for n in names if ".py" not in n], [n for n in names if ".py" in n]
