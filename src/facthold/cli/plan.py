"""facthold plan: how large a model must be for a table of facts, before anything is built."""

import importlib.metadata
import math
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from facthold.cli import options as o
from facthold.cli.app import command
from facthold.cli.inputs import read_given, refuse, say_replaced, writable_file
from facthold.cli.printing import WIDE, amount, count, paragraph, print_json, show, size_text, times_text, width
from facthold.facts.table import FactTable
from facthold.models.sizes import Shape
from facthold.plan.calibrations import FILE, KIND, Calibrations, product_rate, read, write
from facthold.plan.plan import ACCURACY, DAY, LONGEST, Plan, Planned, fit_laws
from facthold.plan.plan import plan as make_plan
from facthold.recipes import fact_recipes


@command()
def plan(
    subjects: str | None = o.option("--subjects", "-S", "Subjects, as 1000, 1_000 or 1e3."),
    relations: str | None = o.option("--relations", "-R", "Relations."),
    answers: str | None = o.option("--answers", "-D", "Answers of each relation."),
    accuracy: float | None = o.option("--accuracy", f"Share of the facts that must be right (default: {ACCURACY})."),
    facts: o.Facts = None,
    on_conflict: o.OnConflict = None,
    calibrations: Annotated[
        Path | None, o.named("--calibrations", "Plan by this file (default: the package's own).")
    ] = None,
    laws: bool = o.flag("--laws", "Print the fitted laws themselves."),
    calibrate: bool = o.flag("--calibrate", "Measure the sizes again that plans rest on (a quarter of an hour)."),
    store: o.Store = None,
    output: o.TableFile = None,
    json: o.Json = False,
) -> None:
    """Say how large a model must be for so many facts: bits that no model can do without, and the size that each
    construction and training need, with megabytes and seconds.

    Sizes come from laws that were fitted to measured ones, and are the upper end of an interval for a new table. The
    task is the paper's: the arg max over the whole vocabulary, with as many noise tokens as subjects and relations.
    """
    sizes = {"subjects": subjects, "relations": relations, "answers": answers}
    if calibrate:
        refuse("does not go with --calibrate: one plans, the other measures", **sizes, accuracy=accuracy, facts=facts)
        return refresh(store, output or FILE, json)
    refuse("is for --calibrate; a plan keeps nothing", store=store, output=output)
    if laws:
        refuse("does not go with --laws: they are the same for every table", **sizes, accuracy=accuracy, facts=facts)
        return _show_laws(calibrations, json)
    table, _ = read_given(facts, on_conflict, **sizes)
    goal = ACCURACY if accuracy is None else accuracy
    made = make_plan(table, **sizes, accuracy=goal, calibrations=calibrations)
    file = None if facts is None else shlex.quote(str(facts)) + (f" --on-conflict {on_conflict}" if on_conflict else "")
    given_bits = None
    if table is not None:
        from facthold.measure.bits import table_bits

        given_bits = table_bits(table, goal)
    if json:
        print_json(made.as_json(file) | {"table_bits": given_bits, "facts_file": None if facts is None else str(facts)})
    else:
        _say(made, table, given_bits, file)


def _of_a_table(table: FactTable | None) -> str:
    """How answers were counted."""
    if table is None:
        return ""
    further = len(table.also)
    more = f", {_counted(further, 'further right one')} among them" if further else ""
    return f" (2^(mean log2 A_r), {table.A} in all{more})"


def _say(made: Plan, table: FactTable | None, given_bits: float | None, file: str | None) -> None:
    """The plan in words and a table."""
    q = made.question
    paragraph(
        f"{_counted(q.facts, 'fact')}: {_counted(q.S, 'subject')}, {_counted(q.R, 'relation')}, "
        f"{_counted(q.D, 'answer')} each" + _of_a_table(table)
    )
    if made.at_chance:
        return paragraph(
            f"no bits are needed: one answer for each relation, always the same, is right in {1 / q.D:.4%} of "
            f"random facts, and {q.accuracy:.4%} is enough"
        )
    paragraph(
        f"no model that answers {q.accuracy:.4g} of random facts right has fewer than {_counted(made.bits, 'bit')} "
        f"({size_text(made.bits / 8)}), on average over tables"
    )
    if given_bits:
        paragraph(
            "for one given table there is no such bound; but no model that knows so much of every table with these "
            f"answers, each as often, has fewer than {_counted(given_bits, 'bit')} ({size_text(given_bits / 8)})"
        )
    shown = [row for row in made.rows if row.obstacle is None]
    if shown:
        _show_rows(shown)
    if made.out_of_reach:
        paragraph(made.out_of_reach)
    for reason in dict.fromkeys(row.reason for row in made.rows if row.reason is not None):
        paragraph(f"{', '.join(row.name for row in made.rows if row.reason == reason)}: {reason}")
    for doubt in dict.fromkeys(row.doubt for row in shown if row.doubt is not None):
        paragraph(f"{', '.join(row.name for row in shown if row.doubt == doubt)}: {doubt}; so not recommended")
    _warn(shown)
    goals = {row.name: row.question.accuracy for row in shown if row.question is not None}
    for goal in sorted({*goals.values()} - {q.accuracy}):
        names = ", ".join(name for name in goals if goals[name] == goal)
        paragraph(f"sizes of {names}: for an accuracy of {goal:g}, the next that was calibrated")
    if not shown:
        return paragraph(
            f"no recipe makes such a model here within {LONGEST / DAY:.0f} days; take fewer facts, or fewer at a time"
        )
    paragraph(
        "params: enough for 9 of 10 new random tables or more; "
        + ("from: enough for 1 of 10 or fewer; " if width() >= WIDE else "")
        + f"times: calibrated at {made.calibrations.gflops:.0f} GFLOP/s on one core, here {made.gflops:.0f}"
        + ("" if width() >= WIDE else f"; d, H, d_h, m and megabytes: in {WIDE} columns, or by --json")
    )
    if best := made.best:
        typer.echo(f"smallest: {best.name}; {best.command(file)}")


def _counted(n: float, what: str) -> str:
    return count(amount(n), what)


def _show_rows(rows: Sequence[Planned]) -> None:
    """What a narrow terminal shows at a glance, and what a wide one has room for beside it."""
    wide = width() >= WIDE
    formats = {"f32": "float32", "bf16": "bfloat16", "int8": "int8"} if wide else {}
    title = {"title": "sizes in MB", "title_justify": "right"} if wide else {}
    shown = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), **title)  # type: ignore[arg-type]
    names = ["recipe", *Shape._fields, "params", "from", *formats, "time"] if wide else ["recipe", "params", "time"]
    for name in names:
        shown.add_column(name, justify="left" if name == "recipe" else "right", no_wrap=True)
    for row in rows:
        if row.shape is not None and row.params is not None:
            sizes = {
                **row.shape._asdict(), "params": row.n_params, "from": row.params.low,
                **{name: row.megabytes[kind] for name, kind in formats.items()},
            }  # fmt: skip
            shown.add_row(
                row.name + ("*" if row.outside else ""),
                *("-" if sizes[name] is None else amount(sizes[name], 5) for name in names[1:-1]),
                "?" if row.seconds is None else times_text(row.seconds),
            )
    Console(highlight=False, markup=False, width=width()).print(shown)


def _show_laws(calibrations: Path | None, json: bool) -> None:
    """The constants of every law, from the calibrations."""
    kept = read(calibrations or FILE)
    laws: list[dict[str, Any]] = []
    for name, sizing in ((recipe.name, recipe.sizing) for recipe in fact_recipes().values() if recipe.sizing):
        for goal in sizing.goals:
            law = fit_laws(sizing, goal, kept.of(name, goal))
            laws.append({"recipe": name, "accuracy": goal, "reason": law})
            if not isinstance(law, str):
                laws[-1] |= {
                    "reason": None, "size": sizing.size, "x": sizing.law, "constant": law.size.constant,
                    "exponents": law.size.exponents, "spread": law.size.spread, "tables": law.size.n,
                    "seconds": law.seconds and {k: getattr(law.seconds, k) for k in ("start", "rate", "spread")},
                }  # fmt: skip
    if json:
        return print_json(laws)
    columns = ("recipe", "accuracy", "c", "b", "spread", "seconds", "law")
    show("Laws of facthold plan", columns, [law | _in_words(law) for law in laws], few=True)


def _in_words(law: dict[str, Any]) -> dict[str, Any]:
    if law["reason"]:
        return dict.fromkeys(("c", "b", "spread", "seconds")) | {"law": law["reason"]}
    return {
        "c": f"{law['constant']:.3g}", "b": ", ".join(f"{b:.3g}" for b in law["exponents"]),
        "spread": f"{math.exp(law['spread']) - 1:.0%}, {law['tables']} tables",
        "seconds": law["seconds"] and "{start:.2g} + {rate:.2g} work".format(**law["seconds"]),
        "law": f"{law['size']} = c x^b, x = {law['x']}",
    }  # fmt: skip


def refresh(store: Path | None, output: Path, json: bool, place: Any = None) -> None:
    """Compute the cells that the store lacks, one at a time, so that its seconds are its own; write ``output``."""
    from facthold.cli.cells import compute_cells
    from facthold.lab.provenance import provenance
    from facthold.lab.workers import Workers
    from facthold.studies.sizes.calibrations import calibration, cells

    writable_file(output, KIND)
    say_replaced(output)
    before, wanted = product_rate(), cells()
    rows = compute_cells("calibrations", [cell for *_, cell in wanted], store, place or Workers(1))
    gflops = (before + product_rate()) / 2
    found = [calibration(name, goal, cell, row.result) for (name, goal, cell), row in zip(wanted, rows, strict=True)]
    machine = vars(provenance(0.0))
    about = {name: machine[name] for name in ("facthold", "date", "cpu", "cores", "python", "jax")} | {
        "numpy": importlib.metadata.version("numpy"), "gflops": gflops, "command": "facthold plan --calibrate",
        "cells": {
            "seconds": sum(row.provenance.seconds for row in rows),
            "first": min(row.provenance.date for row in rows), "last": max(row.provenance.date for row in rows),
        },
    }  # fmt: skip
    write(Calibrations(about, found), output)
    held = sum(row.size is not None for row in found)
    if json:
        print_json({"file": str(output), "calibrations": len(found), "found": held, "provenance": about})
    else:
        typer.echo(f"{count(len(found), 'calibration')}, {held} with a size; written to {output}")


def _warn(rows: Sequence[Planned]) -> None:
    """A line for the recipes that were calibrated on the same tables: how far outside of them this table is."""
    by_range: dict[str, list[Planned]] = {}
    for row in rows:
        if row.outside:
            text = ", ".join(f"{name} {low:g} to {high:g}" for name, (low, high) in row.ranges.items())
            by_range.setdefault(text, []).append(row)
    for text, ours in by_range.items():
        factors = (f"{name} is outside by a factor of {amount(by, 3)}" for name, by in ours[0].outside.items())
        names = ", ".join(row.name for row in ours)
        paragraph(f"* extrapolated: {names}: calibrated on {text}; {', '.join(factors)}")
