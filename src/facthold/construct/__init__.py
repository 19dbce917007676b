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

__all__ = [
    "Quantised",
    "convex_tangent",
    "gradient_step",
    "hermite_features",
    "low_rank",
    "outer_product",
    "pair_neurons",
    "quantised",
    "solve_tangent",
    "tangent",
    "tangent_directions",
    "tangent_kernel",
    "weighted",
]
