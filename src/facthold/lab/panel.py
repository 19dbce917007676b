"""Axes that remember from which rows their points are, as `lab.tracing` says; they draw as all others do."""

from typing import Any

from matplotlib.axes import Axes

from facthold.lab.tracing import origins

ORIGINS = "facthold_origins"  # of an artist: the rows of each of its points


class Panel(Axes):
    """What `style.panels` makes."""

    name = "facthold"

    def plot(self, *args: Any, **kwargs: Any) -> Any:
        lines = super().plot(*args, **kwargs)
        columns = [arg for arg in args if not isinstance(arg, str)]
        if len(lines) == 1 and columns:
            setattr(lines[0], ORIGINS, origins(columns[-1]))
        return lines

    def errorbar(self, x: Any, y: Any, *args: Any, **kwargs: Any) -> Any:
        bars = super().errorbar(x, y, *args, **kwargs)
        if bars[0] is not None:
            setattr(bars[0], ORIGINS, origins(y))
        return bars

    def scatter(self, x: Any, y: Any, *args: Any, **kwargs: Any) -> Any:
        marks = super().scatter(x, y, *args, **kwargs)
        setattr(marks, ORIGINS, origins(y))
        return marks

    def bar(self, x: Any, height: Any, *args: Any, **kwargs: Any) -> Any:
        bars = super().bar(x, height, *args, **kwargs)
        for patch, origin in zip(bars, origins(height) or [], strict=False):
            setattr(patch, ORIGINS, [origin])
        return bars

    def barh(self, y: Any, width: Any, *args: Any, **kwargs: Any) -> Any:
        bars = super().barh(y, width, *args, **kwargs)
        for patch, origin in zip(bars, origins(width) or [], strict=False):
            setattr(patch, ORIGINS, [origin])
        return bars
