"""Every way to put associations into a memory: the constructions of section 3, beyond them, and training."""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from facthold import construct, train
from facthold._util.keys import PRNGKeyArray, derive
from facthold.measure.grids import Grid
from facthold.recipes.base import LINEAR, LOW_RANK, MLP, MemoryRecipe
from facthold.theory import bounds
from facthold.train.protocols import Protocol, protocol

if TYPE_CHECKING:
    from facthold.memory.associations import Problem
    from facthold.models.memory import Memory


def _share(share: float) -> Callable[[int, int], float]:
    """About ``share`` associations per parameter of the readout (d^2 or m d)."""
    return lambda d, m: share * (m or d) * d


LINEAR_CONSTRUCTIONS = (
    MemoryRecipe(
        name="outer-product", family=LINEAR, place="theorem 1", outline="W = sum of u_f(x) e_x^T",
        build=lambda problem, m, key: construct.linear.outer_product(problem), guess=_share(0.02),
        signs_guess=lambda d: d / (2 * math.log(d)), loads=(0.01, 0.014, 0.02, 0.03, 0.045, 0.07),
    ),
    MemoryRecipe(
        name="quantised", family=LINEAR, place="corollary 2", outline="the outer product with rounded weights",
        build=lambda problem, m, key: construct.linear.quantised(problem).memory, guess=_share(0.02),
    ),
    MemoryRecipe(
        name="low-rank", family=LOW_RANK, place="theorem 1", outline="the outer product through m random directions",
        build=lambda problem, m, key: construct.linear.low_rank(problem, m, key=key), guess=_share(0.008),
        fixed=("W_2",),
    ),
    MemoryRecipe(
        name="separated", family=LINEAR, place="beyond", outline="any W with only positive margins, by Newton's method",
        build=lambda problem, m, key: construct.separate.separated(problem), solved=True,
        guess=lambda d, m: bounds.guide(d * d, 0.6 + 0.12 * math.log(d)), in_ladder=False,  # it has `figure sharp`
    ),
)  # fmt: skip


def _mlp(
    name: str, place: str, outline: str, function: "Callable[[], Callable[..., Memory]]", share: float, **more: Any
) -> MemoryRecipe:
    """An MLP by a construction from a problem, m and a key, which is loaded when it is used."""
    return MemoryRecipe(
        name=name, family=MLP, place=place, outline=outline, guess=_share(share),
        build=lambda problem, m, key: function()(problem, m, key=key), **more,
    )  # fmt: skip


MLP_CONSTRUCTIONS = (
    _mlp("hermite-features", "theorem 2, sketch", "random features, Hermite readout",
         lambda: construct.mlp.hermite_features, 0.01, fixed=("W",)),
    _mlp("tangent-kernel", "theorem 9", "pairs of neurons around random directions",
         lambda: construct.mlp.tangent_kernel, 0.008, even=True),
    _mlp("tangent-convex", "theorem 9, Q solved", "the same, directions of least loss",
         lambda: construct.mlp.convex_tangent, 0.06, solved=True, even=True),
    _mlp("ridge-readout", "beyond", "random features, readout by least squares",
         lambda: construct.readout.ridge, 0.05, fixed=("W",)),
    _mlp("convex-readout", "beyond", "random features, readout of least cross entropy",
         lambda: construct.readout.convex, 0.14, solved=True, fixed=("W",)),
    _mlp("layerwise", "beyond", "one convex solve per layer",
         lambda: construct.readout.layerwise, 0.2, solved=True, loads=(0.1, 0.14, 0.2)),
)  # fmt: skip


def _training(name: str, family: str, constant: float, *, in_ladder: bool = True) -> MemoryRecipe:
    """Training by the protocol ``name``, guessed by constant N ln N = size.

    The first guess should lie a little below the capacity: a probe is cheap there, and slow right at it.
    """
    p = protocol(name)
    return MemoryRecipe(
        name=f"train:{name}", family=family, place=f"trained, {p.source}", outline=f"{p.optimiser}, {p.steps} steps",
        guess=lambda d, m: bounds.guide((m or d) * d, constant), protocol=p, in_ladder=in_ladder,
    )  # fmt: skip


TRAINING = (
    _training("linear-code", LINEAR, 0.95 * bounds.LINEAR_CONSTANT),
    _training("mlp-code", MLP, 0.95 * bounds.MLP_CONSTANT),
    _training("mlp-text", MLP, bounds.MLP_CONSTANT, in_ladder=False),
)

GRID_TRAINING = {
    family: Protocol("on-grid", "ours", "adam", lr=lr, steps=2**12, check_every=64, goal=1.0, futility=None, decay=True)
    for family, lr in ((LINEAR, 0.3), (MLP, 0.03))
}
"""0.3 for weights that start at a root mean square of 10: a step can flip few signs, and all steps any of them."""
START = 10.0
CLIPS = {2: 1.0, 3: 1.3}  # ends of grids, in root mean squares: near the best for Gaussian weights (Max, 1960)


def _on_grid(family: str, levels: int, share: float) -> MemoryRecipe:
    """Training with every weight on a grid of so many levels."""

    def build(problem: "Problem", m: int, key: PRNGKeyArray) -> "Memory":
        import jax

        from facthold._util.draws import normal
        from facthold.measure.quantise import quantise
        from facthold.models.memory import LinearMemory, Memory, MLPMemory

        d, grid = problem.d, Grid(levels, clip=CLIPS[levels])
        start: Memory
        if family == LINEAR:
            start = LinearMemory(normal(key, (d, d), scale=START))
        else:
            k_W, k_V = jax.random.split(key)
            start = MLPMemory(normal(k_W, (m, d)), normal(k_V, (m, d), scale=3 * m**-0.5))
        task = train.tasks.OnGrid(train.tasks.StoreAssociations.of(problem), grid)
        run = train.engine.fit([train.engine.Member(start, task, key)], GRID_TRAINING[family])[0]
        return quantise(run.model, grid).model

    return MemoryRecipe(
        name=f"on-grid:{family}-{levels}", family=family, place="beyond",
        outline=f"trained with every weight on {levels} levels", build=build, guess=_share(share), levels=levels,
        spec={"protocol": GRID_TRAINING[family].spec, "start": START, "clip": CLIPS[levels]}, in_ladder=False,
        stream=lambda seed, d, m: ("grid", seed, d, m, family, levels),
    )  # fmt: skip


ON_GRIDS = (_on_grid(LINEAR, 2, 0.055), _on_grid(LINEAR, 3, 0.07), _on_grid(MLP, 2, 0.055), _on_grid(MLP, 3, 0.09))
ONE_BIT = MemoryRecipe(
    name="one-bit", family=LINEAR, place="beyond", outline="one-bit weights by message passing, read by signs",
    build=lambda problem, m, key: construct.signs.one_bit(problem, key=key), levels=2,
    guess=lambda d, m: 0.65 * d, signs_guess=lambda d: 0.65 * d,
    spec={"patience": 100, "rounds": 10, "tries": 4}, in_ladder=False,  # as `construct.signs` has them
    stream=lambda seed, d, m: ("one-bit", seed, d),
)  # fmt: skip


def _by_frequency(problem: "Problem", weights: list[np.ndarray], m: int, seed: int, training: Protocol) -> list[Any]:
    from facthold.models.memory import MLPMemory

    key = derive("init", seed, problem.d, m, "weighted-trained")
    start = MLPMemory.init(problem.d, m, key=key)
    tasks = [train.tasks.StoreByFrequency.weighted(problem, p / p.sum()) for p in weights]
    return [run.model for run in train.engine.fit([train.engine.Member(start, task, key) for task in tasks], training)]


WEIGHTED = (
    MemoryRecipe(
        name="weighted-convex", family=LINEAR, place="beyond", outline="the linear memory of least loss under p(x)",
        guess=_share(0.1), in_ladder=False, solved=True,
        weighted=lambda problem, weights, m, seed, training: [
            construct.readout.best_linear(problem, p) for p in weights
        ],
    ),
    MemoryRecipe(
        name="weighted-trained", family=MLP, place="beyond", outline="an MLP trained on the loss under p(x)",
        guess=_share(0.1), weighted=_by_frequency, in_ladder=False,
    ),
)  # fmt: skip
