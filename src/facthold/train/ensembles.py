"""Thousands of linear memories with fixed embeddings, trained side by side on streams of samples.

The engine steps W by its gradient. Here the same steps are made of other numbers, fewer of them (docs/optimisers.md):

- **Tables.** A step of SGD adds (lr/B) sum_b (1{y_b} - P_b) u e^T over the batch, so that after any number of them
  W = W_0 - sum_z U^T c_z e_z^T: N x M numbers c, and no d. Scores of z are those of W_0 minus sum_z' <e_z, e_z'> U U^T
  c_z', of which a step needs the rows of its batch alone. Sign descent with batch one has rank one too, and so has the
  orthogonal factor of a gradient in U's span M x M numbers to be found by. With normalised outputs rows of c have d
  numbers, as W e_z is needed and not its scores.
- **Matrices.** Where each entry of the gradient is divided by its own size (Adam with both betas 0), W itself is
  stepped, with products through U first: M d^2 multiplications and not N d^2.

A *world* is a draw of embeddings, start and samples; the learning rates of one world share all of it.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int

from facthold._util.errors import check_one_of, check_positive
from facthold.models.token_memory import TINY, unit
from facthold.train.lanes import Lanes, shared_lanes

RULES = ("sgd", "adam-0", "sign", "muon")
PER_DIMENSION = ("adam-0", "adam", "sign")
"""Entries of W step by lr/d, as the public code has it for Adam: scores then move by about lr, whatever d is."""
EPSILON = 1e-8  # Adam's
# A singular value below this share of the largest counts as zero here: it is found by its square, of which float32 has
# no more digits. (`train.directions` finds singular values themselves, and keeps smaller ones.)
SINGULAR = 1e-3
TOGETHER = 60  # runs in one loop at most: their tables stay in the cache from step to step
HELD = 1 << 16  # numbers of their matrices in one loop, for the same reason


class Worlds(NamedTuple):
    """Draws of all that runs share but the learning rate, and the map f* of all of them."""

    E: Float[np.ndarray, "w N d"]
    U: Float[np.ndarray, "w M d"]
    W_0: Float[np.ndarray, "w d d"]
    z: Int[np.ndarray, "w n"]  # samples, in order
    f: Int[np.ndarray, " N"]

    def part(self, of: slice) -> "Worlds":
        return Worlds(self.E[of], self.U[of], self.W_0[of], self.z[of], self.f)


class Trained(NamedTuple):
    """What came out, for each world and learning rate: what is read, after so many samples, and u_y^T W e_z at the end
    (the same, where nothing is normalised)."""

    scores: Float[np.ndarray, "looks w l N M"]
    raw: Float[np.ndarray, "w l N M"]


def has_closed_form(rule: str, norm: bool, M: int, d: int) -> bool:
    """Whether `train` has this optimiser; the engine has all. Muon needs outputs that are read as they are, and no more
    of them than dimensions: their Gram matrix is inverted."""
    return rule in RULES and not (rule == "muon" and (norm or d < M))


def train(
    worlds: Worlds, rule: str, lrs: Sequence[float], batch: int, looks: Sequence[int], *, norm: bool = False,
    later: float = 1.0, lanes: Lanes | None = None,
) -> Trained:  # fmt: skip
    """Each world with each learning rate, by 'sgd', 'adam-0', 'sign' or 'muon', looked at after ``looks`` samples.
    In the second half of all samples steps are ``later`` times as long."""
    check_one_of("rule", rule, RULES)
    check_positive(batch=batch)
    if wrong := [lr for lr in lrs if not lr > 0]:
        raise ValueError(f"lrs={wrong[0]} must be above 0")
    n, (w, _, d), M = worlds.z.shape[1], worlds.E.shape, worlds.U.shape[1]
    if not has_closed_form(rule, norm, M, d):
        words = "normalised outputs" if norm else f"M={M} outputs in d={d}"
        raise ValueError(f"rule={rule!r} has no closed form for {words}; train.engine has it")
    if off := [look for look in looks if look % batch or not 0 <= look <= n]:
        raise ValueError(f"looks={off[0]} must be a multiple of batch={batch} and at most n={n}")
    lanes = lanes or shared_lanes()
    most = min(TOGETHER, HELD // d**2) if _by_matrix(rule, batch) else TOGETHER
    size = -(-w // -(-w * len(lrs) // max(most, len(lrs))))  # as even as may be: another size is compiled anew
    parts = [worlds.part(slice(i, i + size)) for i in range(0, w, size)]
    futures = [lanes.submit(_trained, one, rule, tuple(lrs), batch, tuple(looks), norm, later, lanes) for one in parts]
    scores, raw = zip(*(future.result() for future in futures), strict=True)
    return Trained(np.concatenate(scores, axis=1), np.concatenate(raw, axis=0))


def _by_matrix(rule: str, batch: int) -> bool:
    return rule == "adam-0" or (rule == "sign" and batch > 1)


def _trained(
    worlds: Worlds, rule: str, lrs: tuple[float, ...], batch: int, looks: tuple[int, ...], norm: bool, later: float,
    lanes: Lanes,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    by_matrix = _by_matrix(rule, batch)
    lr = np.asarray(lrs, np.float64) / (worlds.E.shape[2] if rule in PER_DIMENSION else 1)
    data = (_matrices if by_matrix else _tables)(worlds, rule, norm)
    tokens, shares = _rows(worlds.z, batch, worlds.E.shape[1])
    dtype = jnp.result_type(float)  # float32, or float64 where JAX is told so
    lrs_, data = jnp.asarray(lr, dtype), jax.tree.map(partial(jnp.asarray, dtype=dtype), data)
    f, rows, weights = jnp.asarray(worlds.f), jnp.asarray(tokens), jnp.asarray(shares, dtype)
    state = _start(data, len(lrs), by_matrix)
    done, half, found, raw = 0, worlds.z.shape[1] // batch // 2, [], None
    for until in (look // batch for look in looks):
        lanes.check()
        for end, rate in ((min(until, half), lrs_), (until, later * lrs_)):
            if end > done:
                state = _advance(state, data, f, rows, weights, rate, done, end, rule, norm, by_matrix)
                done = end
        read, raw = _read(state, data, norm, by_matrix)
        found.append(np.asarray(read))
    return np.stack(found), np.asarray(raw)


def _rows(z: Int[np.ndarray, "w n"], batch: int, N: int) -> tuple[np.ndarray, np.ndarray]:
    """Of each step the tokens, and what each counts in the mean. Where a batch is larger than N, all N tokens."""
    steps = z.shape[1] // batch
    by_step = z[:, : steps * batch].reshape(len(z), steps, batch)
    if batch <= N:
        return by_step, np.full((1, 1, batch), 1 / batch)
    counts = np.zeros((len(z), steps, N))
    np.add.at(counts, (*np.indices(by_step.shape)[:2], by_step), 1.0)
    return np.broadcast_to(np.arange(N), (1, 1, N)), counts / batch


def _tables(worlds: Worlds, rule: str, norm: bool) -> dict[str, np.ndarray]:
    """What the loop over tables needs: start, kernel of the inputs, and what turns errors into steps of a row."""
    E, U = (np.asarray(part, np.float64) for part in worlds[:2])
    start = worlds.E @ worlds.W_0.transpose(0, 2, 1)
    K_U, K_E = U @ U.transpose(0, 2, 1), E @ E.transpose(0, 2, 1)
    data = {"start": start if norm else start @ U.transpose(0, 2, 1), "K": K_E, "length": np.linalg.norm(E, axis=2)}
    if rule == "sign":
        data["K"] = E @ np.sign(E).transpose(0, 2, 1)
    if rule == "sign" or norm:
        data["U"] = U
    else:
        data |= {"K_U": K_U, "root": np.linalg.cholesky(K_U)} if rule == "muon" else {"K_U": K_U}
    return data


def _matrices(worlds: Worlds, rule: str, norm: bool) -> dict[str, np.ndarray]:
    return {"E": worlds.E, "U": worlds.U, "start": worlds.W_0}


def _start(data: dict[str, Array], n_lrs: int, by_matrix: bool) -> Array:
    w, *shape = data["start"].shape
    if by_matrix:  # with the rows of W^T first: so products with inputs go along what lies together
        return jnp.broadcast_to(data["start"].transpose(0, 2, 1)[:, :, None], (w, shape[0], n_lrs, shape[1]))
    return jnp.zeros((w, shape[0], n_lrs, shape[1]), data["start"].dtype)


@partial(jax.jit, static_argnames=("rule", "norm", "by_matrix"))
def _advance(
    state: Array, data: dict[str, Array], f: Array, rows: Array, weights: Array, lrs: Array, done: Any, until: Any,
    rule: str, norm: bool, by_matrix: bool,
) -> Array:  # fmt: skip
    """Steps ``done`` to ``until - 1`` of all worlds."""
    w = len(state)
    step = jax.vmap(partial(_matrix_step if by_matrix else _table_step, lrs=lrs, f=f, rule=rule, norm=norm))

    def of_step(values: Array, t: Array) -> Array:
        """Those of all worlds, or the same for each, at this step."""
        now = lax.dynamic_index_in_dim(values, jnp.minimum(t, values.shape[1] - 1), axis=1, keepdims=False)
        return jnp.broadcast_to(now, (w, *now.shape[1:]))

    return lax.fori_loop(done, until, lambda t, s: step(s, data, of_step(rows, t), of_step(weights, t)), state)


@partial(jax.jit, static_argnames=("norm", "by_matrix"))
def _read(state: Array, data: dict[str, Array], norm: bool, by_matrix: bool) -> tuple[Array, Array]:
    """What is read of each token, and u_y^T W e_z."""
    if by_matrix:
        x = jnp.einsum("wzj,wjli->wlzi", data["E"], state)
    else:
        x = data["start"][:, None] - jnp.einsum("wzn,wnlk->wlzk", data["K"], state)
        if not norm:
            return x, x
    raw = jnp.einsum("wlzi,wmi->wlzm", x, data["U"])
    return (jnp.einsum("wlzi,wmi->wlzm", unit(x), data["U"]) if norm else raw), raw


def _errors(scores: Float[Array, "b l M"], y: Int[Array, " b"], weights: Float[Array, " b"]) -> Float[Array, "b l M"]:
    """Gradient of the weighted cross entropy in the scores."""
    return (jax.nn.softmax(scores) - jax.nn.one_hot(y, scores.shape[-1])[:, None]) * weights[:, None, None]


def _outputs_step(x: Float[Array, "b l d"], U: Array, y: Array, weights: Array) -> Float[Array, "b l d"]:
    """The same in W e, where it is normalised before it is read."""
    length = jnp.sqrt((x**2).sum(axis=-1, keepdims=True) + TINY)
    n = x / length
    g = _errors(n @ U.T, y, weights) @ U
    return (g - n * (n * g).sum(axis=-1, keepdims=True)) / length


def _table_step(
    C: Float[Array, "N l k"], data: dict[str, Array], z: Int[Array, " b"], weights: Float[Array, " b"], *,
    lrs: Float[Array, " l"], f: Int[Array, " N"], rule: str, norm: bool,
) -> Float[Array, "N l k"]:  # fmt: skip
    x = data["start"][z][:, None] - jnp.einsum("bn,nlk->blk", data["K"][z], C)
    if norm:
        h = _outputs_step(x, data["U"], f[z], weights)
        if rule == "sign":
            h = jnp.sign(h)
    else:
        h = _errors(x, f[z], weights)
        if rule == "sign":
            h = jnp.sign(h @ data["U"]) @ data["U"].T
        elif rule == "muon":
            h = _orthogonalised(h, data, z)
        else:
            h = h @ data["K_U"]
    return C.at[z].add(lrs[:, None] * h)


def _orthogonalised(delta: Float[Array, "b l M"], data: dict[str, Array], z: Int[Array, " b"]) -> Float[Array, "b l M"]:
    """Rows of the orthogonal factor of U^T delta^T E, as scores of U. With U = R Q, where Q's rows are orthonormal, it
    is Q^T (Y Y^T)^(-1/2) Y for Y = R^T delta^T E, and Y Y^T = R^T (delta^T K delta) R needs no d."""
    if len(z) == 1:  # of rank one: it is divided by its norm
        forward = delta @ data["K_U"]
        size = jnp.sqrt((forward * delta).sum(axis=-1, keepdims=True)) * data["length"][z][:, None, None]
        return jnp.where(size > 0, forward / jnp.where(size > 0, size, 1.0), 0.0)
    R = data["root"]
    Y = jnp.einsum("blm,mk->lbk", delta, R)
    values, vectors = jnp.linalg.eigh(jnp.einsum("lbk,bc,lcj->lkj", Y, data["K"][z][:, z], Y))
    there = values > SINGULAR**2 * values[:, -1:]
    inverse = jnp.where(there, 1 / jnp.sqrt(jnp.where(there, values, 1.0)), 0.0)
    return jnp.einsum("lbk,lkj,lj,lij,mi->blm", Y, vectors, inverse, vectors, R)


def _matrix_step(
    W: Float[Array, "d l d"], data: dict[str, Array], z: Int[Array, " b"], weights: Float[Array, " b"], *,
    lrs: Float[Array, " l"], f: Int[Array, " N"], rule: str, norm: bool,
) -> Float[Array, "d l d"]:  # fmt: skip
    e, U = data["E"][z], data["U"]
    if norm or len(z) < len(U):  # few rows: through W first
        x = jnp.einsum("bj,jli->bli", e, W)
        g = _outputs_step(x, U, f[z], weights) if norm else _errors(x @ U.T, f[z], weights) @ U
        G = g * e[0, :, None, None] if len(z) == 1 else jnp.einsum("bj,bli->jli", e, g)
    else:
        delta = _errors(jnp.einsum("bj,jlm->blm", e, W @ U.T), f[z], weights)
        G = jnp.einsum("bj,blm->jlm", e, delta) @ U
    step = jnp.sign(G) if rule == "sign" else G / (jnp.abs(G) + EPSILON)
    return W - lrs[:, None] * step
