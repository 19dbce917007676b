"""`make docs` builds the site: every link leads somewhere, and nothing in it comes from elsewhere."""

import re
import runpy
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import facthold as fh
import known
from every_option import commands
from explore.chromium import DESK, PHONE, browser, needs_chromium, opened
from facthold.cli import main
from facthold.knowledge.model import Model

ROOT = Path(__file__).parents[2]
needs_zensical = pytest.mark.skipif(find_spec("zensical") is None, reason="the extra docs is not installed")


@pytest.fixture(scope="module")
def make() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "docs" / "website" / "make.py"))


@pytest.fixture(scope="module")
def site(make: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("site") / "site"
    make["main"](["-o", str(output), "--model", str(Model(*known.countries()).save(output.with_name("m.safetensors")))])
    return output


@needs_zensical
def test_every_page_is_there_and_in_the_menu(site: Path) -> None:
    menu = set(re.findall(r'href="(?:\./)?([^"#/:]+\.html)"', (site / "index.html").read_text()))
    pages = {path.name for path in site.glob("*.html")} - {"explorer.html"}
    assert pages <= menu
    for path in (ROOT / "docs").glob("*.md"):
        assert path.with_suffix(".html").name in pages


@needs_zensical
def test_nothing_of_the_text_is_taken_for_markup(site: Path) -> None:
    """Lists without an empty line before them, names between angle brackets, and the like."""
    known_tags = "span td code tr p li a mi div strong mo h1 h2 h3 h4 h5 h6 pre ul mrow th math em table thead tbody mn"
    known_tags += " msub msup small article msubsup mspace mover mtext munder ol mtd mfrac mtr summary details msqrt"
    known_tags += " munderover mtable img iframe hr br blockquote mstyle"
    for path in site.glob("*.html"):
        if path.name == "explorer.html":
            continue
        (article,) = re.findall(r"<article.*?</article>", path.read_text(), re.DOTALL)
        assert set(re.findall(r"<([a-z]+\d?)", article)) <= set(known_tags.split()), path.name
        text = re.sub(r"<(pre|code|math)\b.*?</\1>", "", article, flags=re.DOTALL)
        assert not re.search(r"\*\*\S|`|\]\(|^\s*\|.*\|", re.sub(r"<[^>]+>", "", text), re.MULTILINE), path.name


@needs_zensical
def test_no_page_fetches_anything_from_elsewhere(site: Path) -> None:
    for path in site.rglob("*.html"):
        assert not re.findall(r'<(?:script|link|img|iframe)\b[^>]*(?:src|href)="(?:https?:)?//[^"]*', path.read_text())


def test_every_command_is_listed_with_the_help_that_it_prints(
    make: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    listed = make["reference"].commands_page()
    assert set(re.findall(r"^### (.*)$", listed, re.MULTILINE)) == {*commands(), "lm"}
    monkeypatch.setenv("COLUMNS", str(make["reference"].COLUMNS))
    for name in ("build", "lm ask", "watch"):
        with pytest.raises(SystemExit):
            main([*name.split(), "--help"])
        said = capsys.readouterr().out.strip().partition(f" {name} ")[2]  # what stands before is this program
        assert f"```text\nUsage: facthold {name} {said}\n```" in listed


@needs_zensical
def test_every_name_has_its_place(site: Path) -> None:
    api = (site / "api.html").read_text()
    for name in fh.__all__:
        assert re.search(rf'id="facthold\.{name}"', api), name


@needs_zensical
def test_links_that_lead_nowhere_end_it(make: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = make["links"]
    names = make["write_pages"].__globals__
    wrong = "[x](nowhere.md) [y](tour.md#nowhere)"
    monkeypatch.setattr(names["reference"], "explorer", lambda path, model: path.write_text(""))
    monkeypatch.setitem(names, "links", lambda text, path: real(text, path) + wrong * (path.name == "facts.md"))
    with pytest.raises(SystemExit, match="has 2 fault"):
        make["main"](["-o", str(tmp_path / "site")])
    assert not (tmp_path / "site").exists()


def test_tutorials_show_what_their_code_prints(make: dict[str, Any]) -> None:
    page = "Text.\n\n```python\nx = 2\nprint(x)\n```\n\nMore.\n\n```python\nassert x\n```\n\n```python\nx + 1\n```\n"
    shown = make["running"].with_outputs(page)
    assert re.findall(r"```text\n(.*?)\n```", shown) == ["2", "3"]
    assert re.sub(r"\n\n```text\n.*?\n```", "", shown) == page
    with pytest.raises(AssertionError):
        make["running"].with_outputs("```python\nassert False\n```")


def test_the_readme_is_two_screens() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 90


def test_a_link_to_a_file_that_is_not_there_is_an_error(make: dict[str, Any]) -> None:
    with pytest.raises(SystemExit, match=r"README\.md links to docs/nowhere\.md, which does not exist"):
        make["links"]("[x](docs/nowhere.md)", ROOT / "README.md")


@pytest.mark.parametrize("path", sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]), ids=lambda p: p.name)
def test_links_between_files_of_the_repository_lead_somewhere(path: Path) -> None:
    """As they are read where the repository is shown: files, and headings in pages."""
    for to, anchor in re.findall(r"\]\(([^)#\s:]*)(#[^)\s]*)?\)", path.read_text()):
        file = (path.parent / to) if to else path
        assert file.exists(), to
        if anchor:
            assert anchor[1:] in anchors(file.read_text()), f"{to}{anchor}"


def anchors(text: str) -> set[str]:
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


# --- in a browser, from a disk


PAGES = ("index", "try", "tour", "findings", "theorem-1", "lecture-scaling", "statements", "api", "tutorial-probe")


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser() as one:
        yield one


@needs_zensical
@needs_chromium
@pytest.mark.slow
@pytest.mark.parametrize(("scheme", "width"), [("light", DESK), ("dark", PHONE)])
@pytest.mark.parametrize("name", PAGES)
def test_a_page_has_no_error_asks_for_nothing_and_can_be_read_by_all(
    name: str, scheme: str, width: int, chromium: Any, site: Path
) -> None:
    from axe_core_python.sync_playwright import Axe

    with opened(chromium, site / f"{name}.html", width=width, scheme=scheme, ready="article h1") as page:
        page.page.wait_for_timeout(500)
        page.page.evaluate(
            "document.querySelectorAll('iframe').forEach(one => one.remove())"
        )  # it has tests of its own
        found = Axe().run(page.page)["violations"]
        serious = [one for one in found if one["impact"] in ("serious", "critical")]
        assert not [(one["id"], [node["html"][:160] for node in one["nodes"][:4]]) for one in serious]
        assert page.page.evaluate("document.documentElement.scrollWidth") <= width


@needs_zensical
@needs_chromium
@pytest.mark.slow
def test_search_finds_a_page_without_a_server(chromium: Any, site: Path) -> None:
    with opened(chromium, site / "index.html", ready="article h1") as page:
        page.page.keyboard.press("Control+k")
        page.page.wait_for_timeout(500)
        page.page.keyboard.type("hallucinates", delay=50)
        page.page.locator("a[href*='theorem-6.html']:visible").first.wait_for(timeout=20_000)


@needs_zensical
@needs_chromium
@pytest.mark.slow
def test_the_model_in_a_page_answers(chromium: Any, site: Path) -> None:
    with opened(chromium, site / "try.html", ready="iframe") as page:
        model = page.page.frame_locator("iframe.explorer")
        model.locator("html[data-ready]").wait_for(timeout=60_000)
        assert "The model says" in model.locator("#view-ask").inner_text()
