"""The page is well formed, holds all that it was given, escaped, and needs nothing from elsewhere."""

import base64
import io
import shlex
import struct
import zlib
from collections.abc import Sequence
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure as Canvas
from PIL import Image

from facthold._util.commands import duration
from facthold._util.errors import FactholdError
from facthold.lab.api import Drawn
from facthold.lab.figure import Figure
from facthold.lab.provenance import Provenance
from facthold.lab.report import COLOURS, WIDEST, Contents, render, write_report
from facthold.lab.store import Row, Rows
from facthold.measure.scaling import Fit

VOID = {"meta", "img", "br", "hr", "link", "input"}
NASTY = """<script>alert("1")</script> & 'x' ${title} $sections µ"""
ORIGIN = Provenance(
    facthold="1.2.3", commit="abc123+dirty", date="2030-01-02T03:04:05+00:00", platform="An-OS-1",
    cpu="A <CPU>", cores=12, python="3.99.1", jax="9.8.7", seeds=(), seconds=3723.0,
)  # fmt: skip


def claim(**changes: Any) -> dict[str, Any]:
    row = {"id": "theorem-1", "place": "theorem 1", "statement": "N <= d^2", "predicted": 1.0}
    return (
        row
        | {"measured": 1.23456789, "error": None, "verdict": "holds", "drift": "", "next": "", "changed": ""}
        | changes
    )


class Page(HTMLParser):
    """Checks that every tag is closed in its order; keeps texts, attributes and tables."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), f"an attribute twice in <{tag}>"
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.texts.append((self.open[-1], data.strip()))

    def attributes(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]

    def words(self, tag: str) -> list[str]:
        return [text for where, text in self.texts if where == tag]


def png() -> bytes:
    """A picture of one white point, by the file format's definition."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    parts = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0\xff\xff\xff")) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + parts


@pytest.fixture
def image(tmp_path: Path) -> Path:
    path = tmp_path / "figure.png"
    path.write_bytes(png())
    return path


def contents(*drawings: Drawn, claims: Sequence[dict[str, Any]] = (), **more: Any) -> Contents:
    return Contents(drawings, claims, ORIGIN, **more)


def drawn(image: Path, text: str = "") -> Drawn:
    """A figure whose texts are ``text``, where it is given."""
    figure = Figure(
        text or "1", text or "Figure 1", text or "figure 1", text or "Capacity against size", {}, lambda grid: [],
        lambda rows: Canvas(),
    )  # fmt: skip
    fit = Fit(text or "linear memory", 1.98765, 0.25, (1.9, 2.05), 12)
    row = Row("", "", 1, {}, {}, replace(ORIGIN, seconds=75.0))
    return Drawn(figure, text or "smoke", Rows([row]), [fit], [], [image])


def test_everything_is_on_the_page(image: Path, tmp_path: Path) -> None:
    page = contents(drawn(image), claims=[claim()], found=["One thing was found."])
    path = write_report(tmp_path / "report.html", page)
    assert path == tmp_path / "report.html"
    page = Page(path.read_text("utf-8"))
    cells = page.words("td") + page.words("th")
    everything = [text for _, text in page.texts]
    for text in ("theorem-1", "theorem 1", "N <= d^2", "1.235", "✓ holds", "One thing was found."):
        assert text in everything
    for text in ("linear memory", "1.988", "0.25", "[1.9, 2.05]", "12"):
        assert text in cells
    for text in (
        "1.2.3",
        "abc123+dirty",
        ORIGIN.date,
        "A <CPU>, 12 cores; An-OS-1",
        "3.99.1",
        "9.8.7",
        "1 h 2 min",
    ):
        assert text in cells
    assert "facthold figure 1 --preset smoke" in page.words("code")
    assert "Figure 1" in page.words("h2")
    assert "Capacity against size (figure 1)" in page.words("figcaption")
    assert any("1 min 15 s" in text for text in page.words("p"))
    assert "Of 1 claim that was checked, 1 holds." in page.words("li")


def test_what_comes_from_outside_is_escaped(image: Path) -> None:
    claims = [dict.fromkeys(claim(), NASTY) | {"verdict": "fails"}]
    text = render(contents(drawn(image), drawn(image, NASTY), claims=claims, found=[NASTY]))
    page = Page(text)
    assert "<script>alert" not in text
    assert any(shlex.quote(NASTY) in found for found in page.words("code"))
    for tag in ("h2", "figcaption", "td", "th", "caption", "a", "li"):
        assert any(NASTY in found for found in page.words(tag)), tag
    assert any(NASTY in (attributes["alt"] or "") for attributes in page.attributes("img"))


def test_pictures_are_inside_the_page_and_nothing_is_outside(image: Path) -> None:
    text = render(contents(drawn(image), claims=[claim()]))
    page = Page(text)
    (picture,) = page.attributes("img")
    head, _, data = (picture["src"] or "").partition(",")
    assert head == "data:image/png;base64"
    assert base64.b64decode(data) == image.read_bytes()
    assert picture["alt"]
    links = [
        value or "" for _, attributes in page.tags for name, value in attributes.items() if name in ("href", "src")
    ]
    assert all(link.startswith(("#", "data:")) for link in links)
    assert "url(" not in text
    assert "@import" not in text


def test_pictures_are_no_larger_than_a_page_shows(image: Path) -> None:
    axes = Canvas(figsize=(20, 4)).subplots()
    axes.plot([1, 2, 3], [1, 4, 2])
    axes.figure.savefig(image, dpi=200)
    (picture,) = Page(render(contents(drawn(image)))).attributes("img")
    shown = base64.b64decode((picture["src"] or "").partition(",")[2])
    with Image.open(io.BytesIO(shown)) as small, Image.open(image) as large:
        assert small.width == WIDEST < large.width
        assert small.width / small.height == pytest.approx(large.width / large.height, rel=0.01)
    assert len(shown) < image.stat().st_size / 2


def test_readers_find_their_way(image: Path) -> None:
    claims = [claim(), claim(id="theorem-2", verdict="fails"), claim(id="theorem-3", verdict="not run", measured=None)]
    page = Page(render(contents(drawn(image), claims=claims, related={"1": ["theorem-1", "theorem-3"]})))
    assert page.attributes("html") == [{"lang": "en"}]
    metas = page.attributes("meta")
    assert any(meta.get("charset") == "utf-8" for meta in metas)
    assert any(meta.get("name") == "viewport" for meta in metas)
    assert all(header.get("scope") in ("col", "row") for header in page.attributes("th"))
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert {(link["href"] or "")[1:] for link in page.attributes("a")} <= set(ids)
    assert len(page.words("h1")) == 1


@pytest.mark.parametrize(("verdict", "colour"), [pair for pair in COLOURS.items() if pair[0] != "not run"])
def test_a_verdict_has_a_colour_and_a_mark(verdict: str, colour: str) -> None:
    page = Page(render(contents(claims=[claim(verdict=verdict)])))
    assert [a["class"] for a in page.attributes("td") if a.get("class") in COLOURS.values()] == [colour]


def test_claims_that_were_not_run_are_folded_away() -> None:
    missing = claim(id="theorem-2", verdict="not run", measured=None, error=None, next="run facthold lm fetch")
    page = Page(render(contents(claims=[claim(), missing])))
    assert "1 not run" in page.words("summary")
    assert [row["id"] for row in page.attributes("tr") if "data-verdict" in row] == ["claim-theorem-1"]
    assert "run facthold lm fetch" in page.words("span")


def test_a_figure_shows_its_own_claims_and_no_others(image: Path) -> None:
    claims = [claim(statement="of this one"), claim(id="theorem-2", statement="of another")]
    page = Page(render(contents(drawn(image), claims=claims, related={"1": ["theorem-1"]})))
    assert [text for text in page.words("li") if text.startswith("of ")] == ["of this one"]
    assert "#claim-theorem-1" in [link["href"] for link in page.attributes("a")]


def test_a_page_without_anything_is_still_a_page() -> None:
    page = Page(render(contents()))
    assert any("figures: 0, preset" in text for text in page.words("p"))


def test_a_second_report_replaces_the_first(image: Path, tmp_path: Path) -> None:
    path = tmp_path / "page" / "report.html"
    path.parent.mkdir()
    write_report(path, contents())
    write_report(path, contents(drawn(image)))
    assert "Figure 1" in path.read_text("utf-8")
    assert list(path.parent.iterdir()) == [path]


def test_what_cannot_be_written_or_read_is_told_in_one_line(image: Path, tmp_path: Path) -> None:
    with pytest.raises(FactholdError, match=f"{tmp_path} is a folder"):
        write_report(tmp_path, contents(drawn(image)))
    image.unlink()
    with pytest.raises(FactholdError, match="draw it again: facthold figure 1") as error:
        write_report(tmp_path / "report.html", contents(drawn(image)))
    assert str(image) in str(error.value)
    assert not (tmp_path / "report.html").exists()


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0.0 s"),
        (8.44, "8.4 s"),
        (60.0, "1 min 0 s"),
        (725.0, "12 min 5 s"),
        (12e3, "3 h 20 min"),
        (1.06e6, "12 d 6 h"),
        (1e20, "3.2e+12 years"),
    ],
)
def test_durations_read_well(seconds: float, text: str) -> None:
    assert duration(seconds) == text
