"""Constructions: weights in closed form or from a convex problem, as the models that training returns."""

from typing import TYPE_CHECKING

from facthold._util.lazy import modules_of

if TYPE_CHECKING:
    from facthold.construct import attention, attention_mlp, linear, mlp, readout, selected, signs, sums  # noqa: F401
else:
    __getattr__ = modules_of(__name__)
