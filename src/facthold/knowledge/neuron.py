"""A neuron of its own for one fact: an edit that touches no other, for the price of 2 d parameters.

A change of rank one in the weights that are there moves every fact a little, and a model at its smallest size has no
room for it. A new neuron (or one that no fact uses) can be silent at all other facts: v sigma(w x + b) is of rank one
too. Its direction is Fisher's, w = C^-1 (x - mean) with C the covariance of what the MLP reads at the other facts, and
its threshold lies between the fact and the nearest of the others. Both are in closed form, and so is v.
"""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from facthold.models.memory import MLPMemory
from facthold.models.transformer import Transformer

ROUNDS = 6
"""Times that the facts that come nearest are given more weight, where the first direction does not part them."""
HEAVIER = 4.0
STABLE = 1e-9
"""Of the mean variance, added to each: directions in which no fact differs."""
GAP = 0.2
"""The fact must stand at least so far above all others, where its distance to their mean is 1."""


@dataclass(frozen=True, eq=False)
class Neuron:
    """w x + b is positive at the edited prompts, and negative at all others."""

    w: Float[np.ndarray, " d"]
    b: float
    least: float
    """The smallest activation at the edited prompts."""


def parting_neuron(
    x: Float[np.ndarray, "n d"], edited: Int[np.ndarray, " draws"], others: Int[np.ndarray, " others"]
) -> Neuron | None:
    """The neuron that is on at the rows ``edited`` of x and off at ``others``; None where none was found."""
    if not len(others):
        w = x[edited].mean(axis=0)
        return Neuron(w / max(w @ w, 1e-300), 0.0, float((x[edited] @ w).min() / max(w @ w, 1e-300)))
    weight = np.ones(len(others))
    for _ in range(ROUNDS):
        mean = np.average(x[others], axis=0, weights=weight)
        apart = x[others] - mean
        C = (apart * weight[:, None]).T @ apart / weight.sum()
        C += max(STABLE * np.trace(C) / len(C), 1e-300) * np.eye(len(C))
        way = x[edited].mean(axis=0) - mean
        w = np.linalg.solve(C, way)
        w /= max(way @ w, 1e-300)  # the fact is at 1, the mean of the others at 0
        own, theirs = (x[edited] - mean) @ w, apart @ w
        if own.min() - theirs.max() > GAP:
            threshold = (own.min() + theirs.max()) / 2
            return Neuron(w, float(-mean @ w - threshold), float(own.min() - threshold))
        weight *= np.where(theirs > np.quantile(theirs, 0.9), HEAVIER, 1.0)
    return None


def idle(hidden: Float[np.ndarray, "n m"]) -> int | None:
    """A neuron that no prompt turns on; None where there is none."""
    off = np.flatnonzero(~(hidden != 0).any(axis=0))
    return int(off[0]) if len(off) else None


def with_neuron(model: Transformer, neuron: Neuron, v: Float[np.ndarray, " d"], at: int | None) -> Transformer:
    """The model with this neuron in the place ``at`` of an idle one, or as one more."""
    d = model.d
    mlp = model.mlp
    W, V = (np.zeros((0, d)), np.zeros((0, d))) if mlp is None else (np.array(mlp.W), np.array(mlp.V))
    b = np.zeros(len(W)) if mlp is None or mlp.b is None else np.array(mlp.b)
    if at is None:
        W, V, b = np.vstack([W, neuron.w]), np.vstack([V, v]), np.append(b, neuron.b)
    else:
        W[at], V[at], b[at] = neuron.w, v, neuron.b
    sigma = {} if mlp is None else {"sigma": mlp.sigma}
    new = MLPMemory(*(jnp.asarray(a, jnp.float32) for a in (W, V, b)), **sigma)
    return Transformer(model.W_K, model.W_Q, model.W_V, model.W_O, new, model.scaled)
