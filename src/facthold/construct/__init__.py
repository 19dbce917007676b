"""Constructions: weights in closed form or from a convex problem, as the models that training returns."""

from typing import TYPE_CHECKING

from facthold._util.lazy import modules_of

if TYPE_CHECKING:
    from facthold.construct import (  # noqa: F401
        attention,
        attention_mlp,
        linear,
        mlp,
        readout,
        selected,
        separate,
        signs,
        sums,
    )
else:
    __getattr__ = modules_of(__name__)
