"""The last few facts of a large group: a neuron of its own for each, instead of training minutes more for all.

Training ends with a few of thousands of facts on the wrong side. `neuron.bump` is on at such a fact and off at all
others, so that one neuron (or four) mends it and touches nothing else.
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool

from facthold.construct.neuron import bump, winning
from facthold.memory.activations import RELU
from facthold.memory.associations import Problem
from facthold.models.memory import MLPMemory

MOST = 0.005  # share of the facts that is mended at most: beyond, the group needs more neurons for all


def mended(memory: MLPMemory, problem: Problem, won: Bool[np.ndarray, " N"], margin: float) -> MLPMemory:
    """The memory with neurons for the inputs that have not ``won``, by ``margin``; as it is where they are too many."""
    lost = np.flatnonzero(~won)
    if not 0 < len(lost) <= MOST * len(won):
        return memory
    E, U, f = np.asarray(problem.E, np.float64), np.asarray(problem.U, np.float64), np.asarray(problem.f)
    W, V = np.asarray(memory.W, np.float64), np.asarray(memory.V, np.float64)
    # Neurons have no bias here, but every input has a mark, and a combination of the marks is 1 at all of them.
    one = np.linalg.lstsq(E, np.ones(len(E)), rcond=None)[0]
    F = RELU(E[lost] @ W.T) @ V
    rows, outs = [W], [V]
    for i, row in enumerate(lost):
        neurons = bump(E, np.array([row]), np.delete(np.arange(len(E)), row))
        if neurons is None:
            continue
        rows.append(neurons.w + neurons.b[:, None] * one)
        outs.append(np.outer(neurons.signs, winning(F[[i]], U, int(f[row]), margin)))
    return MLPMemory(*(jnp.asarray(np.concatenate(parts), jnp.float32) for parts in (rows, outs)))  # type: ignore[arg-type]
