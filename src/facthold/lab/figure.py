"""One way to define a figure: which cells it needs, and how to draw their rows, which computes nothing."""

import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from facthold._util.arguments import WORDS
from facthold._util.errors import FactholdError, brief, check_number, find, unknown, with_article
from facthold._util.files import PNG, SVG, writing
from facthold.lab import style
from facthold.lab.cells import Cell
from facthold.lab.fields import check_field, check_fields
from facthold.measure.scaling import Fit

SMOKE = "smoke"  # shows that everything runs, and decides nothing
PRESETS = (SMOKE, "quick", "paper")

Values = Mapping[str, Any]  # a row as figures read it: the fields of the cell's spec and of its result, by name


@dataclass(frozen=True)
class Figure:
    """A figure by name. ``grid`` is a frozen dataclass, its presets differ in nothing but its values."""

    name: str
    title: str
    place: str
    """Which figure of the paper it is, or that it goes beyond it."""
    caption: str
    presets: Mapping[str, Any]
    cells: Callable[[Any], list[Cell]]
    plot: "Callable[[Sequence[Values]], style.Canvas]"
    fits: Callable[[Sequence[Values]], list[Fit]] = lambda rows: []
    """Power laws through the points; none where nothing is fitted."""
    says: Callable[[Sequence[Values]], list[str]] = lambda rows: []
    """Numbers of the figure in words, where they are no power laws."""
    sees: str = ""
    """What one should see in it, in a sentence: the picture's subtitle."""
    differs: str = ""
    """Where we do it otherwise than the paper or the lecture."""

    def grid(self, preset: str, changes: Mapping[str, Any] | None = None) -> Any:
        """The grid of a preset, with the values of a config file put in. All that is wrong with single keys is said at
        once, before any cell is made; then whether their values go together."""
        grid, values = find("preset", preset, self.presets), {}
        hints, wrong = get_type_hints(type(grid)), []
        if strays := [name for name in changes or {} if name not in hints]:
            wrong.append(str(unknown(f"key in the config of {self.name}", strays, hints)))
        for name, value in (changes or {}).items():
            if name in hints:
                try:
                    values[name] = self._value(grid, name, value, hints[name])
                except FactholdError as error:
                    wrong.append(str(error))
        if wrong:
            raise FactholdError("; ".join(wrong))
        grid = replace(grid, **values)
        check_fields(grid)
        return grid

    def _value(self, grid: Any, name: str, value: Any, hint: Any) -> Any:
        """A value of the config as the grid has it. A list may be empty where that of some preset is."""
        if value == [] and any(getattr(other, name) == () for other in self.presets.values()):
            return ()
        typed = _typed(f"{self.name}.{name}", value, hint)
        try:
            check_field(type(grid), name, typed)
            if (one := repeated(value)) is not None and repeated(getattr(grid, name)) is None:
                raise ValueError(f"{name} has {one} twice; give each once")
        except ValueError as error:
            raise FactholdError(f"in the config of {self.name}, {error}") from error
        return typed

    def save(self, rows: Sequence[Values], folder: Path, preset: str) -> list[Path]:
        """Draw the rows as PNG and SVG: the same bytes each time."""
        from matplotlib import rc_context

        canvas, files = self.plot(rows), self.files(folder, preset)
        style.settle(canvas)
        style.subtitle(canvas, self.sees)
        try:
            folder.mkdir(exist_ok=True)  # a folder in one that is not there may be mistyped
            for file, kind in files.items():
                ending = file.suffix.removeprefix(".")
                undated = {"Date": None} if kind == SVG else {}
                with writing(file, kind) as stream, rc_context({"svg.hashsalt": self.name}):
                    canvas.savefig(stream, format=ending, dpi=160, bbox_inches="tight", metadata=undated)
        except OSError as error:
            raise FactholdError(f"cannot write pictures to {folder}: {error.strerror}") from error
        return list(files)

    def files(self, folder: Path, preset: str) -> dict[Path, str]:
        """The pictures that `save` writes, and of which kind they are."""
        return {folder / f"{self.name}-{preset}.{ending}": kind for ending, kind in (("png", PNG), ("svg", SVG))}


def repeated(values: Any) -> Any:
    """The first that is there twice: it would be counted twice, and make an error look smaller than it is."""
    many = list(values) if isinstance(values, list | tuple) else []
    return next((one for i, one in enumerate(many) if one in many[:i]), None)


def _typed(name: str, value: Any, hint: Any) -> Any:
    """The value as the grid's field wants it (lists become tuples), or an error that names the field."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is tuple:
        alike = args[-1] is Ellipsis
        if not isinstance(value, list | tuple) or not (alike or len(value) == len(args)):
            wanted = "be a list" if alike else f"be a list of {_several(args)}"
            raise FactholdError(f"{name} in the config must {wanted}, not {brief(value)}")
        if not value:
            raise FactholdError(f"{name} is empty; give one or more")
        inner = [args[0]] * len(value) if alike else args
        each = f"each of {name}" if get_origin(args[0]) is tuple else name  # it is a list: what is in it may not be
        return tuple(_typed(each, v, h) for v, h in zip(value, inner, strict=True))
    kinds = args if origin is types.UnionType else (int, float) if hint is float else (hint,)
    if not isinstance(value, kinds) or isinstance(value, bool) != (hint is bool):  # to Python True is a number
        raise FactholdError(f"{name} in the config must be {_in_words(kinds)}, not {brief(value)}")
    try:
        check_number(name, value)
    except ValueError as error:
        raise FactholdError(f"in the config, {error}") from error
    return value


def _several(kinds: Sequence[Any]) -> str:
    """'2 whole numbers', as each item of a list of pairs has them."""
    return f"{len(kinds)} {'whole numbers' if set(kinds) == {int} else 'numbers'}"


def _in_words(kinds: Sequence[Any]) -> str:
    """'a whole number': a file has no None, and a whole number is a number."""
    named = [kind for kind in kinds if kind is not types.NoneType and (kind is not int or float not in kinds)]
    return " or ".join(WORDS.get(kind) or with_article(kind.__name__) for kind in named)
