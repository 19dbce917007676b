"""The report in Chromium: every control does what it says, by its effect, and keys alone are enough."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import facthold as fh
from explore.chromium import DESK, MISSING, PHONE, Opened, browser, needs_chromium, opened
from explore.models import gated

pytestmark = needs_chromium
CLAIMS = ["gradient-step", "layerwise", "fixed-outputs-growth", "lm-bits"]
ROWS = "table.claims tbody tr"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A figure, claims of two verdicts, and a model with its page."""
    out = tmp_path_factory.mktemp("report")
    model = gated().save(out / "countries.safetensors")
    fh.explore(model, out / "countries.html")
    return fh.reproduce("fig6", preset="smoke", store=out / "s.sqlite", out=out, judge=CLAIMS, model=model).page


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    if MISSING is None:
        with browser() as one:
            yield one


@pytest.fixture
def desk(chromium: Any, path: Path) -> Iterator[Opened]:
    with opened(chromium, path) as page:
        yield page


def shown(page: Any) -> list[str]:
    """The claims in the table, as one sees them."""
    return page.evaluate(f"[...document.querySelectorAll('{ROWS}')].filter(r => !r.hidden).map(r => r.dataset.name)")


def test_words_and_verdicts_reduce_the_rows(desk: Opened) -> None:
    page = desk.page
    everything = shown(page)
    assert len(everything) > 2
    page.get_by_label("Words").fill("convex SOLVE")
    assert shown(page) == ["layerwise"]
    assert page.locator("#claim-count").inner_text() == f"1 of {len(everything)} shown"
    page.get_by_label("Words").fill("")
    page.get_by_label("holds").uncheck()
    rest = shown(page)
    assert "gradient-step" not in rest
    assert rest == [name for name in everything if name in rest] != everything


def test_the_order_is_as_chosen_by_keys_alone(desk: Opened) -> None:
    page = desk.page
    first = shown(page)
    page.get_by_label("Order").focus()
    page.keyboard.press("End")
    assert shown(page) == sorted(first) != first
    page.keyboard.press("ArrowUp")
    order = ["holds", "drifts", "not decided", "fails", "runs"]
    verdicts = page.evaluate(f"[...document.querySelectorAll('{ROWS}')].map(r => r.dataset.verdict)")
    assert verdicts == sorted(verdicts, key=order.index, reverse=True)
    assert len(set(verdicts)) > 1
    page.keyboard.press("Home")
    assert shown(page) == first


def test_the_model_is_asked_and_its_page_opens(desk: Opened) -> None:
    page = desk.page
    section = page.locator("#model")
    assert "France, capital? Paris" in section.inner_text().replace("\n", " ")
    section.get_by_role("link", name="Open the model").click()
    page.wait_for_selector("html[data-ready]")
    assert "/countries.html" in page.url


def test_a_link_to_a_claim_shows_it(desk: Opened) -> None:
    page = desk.page
    page.get_by_label("Words").fill("nothing has these words")
    assert shown(page) == []
    page.evaluate("location.hash = '#claim-layerwise'")
    desk.wait("!document.getElementById('claim-layerwise').hidden")
    assert shown(page) == ["layerwise"]


def test_dark_mode_changes_the_colours(chromium: Any, path: Path) -> None:
    looks = {}
    for scheme in ("light", "dark"):
        with opened(chromium, path, scheme=scheme) as one:
            script = "(({color, backgroundColor}) => [color, backgroundColor])(getComputedStyle(document.body))"
            looks[scheme] = one.page.evaluate(script)
    assert looks["light"] != looks["dark"]


def test_pictures_follow_dark_mode_while_the_page_is_open(desk: Opened) -> None:
    page = desk.page
    colours = "getComputedStyle(document.querySelector('.plot .xtick text')).fill"
    page.locator(".plot").first.scroll_into_view_if_needed()
    desk.wait("document.querySelector('.plot .xtick text')")
    before = page.evaluate(colours)
    page.emulate_media(color_scheme="dark")
    desk.wait(f"{colours} !== {before!r}")


def test_a_touched_point_names_its_cell_and_its_seeds(desk: Opened) -> None:
    page = desk.page
    plot = page.locator(".plot").first
    plot.scroll_into_view_if_needed()
    desk.wait("document.querySelector('.plot .points path')")
    box = plot.locator(".points path").first.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    desk.wait("document.querySelector('.hovertext')")
    said = plot.locator(".hovertext").text_content()
    assert re.search(r"capacity .*d=\d+", said)
    assert re.search(r"seeds 0: [\d.]+, 1: [\d.]+", said)


def test_the_legend_hides_a_series_and_shows_it_again(desk: Opened) -> None:
    page = desk.page
    plot = page.locator(".plot").first
    plot.scroll_into_view_if_needed()
    desk.wait("document.querySelector('.plot .legendtoggle')")
    hidden = "document.querySelector('.plot')._fullData.filter(t => t.visible === 'legendonly').length"
    for wanted in (1, 0):
        plot.locator(".legendtoggle").first.click()
        desk.wait(f"{hidden} === {wanted}")


def test_no_button_sends_anything_anywhere(desk: Opened) -> None:
    page = desk.page
    page.locator(".plot").first.scroll_into_view_if_needed()
    desk.wait("document.querySelector('.plot .modebar-btn')")
    labels = page.evaluate(
        "[...document.querySelector('.plot').querySelectorAll('.modebar-btn')].map(b => b.ariaLabel)"
    )
    assert labels == ["Download plot as a PNG", "Zoom", "Pan", "Zoom in", "Zoom out", "Reset axes"]
    page.get_by_role("button", name="Zoom in").first.click()
    assert desk.requests == [desk.requests[0]]


def test_the_page_has_plotly_once_and_is_no_larger_than_it_may_be(path: Path) -> None:
    text = path.read_text()
    assert text.count('id="plotly"') == 1
    assert len(text.encode()) < 8_000_000


def test_on_a_phone_verdicts_are_on_the_screen_and_nothing_is_beside_it(chromium: Any, path: Path) -> None:
    with opened(chromium, path, width=PHONE) as one:
        assert one.page.evaluate("document.documentElement.scrollWidth") <= PHONE
        one.page.locator(".plot").first.scroll_into_view_if_needed()
        one.wait("document.querySelector('.plot .main-svg')")
        assert one.page.locator(".plot .main-svg").first.bounding_box()["width"] <= PHONE
        boxes = [box.bounding_box() for box in one.page.locator(f"{ROWS} td:first-child").all()]
        assert boxes
        assert all(box["x"] >= 0 and box["x"] + box["width"] <= PHONE for box in boxes)
    with opened(chromium, path, width=DESK) as one:
        assert one.page.evaluate("document.documentElement.scrollWidth") <= DESK


def test_without_scripts_everything_is_there(chromium: Any, path: Path) -> None:
    context = chromium.new_context(java_script_enabled=False, viewport={"width": DESK, "height": 900})
    page = context.new_page()
    page.goto(path.as_uri())
    assert page.locator(ROWS).count() == page.locator(f"{ROWS}:visible").count() > 2
    assert not page.locator("#claim-controls").is_visible()
    assert page.locator("figure img").first.is_visible()
    context.close()


def test_nothing_serious_is_found_by_axe(chromium: Any, path: Path) -> None:
    from axe_core_python.sync_playwright import Axe

    for scheme in ("light", "dark"):
        with opened(chromium, path, scheme=scheme) as one:
            one.page.locator(".plot").last.scroll_into_view_if_needed()
            one.wait("[...document.querySelectorAll('.plot')].every(plot => plot.querySelector('.main-svg'))")
            for details in one.page.locator("summary").all():
                details.click()
            found = Axe().run(one.page)["violations"]
            assert [(v["id"], v["nodes"][0]["html"]) for v in found if v["impact"] in ("serious", "critical")] == []
