"""The width of lemma 3's MLP: the cell against the whole transformer, and what is refused."""

import dataclasses
import json
from typing import Any

import pytest

from facthold._util.keys import derive
from facthold.measure.fact_recall import fact_accuracy
from facthold.studies.constructions.built import BuiltSize
from facthold.studies.constructions.width import HeadWidth, MLPWidth
from facthold.theory import lemma3

TINY = MLPWidth(S=8, R=8, D=8, d=257, guess=120, seeds=(0, 1))


def test_perfect_attention_is_what_the_heads_of_the_transformer_do() -> None:
    """Each width that was tried recalls as many facts as the whole transformer of that width, built by itself."""
    result = json.loads(json.dumps(TINY.run()))
    whole = BuiltSize(
        builder="attention-mlp", table_kind="balanced", S=8, R=8, D=8, d=257, per_head=1, guess=120, seeds=TINY.seeds
    )
    for search in result["per_seed"]:
        probes = search["probes"]
        assert min(accuracy for _, accuracy in probes) < 1  # or nothing would be told apart
        for m, accuracy in probes[:3]:
            made = whole.build(m, search["seed"])
            assert fact_accuracy(made.model, made.problem, key=derive("ask", 0)) == pytest.approx(
                accuracy, abs=0.5 / 64
            )


@pytest.mark.parametrize(
    ("builder", "cell"),
    [
        ("attention", HeadWidth(S=6, R=4, D=3, d=256, per_head=2, guess=12, seeds=(0,))),
        ("attention-full", HeadWidth(S=4, R=8, D=3, guess=150, seeds=(0,))),
    ],
)
def test_heads_with_perfect_attention_are_those_of_the_transformer(builder: str, cell: HeadWidth) -> None:
    """Each size that was tried recalls as many facts as the whole transformer, where its attention selects."""
    (search,) = cell.run()["per_seed"]
    assert search["status"] == "found"
    names = ("S", "R", "D", "d", "guess", "seeds")
    whole = BuiltSize(builder=builder, per_head=cell.per_head, **{name: getattr(cell, name) for name in names})
    for size, accuracy in search["probes"][:3]:
        made = whole.build(size, 0)
        if made.problem.d < 128:  # lemma 1 fails there
            continue
        recalled = fact_accuracy(made.model, made.problem, key=derive("ask", 0))
        assert recalled == pytest.approx(accuracy, abs=0.5 / cell.n_facts)


def test_a_cell_finds_the_width_that_is_predicted() -> None:
    cell = MLPWidth(S=24, R=24, D=24, d=257, guess=400, seeds=(0, 1, 2, 3))
    result = cell.run()
    assert result["status"] == "found"
    assert result["facts"] == 576
    for search in result["per_seed"]:
        assert search["md"] == 257 * search["size"] == search["n_params"] / 2
    assert result["size"] == pytest.approx(lemma3.width(cell.sizes), rel=0.15)


def test_a_search_that_ends_at_its_ceiling_is_no_width() -> None:
    result = dataclasses.replace(TINY, guess=20).run()
    assert result["status"] == "search ceiling"
    assert result["size"] is result["n_params"] is None
    assert dataclasses.replace(TINY, guess=20, share=0.25).run()["facts"] == 16


@pytest.mark.parametrize(
    ("fields", "message"),
    [({"p": 0}, "p=0"), ({"share": 1.5}, "share=1.5"), ({"seeds": ()}, "seeds is empty"), ({"asked": 0}, "asked=0")],
)
def test_cells_that_cannot_be_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(TINY, **fields)
