"""One training engine for every model of this project."""

from facthold.train.engine import Member, Run, fit
from facthold.train.lanes import Lanes
from facthold.train.protocols import PROTOCOLS, Futility, Protocol, protocol
from facthold.train.tasks import BATCH, RecallFacts, StoreAssociations, Task

__all__ = [
    "BATCH", "PROTOCOLS", "Futility", "Lanes", "Member", "Protocol", "RecallFacts", "Run", "StoreAssociations", "Task",
    "fit", "protocol",
]  # fmt: skip
