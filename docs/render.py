"""Write docs/results.json and, from it, docs/findings.md: `make findings`.

What a claim or a quoted figure says is kept as text, with a digest of the cells that it is of, and is all that the page
reads. Of a figure there is also a digest of the code that finds its words. Where cells or words are other than those of
the last time, they are computed first, into a store in out/ (it goes on where it was stopped; ``--all``: everything,
hours from nothing). What the store holds is judged and fitted by
the code as it is; of what it lacks, the text stays. ``--check`` reads and writes nothing else: exit code 1 where the
page is not what the results say, or a figure says its notes in another way.
"""

import argparse
import hashlib
import inspect
import json
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2

from facthold._util.errors import FactholdError
from facthold.lab import api, registry
from facthold.lab.cells import Cell
from facthold.lab.claim import MEANINGS

DOCS = Path(__file__).resolve().parent
RESULTS, PAGE, TEMPLATES = DOCS / "results.json", DOCS / "findings.md", DOCS / "templates"
STORE = DOCS.parent / "out" / "findings.sqlite"
PRESET = "quick"
NOT_YET = "not measured yet"
QUOTED = tuple(re.findall(r"^QUOTED := (.*)$", (DOCS.parent / "Makefile").read_text(), re.MULTILINE)[0].split())

Said = Mapping[str, Any]


def digest(cells: Sequence[Cell]) -> str:
    """Of the keys of these cells: another one where a cell is another."""
    return hashlib.sha256(" ".join(sorted(cell.key for cell in cells)).encode()).hexdigest()[:12]


def digests() -> dict[str, str]:
    """Of every claim and every quoted figure, as the code has them."""
    found = {f"claim {id}": digest(claim.cells(PRESET)) for id, claim in registry.claims().items()}
    figures = [registry.figure(name) for name in QUOTED]
    return found | {f"figure {f.name}": digest(f.cells(f.grid(PRESET))) for f in figures}


def wordings() -> dict[str, str]:
    """Of every quoted figure: a digest of the code that says and fits. Its notes may be others where it is another."""
    found = {}
    for name in QUOTED:
        sources: dict[str, str] = {}
        for function in (registry.figure(name).says, registry.figure(name).fits):
            _gather(function, sources)
        found[name] = hashlib.sha256("".join(sources[key] for key in sorted(sources)).encode()).hexdigest()[:12]
    return found


def _gather(function: Any, sources: dict[str, str]) -> None:
    """The source of a function of the studies, and of all of theirs that it calls; and the constants that it names."""
    key = f"{function.__module__}.{function.__qualname__}"
    if key in sources or not function.__module__.startswith("facthold.studies"):
        return
    sources[key] = inspect.getsource(function)
    codes = [function.__code__]
    for code in codes:  # with those of its comprehensions
        codes += [inner for inner in code.co_consts if inspect.iscode(inner)]
        for word in code.co_names:
            value = function.__globals__.get(word)
            if inspect.isfunction(value):
                _gather(value, sources)
            elif isinstance(value, str | int | float | tuple | dict) and " at 0x" not in repr(value):
                sources[f"{function.__module__}.{word}"] = f"{word} = {value!r}"


def outdated(results: Said) -> tuple[list[str], list[str]]:
    """The claims and the quoted figures of which the results say nothing, or something of other cells or words."""
    now, then = digests(), results["cells"]
    same = {name for name, cells in now.items() if then.get(name) == cells}
    claims = [
        id for id, claim in registry.claims().items()
        if f"claim {id}" not in same
        or any(results["claims"][id][word] != getattr(claim, word) for word in ("statement", "place", "changed"))
    ]  # fmt: skip
    words, said = wordings(), results["words"]
    return claims, [name for name in QUOTED if f"figure {name}" not in same or words[name] != said.get(name)]


def compute(claims: Sequence[str], figures: Sequence[str], store: Path) -> None:
    """What the store lacks of these, by the commands that a reader would take."""
    store.parent.mkdir(exist_ok=True)
    commands = [["figure", name, "--output", str(store.parent / "findings")] for name in figures]
    commands += [["verify", *claims]] if claims else []
    for command in commands:
        done = subprocess.run([sys.executable, "-m", "facthold", *command, "--preset", PRESET, "--store", str(store)])
        if done.returncode not in (0, 1, 3):  # a claim that fails, or is not decided, was measured
            raise SystemExit(done.returncode)


def collect(store: Path, before: Said) -> dict[str, Any]:
    """What the stored rows say, by the judges and the fits as they are; and what was said before of all others."""
    claims, figures, drawn = dict(before["claims"]), dict(before["figures"]), dict[str, Said]()
    if store.exists():
        judged = api.verify(preset=PRESET, store=store, compute=False)
        claims |= {one.id: dict(one.as_json()) for one in judged if one.verdict != "not run"}
        drawn = {name: said for name in QUOTED if (said := _drawn(name, store))}
        figures |= drawn
    of = {f"claim {id}" for id in claims} | {f"figure {name}" for name in figures}
    words = before["words"] | {name: code for name, code in wordings().items() if name in drawn}
    return {
        "preset": PRESET, "cells": {name: cells for name, cells in digests().items() if name in of},
        "claims": {id: claims[id] for id in registry.claims() if id in claims},
        "words": {name: words[name] for name in QUOTED if name in words},
        "figures": {name: figures[name] for name in QUOTED if name in figures},
    }  # fmt: skip


def _drawn(name: str, store: Path) -> Said | None:
    """What a figure says of its rows; None where some of them are not stored."""
    try:
        figure = api.run_figure(name, PRESET, store=store, compute=False)
    except FactholdError:
        return None
    said = {"fits": [fit.as_json() for fit in figure.fits], "notes": list(figure.notes)}
    return None if figure.missing else said


class Findings:
    """What a template may ask for. A name that is not there is an error."""

    def __init__(self, results: Said) -> None:
        self._claims, self._figures = results["claims"], results["figures"]

    def claim(self, id: str) -> Said:
        return self._claims[id]

    def figure(self, name: str) -> Said:
        return self._figures[name]

    def fit(self, name: str, words: str) -> Said:
        """The fit of a figure by its name."""
        return {fit["name"]: fit for fit in self.figure(name)["fits"]}[words]

    def ledger(self, *ids: str, controls: Mapping[str, str] | None = None) -> str:
        """A table of claims: verdict, what was measured, how sure it is, and perhaps what it is held against."""
        missing = {id: dict.fromkeys(("measured", "error"), "") | {"verdict": NOT_YET} for id in registry.claims()}
        said = {id: (missing | self._claims)[id] for id in ids}
        rows = [(f"`{id}`", c["verdict"], _cell(c["measured"]), _cell(c["error"])) for id, c in said.items()]
        lines: list[tuple[str, ...]] = [("claim", "verdict", "measured", "interval"), ("---",) * 4, *rows]
        if controls is not None:
            beside = ("control", "---", *(controls[id] for id in ids))
            lines = [(*line, one) for line, one in zip(lines, beside, strict=True)]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)

    def notes(self, name: str, *starts: str) -> str:
        """What a figure says in words, as a list: all of it, or the lines that start so."""
        if name in QUOTED and name not in self._figures:
            return f"- {NOT_YET}"
        lines = [line for line in self.figure(name)["notes"] if not starts or line.startswith(starts)]
        if not lines:
            raise KeyError(f"{name} has no notes that start with {starts}")
        return "\n".join(f"- {line}" for line in lines)

    def verdicts(self) -> str:
        """How many claims there are of each verdict."""
        found = [claim["verdict"] for claim in self._claims.values()]
        return ", ".join(f"{found.count(verdict)} {verdict}" for verdict in MEANINGS if verdict in found)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def render(results: Said) -> str:
    """The page as text."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES), undefined=jinja2.StrictUndefined, keep_trailing_newline=True,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    findings = Findings(results)
    names = {name: getattr(findings, name) for name in dir(findings) if not name.startswith("_")}
    return environment.get_template("findings.md").render(**names)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="say whether the page is what the results say")
    parser.add_argument("--all", action="store_true", help="compute everything that the store lacks, changed or not")
    given, before = parser.parse_args(arguments), json.loads(RESULTS.read_text())
    if given.check:
        same = PAGE.read_text() == render(before)
        print("docs/findings.md says what the results say" if same else "docs/findings.md is not: run make findings")
        if changed := [name for name, code in wordings().items() if before["words"].get(name) != code]:
            print(f"the notes of {', '.join(changed)} may be others now: run make findings")
        return int(not same or bool(changed))
    compute(*((list(registry.claims()), QUOTED) if given.all else outdated(before)), STORE)
    results = collect(STORE, before)
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    PAGE.write_text(render(results))
    print(f"written: {RESULTS} and {PAGE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
