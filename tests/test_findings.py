"""docs/findings.md says what the stored results say, and those are of the claims and cells as they are."""

import json
import runpy
from pathlib import Path
from typing import Any

import pytest

from facthold.lab.claim import MEANINGS
from facthold.lab.registry import claims

DOCS = Path(__file__).parents[1] / "docs"


@pytest.fixture(scope="module")
def page() -> dict[str, Any]:
    return runpy.run_path(str(DOCS / "render.py"))


@pytest.fixture(scope="module")
def results() -> dict[str, Any]:
    return json.loads((DOCS / "results.json").read_text())


def test_the_page_is_what_the_results_say(page: dict[str, Any], results: dict[str, Any]) -> None:
    assert page["render"](results) == (DOCS / "findings.md").read_text(), "run make findings"


@pytest.mark.slow
def test_the_results_are_of_the_cells_as_they_are(page: dict[str, Any], results: dict[str, Any]) -> None:
    assert page["digests"]() == results["cells"], "run make findings"


def test_the_results_are_of_the_claims_as_they_are(results: dict[str, Any]) -> None:
    assert list(results["claims"]) == list(claims())
    for id, claim in claims().items():
        said = results["claims"][id]
        assert (said["statement"], said["place"], said["changed"]) == (claim.statement, claim.place, claim.changed), id
        assert said["verdict"] in MEANINGS, id
        assert said["verdict"] != "not run", id


def test_what_is_not_there_is_an_error(page: dict[str, Any], results: dict[str, Any]) -> None:
    findings = page["Findings"](results)
    for ask in (findings.claim, findings.figure, lambda name: findings.fit("ladder", name)):
        with pytest.raises(KeyError):
            ask("no such thing")


def test_every_claim_is_on_the_page() -> None:
    text = (DOCS / "findings.md").read_text()
    assert not [id for id in claims() if f"`{id}`" not in text]
