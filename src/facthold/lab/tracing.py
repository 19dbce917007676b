"""Which stored row a drawn point comes from: numbers of rows that remember it while a figure computes with them.

A figure gets rows whose numbers are of types that behave as int and float and say where they are from. Plain Python
arithmetic keeps that; NumPy forgets it, and a point without an origin then has none: nothing is guessed. Whole curves
go through NumPy: they are known by being equal to a list that a row holds.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

Origin = frozenset[int]  # numbers of rows
NOWHERE: Origin = frozenset()
CURVE = 16  # numbers in a row that are a curve: no two cells have the same one by chance


class Traced:
    """What a number of a row is, beside being a number."""

    origin: Origin = NOWHERE


class TracedInt(Traced, int):
    """A whole number of a row."""


class TracedFloat(Traced, float):
    """A number of a row."""


def _with(value: Any, origin: Origin) -> Any:
    """A number that remembers these rows; anything else as it is."""
    if type(value) in (int, TracedInt):
        made: Any = TracedInt(value)
    elif type(value) in (float, TracedFloat):
        made = TracedFloat(value)
    else:
        return value
    made.origin = origin
    return made


def origin_of(value: Any) -> Origin:
    """The rows that a number is from."""
    return value.origin if isinstance(value, Traced) else NOWHERE


def _operation(name: str, of: type) -> Callable[..., Any]:
    plain = getattr(of, name)

    def traced(self: Any, *others: Any) -> Any:
        result = plain(self, *others)
        return result if result is NotImplemented else _with(result, self.origin.union(*map(origin_of, others)))

    return traced


_BINARY = [name for sign in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow") for name in (sign, f"r{sign}")]
for _of, _type in ((int, TracedInt), (float, TracedFloat)):
    for _name in [f"__{name}__" for name in (*_BINARY, "neg", "abs")]:
        setattr(_type, _name, _operation(_name, _of))


class TracedRow(Mapping[str, Any]):
    """A row of which every number knows that it is from it."""

    def __init__(self, row: Mapping[str, Any], number: int) -> None:
        self._row, self._origin = row, frozenset([number])

    def __getitem__(self, name: str) -> Any:
        return _traced(self._row[name], self._origin)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._row, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._row)

    def __len__(self) -> int:
        return len(self._row)


def _traced(value: Any, origin: Origin) -> Any:
    if isinstance(value, dict):
        return {name: _traced(one, origin) for name, one in value.items()}
    if isinstance(value, list) and len(value) < CURVE:
        return [_traced(one, origin) for one in value]
    return _with(value, origin)


def origins(values: Any) -> list[Origin] | None:
    """The rows of each of these numbers; None where none has one."""
    if isinstance(values, Traced):
        return [origin_of(values)]
    if not isinstance(values, list | tuple):
        return None
    found = [origin_of(value) for value in values]
    return found if any(found) else None


class Curves:
    """The long lists of some rows, to know a drawn curve by."""

    def __init__(self, rows: Sequence[Mapping[str, Any]]) -> None:
        self._of: dict[tuple[float, ...], Origin] = {}
        for number, row in enumerate(rows):
            for curve in _long(dict(row)):
                start = _start(curve)
                self._of[start] = self._of.get(start, NOWHERE) | {number}

    def origin(self, values: Sequence[float]) -> Origin:
        """The rows that hold the curve that begins so; nowhere, if several do."""
        found = self._of.get(_start(values), NOWHERE) if len(values) >= CURVE else NOWHERE
        return found if len(found) == 1 else NOWHERE


def _start(values: Sequence[float]) -> tuple[float, ...]:
    return tuple(float(value) for value in values[:CURVE])


def _long(value: Any) -> Iterator[list[float]]:
    if isinstance(value, dict):
        for one in value.values():
            yield from _long(one)
    elif isinstance(value, list):
        if len(value) >= CURVE and all(isinstance(one, int | float) for one in value):
            yield value
        else:
            for one in value:
                yield from _long(one)
