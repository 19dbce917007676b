"""One training engine for every model of this project."""

from typing import TYPE_CHECKING

from facthold._util.lazy import modules_of

if TYPE_CHECKING:
    from facthold.train import engine, gated, race, tasks  # noqa: F401
else:
    __getattr__ = modules_of(__name__)
