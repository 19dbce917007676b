"""One HTML page with every figure, every claim and where they come from.

The page needs nothing but itself: no script, no font, no image from elsewhere. Pictures are embedded as
data URIs, SVG too: inline, the names inside two SVG drawings would collide.
"""

import base64
import dataclasses
import html
import importlib.resources
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from string import Template
from typing import Any, TypedDict

from facthold._util.errors import FactholdError
from facthold._util.files import writing
from facthold.lab.provenance import Provenance

TITLE = "facthold: factual recall in transformers"
IMAGES = {".png": "image/png", ".svg": "image/svg+xml"}
VERDICTS = {
    "holds": "good", "pass": "good", "agrees": "good", "confirmed": "good",
    "fails": "bad", "fail": "bad", "disagrees": "bad", "refuted": "bad", "error": "bad",
}  # fmt: skip
"""Colour by the first word of a verdict; any other verdict (partly, censored, not run) is open."""
MARKS = {"good": "✓", "bad": "✗", "open": "○"}
NOTHING = "–"


class ClaimRow(TypedDict):
    """One claim as the table shows it; numbers are rounded, pairs are intervals, None is a dash."""

    id: str
    place: str
    statement: str
    predicted: Any
    measured: Any
    error: Any
    verdict: str


class FitRow(TypedDict, total=False):
    """One fitted line."""

    name: str
    slope: Any
    constant: Any
    interval: Any
    n: Any


@dataclasses.dataclass(frozen=True, kw_only=True)
class FigureSection:
    """One figure of the page."""

    name: str
    """Short and unique: the anchor of the section."""
    title: str
    caption: str
    command: str
    """The exact command that made it."""
    preset: str
    image: Path
    """PNG or SVG."""
    fits: Sequence[Mapping[str, Any]] = ()
    """Rows like FitRow; a key beyond those gets a column of its own."""
    seconds: float = 0.0

    def __post_init__(self) -> None:
        if self.image.suffix.lower() not in IMAGES:
            raise ValueError(f"image={str(self.image)!r} cannot be embedded; save it as one of: {', '.join(IMAGES)}")


def write_report(
    path: str | Path,
    sections: Sequence[FigureSection],
    claims: Sequence[Mapping[str, Any]],
    provenance: Provenance,
    *,
    title: str = TITLE,
) -> Path:
    """Write the page at once (a reader never meets half of it) and return its path.

    ``claims`` are rows like ClaimRow; ``provenance.seconds`` is the time of all that the page shows.
    """
    page = render(sections, claims, provenance, title=title)
    with writing(path) as stream:
        stream.write(page.encode())
    return Path(path)


def render(
    sections: Sequence[FigureSection],
    claims: Sequence[Mapping[str, Any]],
    provenance: Provenance,
    *,
    title: str = TITLE,
) -> str:
    """The page as text."""
    template = importlib.resources.files("facthold.lab").joinpath("templates/report.html").read_text("utf-8")
    return Template(template).substitute(
        title=html.escape(title),
        summary=_summary(sections, claims, provenance),
        claims=_claims(claims),
        sections="\n".join(_section(section) for section in sections),
        provenance=_provenance(provenance),
    )


def duration(seconds: float) -> str:
    """'8.4 s', '12 min 5 s', '3 h 20 min'."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def _summary(sections: Sequence[FigureSection], claims: Sequence[Mapping[str, Any]], provenance: Provenance) -> str:
    counts = Counter(str(claim.get("verdict", NOTHING)) for claim in claims)
    verdicts = ", ".join(f"{verdict}: {count}" for verdict, count in counts.most_common()) or "none"
    presets = ", ".join(dict.fromkeys(section.preset for section in sections)) or NOTHING
    facts = f"Figures: {len(sections)} (preset {presets}). Claims: {len(claims)} ({verdicts})."
    made = f"facthold {provenance.facthold}, {provenance.date}, {duration(provenance.seconds)} of computing."
    links = "".join(f'<li><a href="#{_anchor(section)}">{html.escape(section.title)}</a></li>' for section in sections)
    nav = f'<nav aria-label="Figures"><ul>{links}</ul></nav>' if sections else ""
    return f'<p>{html.escape(facts)}</p>\n<p class="soft">{html.escape(made)}</p>\n{nav}'


def _claims(claims: Sequence[Mapping[str, Any]]) -> str:
    if not claims:
        return ""
    table = _table("Claims: prediction and measurement", ClaimRow.__annotations__, claims)
    return f'<section id="claims">\n<h2>Claims</h2>\n{table}\n</section>'


def _section(section: FigureSection) -> str:
    fits = _table(f"Fits of {section.title}", FitRow.__annotations__, section.fits) if section.fits else ""
    return f"""<section id="{_anchor(section)}">
<h2>{html.escape(section.title)}</h2>
<figure>
<img src="{_data_uri(section)}" alt="{html.escape(f"{section.title}. {section.caption}")}">
<figcaption>{html.escape(section.caption)}</figcaption>
</figure>
{fits}
<p class="soft">Preset {html.escape(section.preset)}. Its cells took {duration(section.seconds)} in all,
side by side on several cores. Made by:</p>
<pre><code>{html.escape(section.command)}</code></pre>
</section>"""


def _provenance(provenance: Provenance) -> str:
    machine = f"{provenance.cpu}, {provenance.cores} cores; {provenance.platform}"
    facts = {
        "facthold": provenance.facthold,
        "commit": provenance.commit,
        "date": provenance.date,
        "machine": machine,
        "Python": provenance.python,
        "JAX": provenance.jax,
        "total time": duration(provenance.seconds),
    }
    lines = "\n".join(
        f'<tr><th scope="row">{html.escape(name)}</th><td>{html.escape(_text(value))}</td></tr>'
        for name, value in facts.items()
    )
    return (
        '<section id="provenance">\n<h2>Where these numbers come from</h2>\n'
        f'<div class="scroll"><table>\n<tbody>\n{lines}\n</tbody>\n</table></div>\n</section>'
    )


def _table(caption: str, known: Iterable[str], rows: Sequence[Mapping[str, Any]]) -> str:
    """A table of the known columns, then of whatever else the rows hold; the first column names the row."""
    names = list(dict.fromkeys([*known, *(name for row in rows for name in row)]))
    head = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in names)
    body = "\n".join(f"<tr>{''.join(_entry(name, row, name == names[0]) for name in names)}</tr>" for row in rows)
    label = html.escape(caption)
    return f"""<div class="scroll" role="region" aria-label="{label}" tabindex="0"><table>
<caption>{label}</caption>
<thead><tr>{head}</tr></thead>
<tbody>
{body}
</tbody>
</table></div>"""


def _entry(name: str, row: Mapping[str, Any], first: bool) -> str:
    value = row.get(name)
    text = html.escape(_text(value))
    if first:
        return f'<th scope="row">{text}</th>'
    if name == "verdict":
        colour = verdict_colour(str(value))
        return f'<td class="{colour}">{MARKS[colour]} {text}</td>'
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return f'<td class="number">{text}</td>' if number else f"<td>{text}</td>"


def verdict_colour(verdict: str) -> str:
    """good, bad or open."""
    words = verdict.lower().replace(":", " ").replace(",", " ").split()
    return VERDICTS.get(words[0], "open") if words else "open"


def _text(value: Any) -> str:
    """Floats to four digits, pairs as intervals."""
    if value is None:
        return NOTHING
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_text(item) for item in value) + "]"
    return str(value)


def _anchor(section: FigureSection) -> str:
    return "figure-" + "".join(c if c.isalnum() and c.isascii() else "-" for c in section.name)


def _data_uri(section: FigureSection) -> str:
    try:
        data = section.image.read_bytes()
    except OSError as error:
        reason = error.strerror or error
        raise FactholdError(f"cannot read {section.image}: {reason}; draw it again: {section.command}") from error
    return f"data:{IMAGES[section.image.suffix.lower()]};base64,{base64.b64encode(data).decode()}"
