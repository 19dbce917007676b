"""One step on x = e_y + p_t."""

import numpy as np

from facthold._util.keys import derive
from facthold.dynamics.noisy_inputs import scores_after_step
from facthold.memory.embeddings import embed


def test_positions_leave_the_memory() -> None:
    """W_1 = eta/N sum_k u_k (e_k - mean e)^T, whatever the positions are."""
    N, T, d, eta = 6, 4, 9, 3.0
    E, P, U = (embed("gaussian", n, d, key=derive(name)) for name, n in (("E", N), ("P", T), ("U", N)))
    e, p, u = (np.asarray(x, np.float64) for x in (E, P, U))
    W_1 = eta / N * sum(np.outer(u[k], e[k] - e.mean(axis=0)) for k in range(N))
    expected = [[[u[k] @ W_1 @ (e[y] + p[t]) for k in range(N)] for t in range(T)] for y in range(N)]
    np.testing.assert_allclose(np.asarray(scores_after_step(E, P, U, eta)), expected, atol=1e-5)
