"""One training engine for every model of this project."""

from facthold._util.lazy import modules_of

__getattr__ = modules_of(__name__)
