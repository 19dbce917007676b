"""A cell: one independent piece of work, described by its spec alone.

Figures and claims say which cells they need. A cell that two of them share is computed once, and
what is stored is found again by the hash of its spec.
"""

import dataclasses
import hashlib
import json
from abc import ABC, abstractmethod
from typing import Any, ClassVar

Result = dict[str, Any]
"""What a cell finds: JSON values by name. An expected failure is a value here, never an exception."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cell(ABC):
    """Base of all kinds of cells: frozen dataclasses whose fields are JSON values or tuples of them."""

    kind: ClassVar[str]
    version: ClassVar[int] = 1
    """Raised when the same spec would now give another result: older results are then computed again."""

    @abstractmethod
    def run(self) -> Result:
        """Compute the result. It must depend on the spec alone, seeds included."""

    @property
    def cost(self) -> float:
        """A guess at the seconds this cell takes on one lane (one core with nothing else to do), all seeds together.

        Large cells start first, progress is weighed by it, and a dry run adds it up. It is never a result.
        """
        return 1.0

    @property
    def shape(self) -> str | None:
        """The kind of model, such as 'alpha=1 beta=4 H=8': what is found is shown by it. None: not shown."""
        return None

    @property
    def label(self) -> str:
        """A few words for progress lines."""
        return f"{self.kind} " + " ".join(f"{name}={value}" for name, value in self.spec.items())

    @property
    def spec(self) -> dict[str, Any]:
        """The fields as plain JSON values."""
        return json.loads(json.dumps(dataclasses.asdict(self)))

    @property
    def key(self) -> str:
        """The hash that the store keeps this cell under."""
        text = json.dumps([self.kind, self.version, self.spec], sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:32]
