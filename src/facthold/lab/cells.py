"""A cell: one independent piece of work, described by its spec alone, and found again by the hash of it.

A module that defines cells loads neither JAX nor Matplotlib: what computes is imported inside `run`. So cells are
listed, counted and looked up in a store within a moment.
"""

import dataclasses
import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Self

from facthold._util.errors import MissingPackage
from facthold._util.memory import Parts, bytes_of, check_memory, memory_parts
from facthold.facts.problem import seeded_table
from facthold.facts.table import FactTable
from facthold.lab.accounts import Account
from facthold.lab.fields import Count, check_fields

Result = dict[str, Any]  # what a cell finds: JSON values by name. An expected failure is a value, never an exception.
KINDS: dict[str, type["Cell"]] = {}  # every kind of cell that was defined so far, by name


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cell(ABC):
    """A kind of cell is a frozen dataclass: its name, its fields (of the types of `lab.fields`, checked) and `run`."""

    kind: ClassVar[str]
    version: ClassVar[int] = 1  # raised when the same spec would now give another result: older ones do not count then
    counts_no_facts: ClassVar[str] = "this kind of cell counts no facts"  # why, where `accounts` is not defined

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "kind" in cls.__dict__:
            KINDS[cls.kind] = cls

    def __post_init__(self) -> None:
        """Refuse fields that their types do not allow. Kinds with further conditions begin with this."""
        check_fields(self)

    @classmethod
    def of(cls, grid: Any, **fields: Any) -> Self:
        """The cell with these fields, and all others that a grid has by the same name; ``n_seeds`` are 0, 1, ..."""
        values = vars(grid) | ({"seeds": tuple(range(grid.n_seeds))} if hasattr(grid, "n_seeds") else {})
        names = {field.name for field in dataclasses.fields(cls)}
        return cls(**{name: value for name, value in values.items() if name in names} | fields)

    @abstractmethod
    def run(self) -> Result:
        """Compute the result. It must depend on the spec alone, seeds included."""

    @property
    def cost(self) -> float:
        """A guess at the seconds on one lane, all seeds together: for order, progress and dry runs, never a result."""
        return 1.0

    @property
    def needed(self) -> Parts:
        """Bytes that it takes at once, by the fields that they grow with, as far as it is known before it runs. Those
        of a memory, where a cell has its sizes and says nothing else."""
        d, m, N = (getattr(self, name, None) or 0 for name in ("d", "m", "N"))
        return memory_parts(N=max(N, 1), d=d, M=max(N, 1), m=m, scores=False) if d else {}

    @property
    def missing(self) -> str:
        """What this machine lacks to run it, and how to get it: 'run facthold lm fetch'. Nothing: it can run."""
        return ""

    @property
    def shape(self) -> str | None:
        """The kind of model, such as 'alpha=1 beta=4 H=8': capacities are shown by it. None: not shown."""
        return None

    @property
    def label(self) -> str:
        """A few words for progress lines: the kind, and the fields that are not as they usually are."""
        shown = [field for field in dataclasses.fields(self) if field.name not in ("seeds", "tolerance")]
        values = ((field, getattr(self, field.name)) for field in shown)
        return f"{self.kind} " + " ".join(f"{f.name}={_brief(value)}" for f, value in values if value != f.default)

    @property
    def spec(self) -> dict[str, Any]:
        """The fields as plain JSON values. Kinds whose result depends on more, such as a protocol, add it."""
        return json.loads(json.dumps(dataclasses.asdict(self)))

    @property
    def key(self) -> str:
        """The hash that the store keeps this cell under."""
        return key_of(self.kind, self.version, self.spec)

    def accounts(self, result: Mapping[str, Any]) -> list[Account] | str:
        """The models of a result with the bits that they used, for the counting bound; or why it has none."""
        return f"no bound: {self.counts_no_facts}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class TableCell(Cell):
    """A cell about random tables of S subjects, R relations and D answers of each relation."""

    S: Count
    R: Count
    D: Count

    @property
    def n_facts(self) -> int:
        return self.S * self.R

    @property
    def needed(self) -> Parts:
        d = getattr(self, "d", 1)
        return {
            f"S={self.S}": bytes_of(facts=float(self.S) * self.R, embeddings=2.0 * (self.S + self.R) * d),
            f"D={self.D}": bytes_of(embeddings=float(self.R) * self.D * d), f"d={d}": bytes_of(weights=float(d) * d),
        }  # fmt: skip

    def facts(self, seed: int, kind: str = "random") -> FactTable:
        """The table of this seed."""
        return seeded_table(kind, self.S, self.R, self.D, seed)


def key_of(kind: str, version: int, spec: Mapping[str, Any]) -> str:
    """The key of the cell with this spec: a hash, by which a store also sees that a row is what it says."""
    text = json.dumps([kind, version, spec], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def check_present(cells: Iterable[Cell]) -> None:
    """Refuse cells that cannot run here."""
    for cell in cells:
        if cell.missing:
            raise MissingPackage(cell.missing)


def check_cells(cells: Iterable[Cell]) -> None:
    """Refuse cells that cannot run here or would not fit in memory, before the first of them runs."""
    cells = list(cells)
    check_present(cells)
    for cell in cells:
        check_memory(cell.label, cell.needed, _way_out(cell))


def _way_out(cell: Cell) -> str:
    """Which field to lower: the one that most bytes grow with. Where that is no field, such as the N that a search
    starts from, nobody has given it: it follows from d and m."""
    given = {field.name for field in dataclasses.fields(cell) if getattr(cell, field.name) is not None}
    parts = {part.partition("=")[0]: (size, part) for part, size in cell.needed.items()}
    largest = max(parts, key=lambda name: parts[name], default="")
    sizes = parts.keys() & given & ({largest} if largest in given else {"d", "m"})
    return f"lower {max(parts[name] for name in sizes)[1]}" if sizes else "take smaller sizes"


def cell_of(kind: str, spec: Mapping[str, Any]) -> Cell:
    """The cell with this spec, as a store keeps it. Its kind must have been defined: see `lab.registry.kinds`."""
    cls = KINDS[kind]
    names = {field.name for field in dataclasses.fields(cls)}
    return cls(**{name: _tuples(value) for name, value in spec.items() if name in names})


def _tuples(value: Any) -> Any:
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value


def _brief(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"({_brief(value[0])}...{_brief(value[-1])})" if isinstance(value, tuple) and len(value) > 2 else f"{value}"
