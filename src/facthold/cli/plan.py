"""facthold plan: how large a model must be for a table of facts, before anything is built."""

import math
import shlex
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Annotated

import typer

from facthold.cli.app import app
from facthold.cli.basics import JsonOption, print_json
from facthold.cli.fact_tables import FactsOption, OnConflictOption, read_given
from facthold.facts.table import FactTable
from facthold.plan.calibrations import FILE, Calibrations, product_rate, read
from facthold.plan.laws import Interval
from facthold.plan.methods import WAYS
from facthold.plan.plan import Plan, Planned, fit_laws, make_plan
from facthold.plan.rules import Question
from facthold.plan.tables import question_of, refusals

ACCURACY = 0.99
LARGEST = 10**30
"""Sizes above it are refused: nothing that can be counted is larger."""
COLUMNS = 100
UNITS = (("s", 1.0, 120.0), ("min", 60.0, 7200.0), ("h", 3600.0, 172800.0), ("d", 86400.0, 365.25 * 86400),
         ("y", 365.25 * 86400, math.inf))  # fmt: skip
YEAR = 365.25 * 86400
EXAMPLE = "as in --subjects 1e6 --relations 20 --answers 100"


@app.command()
def plan(
    subjects: Annotated[str | None, typer.Option("--subjects", "-S", help="Subjects, as 1000, 1_000 or 1e3.")] = None,
    relations: Annotated[str | None, typer.Option("--relations", "-R", help="Relations.")] = None,
    answers: Annotated[str | None, typer.Option("--answers", "-D", help="Answers of each relation.")] = None,
    accuracy: Annotated[
        float | None, typer.Option("--accuracy", help=f"Share of the facts that must be right (default: {ACCURACY}).")
    ] = None,
    facts: FactsOption = None,
    on_conflict: OnConflictOption = None,
    calibrate: Annotated[
        bool, typer.Option("--calibrate", help="Measure the sizes again that plans rest on (a quarter of an hour).")
    ] = False,
    store: Annotated[
        Path | None, typer.Option("--store", help="With --calibrate: file that keeps its results.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="With --calibrate: file to write (default: the package's own).")
    ] = None,
    calibrations: Annotated[
        Path | None, typer.Option("--calibrations", help="Plan by this file (default: the package's own).")
    ] = None,
    laws: Annotated[bool, typer.Option("--laws", help="Print the fitted laws themselves.")] = False,
    json: JsonOption = False,
) -> None:
    """Say how large a model must be for so many facts: bits that no model can do without, and the size that each
    construction and training need, with megabytes and seconds.

    Sizes come from laws that were fitted to measured ones, and are the upper end of an interval for a new table.
    """
    typed = {"--subjects": subjects, "--relations": relations, "--answers": answers}
    if calibrate:
        given = [name for name, value in (typed | {"--accuracy": accuracy, "--facts": facts}).items() if value]
        if given:
            raise ValueError(f"take one of --calibrate and {given[0]}: one measures, the other plans")
        from facthold.cli.calibrate import refresh

        refresh(store, out or FILE, json)
        return
    for name, value in {"--store": store, "--out": out}.items():
        if value is not None:
            raise ValueError(f"{name} {value} is for --calibrate; a plan keeps nothing")
    if laws:
        given = [
            name for name, value in (typed | {"--accuracy": accuracy, "--facts": facts}).items() if value is not None
        ]
        if given:
            raise ValueError(f"take one of --laws and {given[0]}: the laws are the same for every table")
        _laws(read(calibrations or FILE), json)
        return
    goal = ACCURACY if accuracy is None else accuracy
    if not 0 < goal <= 1:
        raise ValueError(f"--accuracy {goal:g} must be above 0 and at most 1")
    table, _ = read_given(facts, typed, on_conflict)
    if table is None:
        missing = [name for name, value in typed.items() if value is None]
        if missing:
            raise ValueError(f"give {missing[0]} too, {EXAMPLE}, or a file with --facts")
        S, R, D = (whole_number(name, value or "") for name, value in typed.items())
        question = Question(S, R, D, goal)
    else:
        question = question_of(table, goal)
    refused = refusals(table) if table else None
    file = None if facts is None else shlex.quote(str(facts)) + (f" --on-conflict {on_conflict}" if on_conflict else "")
    made = make_plan(question, read(calibrations or FILE), product_rate(), refused=refused, file=file)
    given_bits = None if table is None else _given_bits(table, goal)
    if json:
        print_json(made.as_json() | {"table_bits": given_bits, "facts_file": None if facts is None else str(facts)})
    else:
        say(made, table, given_bits)


def whole_number(option: str, text: str) -> int:
    """A size as it is typed: 1000000, 1_000_000 or 1e6, exactly."""
    wrong = f"{option} {text} must be a whole number from 1 to 1e30, as 1000000, 1_000_000 or 1e6"
    try:
        number = Decimal(text)
    except InvalidOperation:
        raise ValueError(wrong) from None
    if not (number.is_finite() and 1 <= number <= LARGEST and int(number) == number):
        raise ValueError(wrong)
    return int(number)


def _given_bits(table: FactTable, accuracy: float) -> float:
    from facthold.measure.bits import table_bits

    return table_bits(table, accuracy)


def say(made: Plan, table: FactTable | None, given_bits: float | None) -> None:
    """The plan in words and a table of at most 100 columns."""
    q = made.question
    typer.echo(
        f"{amount(q.facts)} facts: {amount(q.S)} subjects, {amount(q.R)} relations, {amount(q.D)} answers each"
        + ("" if table is None else f" (2^(mean log2 A_r), {table.A} in all)")
    )
    if made.at_chance:
        typer.echo(
            f"no bits are needed: one answer for each relation, always the same, is right in {1 / q.D:.4g} of random "
            f"facts, and {q.accuracy:.4g} was asked for"
        )
        return
    typer.echo(
        f"no model that answers {q.accuracy:.4g} of random facts right has fewer than {amount(made.bits)} bits "
        f"({size_text(made.bits / 8)}), on average over tables"
    )
    if given_bits:
        typer.echo(
            "for one given table there is no such bound; but no model that knows so much of every table with these "
            f"answers, each as often, has fewer than {amount(given_bits)} bits ({size_text(given_bits / 8)})"
        )
    _table(made)
    for row in made.rows:
        if row.reason is not None:
            typer.echo(f"{row.method}: {row.reason}")
    for line in warnings(made.rows):
        typer.echo(line)
    for goal in sorted({row.goal for row in made.rows if row.goal is not None and row.goal != q.accuracy}):
        names = ", ".join(row.method for row in made.rows if row.goal == goal)
        typer.echo(f"sizes of {names}: for an accuracy of {goal:g}, the next that was calibrated")
    typer.echo(
        f"params: enough for 9 of 10 new random tables or more; from: enough for 1 of 10 or fewer; times: "
        f"calibrated at {made.calibrated_gflops:.0f} GFLOP/s on one core, here {made.gflops:.0f}"
    )
    if best := made.best:
        typer.echo(f"smallest: {best.method}; {best.command or 'far too large to be built by this program here'}")


def _table(made: Plan) -> None:
    from rich.console import Console
    from rich.table import Table

    columns = ("method", "d", "H", "d_h", "m", "params", "from", "f32", "bf16", "int8", "time")
    shown = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), title="sizes in MB", title_justify="right")
    for name in columns:
        shown.add_column(name, justify="left" if name == "method" else "right", no_wrap=True)
    for row in made.rows:
        if row.shape is None or row.low is None:
            continue
        shown.add_row(
            row.method + ("*" if row.outside else ""), *(short(v) for v in row.shape), short(row.n_params),
            short(row.low.n_params), *("-" if v is None else short(v) for v in row.megabytes.values()),
            "?" if row.seconds is None else times_text(row.seconds),
        )  # fmt: skip
    Console(highlight=False, markup=False, width=COLUMNS).print(shown)


def _laws(calibrations: Calibrations, json: bool) -> None:
    """The constants of every law, from the calibrations."""
    found = [
        (way, goal, fit_laws(way, goal, calibrations.of(way.name, goal))) for way in WAYS.values() for goal in way.goals
    ]
    if json:
        print_json(
            [
                {"method": way.name, "accuracy": goal, "reason": law}
                if isinstance(law, str)
                else {
                    "method": way.name, "accuracy": goal, "reason": None, "knob": way.knob, "x": way.law,
                    "constant": law.size.constant, "exponents": law.size.exponents, "spread": law.size.spread,
                    "tables": law.size.n,
                    "seconds": law.seconds and {
                        "start": law.seconds.start, "rate": law.seconds.rate, "spread": law.seconds.spread
                    },
                }
                for way, goal, law in found
            ]
        )  # fmt: skip
        return
    from facthold.cli.tables import show

    rows = []
    for way, goal, law in found:
        if isinstance(law, str):
            rows.append((way.name, f"{goal:g}", law, "", "", "", ""))
            continue
        power = ", ".join(f"{b:.3g}" for b in law.size.exponents)
        seconds = "" if law.seconds is None else f"{law.seconds.start:.2g} + {law.seconds.rate:.2g} work"
        rows.append(
            (way.name, f"{goal:g}", f"{way.knob} = c x^b, x = {way.law}", f"{law.size.constant:.3g}", power,
             f"{math.exp(law.size.spread) - 1:.0%}, {law.size.n} tables", seconds)
        )  # fmt: skip
    show("Laws of facthold plan", ("method", "accuracy", "law", "c", "b", "spread", "seconds"), rows)


def warnings(rows: Sequence[Planned]) -> list[str]:
    """A line for the methods that were calibrated on the same tables: how far outside of them this table is."""
    by_range: dict[str, list[Planned]] = {}
    for row in rows:
        if row.outside and row.ranges:
            text = ", ".join(f"{name} {low:g} to {high:g}" for name, (low, high) in row.ranges.items())
            by_range.setdefault(text, []).append(row)
    return [
        f"* extrapolated: {', '.join(row.method for row in ours)}: calibrated on {text}; "
        + ", ".join(f"{name} is outside by a factor of {amount(factor, 3)}" for name, factor in _outside(ours).items())
        for text, ours in by_range.items()
    ]


def _outside(rows: Sequence[Planned]) -> dict[str, float]:
    return dict(rows[0].outside or {})


def amount(n: float, digits: int = 9) -> str:
    """A number as it is read: whole with commas while it is short, else with a power of ten."""
    if n < 10**digits and abs(n - round(n)) < 1e-9 * max(1, abs(n)):
        return f"{round(n):,}"
    if n < 1000:
        return f"{n:.3g}"
    if n < 10**digits:
        return f"{round(n):,}"
    return f"{float(n):.1e}".replace("e+0", "e").replace("e+", "e")


def short(n: float) -> str:
    """A number in six characters."""
    if n >= 99999.5:
        digits = 2 if n < 1e10 else 1 if n < 1e100 else 0
        return f"{float(n):.{digits}e}".replace("e+0", "e").replace("e+", "e")
    return str(round(n)) if n >= 999.5 or n == round(n) else f"{n:.3g}"


def size_text(size: float) -> str:
    """Bytes in the unit that suits them."""
    for unit, one in (("B", 1.0), ("kB", 1e3), ("MB", 1e6), ("GB", 1e9), ("TB", 1e12)):
        if size < 999.5 * one:
            return f"{size / one:.3g} {unit}"
    return f"{amount(size / 1e12, 4)} TB"


def times_text(seconds: Interval) -> str:
    """What is expected, and the interval in the same unit: '4.9 s (3.5-6.7)'."""
    low, expected, high = seconds
    if expected >= 1000 * YEAR:
        return "> 1,000 years"
    unit, one = next((unit, one) for unit, one, most in UNITS if expected < most)
    text = lambda s: f"{s / one:.2g}" if s < 99.5 * one else short(round(s / one))  # noqa: E731
    return f"{text(expected)} {unit} ({text(low)}-{text(high)})"
