"""The pages of statements: all of them are there, with code as it stands, results as they are stored, and formulas."""

import inspect
import json
import re
import runpy
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from facthold.construct import linear
from facthold.lab.registry import claims

ROOT = Path(__file__).parents[2]
OF_A_STATEMENT = re.compile(r"theorem|lemma|corollary|section 3|slides|figure")
pytestmark = pytest.mark.skipif(find_spec("latex2mathml") is None, reason="the extra docs is not installed")


@pytest.fixture(scope="module")
def made() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "docs" / "website" / "statements.py"))


@pytest.fixture(scope="module")
def pages(made: dict[str, Any]) -> dict[str, str]:
    return dict(made["pages"]())


def test_every_claim_about_a_statement_is_on_a_page(made: dict[str, Any]) -> None:
    named = {id for one in made["statements"]() for id in one["claims"]}
    assert named <= set(claims())
    assert not [id for id, claim in claims().items() if OF_A_STATEMENT.match(claim.place) and id not in named]


def test_a_page_says_what_is_stored_and_how_it_is_measured(pages: dict[str, str], made: dict[str, Any]) -> None:
    stored = json.loads((ROOT / "docs" / "results.json").read_text())["claims"]
    for one in made["statements"]():
        for id in one["claims"]:
            page = pages[f"{one['id']}.md"]
            assert f"    facthold verify {id}\n" in page
            if id in stored:
                assert f"### {id}: {stored[id]['verdict']}\n" in page
                assert made["plain"](stored[id]["measured"]) in page
            else:
                assert f"### {id}: not measured yet" in page


def test_code_is_the_source(pages: dict[str, str]) -> None:
    assert inspect.getsource(linear.outer_product) in pages["theorem-1.md"]
    assert inspect.getsource(linear.low_rank) in pages["theorem-1.md"]


def test_formulas_are_mathml_and_none_is_left(pages: dict[str, str]) -> None:
    for name, page in pages.items():
        text = re.sub(r"```python.*?```", "", page, flags=re.DOTALL)
        assert not re.search(r"\$|\\[a-z]+", text), name
    assert pages["theorem-1.md"].count("<math") >= 10


def test_every_slip_has_a_page(pages: dict[str, str]) -> None:
    """The lists of slips, in the pages that the generator reads them from."""
    for name, heading in (("findings", "the paper's text"), ("dynamics", "appendix D"), ("limits", "appendix E")):
        part = (ROOT / "docs" / f"{name}.md").read_text().split(f"## Slips in {heading}\n")[1].split("\n## ")[0]
        for entry in re.findall(r"^(?:- |\d+\. )(.*)$", part, re.MULTILINE):
            assert any(entry in page for page in pages.values()), entry


def test_what_is_not_there_is_an_error(made: dict[str, Any]) -> None:
    with pytest.raises(KeyError, match=r"which .*linear\.py does not define"):
        made["included"]("construct.linear.nothing")
    with pytest.raises(KeyError, match="has 0 of it"):
        made["slip_of"]("findings: No such slip")


def test_text_that_is_no_markdown_stays_as_it_is(made: dict[str, Any]) -> None:
    import html

    text = "a_b * c | d^2 <= [e] `f` & $g$"
    said = made["plain"](text)
    assert html.unescape(said) == text
    assert not set("_*|<[]`$") & set(re.sub(r"&[#a-z0-9]+;", "", said))
