"""Constructions: weights in closed form or from a convex problem, as the models that training returns."""

from facthold.construct.linear import Quantised, gradient_step, low_rank, outer_product, quantised, weighted
from facthold.construct.mlp import (
    convex_tangent,
    hermite_features,
    pair_neurons,
    solve_tangent,
    tangent,
    tangent_directions,
    tangent_kernel,
)
from facthold.construct.readout import convex, layerwise, ridge

__all__ = [
    "Quantised",
    "convex",
    "convex_tangent",
    "gradient_step",
    "hermite_features",
    "layerwise",
    "low_rank",
    "outer_product",
    "pair_neurons",
    "quantised",
    "ridge",
    "solve_tangent",
    "tangent",
    "tangent_directions",
    "tangent_kernel",
    "weighted",
]
