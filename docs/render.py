"""Write docs/findings.md from the results that are stored beside it: `make findings`.

All that the page quotes is judged and fitted here, by the code as it is, from the rows of `docs/results.sqlite`. What
is not stored is computed first (hours from nothing; goes on where it was stopped), and rows that no figure and no claim
asks for any more are dropped. ``--check`` computes and writes nothing: exit code 1 where the page is not what the
results say.
"""

import argparse
import re
import sqlite3
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import jinja2

from facthold.lab import api, registry
from facthold.lab.claim import MEANINGS, Judged
from facthold.lab.store import Store
from facthold.measure.scaling import Fit

DOCS = Path(__file__).resolve().parent
RESULTS, PAGE, TEMPLATES = DOCS / "results.sqlite", DOCS / "findings.md", DOCS / "templates"
PRESET = "quick"
QUOTED = tuple(re.findall(r"^QUOTED := (.*)$", (DOCS.parent / "Makefile").read_text(), re.MULTILINE)[0].split())
NUMBER = r"(-?\d[\d,]*(?:\.\d+)?(?:e-?\d+)?%?)"


class Findings:
    """What a template may ask for. A name that is not there, or a number that is not said, is an error."""

    def __init__(self, store: Path) -> None:
        self._store = store
        self._claims = {judged.id: judged for judged in api.verify(preset=PRESET, store=store, compute=False)}
        self._figures: dict[str, api.Drawn] = {}

    def claim(self, id: str) -> Judged:
        judged = self._claims[id]
        if judged.verdict == "not run":
            raise SystemExit(f"some cells of {id} are not in {self._store.name}: run make findings")
        return judged

    def figure(self, name: str) -> api.Drawn:
        if name not in self._figures:
            drawn = api.run_figure(name, PRESET, store=self._store, compute=False)
            if drawn.missing:
                raise SystemExit(f"{drawn.missing} cells of {name} are not in {self._store.name}: run make findings")
            self._figures[name] = drawn
        return self._figures[name]

    def number(self, id: str, words: str) -> str:
        """The number after these words in what was measured: ``number("mlp-growth", "exponent")``."""
        measured = self.claim(id).measured or ""
        found = re.search(re.escape(words) + r"\s*" + NUMBER, measured)
        if not found:
            raise SystemExit(f"{id} does not say {words!r}: {measured}")
        return found[1]

    def note(self, name: str, words: str) -> str:
        """The number after these words in the notes of a figure."""
        notes = " | ".join(self.figure(name).notes)
        found = re.search(re.escape(words) + r"\s*" + NUMBER, notes)
        if not found:
            raise SystemExit(f"{name} does not say {words!r}: {notes}")
        return found[1]

    def fit(self, name: str, words: str) -> Fit:
        """The fit of a figure by its name."""
        fits = {fit.name: fit for fit in self.figure(name).fits}
        if words not in fits:
            raise SystemExit(f"{name} has no fit {words!r}, but {', '.join(fits)}")
        return fits[words]

    def ledger(self, *ids: str) -> str:
        """A table of claims: verdict, what was measured, and how sure it is."""
        rows = [(f"`{c.id}`", c.verdict, _cell(c.measured), _cell(c.error)) for c in map(self.claim, ids)]
        lines = [("claim", "verdict", "measured", "interval"), ("---",) * 4, *rows]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)

    def notes(self, name: str, *starts: str) -> str:
        """What a figure says in words, as a list: all of it, or the lines that start so."""
        lines = [line for line in self.figure(name).notes if not starts or line.startswith(starts)]
        if not lines:
            raise SystemExit(f"{name} has no notes that start with {starts}")
        return "\n".join(f"- {line[0].upper()}{line[1:]}." for line in lines)

    def verdicts(self) -> str:
        """How many claims there are of each verdict."""
        found = [self.claim(id).verdict for id in self._claims]
        return ", ".join(f"{found.count(verdict)} {verdict}" for verdict in MEANINGS if verdict in found)

    def seconds(self) -> float:
        """Of all cells of all claims, added up: as if one after another on one core of two."""
        keys = {cell.key for cell in _cells(figures=False)}
        with Store(self._store, create=False) as store:
            return sum(row.provenance.seconds for row in store.rows(keys=list(keys)))

    def commits(self) -> str:
        """The commits that computed the rows."""
        with Store(self._store, create=False) as store:
            return ", ".join(sorted({(row.provenance.commit or "none")[:7] for row in store.rows()}))


def _cell(text: str | None) -> str:
    return (text or "").replace("|", "\\|")


def _cells(*, figures: bool = True) -> Iterator:
    for claim in registry.claims().values():
        yield from claim.cells(PRESET)
    for name in QUOTED if figures else ():
        yield from registry.figure(name).cells(registry.figure(name).grid(PRESET))


def render(store: Path = RESULTS) -> str:
    """The page as text."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES), undefined=jinja2.StrictUndefined, keep_trailing_newline=True,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    findings = Findings(store)
    names = {name: getattr(findings, name) for name in dir(findings) if not name.startswith("_")}
    return environment.get_template("findings.md").render(**names)


def prune(path: Path) -> int:
    """Drop rows that nothing asks for, and the notes of past runs."""
    wanted = {cell.key for cell in _cells()}
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        stored = {key for (key,) in db.execute("SELECT key FROM results")}
        db.executemany("DELETE FROM results WHERE key = ?", [(key,) for key in stored - wanted])
        for (table,) in db.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name != 'results'"
        ).fetchall():
            db.execute(f"DROP TABLE {table}")
        db.execute("VACUUM")
    return len(stored - wanted)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compute and write nothing")
    given = parser.parse_args(arguments)
    text = render()
    if given.check:
        same = PAGE.exists() and PAGE.read_text() == text
        print("docs/findings.md says what the results say" if same else "docs/findings.md is not: run make findings")
        return int(not same)
    print(f"rows dropped: {prune(RESULTS)}")
    PAGE.write_text(text)
    print(f"written: {PAGE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
