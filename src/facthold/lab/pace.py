"""How long cells take: the guess that they carry, corrected by the seconds of cells like them that are done."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from json import loads
from statistics import median
from typing import Any

from facthold.lab.cells import KINDS, Cell, cell_of
from facthold.lab.places import Place
from facthold.lab.store import Store

RECENT = 200  # stored cells of each kind that are looked at, the latest: enough for a median, and read in a moment
ENOUGH = 3  # cells like it of the same run, from which on older ones do not count
Group = tuple[str, ...]


def alike(cell: Cell) -> Group:
    """Cells of one kind that differ in numbers alone. Their costs follow the numbers; from one method or protocol to
    another they may be off by a factor."""
    return cell.kind, *sorted(f"{name}={value}" for name, value in cell.spec.items() if isinstance(value, str))


class Pace:
    """Seconds of cells on one lane. ``known`` are cells and the seconds that they took before, in any run."""

    def __init__(self, known: Iterable[tuple[Cell, float]] = ()) -> None:
        self._before: dict[Group, list[float]] = defaultdict(list)  # seconds / cost
        self._here: dict[Group, list[float]] = defaultdict(list)
        self._faster: list[float] = []  # seconds here / those that older cells would have told
        self._cost, self._seconds = 0.0, 0.0  # of this run
        for cell, seconds in known:
            for group in (alike(cell), (cell.kind,)):
                self._before[group].append(seconds / cell.cost)

    def finished(self, cell: Cell, seconds: float) -> None:
        """Learn from a cell of this run."""
        for group in (alike(cell), (cell.kind,)):
            if group in self._before and len(group) > 1:
                self._faster.append(seconds / (median(self._before[group]) * cell.cost))
            self._here[group].append(seconds / cell.cost)
        self._cost, self._seconds = self._cost + cell.cost, self._seconds + seconds

    def seconds(self, cell: Cell) -> float:
        """What a cell will take: as those like it, else of its kind, else as all of this run; else what it says."""
        for group in (alike(cell), (cell.kind,)):
            here, before = self._here.get(group, []), self._before.get(group, [])
            if here or before:
                older = [] if len(here) >= ENOUGH else [ratio * self._machine for ratio in before]
                return cell.cost * median([*here, *older])
        return cell.cost * (self._seconds / self._cost if self._cost else 1.0)

    def order(self, cells: Iterable[Cell]) -> list[Cell]:
        """The largest first, so that no lane is left with one at the end; but before them one cell of middle size from
        each group that nothing is known of, where there are several: the time left is then soon known."""
        largest = sorted(cells, key=lambda cell: -self.seconds(cell))
        unknown: dict[Group, list[Cell]] = defaultdict(list)
        for cell in largest:
            if alike(cell) not in self._before:
                unknown[alike(cell)].append(cell)
        first = [group[len(group) // 2] for group in unknown.values()] if len(unknown) > 1 else []
        scouts = {cell.key for cell in first}
        return [*first, *(cell for cell in largest if cell.key not in scouts)]

    @property
    def _machine(self) -> float:
        """How much longer cells take in this run than they took before: a busier or a slower machine."""
        return median(self._faster) if self._faster else 1.0


def stored_pace(store: Store, cells: Sequence[Cell], place: Place) -> Pace:
    """The pace of cells of these kinds by the seconds that the store holds, as if they had run in such a place."""
    share, kinds = place.share(place.at_once), sorted({cell.kind for cell in cells})
    return Pace((cell, share * seconds) for kind in kinds for cell, seconds in _done(store, kind))


def _done(store: Store, kind: str) -> Iterable[tuple[Cell, float]]:
    wanted = f"kind = '{kind}' AND version = {KINDS[kind].version} AND seconds > 0 ORDER BY date DESC LIMIT {RECENT}"
    for spec, seconds in store.query(f"SELECT spec, seconds FROM results WHERE {wanted}"):
        fields: Mapping[str, Any] = loads(spec)
        try:
            yield cell_of(kind, fields), seconds
        except (ValueError, TypeError):  # it has fields or values of another version
            continue
