"""A plan: how large a model each method needs for a table that is known by its sizes alone, and how long it takes."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from facthold.plan.calibrations import Calibration, Calibrations
from facthold.plan.laws import FEWEST, Interval, PowerLaw, StartedLaw, fit_power, fit_started
from facthold.plan.methods import WAYS, Way
from facthold.plan.rules import Question, Shape
from facthold.recipes.builders import BUILDERS
from facthold.theory.limits_facts import allowed_errors, counting_bound, known_blocks_bits

BYTES = {"float32": 4, "bfloat16": 2, "int8": 1}
BUILDABLE = 10**10
"""Parameters above which no command is given: no machine that runs this program builds such a model."""
LONGEST = 30 * 86400.0
"""Seconds beyond which none is given either."""
ROUNDING = 1e-9
"""A size that is whole but for the rounding of the fit is not rounded up."""
HELD = 0.85
"""Share of its calibrated tables that a method must have held: below, no size can be recommended for a new one."""


@dataclass(frozen=True)
class Laws:
    """The laws of one method at one goal, and the tables they rest on."""

    way: Way
    goal: float
    size: PowerLaw
    seconds: StartedLaw | None
    ranges: Mapping[str, tuple[float, float]]
    """The smallest and the largest S, R, D and number of facts."""


def fit_laws(way: Way, goal: float, rows: Sequence[Calibration]) -> Laws | str:
    """The laws of a method, or in words why there are none."""
    found = [row for row in rows if row.size is not None and row.n_params is not None]
    if len(found) < max(FEWEST, HELD * len(rows)):
        lost = next((row for row in rows if row.size is None), None)
        if lost is None:
            return f"not calibrated at an accuracy of {goal:g}"
        return (
            f"held {len(found)} of {len(rows)} calibrated tables at an accuracy of {goal:g}: no size was found for "
            f"S={lost.S} R={lost.R} D={lost.D} ({_status(lost.status)})"
        )
    questions = [row.question for row in found]
    size = fit_power([way.x(q) for q in questions], [float(row.size or 0) for row in found])
    timed = [(row, q) for row, q in zip(found, questions, strict=True) if row.seconds]
    seconds = None
    if len(timed) >= FEWEST:
        work = [way.work(q, way.shape(q, round(row.size or 0))) for row, q in timed]
        seconds = fit_started(work, [float(row.seconds or 0) for row, _ in timed])
    ranges = {
        name: (min(values), max(values))
        for name, values in {
            "S": [q.S for q in questions], "R": [q.R for q in questions], "D": [q.D for q in questions],
            "facts": [q.facts for q in questions],
        }.items()
    }  # fmt: skip
    return Laws(way, goal, size, seconds, ranges)


def _status(status: str) -> str:
    return status if len(status) < 80 else status[:77] + "..."


@dataclass(frozen=True)
class Planned:
    """One method's answer: a model that is large enough, or why there is none."""

    method: str
    reason: str | None = None
    """Why there is no size."""
    goal: float | None = None
    """The calibrated accuracy that it is for."""
    shape: Shape | None = None
    """The upper end of the interval: what is recommended."""
    expected: Shape | None = None
    low: Shape | None = None
    """Where half of all tables, and where hardly any, are held."""
    seconds: Interval | None = None
    outside: Mapping[str, float] | None = None
    """By what factor S, R, D and the facts lie outside of the calibrated ranges, where they do."""
    ranges: Mapping[str, tuple[float, float]] | None = None
    command: str | None = None
    needed: float = 0.0
    """Bits that no model can do without."""

    @property
    def n_params(self) -> int:
        return self.shape.n_params if self.shape is not None else 0

    @property
    def megabytes(self) -> dict[str, float | None]:
        """By number format; None where it has fewer bits than no model can do without."""
        return {
            name: size * self.n_params / 1e6 if 8 * size * self.n_params >= self.needed else None
            for name, size in BYTES.items()
        }

    def as_json(self) -> dict[str, Any]:
        if self.shape is None or self.low is None or self.expected is None:
            return {"method": self.method, "reason": self.reason}
        time = self.seconds
        return {
            "method": self.method, "reason": None, "calibrated_accuracy": self.goal,
            **{name: _number(value) for name, value in self.shape._asdict().items()},
            "n_params": _number(self.n_params),
            "n_params_interval": [_number(self.low.n_params), _number(self.n_params)],
            "n_params_expected": _number(self.expected.n_params), "confidence": WAYS[self.method].confidence,
            "megabytes": self.megabytes,
            "seconds": None if time is None else time.expected,
            "seconds_interval": None if time is None else [time.low, time.high],
            "extrapolates": dict(self.outside or {}),
            "calibrated": {name: list(ends) for name, ends in (self.ranges or {}).items()},
            "command": self.command,
        }  # fmt: skip


@dataclass(frozen=True)
class Plan:
    """What no model can do without, and what each method needs."""

    question: Question
    bits: float
    """Of random tables with known blocks, on average: no model with fewer has this accuracy."""
    counting_bits: float
    """The same for each random table but a share 2^-slack, less slack."""
    rows: Sequence[Planned]
    """Those with a size first, by parameters."""
    gflops: float
    calibrated_gflops: float
    provenance: Mapping[str, Any]

    @property
    def at_chance(self) -> bool:
        """Whether a model that always gives the same answer of a relation is as good as asked for."""
        return self.question.accuracy <= 1 / self.question.D

    @property
    def best(self) -> Planned | None:
        return next((row for row in self.rows if row.shape is not None), None)

    def as_json(self) -> dict[str, Any]:
        q = self.question
        return {
            "subjects": _number(q.S), "relations": _number(q.R), "answers": _number(q.D), "facts": _number(q.facts),
            "accuracy": q.accuracy, "at_chance": self.at_chance,
            "bits": self.bits, "megabytes": self.bits / 8e6, "counting_bits": self.counting_bits,
            "methods": [row.as_json() for row in self.rows],
            "smallest": self.best and self.best.method,
            "gflops_here": self.gflops, "gflops_calibrated": self.calibrated_gflops,
            "calibrations": dict(self.provenance),
        }  # fmt: skip


def _number(n: int) -> int | float:
    """Whole numbers as they are while every reader of JSON has them exactly."""
    return n if abs(n) < 2**53 else float(n)


def make_plan(
    question: Question, calibrations: Calibrations, gflops: float, *, refused: Mapping[str, str] | None = None,
    file: str | None = None,
) -> Plan:  # fmt: skip
    """The plan for a table, perhaps from a file. ``refused``: methods that cannot hold it, and why."""
    wrong = allowed_errors(question.accuracy, question.facts)
    bits = known_blocks_bits(question.facts, 1, question.D, question.accuracy)
    counted = counting_bound(question.facts, 1, question.D, wrong)
    speed = calibrations.gflops / gflops
    rows: list[Planned] = []
    if question.accuracy > 1 / question.D:
        for way in WAYS.values():
            if refused and way.name in refused:
                rows.append(Planned(way.name, refused[way.name]))
            else:
                rows.append(plan_way(way, question, calibrations, speed, file))
    rows.sort(key=lambda row: (row.shape is None, row.n_params))
    return Plan(question, bits, counted, rows, gflops, calibrations.gflops, calibrations.provenance)


def plan_way(
    way: Way, question: Question, calibrations: Calibrations, speed: float = 1.0, file: str | None = None
) -> Planned:
    """One method's answer, its seconds multiplied by ``speed``; ``file``: where the facts are, for its command."""
    above = [goal for goal in way.goals if goal >= question.accuracy]
    if not above:
        return Planned(way.name, f"calibrated up to an accuracy of {max(way.goals):g} only")
    goal = min(above)
    laws = fit_laws(way, goal, calibrations.of(way.name, goal))
    if isinstance(laws, str):
        return Planned(way.name, laws)
    asked = question._replace(accuracy=goal)
    size = laws.size.at(way.x(asked), way.confidence)
    low, middle, high = (way.shape(asked, max(math.ceil(v * (1 - ROUNDING)), way.least(asked))) for v in size)
    bits = known_blocks_bits(question.facts, 1, question.D, question.accuracy)
    if 32 * high.n_params < bits:
        return Planned(
            way.name,
            f"its law says {high.n_params:.2g} parameters, too few for {bits:.2g} bits in float32: it does not reach "
            "so far outside of its calibrations",
        )  # fmt: skip
    seconds = None
    if laws.seconds is not None:
        seconds = Interval(*(speed * s for s in laws.seconds.at(way.work(asked, high))))
    outside = {name: factor for name, factor in _outside(asked, laws.ranges).items() if factor > 1}
    return Planned(
        way.name, None, goal, high, middle, low, seconds, outside, laws.ranges,
        _command(way, asked, high, seconds, file), bits,
    )  # fmt: skip


def _outside(question: Question, ranges: Mapping[str, tuple[float, float]]) -> dict[str, float]:
    """How many times above the largest, or below the smallest, of what was calibrated."""
    asked = {"S": question.S, "R": question.R, "D": question.D, "facts": question.facts}
    return {name: max(asked[name] / high, low / asked[name]) for name, (low, high) in ranges.items()}


def _command(way: Way, question: Question, shape: Shape, seconds: Interval | None, file: str | None) -> str | None:
    """What builds the model, of a file or of a random table (readout: of a file alone)."""
    if shape.n_params > BUILDABLE or (seconds is not None and seconds.expected > LONGEST):
        return None
    table = f"-S {question.S} -R {question.R} -D {question.D}" if file is None else f"--facts {file}"
    if way.name == "readout":
        return f"facthold build {file or 'FILE'} -o MODEL --method readout --max-params {shape.n_params}"
    if way.name == "train":
        return (
            f"facthold transformer {table} -d {shape.d} --heads {shape.H} --protocol transformer-short "
            f"--goal {question.accuracy:g}"
        )
    assert way.name in BUILDERS
    sizes = f"-d {shape.d}"
    if shape.m:
        sizes += f" -m {shape.m}"
    if way.name == "attention":
        sizes += f" --d-h {shape.d_h}"
    if per_head := way.per_head(question):
        sizes += f" --per-head {per_head}"
    return f"facthold construct --method {way.name} {table} {sizes}"


def quarter(way: Way, question: Question, shape: Shape) -> tuple[int, int]:
    """(d, size) of a model with a quarter of the parameters, or of the neurons where the knob is m.

    Heads that select take much of such a model, and with fewer of them no m is enough: a quarter of all parameters
    would fail for want of heads, and say nothing of m. A quarter of m alone leaves more than a quarter of all.
    """
    if way.knob == "m":
        return shape.d, max(1, shape.m // 4)
    most, step = shape.n_params // 4, way.shape(question, 1).d
    d = max((d for d in range(step, shape.d, step) if way.shape(question, d).n_params <= most), default=step)
    return d, d
