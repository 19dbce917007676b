"""Models with few bits per weight: every weight on a uniform grid, and the fewest bits at which a model still recalls.

n weights on a grid of L levels take n log2 L bits (packed: L need not be a power of two), each scale of a grid takes 32
(a float32), and each array 18 that say which grid it is. ``docs/limits.md`` says what counts as bits, and which weights
are left out where only those that are *written* count.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from facthold._util.errors import check_one_of, unknown
from facthold.measure.grids import CLIPS, FEW, GRID_BITS, LADDER, MOST_LEVELS, SCALE_BITS, SCALES, Grid
from facthold.models.packing import OnGrid

ROUNDING = 1e-9  # slack when a recall is compared with a goal
Model = Any  # any model of this project: an Equinox module whose arrays are its weights


def on_grid(W: Float[Array, "*n"] | np.ndarray, grid: Grid, xp: Any = jnp) -> Any:
    """Each weight at the nearest point of its grid, in JAX or in NumPy (``xp``). What is all zero stays so."""
    step, points = _nearest(W, grid, xp)
    return step * points


def _nearest(W: Any, grid: Grid, xp: Any) -> tuple[Any, Any]:
    """The step between neighbours on the grid, and the nearest point of each weight, in steps from zero."""
    L, axes = grid.levels, grid.axes(W.ndim)
    size = xp.abs(W).max(axis=axes, keepdims=True)
    if math.isfinite(grid.clip):
        size = xp.minimum(size, grid.clip * xp.sqrt((W**2).mean(axis=axes, keepdims=True)))
    last, half = (L - 1) / 2, 0.0 if L % 2 else 0.5
    x = last * xp.clip(W / xp.where(size > 0, size, 1), -1, 1)
    return size / last, xp.clip(xp.rint(x - half) + half, -last, last)


def grid_points(model: Model, grids: Mapping[str, Grid]) -> dict[str, OnGrid]:
    """What `quantise` makes of the weights of a model, as whole numbers: for a file that has no more bits than that."""
    found = {}
    for name, W in _weights(model):
        if name in grids:
            step, points = _nearest(np.asarray(W), grids[name], np)
            levels = grids[name].levels
            found[name] = OnGrid(levels, step, np.rint(points + (levels - 1) / 2).astype(np.int64))
    return found


def straight_through(model: Model, grid: Grid) -> Model:
    """The model on the grid, with the gradient of the model as it is: for training weights that are to be rounded."""
    weights, rest = eqx.partition(model, eqx.is_inexact_array)
    return eqx.combine(jax.tree.map(lambda W: W + jax.lax.stop_gradient(on_grid(W, grid) - W), weights), rest)


def weight_sizes(model: Model) -> dict[str, tuple[int, ...]]:
    """The shape of each array of weights by its name, such as 'W_K' or 'mlp.V'."""
    return {name: W.shape for name, W in _weights(model)}


@dataclass(frozen=True)
class Quantised:
    """A model on grids, and the bits that it takes."""

    model: Model
    bits: float
    scale_bits: int  # of them, those of scales
    n_weights: int  # weights that are counted
    grids: Mapping[str, Grid]

    @property
    def bits_per_weight(self) -> float:
        return self.bits / self.n_weights


def quantise(model: Model, grid: Grid | Mapping[str, Grid], *, fixed: Collection[str] = ()) -> Quantised:
    """The model with each array of weights on its grid; those in ``fixed`` stay as they are and are not counted."""
    shapes = weight_sizes(model)
    if wrong := set(fixed) - set(shapes):
        raise unknown("array of weights", min(wrong), shapes)
    if not isinstance(grid, Grid) and (lacking := (set(shapes) - set(fixed)) ^ set(grid)):
        raise ValueError(f"grids must be given for {sorted(set(shapes) - set(fixed))}, and {min(lacking)!r} is wrong")
    grids = {name: grid if isinstance(grid, Grid) else grid[name] for name in shapes if name not in fixed}
    for one in grids.values():
        _check(one)
    if not grids:
        raise ValueError(f"fixed={sorted(fixed)} leaves no weights to round")
    return _counted(_on_grids(model, grids), grids)


def _counted(model: Model, grids: Mapping[str, Grid]) -> Quantised:
    """The bits of a model that is on these grids."""
    counted = [(shape, grids[name]) for name, shape in weight_sizes(model).items() if name in grids]
    scales = SCALE_BITS * sum(_scales(shape, grid) for shape, grid in counted)
    bits = scales + sum(math.prod(shape) * grid.bits + GRID_BITS for shape, grid in counted)
    return Quantised(model, bits, scales, sum(math.prod(shape) for shape, _ in counted), grids)


def _scales(shape: tuple[int, ...], grid: Grid) -> int:
    """One for each index of the axes that come before those that share a scale."""
    return math.prod(shape[: grid.axes(len(shape))[0]])


def as_packed(model: Model, packed: Mapping[str, OnGrid]) -> Quantised | None:
    """A model whose weights a file has on grids already, and the bits that it takes; None where some are on none."""
    shapes = weight_sizes(model)
    if set(shapes) != set(packed):
        return None
    grids = {}
    for name, on in packed.items():
        scales = next(kind for kind in SCALES if _scales(shapes[name], Grid(on.levels, kind)) == on.steps.size)
        grids[name] = Grid(on.levels, scales)
    return _counted(model, grids)


@dataclass(frozen=True)
class Found:
    """The fewest bits that were found for a goal."""

    quantised: Quantised | None  # none where no grid is enough
    recall: float
    tried: int  # models on grids that were asked before this one was chosen


def fewest_bits(
    model: Model, recall: Callable[[Model], float], goal: float, *, fixed: Collection[str] = (),
    ladder: Sequence[int] = LADDER,
) -> Found:  # fmt: skip
    """The fewest bits that were found at which ``recall(model)`` is at least ``goal``.

    First one grid for all arrays: the coarsest that will do, for both kinds of scales. Then each array by itself is
    made as coarse as it can be, the one with the most bits first: keys may need more bits than values.
    """
    asked: dict[tuple, tuple[Quantised, float]] = {}

    def ask(grid: Grid | Mapping[str, Grid]) -> tuple[Quantised, float]:
        key = tuple(grid) if isinstance(grid, Grid) else tuple(sorted((name, *g) for name, g in grid.items()))
        if key not in asked:
            q = quantise(model, grid, fixed=fixed)
            asked[key] = q, recall(q.model)
        return asked[key]

    def coarsest(make: Callable[[int, float], Grid | Mapping[str, Grid]], most: int) -> Quantised | None:
        """The fewest levels up to number ``most`` of the ladder with a clip that will do, by bisection."""

        def good(i: int) -> Quantised | None:
            for clip in CLIPS:
                q, share = ask(make(ladder[i], clip))
                if share >= goal - ROUNDING:
                    return q
            return None

        low, high, best = -1, most, good(most)
        while best is not None and high - low > 1:
            middle = (low + high) // 2
            q = good(middle)
            low, high, best = (middle, high, best) if q is None else (low, middle, q)
        # a grid that is finer need not be better: few weights of a sparse model lie on an even one
        few = (good(i) for i in range(high) if ladder[i] <= FEW) if best is not None else ()
        return next((q for q in few if q is not None), best)

    shapes = weight_sizes(model)
    kinds = SCALES if any(len(shape) > 2 for shape in shapes.values()) else SCALES[1:]
    all_alike = [coarsest(lambda L, c, s=s: Grid(L, s, c), len(ladder) - 1) for s in kinds]  # type: ignore[misc]
    found = [q for q in all_alike if q is not None]
    if not found:
        return Found(None, 0.0, len(asked))
    best = min(found, key=lambda q: q.bits)
    for name in sorted(best.grids, key=lambda name: -math.prod(shapes[name]) * best.grids[name].bits):
        now, scales = dict(best.grids), best.grids[name].scales
        others = {n: g for n, g in now.items() if n != name}
        place = ladder.index(now[name].levels)
        if place and others:
            coarser = coarsest(lambda L, c: others | {name: Grid(L, scales, c)}, place - 1)  # noqa: B023
            best = coarser or best
    share = ask(best.grids)[1] if len(set(best.grids.values())) > 1 else recall(best.model)
    return Found(best, share, len(asked))


class Recall(NamedTuple):
    """How a model is asked for its facts, as a share of them."""

    choose: Sequence[Callable[[Model], float]]
    """What a grid is chosen by. Where the choice fails before the judge, the next one takes its place."""
    judge: Callable[[Model], float]  # in prompts that no choice has seen


def judged_bits(
    model: Model, recall: Recall, goal: float, *, fixed: Collection[str] = (), ladder: Sequence[int] = LADDER
) -> Found:
    """`fewest_bits`, where a grid counts only if it reaches the goal in fresh prompts too; ``recall`` is theirs."""
    tried = 0
    for choose in recall.choose:
        found = fewest_bits(model, choose, goal, fixed=fixed, ladder=ladder)
        tried += found.tried
        if found.quantised is None:
            break
        share = recall.judge(found.quantised.model)
        if share >= goal - ROUNDING:
            return Found(found.quantised, share, tried)
    return Found(None, 0.0, tried)


def _weights(model: Model) -> list[tuple[str, Array]]:
    leaves = jax.tree_util.tree_leaves_with_path(eqx.filter(model, eqx.is_inexact_array))
    return [(jax.tree_util.keystr(path, simple=True, separator="."), leaf) for path, leaf in leaves]


def _on_grids(model: Model, grids: Mapping[str, Grid]) -> Model:
    weights, rest = eqx.partition(model, eqx.is_inexact_array)
    # In NumPy, so that nothing is compiled for a new shape or number of levels.
    new = [jnp.asarray(on_grid(np.asarray(W), grids[name], np)) if name in grids else W for name, W in _weights(model)]
    return eqx.combine(jax.tree.unflatten(jax.tree.structure(weights), new), rest)


def _check(grid: Grid) -> None:
    if isinstance(grid.levels, bool) or int(grid.levels) != grid.levels or not 2 <= grid.levels <= MOST_LEVELS:
        raise ValueError(f"levels={grid.levels} must be a whole number from 2 to {MOST_LEVELS}")
    check_one_of("scales", grid.scales, SCALES)
    if not grid.clip > 0:
        raise ValueError(f"clip={grid.clip} must be positive; infinite: the largest weight")
