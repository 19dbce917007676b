"""One HTML page with every figure, every claim and where they come from, that needs nothing but itself."""

import base64
import dataclasses
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from facthold._util.commands import duration
from facthold._util.errors import FactholdError
from facthold._util.files import PAGE, json_of, writing
from facthold.lab.claim import MEANINGS
from facthold.lab.provenance import Provenance

if TYPE_CHECKING:
    from facthold.lab.api import Drawn

TITLE = "facthold: factual recall in transformers"
NUMBERS = json_of("preset")  # of what kind the file is that `write_results` makes
COLOURS = {"holds": "good", "drifts": "drift", "not decided": "open", "fails": "bad", "runs": "open", "not run": "open"}
MARKS = {"good": "✓", "drift": "↘", "bad": "✗", "open": "○"}
NOTHING = "–"
CLAIM = ("id", "place", "statement", "predicted", "measured", "error", "drift", "next", "changed", "verdict")
FIT = ("name", "slope", "constant", "interval", "n")  # columns of claims and of fits


def write_report(
    path: str | Path, drawn: "Sequence[Drawn]", claims: Sequence[Mapping[str, Any]], provenance: Provenance,
    options: Mapping[str, Any] | None = None,
) -> Path:  # fmt: skip
    """Write the page and return its path; the figures' commands have these ``options``, such as the store."""
    page = render([figure_section(one, options) for one in drawn], claims, provenance)
    with writing(path, PAGE) as stream:
        stream.write(page.encode())
    return Path(path)


def write_results(
    path: str | Path, drawn: "Sequence[Drawn]", claims: Sequence[Mapping[str, Any]], provenance: Provenance, preset: str
) -> Path:
    """What the page says in numbers, as JSON: every claim's verdict, every figure's fits and notes."""
    results = {
        "preset": preset, "provenance": dataclasses.asdict(provenance), "claims": list(claims),
        "figures": [one.as_json() | {"files": [file.name for file in one.files]} for one in drawn],
    }  # fmt: skip
    with writing(path, NUMBERS) as stream:
        stream.write((json.dumps(results, indent=1) + "\n").encode())
    return Path(path)


def figure_section(drawn: "Drawn", options: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """One figure, as the page shows it: with its picture as a data URI, and the command that made it."""
    figure, made = drawn.figure, drawn.command(**options or {})
    image = next(file for file in drawn.files if file.suffix == ".png")
    try:
        data = base64.b64encode(image.read_bytes()).decode()
    except OSError as error:
        raise FactholdError(f"cannot read {image}: {error.strerror or error}; draw it again: {made}") from error
    return {
        "title": figure.title, "caption": f"{figure.caption} ({figure.place})", "command": made,
        "preset": drawn.preset, "data": f"data:image/png;base64,{data}", "fits": [fit.as_json() for fit in drawn.fits],
        "seconds": sum(row.provenance.seconds for row in drawn.rows),
    }  # fmt: skip


def render(sections: Sequence[Mapping[str, Any]], claims: Sequence[Mapping[str, Any]], provenance: Provenance) -> str:
    """The page as text."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("facthold.lab"), autoescape=True, trim_blocks=True, lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )  # fmt: skip
    environment.filters |= {"text": _text, "duration": duration}
    counts = Counter(claim["verdict"] for claim in claims)
    origin = {
        "facthold": provenance.facthold, "commit": provenance.commit, "date": provenance.date,
        "machine": f"{provenance.cpu}, {provenance.cores} cores; {provenance.platform}",
        "Python": provenance.python, "JAX": provenance.jax, "total time": duration(provenance.seconds),
    }  # fmt: skip
    return environment.get_template("report.html").render(
        title=TITLE, sections=sections, claims=claims, provenance=provenance, origin=origin, marks=MARKS,
        colours=COLOURS, meanings=MEANINGS, claim_columns=CLAIM, fit_columns=FIT,
        verdicts=", ".join(f"{verdict}: {count}" for verdict, count in counts.most_common()) or "none",
        presets=", ".join(dict.fromkeys(section["preset"] for section in sections)) or NOTHING,
    )  # fmt: skip


def _text(value: Any) -> str:
    """Floats to four digits, pairs as intervals."""
    if value is None:
        return NOTHING
    if isinstance(value, float):
        return f"{value:.4g}"
    return "[" + ", ".join(_text(item) for item in value) + "]" if isinstance(value, list | tuple) else str(value)
