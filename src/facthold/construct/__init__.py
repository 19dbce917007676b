"""Constructions: weights in closed form or from a convex problem, as the models that training returns."""

from facthold.construct.attention import attention_only
from facthold.construct.attention_mlp import attention_and_mlp
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
from facthold.construct.selected import selecting_attention
from facthold.construct.values import solved_values

__all__ = [
    "Quantised",
    "attention_and_mlp",
    "attention_only",
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
    "selecting_attention",
    "solve_tangent",
    "solved_values",
    "tangent",
    "tangent_directions",
    "tangent_kernel",
    "weighted",
]
