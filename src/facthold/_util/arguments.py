"""Types of arguments, checked at the front door: who calls `fh.build` in a notebook reads which argument is wrong and
what it must be, and not where deep inside it went wrong."""

import inspect
import numbers
import os
from collections.abc import Callable, Iterable, Mapping, MappingView, Sequence, Set
from functools import cache, wraps
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints

from facthold._util.errors import brief, find, with_article

P = ParamSpec("P")
T = TypeVar("T")
WORDS: dict[Any, str] = {
    str: "text", int: "a whole number", float: "a number", bool: "True or False", Path: "a path", NoneType: "None",
    Iterable: "a list", Sequence: "a list", Mapping: "a dictionary", Callable: "a function",
}  # fmt: skip


def checked(function: Callable[P, T]) -> Callable[P, T]:
    """The function, which refuses arguments that are not of the plain types it is written with: text, numbers, paths,
    lists of anything, classes of ours, and unions of them. All other types are left to the function. Numbers of NumPy
    become Python's own, of which random keys are made."""

    @cache
    def written() -> tuple[inspect.Signature, dict[str, Any]]:
        plain = inspect.unwrap(function)
        return inspect.signature(plain), _hints(plain)

    @wraps(function)
    def front(*args: P.args, **kwargs: P.kwargs) -> T:
        signature, hints = written()
        try:
            given = signature.bind(*args, **kwargs)
        except TypeError:  # too many or too few: Python has its own words for it
            return function(*args, **kwargs)
        for name, value in given.arguments.items():
            hint = hints.get(name, Any)
            if signature.parameters[name].kind is inspect.Parameter.VAR_POSITIONAL:
                for one in value:
                    check_type(name, one, hint, "; give each by itself, and no list")
            else:
                check_type(name, value, hint)
                if name == "key":
                    check_key(value)
                if hint is not Any:  # else it may be a name, and 0.1 in float32 is another number in Python
                    given.arguments[name] = _as_python(value)
        return function(*given.args, **given.kwargs)

    return front


def checked_options(options: Mapping[str, Any], written: type) -> dict[str, Any]:
    """The options for a dataclass; those that it does not have as fields, or not of that type, are refused."""
    hints = _hints(written)
    for name, value in options.items():
        check_type(name, value, find("option", name, hints))
    return {name: _as_python(value) for name, value in options.items()}


def check_key(key: Any) -> None:
    """Refuse what is no random key, as JAX has them: a seed is none."""
    if not (str(getattr(key, "dtype", "")).startswith("key") or getattr(key, "shape", None) == (2,)):  # or an old one
        raise ValueError(f"key={brief(key)} must be a key, as from fh.derive('facts', 0)")


def check_path(name: str, value: Any) -> None:
    """Refuse an empty name of a file: as a path, it is the folder that one is in."""
    if value == "":
        raise ValueError(f"{name}={value!r}: the name of the file is empty; give one")


def check_ordered(name: str, value: Any) -> None:
    """Refuse a set: it has another order in each process, and what is made of it would be another."""
    if isinstance(value, Set | MappingView):
        raise ValueError(
            f"{name} is {with_article(type(value).__name__)}, and what is made depends on the order of the facts; give "
            f"a list, such as sorted({name})"
        )


def check_type(name: str, value: Any, hint: Any, way: str = "") -> None:
    """Refuse a value that is none of the plain types of a hint, in a line that ends with a ``way`` out."""
    parts = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    kinds = [get_origin(part) or part for part in parts]
    if Path in kinds:
        check_path(name, value)
    if all(map(_is_plain, kinds)) and not any(_is(value, kind) for kind in kinds):
        named = [kind for kind in kinds if kind is not int or float not in kinds]  # a whole number is a number
        words = dict.fromkeys(WORDS.get(kind) or with_article(getattr(kind, "__name__", kind)) for kind in named)
        raise ValueError(f"{name}={brief(value)} must be {' or '.join(words)}{way}")


@cache
def _hints(written: Any) -> dict[str, Any]:
    """The types of arguments or fields. One that is not loaded yet, as it computes, stays the name that it has."""
    try:
        return get_type_hints(written)
    except NameError:
        return dict(inspect.get_annotations(written))


def _as_python(value: Any) -> Any:
    return value.item() if isinstance(value, numbers.Number) and hasattr(value, "item") else value


def _is_plain(kind: Any) -> bool:
    if isinstance(kind, str):
        return kind.isidentifier()
    return kind in WORDS or (isinstance(kind, type) and kind.__module__.startswith("facthold"))


def _is(value: Any, kind: Any) -> bool:
    if isinstance(kind, str):
        return kind in (base.__name__ for base in type(value).__mro__)
    if kind is bool:
        return isinstance(value, bool) or str(getattr(value, "dtype", "")) == "bool"
    if kind in (int, float):
        number = numbers.Integral if kind is int else numbers.Real
        return isinstance(value, number) and not isinstance(value, bool)
    if kind in (Iterable, Sequence):  # a text is one too, of letters
        return isinstance(value, Iterable) and not isinstance(value, str | bytes)
    return isinstance(value, os.PathLike if kind is Path else kind)
