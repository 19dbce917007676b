"""One HTML page with what was found, every claim and every figure, that needs nothing but itself."""

import base64
import dataclasses
import gzip
import io
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from facthold._util.commands import duration
from facthold._util.errors import FactholdError
from facthold._util.files import PAGE, json_of, writing
from facthold.lab import style
from facthold.lab.claim import MEANINGS
from facthold.lab.provenance import Provenance
from facthold.lab.summary import Shown, as_uri, tally
from facthold.measure.scaling import NO_INTERVAL

if TYPE_CHECKING:
    from facthold.lab.api import Drawn

TITLE = "facthold: factual recall in transformers"
NUMBERS = json_of("preset")  # of what kind the file is that `write_results` makes
STATIC = Path(__file__).with_name("static")
WIDEST, SHADES = 1800, 128  # pixels and colours of a picture in the page
SCRIPTS = ("pictures", "report")
COLOURS = {"holds": "good", "drifts": "drift", "not decided": "open", "fails": "bad", "runs": "open", "not run": "open"}
MARKS = {"good": "✓", "drift": "↘", "bad": "✗", "open": "○"}
NOTHING = "–"
NOT_RUN = "not run"
FIT = ("name", "slope", "constant", "interval", "n")  # columns of fits


@dataclasses.dataclass(frozen=True)
class Contents:
    """What the page says."""

    drawn: "Sequence[Drawn]"
    claims: Sequence[Mapping[str, Any]]
    provenance: Provenance
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)  # of the figures' commands, such as the store
    found: Sequence[str] = ()  # the sentences with which it begins
    shown: Shown | None = None  # a model
    related: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)  # the claims of each figure


def write_report(path: str | Path, contents: Contents) -> Path:
    """Write the page and return its path."""
    page = render(contents)
    with writing(path, PAGE) as stream:
        stream.write(page.encode())
    return Path(path)


def write_results(path: str | Path, contents: Contents, preset: str) -> Path:
    """What the page says in numbers, as JSON: every claim's verdict, every figure's fits and notes."""
    results = {
        "preset": preset, "provenance": dataclasses.asdict(contents.provenance), "found": list(contents.found),
        "claims": list(contents.claims),
        "figures": [one.as_json() | {"files": [file.name for file in one.files]} for one in contents.drawn],
    }  # fmt: skip
    with writing(path, NUMBERS) as stream:
        stream.write((json.dumps(results, indent=1) + "\n").encode())
    return Path(path)


def figure_section(drawn: "Drawn", contents: Contents) -> dict[str, Any]:
    """One figure, as the page shows it: with its picture as a data URI, its claims, and the command that made it."""
    figure, made = drawn.figure, drawn.command(**contents.options)
    image = next(file for file in drawn.files if file.suffix == ".png")
    try:
        data = as_uri(smaller(image.read_bytes()), "image/png")
    except OSError as error:
        raise FactholdError(f"cannot read {image}: {error.strerror or error}; draw it again: {made}") from error
    ids = contents.related.get(figure.name, ())
    return {
        "title": figure.title, "caption": f"{figure.caption} ({figure.place})", "command": made, "sees": figure.sees,
        "differs": figure.differs, "preset": drawn.preset, "data": data, "panels": _panels(drawn),
        "fits": [vars(fit) | ({} if fit.sure else {"interval": NO_INTERVAL}) for fit in drawn.fits],
        "notes": drawn.notes, "claims": [claim for claim in contents.claims if claim["id"] in ids],
        "seconds": sum(row.provenance.seconds for row in drawn.rows),
    }  # fmt: skip


def smaller(png: bytes) -> bytes:
    """A picture for who has no scripts, or prints: as wide as a page shows, in as many colours as it has in fact."""
    from PIL import Image

    with Image.open(io.BytesIO(png)) as image:
        if max(image.size) < WIDEST // 4:
            return png
        shown = image.convert("RGB")
    shown.thumbnail((WIDEST, WIDEST))
    packed = io.BytesIO()
    shown.quantize(SHADES, dither=Image.Dither.NONE).save(packed, "PNG", optimize=True)
    return min(packed.getvalue(), png, key=len)


def _panels(drawn: "Drawn") -> list[dict[str, Any]] | None:
    """The picture as panels that one can touch; None where it stays as it is."""
    from facthold.lab.interactive import panels
    from facthold.lab.tracing import TracedRow

    canvas = drawn.figure.plot([TracedRow(row, i) for i, row in enumerate(drawn.rows)])
    style.settle(canvas)
    made = panels(canvas, drawn.rows)
    return made and [
        panel | {"still": as_uri(smaller(panel["still"]), "image/png")} if "still" in panel else panel for panel in made
    ]


def plotly() -> str:
    """Plotly's own script, packed: a browser unpacks it within a moment."""
    script = resources.files("plotly").joinpath("package_data/plotly.min.js").read_bytes()
    return base64.b64encode(gzip.compress(script, mtime=0)).decode()


def render(contents: Contents) -> str:
    """The page as text."""
    import jinja2
    from markupsafe import Markup

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("facthold.lab"), autoescape=True, trim_blocks=True, lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )  # fmt: skip
    environment.filters |= {"text": _text, "duration": duration}
    claims, provenance = contents.claims, contents.provenance
    sections = [figure_section(one, contents) for one in contents.drawn]
    counts = Counter(claim["verdict"] for claim in claims)
    origin = {
        "facthold": provenance.facthold, "commit": provenance.commit, "date": provenance.date,
        "machine": f"{provenance.cpu}, {provenance.cores} cores; {provenance.platform}",
        "Python": provenance.python, "JAX": provenance.jax, "total time": duration(provenance.seconds),
    }  # fmt: skip
    return environment.get_template("report.html").render(
        title=TITLE, sections=sections, claims=claims, provenance=provenance, origin=origin, marks=MARKS,
        colours=COLOURS, meanings=MEANINGS, fit_columns=FIT, found=contents.found, shown=contents.shown,
        run=[claim for claim in claims if claim["verdict"] != NOT_RUN],
        not_run=[claim for claim in claims if claim["verdict"] == NOT_RUN],
        tally=tally(claims, list(MEANINGS)),
        counts={word: counts[word] for word in MEANINGS if word in counts and word != NOT_RUN},
        presets=", ".join(dict.fromkeys(section["preset"] for section in sections)) or NOTHING,
        plotly=plotly() if any(section["panels"] for section in sections) else "",
        css=Markup(STATIC.joinpath("report.css").read_text()),
        script=Markup("\n".join(STATIC.joinpath(f"{name}.js").read_text() for name in SCRIPTS)),
    )  # fmt: skip


def _text(value: Any) -> str:
    """Floats to four digits, pairs as intervals."""
    if value is None:
        return NOTHING
    if isinstance(value, float):
        return f"{value:.4g}"
    return "[" + ", ".join(_text(item) for item in value) + "]" if isinstance(value, list | tuple) else str(value)
