"""One training engine for every model of this project."""

from facthold.train.engine import Member, Run, fit
from facthold.train.lanes import Lanes
from facthold.train.protocols import PROTOCOLS, Futility, Protocol, protocol
from facthold.train.tasks import StoreAssociations, Task

__all__ = [
    "PROTOCOLS", "Futility", "Lanes", "Member", "Protocol", "Run", "StoreAssociations", "Task", "fit", "protocol",
]  # fmt: skip
