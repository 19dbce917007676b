"""Fields of cells and grids: types that say which values they take (``goal: Share = 0.99``), checked in one place."""

import importlib
import math
import types
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields
from functools import cache
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from facthold._util.errors import check_one_of


@dataclass(frozen=True)
class Between:
    """A number above ``low`` (or at least ``least``) and at most ``most``, and finite; or None."""

    low: float = -math.inf
    least: float = -math.inf
    most: float = math.inf

    def check(self, name: str, value: Any) -> None:
        if value is not None and not (self.low < value and self.least <= value <= self.most and math.isfinite(value)):
            lower = f"above {self.low:g}" if self.low > -math.inf else f"at least {self.least:g}"
            upper = f" and at most {self.most:g}" if self.most < math.inf else ""
            raise ValueError(f"{name}={value} must be {lower}{upper}")


@dataclass(frozen=True)
class OneOf:
    """One of some names: a collection of them, a function that gives it (a registry), or 'module:NAME', where it stands
    in a module that is too slow to load before it is needed."""

    known: Iterable[str] | Callable[[], Iterable[str]]

    def check(self, name: str, value: Any) -> None:
        known = self.known
        if isinstance(known, str):
            module, _, attribute = known.partition(":")
            known = getattr(importlib.import_module(module), attribute)
        check_one_of(name, value, list(known() if callable(known) else known))


@dataclass(frozen=True)
class Each:
    """A tuple of one value or more, of which each keeps the rules of a type. Of ``distinct`` ones none is there twice:
    a size or a seed would be counted twice, and make an error look smaller than it is."""

    of: Any = int
    distinct: bool = False

    def check(self, name: str, value: Any) -> None:
        if not value:
            raise ValueError(f"{name} is empty; give one or more")
        rules, before = list(rules_of(self.of)), set[Any]()
        for one in value:
            for rule in rules:
                rule.check(name, one)
            if self.distinct and one in before:
                raise ValueError(f"{name} has {one} twice; give each once")
            before.add(one)


Rule = Between | OneOf | Each
Count = Annotated[int, Between(least=1)]
ProtocolName = Annotated[str, OneOf("facthold.train.protocols:PROTOCOLS")]
Whole = Annotated[int, Between(least=0)]  # 0 mostly means: none, or left to somebody else
Share = Annotated[float, Between(low=0, most=1)]
Positive = Annotated[float, Between(low=0)]
Tolerance = Annotated[float, Between(least=0, most=1)]  # relative width of a bracket: above 1 it says nothing
Repeats = Annotated[int, Between(least=1, most=1000)]  # a number of seeds: each is a whole piece of work
Seeds = Annotated[tuple[int, ...], Each(Whole, distinct=True)]
Counts = Annotated[tuple[int, ...], Each(Count, distinct=True)]
Pairs = Annotated[tuple[tuple[int, int], ...], Each(Annotated[tuple[int, int], Each(Count)])]
Shares = Annotated[tuple[float, ...], Each(Share, distinct=True)]


def check_fields(instance: Any) -> None:
    """Refuse values that the types of a dataclass's fields do not allow; None is allowed where the type has it."""
    cls: Any = type(instance)
    for name in _checked(cls):
        check_field(cls, name, getattr(instance, name))


def check_field(cls: Any, name: str, value: Any) -> None:
    """The same for one field by its name."""
    for rule in _checked(cls)[name] if value is not None else ():
        rule.check(name, value)


@cache
def _checked(cls: Any) -> dict[str, list[Rule]]:
    hints = get_type_hints(cls, include_extras=True)
    return {field.name: list(rules_of(hints[field.name])) for field in fields(cls)}


def rules_of(hint: Any) -> Iterator[Rule]:
    """What a type says of its values."""
    if get_origin(hint) in (types.UnionType, Union):
        for part in get_args(hint):
            yield from rules_of(part)
    yield from (rule for rule in getattr(hint, "__metadata__", ()) if hasattr(rule, "check"))
