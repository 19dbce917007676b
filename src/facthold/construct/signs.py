"""Beyond the paper: a linear memory of one-bit weights, read by the signs of its output.

With an output embedding for every sign vector, M = 2^d of them, arg max_y u_y^T W e_x is the sign vector of W e_x: each
coordinate by itself, d perceptrons with weights -1 and +1, that store N maps of d bits each. Almost all sets of
N < 0.83 d have such weights (Krauth and Mezard, 1989). To find them, belief propagation on the weights' signs in its
Gaussian form, *reinforced*: the field of a weight is added to what it was, more so with time, until all are decided
(Braunstein and Zecchina, 2006). It stores about 0.66 d where the outer product's signs store about d / (4 ln d).
"""

import math

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PRNGKeyArray
from scipy.special import erfcx

from facthold._util.errors import check_positive
from facthold._util.keys import fold
from facthold.memory.associations import Problem
from facthold.memory.embeddings import host_generator
from facthold.models.memory import LinearMemory

TRIES = 4
PATIENCE = 100  # rounds in which the reinforcement of the first try grows; each further try takes twice as many
ROUNDS = 10  # a try ends after so many times its patience
LOOK = 10  # rounds between two looks at the perceptrons
LEAST_VARIANCE = 1e-3  # of a score. Near the end no weight is in doubt, and the step 1 / variance would have no bound.
LARGEST_FIELD = 30.0
LEAST_SCORE = 1e-5  # in units of a typical score: what is nearer to zero is a tie in float32, and no recall

Signs = Float[np.ndarray, "N k"]


def one_bit(problem: Problem, *, key: PRNGKeyArray, tries: int = TRIES) -> LinearMemory:
    """W in {-1, +1} with sign(W e_x) = sign(u_f(x)) in as many coordinates as were found. No scale is needed."""
    check_positive(tries=tries)
    X, _, targets = problem.host(np.float64)
    Y = np.where(targets < 0, -1.0, 1.0)
    X = X / np.sqrt((X**2).sum(axis=1, keepdims=True)).clip(1e-30)
    W, wrong = np.ones((problem.d, Y.shape[1])), np.full(Y.shape[1], len(X) + 1)
    for i in range(tries):
        left = np.flatnonzero(wrong)
        if not len(left):
            break
        found, errors = _reinforced(X, Y[:, left], PATIENCE * 2**i, fold(key, i))
        better = errors < wrong[left]
        W[:, left[better]], wrong[left[better]] = found[:, better], errors[better]
    return LinearMemory(jnp.asarray(W.T, jnp.float32))


def _reinforced(X: Float[np.ndarray, "N d"], Y: Signs, patience: int, key: PRNGKeyArray) -> tuple[np.ndarray, ...]:
    """The signs of least error that one try finds for each of k perceptrons, and the errors.

    m is the mean of a weight, V the variance of a score and omega its mean, less what it owes to itself (Onsager's
    term). g is the pull of a pattern on its score, phi(z) / Phi(z) at z = omega / sqrt(V) by the sign of the pattern.
    """
    (N, d), k = X.shape, Y.shape[1]
    h = 1e-2 * host_generator(key).standard_normal((d, k))
    m, g, X2 = np.tanh(h), np.zeros((N, k)), X**2
    W, errors, live = np.ones((d, k)), np.full(k, N + 1), np.arange(k)
    for t in range(1, ROUNDS * patience + 1):
        V = np.maximum(X2 @ (1 - m**2), LEAST_VARIANCE)
        omega = X @ m - V * g
        z = Y[:, live] * omega / np.sqrt(V)
        g = Y[:, live] * math.sqrt(2 / math.pi) / erfcx(-z / math.sqrt(2)) / np.sqrt(V)
        field = X.T @ g + m * (X2.T @ (g * (g + omega / V)))
        h = np.clip(field + (1 - math.exp(-t / patience)) * h, -LARGEST_FIELD, LARGEST_FIELD)
        m = np.tanh(h)
        if t % LOOK == 0:
            now = np.where(h < 0, -1.0, 1.0)
            wrong = (X @ now * Y[:, live] < LEAST_SCORE).sum(axis=0)
            better = wrong < errors[live]
            W[:, live[better]], errors[live[better]] = now[:, better], wrong[better]
            if not wrong.any():
                break
            live, h, m, g = live[wrong > 0], h[:, wrong > 0], m[:, wrong > 0], g[:, wrong > 0]
    return W, errors
