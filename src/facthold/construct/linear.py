"""Linear memories in closed form (section 3.1, theorem 1, and the slides' gradient memories)."""

import math
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from facthold._util.draws import normal
from facthold._util.errors import check_positive
from facthold.memory.associations import Problem
from facthold.models.memory import LinearMemory, LowRankMemory


def outer_product(problem: Problem) -> LinearMemory:
    """W = sum_x u_{f*(x)} e_x^T (theorem 1): one gradient step on the correlation loss from W = 0."""
    E, _, targets = problem.host()
    return LinearMemory(jnp.asarray(targets.T @ E))


def weighted(E: Float[Array, "N d"], U: Float[Array, "M d"], alpha: Float[Array, "N M"]) -> LinearMemory:
    """W = sum_zy alpha_zy u_y e_z^T (slides), so that u_y^T W e_z is about alpha_zy."""
    return LinearMemory(U.T @ (alpha.T @ E))


def low_rank(problem: Problem, m: int, *, key: PRNGKeyArray) -> LowRankMemory:
    """W = 1/m sum_x u_{f*(x)} e_x^T sum_i v_i v_i^T with v_i ~ N(0, I_d), of rank m (theorem 1).

    The v_i are the rows of W_2, and W_1 = W_2 (sum_x e_x u_{f*(x)}^T) / m is one gradient step on the
    correlation loss. Departs: the theorem leaves out 1/m, with which the margin's mean is 1.
    """
    check_positive(m=m)
    W_2 = normal(key, (m, problem.d), problem.E.dtype)
    return LowRankMemory(W_2 @ outer_product(problem).W.T / m, W_2)


def gradient_step(
    E: Float[Array, "N d"], U: Float[Array, "M d"], p: Float[Array, "N M"], *, eta: float = 1.0
) -> LinearMemory:
    """One step of size eta on the population cross entropy from W = 0 ('gradients as memories', slides).

    At W = 0 the model predicts 1/M everywhere, so that minus the gradient is
    sum_zy (p(z, y) - p(z)/M) u_y e_z^T: a weighted outer product.
    """
    total, least = float(p.sum()), float(p.min())
    if least < 0 or abs(total - 1) > math.sqrt(jnp.finfo(p.dtype).eps):
        raise ValueError(f"p must be a joint distribution over (z, y): it sums to {total:g} and its least is {least:g}")
    return weighted(E, U, eta * (p - p.mean(axis=1, keepdims=True)))


@dataclass(frozen=True)
class Quantised:
    """A memory whose weights are whole multiples of ``step``, and what it takes to write them down."""

    memory: LinearMemory
    step: float  # the epsilon of corollary 2
    bits_per_weight: float  # log2(2N / step), for any weight in [-N, N]: how the paper counts. Its step: log2(16 N d)
    used_bits_per_weight: int  # bits for the whole multiples between the least and the largest weight that occur


def quantised(problem: Problem, step: float | None = None, *, memory: LinearMemory | None = None) -> Quantised:
    """Corollary 2: round each weight of a linear memory to the nearest multiple of ``step``.

    The memory is the outer product where none is given. Without a step it is the largest that the proof
    allows, just below 1/(8d): a margin of 1/2 then survives. The proof bounds the change of a score by
    d step; rounding to the nearest makes it d step / 2 at most, so that twice the step would do.
    """
    step = float(np.nextafter(np.float32(1 / (8 * problem.d)), np.float32(0))) if step is None else step
    if not (math.isfinite(step) and step > 0):
        raise ValueError(f"step={step} must be positive; leave it out for the proof's 1/(8d)")
    multiples = np.rint(np.asarray((memory or outer_product(problem)).W, np.float64) / step)
    levels = int(multiples.max() - multiples.min()) + 1
    W = jnp.asarray(multiples * step, problem.E.dtype)
    return Quantised(LinearMemory(W), step, math.log2(2 * problem.N / step), math.ceil(math.log2(levels)))
