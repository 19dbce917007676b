"""A drawn point knows its row, or says that it does not; what is drawn is what Matplotlib draws."""

import io
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from facthold.lab import registry, style
from facthold.lab.interactive import panels
from facthold.lab.provenance import provenance
from facthold.lab.runner import run_cells
from facthold.lab.store import Row, Store
from facthold.lab.tracing import CURVE, Curves, TracedRow, origin_of
from facthold.lab.words import as_html
from odd_cells import Quiet


def rows(*results: dict[str, Any]) -> list[Row]:
    spec = {"S": 4, "R": 2, "D": 2, "log_alpha": -1.0}
    return [Row("", "predicted-stages", 1, spec, result, provenance(0.0)) for result in results]


def traced(some: list[Row]) -> list[TracedRow]:
    return [TracedRow(row, i) for i, row in enumerate(some)]


def test_numbers_behave_as_numbers_and_remember_their_rows() -> None:
    a, b = traced(rows({"N": 12, "x": 0.5, "parts": {"of": [3, True, None]}}, {"N": 7, "x": 2.0}))
    assert (a["N"], a["x"], a["parts"]["of"]) == (12, 0.5, [3, True, None])
    assert isinstance(a["N"], int)
    assert f"{a['N']:,} {a['x']:.2f}" == "12 0.50"
    assert np.array([a["N"], b["N"]]).dtype.kind == "i"
    assert range(a["N"])[-1] == 11
    assert origin_of(a["N"] ** 2 / 3 - 1) == {0}
    assert origin_of(a["parts"]["of"][0]) == {0}
    assert origin_of(2 * a["x"] + b["N"]) == {0, 1}
    assert origin_of(sum([a["N"], b["N"]]) / 2) == {0, 1}
    assert origin_of(math.log(a["N"])) == frozenset()  # not known, and not guessed
    assert {**a}["N"] == 12


def test_a_curve_is_known_by_what_it_begins_with_unless_two_rows_have_it() -> None:
    one, other = np.linspace(3, 1, 40), np.linspace(2, 1, 40)
    some = rows({"curves": {"loss": one.tolist()}}, {"loss": other.tolist()}, {"loss": other.tolist()})
    curves = Curves(some)
    assert curves.origin(one[:30]) == {0}
    assert curves.origin(other) == frozenset()
    assert curves.origin(one[: CURVE - 1]) == frozenset()


def test_points_bars_guides_shades_and_words_become_panels() -> None:
    some = rows({"N": 10, "x": 1.0, "per_seed": [{"seed": 3, "N": 9}, {"seed": 4, "N": 11}]}, {"N": 30, "x": 2.0})
    a, b = traced(some)
    canvas, (left, right) = style.panels(2)
    left.errorbar(
        [1, 10], [a["N"], b["N"]], yerr=[[1, 2], [3, 4]], label="$d^2$", linestyle="none", marker="s", color="#ff0000"
    )
    left.plot([1, 10], [5, 50], **style.GUIDE, label="law")
    style.loglog(left, "A $\\alpha$", "size", "N")
    style.legend(left)
    right.bar([0, 1], [a["x"], b["x"]])
    right.axhline(1.5, **style.GUIDE)
    right.axvspan(0, 1, color="#00ff00", alpha=0.5)
    right.text(0.5, 1.0, "here")
    right.set(xlim=(-1, 2), ylabel="share")
    first, second = panels(canvas, some) or []
    assert first["title"] == "A α"
    points = next(t for t in first["data"] if t["name"] == "d<sup>2</sup>")
    assert (points["x"], points["y"], points["marker"]["color"], points["marker"]["symbol"]) == (
        [1, 10],
        [10, 30],
        "#ff0000",
        "square",
    )
    assert (points["error_y"]["arrayminus"], points["error_y"]["array"]) == ([1, 2], [3, 4])
    assert "seeds 3: 9, 4: 11" in points["customdata"][0]
    assert points["customdata"][1].startswith("predicted-stages")
    law = next(t for t in first["data"] if t["name"] == "law")
    assert law["line"]["dash"] == "dash"
    assert first["layout"]["xaxis"]["type"] == "log"
    assert first["layout"]["yaxis"]["title"]["text"] == "N"
    assert law["legendrank"] != points["legendrank"]
    bars = next(t for t in second["data"] if t["type"] == "bar")
    assert bars["y"] == [1, 2]
    across = next(t for t in second["data"] if t["y"] == [1.5, 1.5])
    assert across["x"] == [-1, 2]
    assert [shape["x1"] for shape in second["layout"]["shapes"]] == [1]
    assert [text["text"] for text in second["layout"]["annotations"]] == ["here"]


def test_what_has_no_counterpart_keeps_its_part_of_the_picture() -> None:
    canvas, (left, right) = style.panels(2)
    left.imshow([[0, 1], [1, 0]])
    left.figure.colorbar(left.images[0], ax=left)
    assert panels(canvas, []) is not None  # the right one is empty, and can be drawn
    right.plot([1, 2], [1, 2])
    still, drawn = panels(canvas, []) or []
    assert drawn["data"]
    with Image.open(io.BytesIO(still["still"])) as part:
        width, height = canvas.get_size_inches() * 160
        assert part.height <= height
        assert width / 4 < part.width < 0.6 * width
    right.remove()
    assert panels(canvas, []) is None  # nothing of it can be touched: the whole picture stays


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (r"$1.3\,N\ln N = d^2$ (authors)", "1.3 N ln N = d<sup>2</sup> (authors)"),
        (r"$d^{2-\alpha}$", "d<sup>2-α</sup>"),
        (r"$W_{KQ}$ & <b>", "W<sub>KQ</sub> &amp; &lt;b&gt;"),
        (r"$\sqrt{D_E D_U}$", "√(D<sub>E</sub> D<sub>U</sub>)"),
        (r"bound: $\log_2 N! =$ 2 bits", "bound: log<sub>2</sub> N! = 2 bits"),
        ("costs 5$", "costs 5$"),
        ("two\nlines", "two<br>lines"),
    ],
)
def test_formulas_are_words_that_a_browser_reads(text: str, shown: str) -> None:
    assert as_html(text) == shown


@pytest.mark.slow
@pytest.mark.parametrize("name", ["fig1", "fig5", "ladder"])
def test_plotly_takes_the_panels_of_a_figure_and_every_point_is_there(name: str, smoke_store: Path) -> None:
    from plotly.graph_objects import Figure

    wanted = registry.figure(name)
    with Store(smoke_store) as store:
        some = run_cells(wanted.cells(wanted.grid("smoke")), store, Quiet())
    canvas = wanted.plot(traced(list(some)))
    made = panels(canvas, some)
    assert made is not None
    assert len(made) == len(canvas.axes)
    plain = wanted.plot(some)
    for panel, axes in zip(made, plain.axes, strict=True):
        Figure(data=panel["data"], layout=panel["layout"])  # refuses what plotly does not know
        drawn = {(round(x, 3), round(y, 3)) for t in panel["data"] for x, y in zip(t["x"], t["y"], strict=True)}
        expected = {
            (round(float(f"{x:.6g}"), 3), round(float(f"{y:.6g}"), 3))
            for line in axes.lines if line.get_transform() == axes.transData and not line.get_label().startswith("_")
            for x, y in zip(*map(np.asarray, line.get_data()), strict=True)
        }  # fmt: skip
        assert expected <= drawn
