"""Watch it learn, and Store until it breaks, in Chromium: every control changes the numbers that it names."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import facthold as fh
from explore.chromium import DESK, MISSING, PHONE, browser, needs_chromium
from explore.chromium import opened as open_page
from explore.models import gated

pytestmark = needs_chromium
VIEWS = ("learn", "store")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fh.explore(gated(), tmp_path_factory.mktemp("learning") / "page.html")


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    if MISSING is None:
        with browser() as one:
            yield one


def panel(page: Any, view: str) -> Any:
    """The view, standing still."""
    root = page.view(view)
    for name in ("Pause",):
        if root.get_by_role("button", name=name, exact=True).count():
            root.get_by_role("button", name=name, exact=True).click()
    return root


def slide(root: Any, label: str, value: float) -> None:
    root.get_by_label(label, exact=True).evaluate(
        "(e, v) => { e.value = v; e.dispatchEvent(new Event('input', {bubbles: true})); }", value
    )


def now(root: Any, view: str) -> str:
    return root.locator(f"#{view}-now").inner_text()


def numbers(text: str) -> list[float]:
    return [float(x) for x in re.findall(r"[\d.]*\d", text.replace(",", ""))]


def test_learning_is_controlled(chromium: Any, path: Path) -> None:
    with open_page(chromium, path) as page:
        root = panel(page, "learn")
        root.get_by_label("Facts", exact=True).select_option("balanced")
        panel(page, "learn")
        root.get_by_role("button", name="Start again").click()
        panel(page, "learn")
        before = numbers(now(root, "learn"))[0]
        root.get_by_role("button", name="One step").click()
        assert numbers(now(root, "learn"))[0] == before + 1
        slide(root, "Length of a step", 0)
        for _ in range(40):
            root.get_by_role("button", name=re.compile(r"\d+ steps|Next look")).click()
        assert "start" not in now(root, "learn")
        end = numbers(now(root, "learn"))[0]
        slide(root, "Look back", 0)
        assert now(root, "learn").startswith("Step 0: it knows nothing")
        root.get_by_label("Look back").press("ArrowRight")
        assert 0 < numbers(now(root, "learn"))[0] < end
        for label, value in (("Subjects, S", 32), ("Relations, R", 2), ("Answers of each relation, D", 4)):
            slide(root, label, value)
            panel(page, "learn")
        assert "of 64 facts" in root.inner_text()
        assert "ln 8 = 2.08" in root.inner_text()
        for optimiser in ("adam", "sign", "muon", "sgd"):
            root.get_by_label("Optimiser").select_option(optimiser)
            panel(page, "learn")
            root.get_by_role("button", name="One step").click()
            assert numbers(now(root, "learn"))[0] >= 1
        slide(root, "Every weight at the start, α", -1)
        panel(page, "learn")
        root.get_by_role("button", name="Play").click()
        page.wait("document.querySelector('#learn-now').innerText.match(/learnt|plateau|hallucination/)")


def test_learning_stops_when_it_is_left(chromium: Any, path: Path) -> None:
    """Keys alone: play, another tab, and back; nothing has moved meanwhile."""
    with open_page(chromium, path) as page:
        root = panel(page, "learn")
        root.get_by_role("button", name="Play").press("Enter")
        page.wait("document.querySelector('#view-learn button').innerText === 'Pause'")
        page.view("store")
        left = page.page.evaluate("document.querySelector('#learn-now').innerText")
        page.page.wait_for_timeout(300)
        page.view("learn")
        assert now(root, "learn") == left
        assert root.get_by_role("button", name="Play").count() == 1


def test_storing_is_controlled(chromium: Any, path: Path) -> None:
    with open_page(chromium, path) as page:
        root = panel(page, "store")
        slide(root, "Dimensions, d", 12)
        slide(root, "Associations, N", 10)
        assert numbers(now(root, "store"))[:2] == [10, 144]
        root.get_by_role("button", name="Add one").click()
        assert numbers(now(root, "store"))[0] == 11
        root.get_by_role("button", name="Add 10").click()
        assert numbers(now(root, "store"))[0] == 21
        law = numbers(root.inner_text().split("Theory, for d = 12:")[1].split("\n")[0])
        slide(root, "Associations, N", 45)
        _, _, right, of, *_ = numbers(now(root, "store"))
        assert of == 45
        assert 5 < right < 40
        assert 10 < law[-1] < 40  # where half are recalled
        first = now(root, "store")
        root.get_by_role("button", name="Other directions").click()
        second = now(root, "store")
        for method in ("least", "sgd", "adam", "best"):
            root.get_by_label("How W is made").select_option(method)
            page.wait("!document.querySelector('#store-now').innerText.match(/at step|of Newton/)")
            found = numbers(now(root, "store"))
            assert found[0] == 45 or method == "best"
        assert first != second or "45" in first
        assert re.search("positive margin|certificate|not decided", now(root, "store"))
        root.get_by_label("the matrix W").check()
        assert "All 12 × 12 numbers" in root.inner_text()
        root.get_by_role("button", name="Empty it").click()
        assert numbers(now(root, "store"))[0] == 2
        root.get_by_role("button", name="Fill it").click()
        page.wait("parseInt(document.querySelector('#store-now').innerText) > 3")


@pytest.mark.parametrize("width", [PHONE, DESK])
@pytest.mark.parametrize("view", VIEWS)
def test_views_fit(view: str, width: int, chromium: Any, path: Path) -> None:
    with open_page(chromium, path, width=width, scheme="dark", view=view) as page:
        panel(page, view)
        assert page.page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
        unnamed = "[...document.querySelectorAll('main input, main select')].filter((e) => !e.labels?.length).length"
        assert page.page.evaluate(unnamed) == 0
