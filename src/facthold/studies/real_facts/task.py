"""What the paper's task costs: the arg max over the whole vocabulary, and noise tokens in every prompt."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from facthold.lab import Cell, Figure, Values, style
from facthold.lab.fields import Count
from facthold.studies.judging import grouped
from facthold.studies.real_facts.base import RANDOM
from facthold.studies.real_facts.transfer import TableSize

OVER = {"text": "over the whole vocabulary", "answers": "among the answers"}  # by variant
Task = tuple[int, str]  # noise tokens (0: as many as subjects and relations), variant


@dataclass(frozen=True)
class Grid:
    """Tables, and the tasks that each is built for."""

    random: tuple[int, int, int]  # S, R, D
    random_tasks: tuple[Task, ...]
    countries: tuple[Task, ...] = ()
    airports: tuple[Task, ...] = ()
    n_airports: Count = 2500


_noise: tuple[Task, ...] = ((32, "text"), (0, "text"), (256, "text"), (1024, "text"), (0, "answers"))
PRESETS = {
    "smoke": Grid(random=(12, 2, 4), random_tasks=((8, "text"), (0, "text"), (0, "answers"))),
    "quick": Grid(
        random=(60, 4, 8), random_tasks=_noise, airports=((32, "text"), (0, "text")),
        countries=((32, "text"), (32, "answers"), (0, "text"), (0, "answers")),
    ),
    "paper": Grid(
        random=(60, 4, 8), random_tasks=_noise, airports=((32, "text"), (0, "text")), n_airports=8000,
        countries=((32, "text"), (32, "answers"), (0, "text"), (0, "answers")),
    ),
}  # fmt: skip


def cells(grid: Grid) -> list[Cell]:
    S, R, D = grid.random
    tables: list[tuple[dict[str, Any], tuple[Task, ...]]] = [
        ({"S": S, "R": R, "D": D}, grid.random_tasks),
        ({"source": "countries"}, grid.countries),
        ({"source": "airports", "S": grid.n_airports, "seed": grid.n_airports}, grid.airports),
    ]
    return [TableSize(**table, n_noise=n, variant=variant) for table, tasks in tables for n, variant in tasks]


def noise_tokens(r: Values) -> int:
    return r["n_noise"] or r["subjects"] + r["relations"]


def table_name(r: Values) -> str:
    name = "random, S={S}, R={R}, D={D}".format(**r) if r["source"] == RANDOM else r["source"]
    return f"{name}: {r['facts']:,} facts"


def says(rows: Sequence[Values]) -> list[str]:
    """Each table's parameters, task by task."""
    lines = []
    for r in _sorted(rows):
        task = f"{table_name(r)}, {noise_tokens(r):,} noise tokens, {OVER[r['variant']]}"
        if r["n_params"] is None:
            lines.append(f"{task}: {r['status']}")
            continue
        each = f"{r['facts'] / r['n_params']:.3f} facts per parameter, all of them recalled"
        lines.append(f"{task}: {r['n_params']:,} parameters, {each}")
    return lines


def plot(rows: Sequence[Values]) -> "style.Canvas":
    tables = grouped(_sorted(rows), table_name)
    canvas, panels = style.panels(len(tables), width=4.2, height=3.9)
    for axes, (name, ours) in zip(panels, tables.items(), strict=True):
        found = [r for r in ours if r["n_params"] is not None]
        for i, r in enumerate(found):
            colour = style.COLOURS[list(OVER).index(r["variant"])]
            axes.bar(i, r["n_params"] / r["facts"], color=colour, width=0.7, zorder=2)
            axes.annotate(f"{r['n_params']:,}", (i, r["n_params"] / r["facts"]), (0, 3), ha="center", fontsize=7.5,
                          textcoords="offset points")  # fmt: skip
        axes.set_xticks(np.arange(len(found)), [f"{noise_tokens(r):,}" for r in found], fontsize=8)
        missing = len(ours) - len(found)
        axes.set(title=name + (f"\nno size found for {missing}" if missing else ""), xlabel="noise tokens")
        style.frame(axes, "y")
    panels[0].set_ylabel("parameters per fact")
    for variant, colour in zip(OVER, style.COLOURS, strict=False):
        panels[0].bar([0], [0], color=colour, label=f"arg max {OVER[variant]}")
    canvas.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False)
    return canvas


def _sorted(rows: Sequence[Values]) -> list[Values]:
    return sorted(rows, key=lambda r: (r["source"] != RANDOM, r["facts"], r["variant"] != "text", noise_tokens(r)))


FIGURE = Figure(
    "task", "What the paper's task costs", "beyond the paper: equation 7 and |N| = S + R, measured",
    "Parameters per fact of the smallest transformers that the recipe gated finds with every fact right, by the "
    "number of noise tokens that prompts are drawn from and by what the arg max goes over. The numbers are parameters. "
    "Widths are searched in steps of 1.2, so that two bars that differ by less may be the same.",
    PRESETS, cells, plot, says=says,
    sees="The more noise tokens, and the more the arg max goes over, the more parameters a fact costs.",
)  # fmt: skip
