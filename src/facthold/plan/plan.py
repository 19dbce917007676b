"""A plan: how large a model each recipe needs for a table that is known by its sizes alone, and how long it takes."""

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal, InvalidOperation
from functools import cached_property
from pathlib import Path
from typing import Any

from facthold._util.arguments import checked
from facthold._util.commands import command, count
from facthold._util.memory import available
from facthold.facts.table import FactTable
from facthold.models.sizes import Shape
from facthold.plan.calibrations import FILE, Calibration, Calibrations, product_rate, read
from facthold.plan.laws import FEWEST, Interval, PowerLaw, StartedLaw, fit_power, fit_started
from facthold.recipes import fact_recipes
from facthold.recipes.base import FactRecipe, Question, Sizing
from facthold.theory.limits_facts import allowed_errors, counting_bound, known_blocks_bits

ACCURACY = 0.99
LARGEST = 10**30  # sizes above it are refused: nothing that can be counted is larger
BYTES = {"float32": 4, "bfloat16": 2, "int8": 1}
DAY = 86400.0
LONGEST = 30 * DAY  # seconds that a person may wait for a model: what takes longer is not recommended
HELD_BYTES = 8  # of each parameter while a model is built: in float32, and once more for what is computed from it
ROUNDING = 1e-9  # a size that is whole but for the rounding of the fit is not rounded up
HELD = 0.85  # share of its calibrated tables that a recipe must have held: below, no size can be recommended


@checked
def plan(
    facts: Any = None, *, subjects: float | str | None = None, relations: float | str | None = None,
    answers: float | str | None = None, accuracy: float = ACCURACY,
    calibrations: Calibrations | str | Path | None = None,
) -> "Plan":  # fmt: skip
    """How large a model must be for a table of facts, before anything is built.

        fh.plan(subjects=1_000_000, relations=20, answers=100)
        fh.plan(fh.FactTable.of("countries.csv"), accuracy=1.0).to_rows()

    ``facts`` are a `FactTable` or whatever `FactTable.of` reads; ``answers`` are those of each relation. A size is
    enough for 9 of 10 new random tables or more; recipes that cannot hold the given facts say why. ``calibrations`` are
    the measured sizes to plan by, or the file that has them.
    """
    if not 0 < accuracy <= 1:
        raise ValueError(f"accuracy={accuracy:g} must be above 0 and at most 1")
    sizes = {"subjects": subjects, "relations": relations, "answers": answers}
    if facts is not None:
        if given := next((name for name, size in sizes.items() if size is not None), None):
            raise ValueError(f"{given}={sizes[given]} and facts: facts have sizes of their own, give one of the two")
        facts = facts if isinstance(facts, FactTable) else FactTable.of(facts)
        question = Question.of(facts, accuracy)
    else:
        S, R, D = (whole_number(name, size) for name, size in sizes.items())
        question = Question(S, R, D, accuracy)
    if not isinstance(calibrations, Calibrations):
        calibrations = read(FILE if calibrations is None else Path(calibrations))
    return make_plan(question, calibrations, product_rate(), facts)


def whole_number(name: str, size: float | str | None) -> int:
    """A size as a number or as it is typed, 1000000, 1_000_000 or 1e6, exactly."""
    if size is None:
        raise ValueError(f"give {name} too: subjects, relations and answers of each relation, or facts")
    try:
        number = Decimal(str(size))
    except InvalidOperation:
        number = Decimal("nan")
    if not (number.is_finite() and 1 <= number <= LARGEST and int(number) == number):
        typed = size or repr(size)
        raise ValueError(f"{name}={typed} must be a whole number from 1 to 1e30, as 1000000, 1_000_000 or 1e6")
    return int(number)


@dataclass(frozen=True)
class Laws:
    """The laws of one recipe at one goal, and the tables they rest on."""

    size: PowerLaw
    seconds: StartedLaw | None
    ranges: Mapping[str, tuple[float, float]]  # the smallest and the largest S, R, D and number of facts


def fit_laws(sizing: Sizing, goal: float, rows: Sequence[Calibration]) -> Laws | str:
    """The laws of a recipe, or in words why there are none."""
    found = [row for row in rows if row.size is not None and row.n_params is not None]
    if len(found) < max(FEWEST, HELD * len(rows)):
        lost = next((row for row in rows if row.size is None), None)
        if lost is None:
            return f"not calibrated at an accuracy of {goal:g}"
        status = lost.status if len(lost.status) < 80 else lost.status[:77] + "..."
        return (
            f"held {len(found)} of {len(rows)} calibrated tables at an accuracy of {goal:g}: no size was found for "
            f"S={lost.S} R={lost.R} D={lost.D} ({status})"
        )
    size = fit_power([sizing.x(row.question) for row in found], [float(row.size or 0) for row in found])
    timed = [row for row in found if row.seconds]
    seconds = None
    if len(timed) >= FEWEST:
        shapes = [sizing.shape(row.question, round(row.size or 0)) for row in timed]
        work = [sizing.work(row.question, shape) for row, shape in zip(timed, shapes, strict=True)]
        seconds = fit_started(work, [float(row.seconds or 0) for row in timed])
    measured = {name: [getattr(row.question, name) for row in found] for name in ("S", "R", "D", "facts")}
    return Laws(size, seconds, {name: (min(values), max(values)) for name, values in measured.items()})


@dataclass(frozen=True)
class Planned:
    """What one recipe needs: a model that is large enough, or why there is none."""

    recipe: FactRecipe
    reason: str | None = None  # why there is no size
    question: Question | None = None  # what the size is for: the accuracy is the next that was calibrated
    shape: Shape | None = None  # what is recommended: the upper end of the interval
    params: Interval | None = None  # parameters with which hardly any tables, half of them, and all but a few are held
    seconds: Interval | None = None
    outside: Mapping[str, float] = field(default_factory=dict)  # factors by which S, R, D, facts are out of range
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    needed: float = 0.0  # bits that no model can do without
    doubt: str | None = None  # why it is not known whether it can hold the facts; the size is that of random tables

    @property
    def name(self) -> str:
        return self.recipe.name

    @property
    def n_params(self) -> int:
        return self.shape.n_params if self.shape is not None else 0

    @cached_property
    def obstacle(self) -> str | None:
        """Why it cannot be built here: memory that this machine does not have, or time that nobody waits for."""
        if self.shape is None:
            return self.reason
        needed, there = HELD_BYTES * self.n_params, available()
        if needed > there:
            return f"{_brief(needed / 2**30)} GiB of memory"
        if self.seconds is not None and self.seconds.expected > LONGEST:
            days = self.seconds.expected / DAY
            return f"about {_brief(days)} days" if days < 1000 else f"about {_brief(days / 365.25)} years"
        return None

    @property
    def megabytes(self) -> dict[str, float | None]:
        """By number format; None where it has fewer bits than no model can do without."""
        return {
            name: size * self.n_params / 1e6 if 8 * size * self.n_params >= self.needed else None
            for name, size in BYTES.items()
        }

    def command(self, file: str | None = None) -> str | None:
        """What makes the model, for a file of facts or for a random table; None: it is far too large, or takes long."""
        shape, q, sizing = self.shape, self.question, self.recipe.sizing
        if shape is None or q is None or sizing is None or self.obstacle is not None:
            return None
        if self.name == "gated" and file is not None:  # its search shares neurons out better than a rule
            words = shlex.split(file)
            model = Path(words[0]).with_suffix(".safetensors").name
            return command("build", *words, output=model, recipe=self.name, max_params=shape.n_params)
        table = f"-S {q.S} -R {q.R} -D {q.D}" if file is None else f"--facts {file}"
        sizes = {"-d": shape.d}
        if self.recipe.size != "d":
            sizes[{"m": "-m", "d_h": "--d-h"}[self.recipe.size]] = getattr(shape, self.recipe.size)
        if sizing.per_head:
            sizes["--per-head"] = sizing.per_head
        given = " ".join(f"{option} {size}" for option, size in sizes.items())
        goal = f" --accuracy {q.accuracy:g}" if self.recipe.build is None else ""
        if self.name == "train":  # calibrated on the paper's task, where `make` trains as the authors' code does
            goal = f" --variant text{goal}"
        return f"facthold make --recipe {self.name} {table} {given}{goal}"

    def as_json(self, file: str | None = None) -> dict[str, Any]:
        if self.question is None or self.shape is None or self.params is None or self.recipe.sizing is None:
            return {"recipe": self.name, "reason": self.reason}
        low, expected, high = map(_exact, self.params)
        time = self.seconds
        return {
            "recipe": self.name, "reason": None, "doubt": self.doubt, "obstacle": self.obstacle,
            "calibrated_accuracy": self.question.accuracy,
            **{name: _exact(value) for name, value in self.shape._asdict().items()},
            "n_params": high, "n_params_interval": [low, high], "n_params_expected": expected,
            "confidence": self.recipe.sizing.confidence, "megabytes": self.megabytes,
            "seconds": time and time.expected, "seconds_interval": time and [time.low, time.high],
            "extrapolates": dict(self.outside), "calibrated": {name: list(ends) for name, ends in self.ranges.items()},
            "command": self.command(file),
        }  # fmt: skip


@dataclass(frozen=True, repr=False)
class Plan:
    """What no model can do without, and what each recipe needs."""

    question: Question
    bits: float
    """Of random tables with known blocks, on average: no model with fewer has this accuracy."""
    counting_bits: float
    """The same for each random table but a share 2^-slack, less slack."""
    rows: Sequence[Planned]
    """Those that can be built here first, by parameters; then those with a size, by the time that they would take."""
    gflops: float
    calibrations: Calibrations

    @property
    def at_chance(self) -> bool:
        """Whether a model that always gives the same answer of a relation is as good as asked for."""
        return self.question.accuracy <= 1 / self.question.D

    @property
    def best(self) -> Planned | None:
        """The smallest that can be built here, if any can, of those that can hold the facts for all that is known."""
        return next((row for row in self.rows if row.obstacle is None and row.doubt is None), None)

    @property
    def out_of_reach(self) -> str:
        """In one line those that have a size and cannot be built here, with what each would take."""
        rows = [row for row in self.rows if row.shape is not None and row.obstacle is not None]
        if not rows:
            return ""
        star = " (* extrapolated)" if any(row.outside for row in rows) else ""
        each = ", ".join(f"{row.name}{'*' if row.outside else ''} ({row.obstacle})" for row in rows)
        most = f"{available() / 2**30:.3g} GiB of memory and {LONGEST / DAY:.0f} days"
        return f"out of reach here, within {most}: {each}{star}"

    def to_rows(self) -> list[dict[str, Any]]:
        """One flat row for each recipe, as pandas takes them: ``pandas.DataFrame(plan.to_rows())``."""
        return [
            {"recipe": row.name, **(row.shape._asdict() if row.shape else dict.fromkeys(Shape._fields)),
             "n_params": row.n_params or None, "n_params_low": row.params and row.params.low,
             "seconds": row.seconds and row.seconds.expected, "extrapolated": bool(row.outside), "reason": row.reason,
             "doubt": row.doubt, "obstacle": row.obstacle}
            for row in self.rows
        ]  # fmt: skip

    def __repr__(self) -> str:
        q = self.question
        lines = [
            f"Plan for {_counted(q.facts, 'fact')} ({_counted(q.S, 'subject')}, {_counted(q.R, 'relation')}, "
            f"{_counted(q.D, 'answer')} each) at an accuracy of {q.accuracy:g}: no model has fewer than "
            f"{_counted(self.bits, 'bit')}"
        ]
        shown = [row for row in self.rows if row.obstacle is None or row.shape is None]
        for row in shown:
            size = row.reason
            if row.shape is not None and row.params is not None:
                sizes = " ".join(f"{name}={_brief(v)}" for name, v in row.shape._asdict().items() if v)
                time = "" if row.seconds is None else f", about {row.seconds.expected:.2g} s"
                size = f"{_brief(row.params.low)} to {_brief(row.n_params)} parameters ({sizes}){time}"
            unknown = f"; {row.doubt}" if row.doubt else ""
            lines.append(f"  {row.name}{'*' if row.outside else ''}: {size}{unknown}")
        if any(row.outside for row in shown):
            lines.append("  * extrapolated: the table is outside of what was calibrated")
        if self.out_of_reach:
            lines.append(f"  {self.out_of_reach}")
        return "\n".join(lines)

    def as_json(self, file: str | None = None) -> dict[str, Any]:
        q = self.question
        return {
            "subjects": _exact(q.S), "relations": _exact(q.R), "answers": _exact(q.D), "facts": _exact(q.facts),
            "accuracy": q.accuracy, "at_chance": self.at_chance, "bits": self.bits, "megabytes": self.bits / 8e6,
            "counting_bits": self.counting_bits, "recipes": [row.as_json(file) for row in self.rows],
            "smallest": self.best and self.best.name,
            "gflops_here": self.gflops, "gflops_calibrated": self.calibrations.gflops,
            "calibrations": dict(self.calibrations.provenance),
        }  # fmt: skip


def _exact(n: float) -> float:
    """Whole numbers as they are while every reader of JSON has them exactly."""
    return n if abs(n) < 2**53 else float(n)


def _brief(n: float) -> str:
    return f"{n:,.0f}" if n < 1e9 else f"{float(n):.2g}"


def _counted(n: float, what: str) -> str:
    return count(_brief(n), what)


def make_plan(question: Question, calibrations: Calibrations, gflops: float, table: FactTable | None = None) -> Plan:
    """The plan for a table of these sizes. Recipes that cannot hold this ``table`` at any size say why, and so do
    those of which that is not known."""
    wrong = allowed_errors(question.accuracy, question.facts)
    bits = known_blocks_bits(question.facts, 1, question.D, question.accuracy)
    counted = counting_bound(question.facts, 1, question.D, wrong)
    recipes = fact_recipes().values() if question.accuracy > 1 / question.D else ()
    checks = {check for recipe in recipes for check in (recipe.refuses, recipe.doubts)}  # several share one
    said = {} if table is None else {check: check(table) for check in checks}
    rows, speed = [], calibrations.gflops / gflops
    for recipe in recipes:
        if reason := said.get(recipe.refuses):
            rows.append(Planned(recipe, reason))
        else:
            planned = plan_recipe(recipe, question, calibrations, speed)
            rows.append(replace(planned, doubt=said.get(recipe.doubts)))
    rows.sort(key=_rank)
    return Plan(question, bits, counted, rows, gflops, calibrations)


def _rank(row: Planned) -> tuple[float, ...]:
    """What can be built here by its size, then what cannot by the time it would take, then what has no size."""
    seconds = row.seconds.expected if row.seconds is not None else math.inf
    return (
        row.shape is None,
        row.obstacle is not None,
        row.n_params if row.obstacle is None else seconds,
        row.n_params,
    )


def plan_recipe(recipe: FactRecipe, question: Question, calibrations: Calibrations, speed: float = 1.0) -> Planned:
    """What one recipe needs, its seconds multiplied by ``speed``."""
    sizing = recipe.sizing
    if sizing is None:
        return Planned(recipe, "not calibrated: the recipe does not say how its size grows (sizing)")
    goal = min((goal for goal in sizing.goals if goal >= question.accuracy), default=None)
    if goal is None:
        return Planned(recipe, f"calibrated up to an accuracy of {max(sizing.goals):g} only")
    laws = fit_laws(sizing, goal, calibrations.of(recipe.name, goal))
    if isinstance(laws, str):
        return Planned(recipe, laws)
    asked = question._replace(accuracy=goal)
    sizes = laws.size.at(sizing.x(asked), sizing.confidence)
    shapes = [sizing.shape(asked, max(math.ceil(v * (1 - ROUNDING)), sizing.least(asked))) for v in sizes]
    params = Interval(*(shape.n_params for shape in shapes))
    bits = known_blocks_bits(question.facts, 1, question.D, question.accuracy)
    if 32 * params.high < bits:
        return Planned(
            recipe,
            f"its law says {params.high:.2g} parameters, too few for {bits:.2g} bits in float32: it does not reach "
            "so far outside of its calibrations",
        )  # fmt: skip
    seconds = None
    if laws.seconds is not None:
        seconds = Interval(*(speed * s for s in laws.seconds.at(sizing.work(asked, shapes[-1]))))
    # how many times above the largest, or below the smallest, of what was calibrated
    sizes_asked = {name: getattr(asked, name) for name in laws.ranges}
    factors = {k: max(sizes_asked[k] / most, least / sizes_asked[k]) for k, (least, most) in laws.ranges.items()}
    outside = {name: factor for name, factor in factors.items() if factor > 1}
    return Planned(recipe, None, asked, shapes[-1], params, seconds, outside, laws.ranges, bits)
