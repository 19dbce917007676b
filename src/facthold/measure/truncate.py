"""Truncation: matrices of a model replaced by their best part of rank r, or dropped (r = 0), and what that saves.

The best part keeps the r largest singular values (Eckart and Young). A matrix of rows x cols numbers in two factors of
rank r has r (rows + cols) of them: more than before, where r is above rows cols / (rows + cols).
"""

from collections.abc import Callable, Collection, Mapping
from operator import attrgetter
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from facthold._util.errors import find, with_article
from facthold.models.causal import CausalTransformer
from facthold.models.transformer import Transformer

Cut = Callable[[Any, int], "Truncated"]
Where = Callable[[Any], Any]  # a part of a model


class Factored(NamedTuple):
    """A matrix that was truncated, and how many numbers it has as it stands and in two factors."""

    name: str
    r: int
    full: int  # the largest rank that it could have
    stored: int
    factored: int
    error: float  # what is missing of it, as a share of its Frobenius norm

    @property
    def saved(self) -> int:
        """Numbers that the factors save; below 0 where they are more."""
        return self.stored - self.factored


class Truncated(NamedTuple):
    """A model with some of its matrices truncated."""

    model: Any
    parts: tuple[Factored, ...]

    @property
    def saved(self) -> int:
        """Parameters that all factors together save; below 0 where they are more."""
        return sum(part.saved for part in self.parts)


def best_rank(W: Float[Array, "n m"] | np.ndarray, r: int) -> tuple[Float[np.ndarray, "n m"], float]:
    """The matrix of rank r that is nearest to W, and the norm of what is missing, as a share of W's. From full rank on
    it is W itself, to the bit."""
    return best_ranks(W, [r])[r]


def best_ranks(
    W: Float[Array, "n m"] | np.ndarray, ranks: Collection[int]
) -> dict[int, tuple[Float[np.ndarray, "n m"], float]]:
    """`best_rank` of several ranks, by one decomposition."""
    kept = np.asarray(W)
    for r in ranks:
        check_rank(r)
    found = {r: (kept, 0.0) for r in ranks if r >= min(kept.shape)}
    if len(found) < len(set(ranks)):
        left, s, right = np.linalg.svd(kept.astype(np.float64), full_matrices=False)
        below = [r for r in ranks if r not in found]
        found |= {r: (((left[:, :r] * s[:r]) @ right[:r]).astype(kept.dtype), missing(s, r)) for r in below}
    return found


def missing(s: Float[np.ndarray, " k"], r: int) -> float:
    """The Frobenius norm of what rank r leaves out, as a share of all, by the singular values."""
    return float(np.sqrt((s[r:] ** 2).sum() / max((s**2).sum(), np.finfo(float).tiny)))


def check_rank(r: int) -> None:
    if r < 0:
        raise ValueError(f"r={r} must be at least 0; 0 drops the matrix")


def rank_of_share(share: float, d: int) -> int:
    """So much of d, as a rank: at least 1 where the share is above 0."""
    if not 0 <= share <= 1:
        raise ValueError(f"share={share} must be between 0 and 1")
    return max(1, round(share * d)) if share else 0


def truncate(model: Any, ranks: Mapping[str, int]) -> Truncated:
    """The model with each matrix that is named cut to its rank: ``truncate(model, {"F^2": 0, "W_OV^1": 6}).model``.

    Of a `CausalTransformer` 'W_KQ^1', 'W_OV^1', 'F^1' (each matrix of that layer's feed-forward memory), 'F.W^1' and
    'F.V^1' (its first and its second alone), and so on for each layer. Of a `Transformer` 'mlp', 'mlp.W', 'mlp.V' and
    'W_OV': the products W_O^T W_V of all heads side by side, d x H d, which is what turns what the heads have attended
    to into their output.
    """
    parts: list[Factored] = []
    for name, r in ranks.items():
        model, more = find("matrix", name, matrices(model))(model, r)
        parts += more
    return Truncated(model, tuple(parts))


def matrices(model: Any) -> dict[str, Cut]:
    """What of this model can be truncated, by name."""
    if isinstance(model, Transformer):
        mlp = {} if model.mlp is None else _memory("mlp{}", attrgetter("mlp"), model)
        return {**mlp, "W_OV": _heads}
    if not isinstance(model, CausalTransformer):
        raise ValueError(f"{with_article(type(model).__name__)} has no matrices that are known by name")
    found: dict[str, Cut] = {}
    for i, layer in enumerate(model.layers):
        for field in ("W_KQ", "W_OV"):
            name = f"{field}^{i + 1}"
            found[name] = _matrix(name, _of_layer(i, field))
        if layer.F is not None:
            found |= _memory(f"F{{}}^{i + 1}", _of_layer(i, "F"), model)
    return found


def _of_layer(i: int, field: str) -> Where:
    return lambda model: getattr(model.layers[i], field)


def _memory(name: str, where: Where, model: Any) -> dict[str, Cut]:
    """A memory's matrices, each alone and all together."""

    def cut_of(field: str) -> Cut:
        return _matrix(name.format(f".{field}"), lambda m: getattr(where(m), field))

    fields = [field for field in ("W", "V", "W_1", "W_2") if hasattr(where(model), field)]
    alone = {name.format(f".{field}"): cut_of(field) for field in fields}

    def all_of_them(model: Any, r: int) -> Truncated:
        return truncate(model, dict.fromkeys(alone, r))

    return {name.format(""): all_of_them, **alone}


def _matrix(name: str, where: Where) -> Cut:
    def cut(model: Any, r: int) -> Truncated:
        W = where(model)
        kept, error = best_rank(W, r)
        rows, cols = W.shape
        full = min(rows, cols)
        part = Factored(name, min(r, full), full, W.size, min(r, full) * (rows + cols), error)
        return Truncated(eqx.tree_at(where, model, jnp.asarray(kept)), (part,))

    return cut


def _heads(model: Transformer, r: int) -> Truncated:
    """The best part of rank r of M = [W_O^1T W_V^1, ..., W_O^HT W_V^H] is U U^T M, with its r first left singular
    vectors U: what the heads write is projected on them, and the model keeps its shape."""
    H, d_h, d = model.W_O.shape
    heads = zip(np.asarray(model.W_O, np.float64), np.asarray(model.W_V, np.float64), strict=True)
    left, s, _ = np.linalg.svd(np.concatenate([out.T @ value for out, value in heads], axis=1), full_matrices=False)
    full = min(d, H * d_h)
    check_rank(r)
    r = min(r, full)
    if r < full:
        U = left[:, :r]
        W_O = (np.asarray(model.W_O, np.float64) @ U @ U.T).astype(np.float32)
        model = eqx.tree_at(lambda m: m.W_O, model, jnp.asarray(W_O))
    # Either two factors of M, or r directions, what each head writes along them, and W_V as it is.
    factored = min(r * (d + H * d), r * (d + H * d_h) + (H * d_h * d if r else 0))
    return Truncated(model, (Factored("W_OV", r, full, 2 * H * d_h * d, factored, missing(s[:full], r)),))
