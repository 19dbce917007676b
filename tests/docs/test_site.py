"""`make docs` builds the site: every link leads somewhere, and nothing in it comes from elsewhere."""

import re
import runpy
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import facthold as fh
import known
from every_option import commands
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
    pages = {path.name for path in site.glob("*.html")} - {"404.html", "explorer.html"}
    assert pages <= menu
    for path in (ROOT / "docs").glob("*.md"):
        assert path.with_suffix(".html").name in pages


@needs_zensical
def test_no_page_fetches_anything_from_elsewhere(site: Path) -> None:
    for path in site.rglob("*.html"):
        assert not re.findall(r'<(?:script|link|img|iframe)\b[^>]*(?:src|href)="(?:https?:)?//[^"]*', path.read_text())


@needs_zensical
def test_every_command_and_every_name_has_its_place(site: Path) -> None:
    listed, api = (site / "commands.html").read_text(), (site / "api.html").read_text()
    for name in commands():
        assert f"Usage: facthold {name}" in listed
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
