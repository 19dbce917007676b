"""The page in Chromium: every control does what it says, by its effect on numbers; keys alone are enough."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import facthold as fh
from explore.chromium import DESK, MISSING, PHONE, Opened, browser, needs_chromium, opened
from explore.models import gated
from facthold.knowledge.locate import locate
from facthold.knowledge.model import Model
from facthold.measure.grids import grid_of_bits
from facthold.measure.quantise import quantise
from facthold.models.forward import prompts
from facthold.models.judge import find_rows, judge, judge_table

pytestmark = needs_chromium
VIEWS = ["ask", "apart", "mend"]
AIM = {"answer": 100, "all facts": 1000}  # milliseconds on a machine that does nothing else
SLACK = 10  # times the aim that a busy machine may take


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fh.explore(gated(), tmp_path_factory.mktemp("page") / "page.html")


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    if MISSING is None:
        with browser() as one:
            yield one


@pytest.fixture
def desk(chromium: Any, path: Path) -> Iterator[Opened]:
    with opened(chromium, path) as page:
        yield page


def answer(view: Any) -> str:
    return view.locator(".answer").first.inner_text()


def number(text: str) -> float:
    return float(text.replace("−", "-").replace(",", ""))


def choose(view: Any, label: str, typed: str) -> None:
    """Type into a field, and take the first name that is found."""
    box = view.get_by_role("combobox", name=label).first
    box.click()
    box.fill(typed)
    box.press("Enter")


def asked(subject: str, relation: str, **options: Any) -> Any:
    return gated().ask(subject, relation, **options)


def test_a_question_is_chosen_by_typing_and_answered_as_in_python(desk: Opened) -> None:
    view = desk.view("ask")
    assert "The model says Paris, which is ✓ right." in answer(view)
    choose(view, "Subject", "cote d'iv")
    choose(view, "Relation", "contin")
    expected = asked("Côte d'Ivoire", "continent")
    assert answer(view).startswith(f"The model says {expected.answer}, which is ✓ right.")
    (margin,) = re.findall(r"margin is (\S+):", answer(view))
    assert number(margin) == pytest.approx(expected.margin, rel=1e-2)
    choose(view, "Subject", "Singapore")
    choose(view, "Relation", "official")
    assert "official_language" in view.get_by_role("combobox", name="Relation").first.input_value()
    choose(view, "Subject", "South Africa")
    assert "not in its table" in answer(view)
    view.get_by_role("combobox", name="Subject").first.fill("zzzz")
    assert "no subject is like that" in view.locator("ul[role=listbox]").first.inner_text()
    view.get_by_role("combobox", name="Subject").first.press("Escape")
    assert view.get_by_role("combobox", name="Subject").first.input_value() == "South Africa"


def test_scores_are_those_of_the_model(desk: Opened) -> None:
    view = desk.view("ask")
    rows = view.locator("table.bars").first.locator("tbody tr")
    known = gated()
    tokens = prompts(known.problem, np.array([0]), np.array([0]))
    scores = np.sort(known.forward.U @ known.forward.states(tokens).F[0])[::-1]
    for i in range(5):
        assert number(rows.nth(i).locator("td").first.inner_text()) == pytest.approx(scores[i], rel=1e-3, abs=1e-3)
    assert rows.first.locator("th").inner_text() == "Paris"
    assert "said, ✓ right answer" in rows.first.inner_text()


def test_noise_is_drawn_again_and_a_prompt_may_be_of_another_length(desk: Opened) -> None:
    view, known = desk.view("ask"), gated()
    chips = view.locator(".chips > *")
    assert chips.count() == known.problem.T
    before = chips.all_inner_texts()
    view.get_by_role("button", name="Draw other noise").click()
    assert desk.state("seed") == 1
    tokens = prompts(known.problem, np.array([0]), np.array([0]), seed=1)[0]
    first = known.table.S + known.table.R
    assert chips.all_inner_texts() != before
    assert chips.all_inner_texts()[2:-1] == [f"noise {z - first}" for z in tokens[2:-1]]
    view.get_by_role("button", name="The first noise").click()
    desk.wait("facthold.state.get('seed') === 0")
    assert chips.all_inner_texts() == before
    slider = view.get_by_role("slider", name="Noise words in the prompt")
    slider.fill("3")
    assert chips.count() == 6
    expected = asked("France", "capital", noise=3).margin
    assert number(re.findall(r"margin is (\S+):", answer(view))[0]) == pytest.approx(expected, rel=1e-2)
    slider.press("ArrowRight")
    assert chips.count() == 7


def test_a_token_that_is_clicked_is_left_out(desk: Opened) -> None:
    view, known = desk.view("ask"), gated()
    chips = view.locator(".chips > *")
    chips.first.click()
    assert chips.first.get_attribute("aria-pressed") == "false"
    tokens = prompts(known.problem, np.array([0]), np.array([0]))[:, 1:]
    verdict = judge(known.forward, tokens, find_rows(known.table, np.array([0]), np.array([0])))
    said = known.output_name(int(verdict.said[0]))
    assert f"The model says {said}" in answer(view)
    assert "1 token left out" in view.inner_text()
    chips.first.click()
    assert "The model says Paris" in answer(view)


def test_the_map_of_attention_says_what_is_under_the_keys(desk: Opened) -> None:
    view = desk.view("ask")
    canvas = view.locator("canvas").first
    canvas.focus()
    said = view.locator(".said").first
    assert "looks at subject France with" in said.inner_text()
    canvas.press("ArrowRight")
    assert "looks at relation capital with" in said.inner_text()
    view.get_by_text("The same as a table").click()
    known = gated()
    attention = known.forward.attention(prompts(known.problem, np.array([0]), np.array([0])))[0]
    row = view.get_by_role("table", name="Attention of each head to each token").locator("tbody tr").first
    head = int(row.locator("th").inner_text().removeprefix("head "))
    shares = [float(text.rstrip("%")) for text in row.locator("td").all_inner_texts()]
    assert shares == pytest.approx(100 * attention[:, head], abs=0.06)


def test_the_rows_of_a_margin_add_up_to_it(desk: Opened) -> None:
    view = desk.view("apart")
    found = locate(gated(), "France", "capital")
    for parts in ("each head", "what heads add directly, and each neuron"):
        view.get_by_label(parts).check()
        assert float(view.get_attribute("data-sum")) == pytest.approx(found.margin, rel=1e-9)
    view.get_by_label("each head").check()
    rows = view.locator("table.bars tbody tr")
    names = rows.locator("th").all_inner_texts()
    for part in found.heads:
        if part.name in names:
            row = rows.nth(names.index(part.name))
            assert number(row.locator("td").first.inner_text()) == pytest.approx(part.contribution, rel=1e-3)
            without = row.locator("td").nth(2).inner_text().split(",")[0]
            assert number(without) == pytest.approx(part.ablated, rel=1e-2)


def recalled(desk: Opened, view: Any) -> int:
    """How many facts it recalls, once it is asked."""
    panel = f"document.getElementById('{view.get_attribute('id')}')"
    desk.wait(f"{panel}.dataset.recalled && !/Asking every fact|Solving/.test({panel}.innerText)")
    return int(view.get_attribute("data-recalled"))


def test_parts_are_taken_away_and_put_back(desk: Opened) -> None:
    view, found = desk.view("apart"), locate(gated(), "France", "capital")
    n = len(gated().table)
    assert recalled(desk, view) == n
    first = view.locator("table.bars tbody tr button").first
    name = first.get_attribute("data-part")
    part = next(part for part in found.parts if part.name == name)
    first.click()
    assert float(view.get_attribute("data-margin")) == pytest.approx(part.ablated, rel=1e-9)
    assert first.get_attribute("aria-pressed") == "true"
    assert recalled(desk, view) < n
    view.get_by_label("its mean over all facts").check()
    assert float(view.get_attribute("data-margin")) != pytest.approx(part.ablated, rel=1e-3)
    view.get_by_label("zero", exact=True).check()
    first.click()
    view.get_by_role("button", name="The whole MLP").click()
    whole = next(part for part in found.parts if part.name == "MLP")
    assert float(view.get_attribute("data-margin")) == pytest.approx(whole.ablated, rel=1e-9)
    view.get_by_role("button", name="What heads add directly").click()
    assert float(view.get_attribute("data-margin")) == 0  # nothing is left, and all scores are equal
    assert recalled(desk, view) == 0
    view.get_by_role("button", name="Put everything back").click()
    assert recalled(desk, view) == n
    view.get_by_role("button", name="All heads").click()
    assert recalled(desk, view) < n
    assert "Nothing is taken away" not in view.inner_text()


def test_a_cell_of_the_map_is_a_fact_and_chooses_it(desk: Opened) -> None:
    view = desk.view("apart")
    recalled(desk, view)
    canvas = view.locator("canvas").nth(1)  # the second relation
    canvas.focus()
    canvas.press("ArrowRight")
    said = view.locator(".factmap .live").inner_text()
    assert said.startswith("Italy, continent: Europe, ✓ right, margin")
    canvas.press("Enter")
    assert (desk.state("subject"), desk.state("relation")) == (1, 1)
    assert "The model says Europe" in answer(view)
    box = view.locator("canvas").first.bounding_box()
    view.locator("canvas").first.click(position={"x": box["width"] / 11 / 2, "y": 4})
    assert (desk.state("subject"), desk.state("relation")) == (0, 0)
    view.get_by_role("button", name="A fact at random").click()
    row = gated().table.matrix[desk.state("subject"), desk.state("relation")]
    assert row >= 0


def mending(desk: Opened) -> tuple[Any, int]:
    view = desk.view("mend")
    return view, recalled(desk, view)


def test_noise_few_bits_and_low_rank_cost_facts_and_are_undone(desk: Opened) -> None:
    view, n = mending(desk)
    assert n == len(gated().table)
    noise, bits, rank = (
        view.get_by_role("slider", name=name)
        for name in ("Noise on all weights", "Bits per weight", "Rank of the matrix")
    )
    noise.fill("10")
    assert "100% noise" in desk.page.locator("#changed").inner_text()
    broken = recalled(desk, view)
    assert broken < n
    worst = view.locator("table tbody tr").first.inner_text()
    assert "✗, not" in worst
    weights = "Array.from(facthold.now().model.weights['mlp.V'])"
    before = desk.page.evaluate(weights)
    view.get_by_role("button", name="Draw other noise").click()
    recalled(desk, view)
    assert desk.page.evaluate(weights) != before
    view.get_by_role("button", name="Make it whole").click()
    assert recalled(desk, view) == n
    assert not desk.page.locator("#changed").is_visible()
    bits.fill("1")
    desk.wait("facthold.state.get('changed') !== null")
    expected = Model(quantise(gated().model, grid_of_bits(1)).model, gated().problem)
    assert recalled(desk, view) == round(judge_table(expected.model, expected.problem).recalled.mean() * n)
    bits.fill("17")
    view.get_by_label("Matrix to cut").select_option("W_OV")
    rank.fill("0")
    desk.wait("facthold.now().model.weights.W_O.every(w => w === 0)")
    assert recalled(desk, view) < n
    desk.view("ask")
    assert "The weights are changed: W_OV of rank 0" in desk.page.locator("#changed").inner_text()
    desk.page.get_by_role("button", name="Undo all changes").click()
    assert "The model says Paris" in answer(desk.page.locator("#view-ask"))
    desk.view("mend")
    assert recalled(desk, view) == n
    assert "as it is" in view.inner_text()


def test_a_fact_is_given_another_answer_undone_and_downloaded(desk: Opened, tmp_path: Path) -> None:
    view, n = mending(desk)
    teach = view.get_by_role("button", name="Give it this answer")
    assert teach.is_disabled()
    new = gated().names[2][gated().table.A - 1]  # of some answers the solve hangs on the last digits: docs/explore.md
    choose(view, "New answer", new)
    teach.click()
    panel = "document.getElementById('view-mend')"
    desk.wait(f"{panel}.dataset.kept")
    assert f"The model says {new}, which is ✓ right." in view.inner_text()
    expected = gated().edit("France", "capital", new, in_place=True)
    W = np.asarray(desk.page.evaluate("Array.from(facthold.now().model.weights['mlp.V'])"))
    V = np.asarray(expected.model.mlp.V).ravel()
    assert np.abs(W - V).max() <= 1e-6 * np.abs(V).max()
    assert float(view.get_attribute("data-efficacy")) == expected.report.efficacy
    assert f"{new} is said in 20 of 20 fresh prompts" in view.inner_text()
    assert view.get_by_role("table", name="Facts that the change has moved most").locator("tbody tr").count() > 0
    recalled(desk, view)
    with desk.page.expect_download() as waiting:
        view.get_by_role("button", name="Download the model").click()
    waiting.value.save_as(tmp_path / "edited.safetensors")
    opened_again = fh.load(tmp_path / "edited.safetensors")
    assert opened_again.ask("France", "capital").answer == new
    assert opened_again.ask("France", "capital").right
    view.get_by_role("button", name="Undo the last change").click()
    assert "The model says Paris, which is ✓ right." in view.inner_text()
    assert recalled(desk, view) == n


def test_keys_alone_are_enough(desk: Opened) -> None:
    page = desk.page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Tab")
    assert "colours" in page.evaluate("document.activeElement.textContent")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "tab-ask"
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.id") == "tab-apart"
    assert page.locator("#view-apart").is_visible()
    page.keyboard.press("Home")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.getAttribute('role')") == "combobox"
    page.keyboard.type("peru")
    page.keyboard.press("Enter")
    assert "The model says Lima" in answer(page.locator("#view-ask"))
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert "The model says Accra" in answer(page.locator("#view-ask"))
    seen = page.evaluate(
        "[...document.querySelectorAll('#view-ask :is(button, input, canvas, summary, [tabindex]), #tabs button')]"
        ".filter(e => e.offsetParent && e.tabIndex < 0 && e.getAttribute('role') !== 'tab').length"
    )
    assert seen == 0  # whatever can be clicked can be reached


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("width", [PHONE, DESK])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_serious_is_found_by_axe_and_nothing_is_wider_than_the_screen(
    view: str, width: int, scheme: str, chromium: Any, path: Path
) -> None:
    from axe_core_python.sync_playwright import Axe

    with opened(chromium, path, width=width, scheme=scheme, view=view) as page:
        page.page.wait_for_timeout(500)
        found = Axe().run(page.page)["violations"]
        serious = [one for one in found if one["impact"] in ("serious", "critical")]
        assert not [(one["id"], one["nodes"][0]["html"][:200]) for one in serious]
        assert page.page.evaluate("document.documentElement.scrollWidth") <= width


def test_light_and_dark_are_switched_by_the_button_and_by_the_system(chromium: Any, path: Path) -> None:
    background = "getComputedStyle(document.body).backgroundColor"
    with opened(chromium, path, scheme="dark") as page:
        dark = page.page.evaluate(background)
        page.page.get_by_role("button", name="Light colours").click()
        light = page.page.evaluate(background)
        assert light == "rgb(255, 255, 255)" != dark
        page.page.get_by_role("button", name="Dark colours").click()
        assert page.page.evaluate(background) == dark


def test_no_answer_takes_long(desk: Opened, record_property: Any) -> None:
    """Reported, and not held to more than ten times the aim: the machine may be busy."""
    view = desk.view("apart")
    recalled(desk, view)
    one, every = (int(view.locator(".timing").get_attribute(f"data-{name}")) for name in ("one", "all"))
    record_property("milliseconds", {"answer": one, "all facts": every})
    assert one < SLACK * AIM["answer"]
    assert every < SLACK * AIM["all facts"]
