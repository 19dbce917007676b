"""What the task costs: the cells are the tasks, and every one is said and drawn."""

from typing import Any

from facthold.studies.real_facts.task import FIGURE, noise_tokens
from facthold.studies.real_facts.transfer import OF_A_MODEL, TableSize


def row(cell: Any, n_params: int | None) -> dict[str, Any]:
    about = {"facts": 240, "subjects": 60, "relations": 4, "status": "found", **dict.fromkeys(OF_A_MODEL)}
    return {"kind": cell.kind, **cell.spec, **about, "n_params": n_params}


def tasks() -> list[Any]:
    cells = FIGURE.cells(FIGURE.grid("quick"))
    return [cell for cell in cells if isinstance(cell, TableSize) and cell.source == "random"]


def test_the_paper_s_task_has_as_many_noise_tokens_as_subjects_and_relations() -> None:
    by_task = {(cell.n_noise, cell.variant): noise_tokens(row(cell, 1)) for cell in tasks()}
    assert by_task[0, "text"] == by_task[0, "answers"] == 64
    assert by_task[1024, "text"] == 1024


def test_every_task_is_said_and_drawn_and_one_without_a_model_too() -> None:
    rows = [row(cell, 3000 + 100 * i) for i, cell in enumerate(tasks())]
    rows[-1] |= {"n_params": None, "status": "no width was enough"}
    lines = FIGURE.says(rows)
    assert len(lines) == len(rows)
    said = "noise tokens, over the whole vocabulary: 3,000 parameters, 0.080 facts per parameter, all of them recalled"
    assert any(line.endswith(said) for line in lines)
    assert "no width was enough" in lines[-1]
    (axes,) = FIGURE.plot(rows).axes
    assert "no size found for 1" in axes.get_title()
    assert len([text for text in axes.texts if text.get_text()]) == len(rows) - 1
