"""Constructions: weights in closed form or from a convex problem, as the models that training returns."""

from facthold._util.lazy import modules_of

__getattr__ = modules_of(__name__)
