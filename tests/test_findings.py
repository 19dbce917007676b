"""docs/findings.md says what the stored results say, and those are of the claims and cells as they are."""

import json
import re
import runpy
from pathlib import Path
from typing import Any

import pytest

from facthold.lab.claim import MEANINGS
from facthold.lab.registry import claims
from facthold.studies.scaling import scaling

DOCS = Path(__file__).parents[1] / "docs"
NOT_MEASURED: tuple[str, ...] = ()
"""Claims and quoted figures that have not been measured at preset quick yet: the page names them, and the README does
not say what they say."""
OLD_WORDS: tuple[str, ...] = ("efficiency",)
"""Quoted figures whose code says more than their notes of the last run: `make findings` draws them again."""
KINDS = ("outer products", "solved", "trained")  # of heads
QUOTED = (
    ("docs/tour.md", r"store ([\d.]+) bits each", "efficiency", r"([\d.]+) bits per weight", 2),
    ("docs/tour.md", r"outer product stores ([\d.]+) times", "efficiency", r"has ([\d.]+) times the associations", 1),
    ("docs/limits.md", r"It is (\d+) \[", "efficiency", r"(\d+) times as near", 0),
    ("docs/limits.md", r"this is (\d+)% of it", "efficiency", r"(\d+)% of 0.83", 0),
    ("docs/dynamics.md", r"step\n?1,(\d+), comes", "hallucination", r"leaves at step 1(\d+)", 0),
    ("docs/dynamics.md", r"rest at step 2,(\d+)", "hallucination", r"rests at step 2(\d+)", 0),
    ("docs/dynamics.md", r"plateau at step 3,(\d+)", "hallucination", r"ends at step 3(\d+)", 0),
    ("docs/dynamics.md", r"is ([\d.]+)% \(balanced\)", "sequential-learning", r"T\* = 4e\+04, \+([\d.]+)% off", 2),
    ("docs/context.md", r"exponents are (-[\d.]+) \(signal", "noisy-inputs", r"signal: exponent (-[\d.]+)", 3),
    ("docs/context.md", r"(-[\d.]+)\n?\(rest", "noisy-inputs", r"rest: exponent (-[\d.]+)", 3),
    ("docs/context.md", r"The exponents are (-[\d.]+)\n", "global-bigrams", r"feed-forward: exponent (-[\d.]+)", 3),
    ("docs/context.md", r"([\d.]+) \(0.886 to", "global-bigrams", r"attention: exponent ([\d.]+)", 3),
    (
        "docs/context.md",
        r"Measured over counted are 0.998, ([\d.]+)",
        "global-bigrams",
        r"n: measured / counted ([\d.]+)",
        3,
    ),
    ("docs/lm.md", r"attention adds ([\d.]+) and MLPs 6.26", "lm-contrast", r"answers \(attention ([\d.]+)", 2),
    ("docs/lm.md", r"73 held facts ([\d.]+) \[", "lm-one-layer", r"layer 23: ([\d.]+) of 73", 2),
    ("docs/lm.md", r"0.30 at rank 64, ([\d.]+) whole", "lm-matrix-rank", r"rank 64, ([\d.]+) whole", 2),
    ("docs/lm.md", r"of the scores\) gives ([\d.]+),", "lm-whitening", r"layer 6 ([\d.]+)", 1),
    ("docs/lm.md", r"a memory of real embeddings has ([\d.]+) \[", "lm-trained", r"layer 6 ([\d.]+)", 2),
    ("docs/lm.md", r"the facts said go from ([\d.]+) to 0.44", "lm-truncation", r"other countries ([\d.]+) to", 2),
    ("docs/context.md", r"Contrasts over closed forms are ([\d.]+)", "three-steps", r"W_OV\^2 (0[\d.]+)", 3),
)
"""Measurements that stand in other pages: file and place there, claim and place in what it measured, and digits."""


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
    now = page["digests"]()
    assert results["cells"] == {name: now.get(name) for name in results["cells"]}, "run make findings"
    assert {name.partition(" ")[2] for name in set(now) - set(results["cells"])} == set(NOT_MEASURED)


@pytest.mark.slow
def test_the_notes_are_by_the_code_as_it_is(page: dict[str, Any], results: dict[str, Any]) -> None:
    now = page["wordings"]()
    assert {name for name in now if results["words"].get(name) != now[name]} == set(OLD_WORDS), "run make findings"
    assert set(OLD_WORDS) <= set(page["outdated"](results)[1])


def test_other_words_of_a_figure_are_noticed(page: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of what it calls, and of constants, too; drawing is none of it."""
    before = page["wordings"]()
    monkeypatch.setattr(scaling, "slopes", lambda found: [])
    assert {name for name, code in page["wordings"]().items() if code != before[name]} == {"scaling"}
    monkeypatch.undo()
    monkeypatch.setitem(scaling.WORDS, "p", "q as p")
    assert {name for name, code in page["wordings"]().items() if code != before[name]} == {"scaling"}
    monkeypatch.undo()
    monkeypatch.setattr(scaling, "plot", lambda rows: None)
    assert page["wordings"]() == before


def test_the_results_are_of_the_claims_as_they_are(results: dict[str, Any]) -> None:
    assert [id for id in claims() if id not in NOT_MEASURED] == list(results["claims"])
    for id, said in results["claims"].items():
        claim = claims()[id]
        assert (said["statement"], said["place"], said["changed"]) == (claim.statement, claim.place, claim.changed), id
        assert said["verdict"] in MEANINGS, id
        assert said["verdict"] != "not run", id


@pytest.mark.parametrize(("file", "there", "id", "here", "digits"), QUOTED)
def test_numbers_on_other_pages_are_those_of_the_results(
    file: str, there: str, id: str, here: str, digits: int, results: dict[str, Any]
) -> None:
    (said,) = re.findall(there, (DOCS.parent / file).read_text())
    measured = re.findall(here, results["claims"][id]["measured"])
    assert measured
    assert float(said) == round(float(measured[0]), digits)


def test_the_table_of_truncated_models_is_that_of_the_results(results: dict[str, Any]) -> None:
    notes = results["figures"]["truncation"]["notes"]
    lines = re.findall(r"^\| ([FW_][^|]*|nothing) \| (.*)% \| (.*)% \| (.*) \| ([\d.]+)%", _context(), re.M)
    assert len(lines) == 9
    for cut, right, noise, margin, looks in lines:
        name = {"nothing": "nothing truncated"}.get(cut, cut.replace(" and ", "+").partition(" (")[0])
        start = f"gradient descent, public start: {name}"
        (found,) = [note for note in notes if note.startswith((f"{start}:", f"{start} ("))]
        said = f"right {right}%, noise token {noise}%, margin {margin}, attention to outputs {looks}%"
        assert found.endswith(said), cut


def test_the_table_of_the_smallest_heads_is_that_of_the_results(results: dict[str, Any]) -> None:
    notes, text = results["figures"]["probes"]["notes"], _context()
    (outer,) = re.findall(r"^\| outer products, position 0 silenced \| (.*) \| (\d+) to (\d+)% \|", text, re.M)
    (trained,) = re.findall(r"^\| trained \| (\d+) \((\d+) has", text, re.M)
    assert re.search(r"^\| solved \| none up to 256 ", text, re.M)
    lines = {kind: next(note for note in notes if f"of 32, {kind}: " in note) for kind in KINDS}
    sizes = {kind: re.findall(r"(\d+) \((\d+) is too small", line) for kind, line in lines.items()}
    assert outer[0].split(" or ") == sorted({size for size, _ in sizes["outer products"]})
    assert {trained} == set(sizes["trained"])
    assert lines["solved"].endswith("solved: search ceiling, search ceiling, search ceiling")
    (at_128,) = [note for note in notes if note.startswith("outer products, d = 128: ")]
    shares = [float(share) for share in re.findall(r"([\d.]+)%", at_128)]
    assert outer[1:] == (f"{min(shares):.0f}", f"{max(shares):.0f}")


def test_the_table_of_truncated_facts_is_that_of_the_results(results: dict[str, Any]) -> None:
    notes = results["figures"]["fact-truncation"]["notes"]
    rows = re.findall(r"^\| (\d+), ([^|]*) \| (.*)% \| (.*)% \| (.*)% \| (.*)% \| (.*)% \|", _context(), re.M)
    assert len(rows) == 5
    for d, law, full, many, few, frequent, rarest in rows:
        start = f"d = {d}, {law.replace('equally', 'all facts equally')}"
        (whole,) = [note for note in notes if note.startswith(f"{start}: the full")]
        shares = [float(share) for share in re.findall(r"([\d.]+)%", whole)]
        assert {float(end) for end in full.split(" to ")} == {min(shares), max(shares)}, start
        (cut,) = [note for note in notes if note.startswith(f"{start}, mlp.V at rank 24: ")]
        assert f"fourth of the subjects {frequent}%, the rarest fourth {rarest}%" in cut, start
        assert f"relations with many answers {many}%, with few {few}%" in cut, start


def test_the_table_of_the_three_steps_is_that_of_the_results(results: dict[str, Any]) -> None:
    notes = results["figures"]["three-steps"]["notes"]
    named = {"infinite width": "finite width", "infinite data": "finite data", "T well below N": "T near N",
             "uniform tokens": "bigrams of a text"}  # fmt: skip
    for taken, name in named.items():
        (row,) = re.findall(rf"^\| {taken}[^|]*\| (.*) \| (.*) \| (.*) \|$", _context(), re.M)
        (note,) = [note for note in notes if note.startswith(f"{name}: ")]
        for matrix, said in zip(("W_OV^2", "W_KQ^2", "W_KQ^1"), row, strict=True):
            where = said.replace(" (", " sequences (") if name == "finite data" else said
            expected = f"{matrix} never does" if said == "never" else f"{matrix} first falls below 0.95 at {where}"
            assert expected in note, (taken, matrix)


def _context() -> str:
    return (DOCS / "context.md").read_text()


def test_what_drifts_says_by_how_much_and_what_is_open_says_what_would_decide(results: dict[str, Any]) -> None:
    for id, said in results["claims"].items():
        if said["verdict"] in ("drifts", "not decided"):
            assert said["drift"] or said["next"], id
        if said["verdict"] == "drifts":
            assert said["drift"], id


def test_what_is_not_there_is_an_error(page: dict[str, Any], results: dict[str, Any]) -> None:
    findings = page["Findings"](results)
    for ask in (findings.claim, findings.figure, lambda name: findings.fit("ladder", name)):
        with pytest.raises(KeyError):
            ask("no such thing")


def test_every_claim_is_on_the_page() -> None:
    text = (DOCS / "findings.md").read_text()
    assert not [id for id in (*claims(), *NOT_MEASURED) if f"`{id}`" not in text]
