"""Pictures of facts in context: what can be told apart and read, and that rows may be missing."""

from typing import Any

import pytest

from facthold.dynamics import READERS
from facthold.lab.registry import figure
from facthold.studies.context import attention_maps, induction, truncation
from facthold.studies.context.base import BuiltHead, symbol
from facthold.studies.context.global_bigrams import SamplesNeeded
from facthold.studies.context.heads import GenericHead, InductionHead
from facthold.studies.context.noisy import NoisyHead
from facthold.studies.context.three_steps import MATRICES, ThreeSteps

Row = dict[str, Any]


def row(cell: Any, **result: Any) -> Row:
    return {"kind": cell.kind, **cell.spec, **result}


def noisy(**diverged: Any) -> Row:
    cell = NoisyHead(d=16, T=24, shares=(0.0, 0.01, 0.05, 0.1))  # both shares in the middle are rank 1
    found = dict.fromkeys(("p_right", "p_noise", "margin", "accuracy", "looks", "looks_evenly"), 0.3)
    cuts = [{"cut": cut, "share": share, "r": r, "saved": 0, **found}
            for cut in cell.cuts for share, r in zip(cell.shares, (0, 1, 1, 2), strict=True)]  # fmt: skip
    return row(cell, full=found, truncated=cuts) | diverged


def texts(artists: Any) -> list[str]:
    return [artist.get_text() for artist in artists]


def test_a_rank_that_two_shares_give_stands_once_below_the_truncation() -> None:
    canvas = figure("truncation").plot([noisy()])
    assert texts(canvas.axes[0].get_xticklabels()) == ["0", "1", "2", "all"]
    assert {len(line.get_xdata()) for line in canvas.axes[0].lines} == {4}


def test_truncated_matrices_have_words_in_one_legend() -> None:
    canvas = figure("truncation").plot([noisy()])
    (legend,) = canvas.legends
    assert texts(legend.get_texts())[:-1] == list(truncation.WORDS.values())


def test_a_truncation_whose_runs_all_diverged_says_so() -> None:
    canvas = figure("truncation").plot([noisy(full=None, truncated=[])])
    assert texts(canvas.axes[0].texts) == ["every run diverged"]


def test_what_is_counted_of_each_reader_has_the_colour_of_its_points() -> None:
    rows = [row(SamplesNeeded(reader=reader, N=N), samples=8.0) for reader in READERS for N in (64, 128)]
    (axes,) = figure("global-bigrams").plot(rows).axes
    colours: dict[str, list[Any]] = {"None": [], "--": []}
    for line in axes.lines:
        if len(line.get_xdata()):
            colours[line.get_linestyle()].append(line.get_color())
    assert colours["None"] == colours["--"]
    assert len(set(colours["--"])) == len(READERS)
    assert texts(axes.get_legend().get_texts()).count("the same, by counting") == 1


def test_the_level_from_which_a_memory_is_recovered_is_named() -> None:
    probes = dict.fromkeys(MATRICES, 1.0)
    wanted = figure("three-steps")
    (legend,) = wanted.plot([row(ThreeSteps(), probes=probes, accuracy=1.0)]).legends
    assert "0.95: recovered" in texts(legend.get_texts())
    wide = [row(ThreeSteps(d=64), probes=probes, accuracy=1.0)]  # the simplified setting itself is not stored yet
    assert wanted.plot(wide).axes
    assert not any("one-hot" in line for line in wanted.says(wide))


def map_of(length: int) -> Row:
    layer = [[1.0] + [0.0] * t for t in range(length)]
    return {"tokens": ["a", " "] * (length // 2), "told": [t > 2 for t in range(length)], "layers": [layer, layer]}


def test_attention_is_drawn_layer_below_layer_with_a_colour_bar() -> None:
    rows = [row(BuiltHead(d=d), map=map_of(48)) for d in (32, 64, 128)]
    *maps, bar = figure("attention-maps").plot(rows).axes
    assert [axes.get_title() for axes in maps] == [
        f"built: outer products, d = {d}: layer {i}" for i in (1, 2) for d in (32, 64, 128)
    ]
    assert bar.get_xlabel() == "share of the attention"
    assert {axes.images[0].get_array().shape for axes in maps} == {(attention_maps.LENGTH,) * 2}  # type: ignore[union-attr]
    short = figure("attention-maps").plot([row(BuiltHead(d=32), map=map_of(8))]).axes[0]
    assert len(short.get_yticks()) == 8


def trained(cell: Any) -> Row:
    curves = {"steps": [10, 20], "accuracy": [0.1, 0.9], **{probe: [0.5, 1.0] for probe in induction.PROBES}}
    looks = [dict.fromkeys(("previous", "needed", "told", "evenly"), 0.5)] * 2
    return row(cell, accuracy=0.9, baselines=dict.fromkeys(induction.RULES, 0.5), curves=curves, looks=looks)


def test_every_seed_of_an_induction_head_is_seen() -> None:
    heads = [trained(InductionHead(d=16, lr=0.03, steps=20, check_every=10, seed=seed)) for seed in range(8)]
    left, right = figure("induction").plot(heads).axes
    alphas = [line.get_alpha() for line in right.lines]
    assert min(alphas) >= 0.3
    assert len([line for line in left.lines if line.get_alpha() is not None]) == 8


def test_an_induction_figure_without_two_layers_is_drawn() -> None:
    rows = [trained(GenericHead(d=16, lr=0.01, steps=20, check_every=10))]
    left, right = figure("induction").plot(rows).axes
    assert left.lines
    assert not right.lines
    assert figure("induction").says(rows)


@pytest.mark.parametrize(("name", "formula"), [("W_OV^2", "$W_{OV}^2$"), ("F^1", "$F^1$")])
def test_a_matrix_is_written_as_a_formula(name: str, formula: str) -> None:
    assert symbol(name) == formula
