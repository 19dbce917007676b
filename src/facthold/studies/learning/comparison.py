"""The comparison cell: lemma 7's bounds on solutions of differential inequalities, with random slack."""

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from facthold._util.errors import check_positive
from facthold._util.keys import derive
from facthold.lab.cells import Cell, Result
from facthold.memory.embeddings import host_generator

POINTS = 200


@dataclass(frozen=True, kw_only=True)
class Comparison(Cell):
    """z' = A z + B z^2 - h and z' = A z - B z^2 + h, with h(t) >= 0 drawn for each of many solutions.

    ``upper`` and ``lower`` are by how much log z crosses the lemma's bounds at worst: 0 or less where they hold.
    ``tight`` is the largest distance from them where h = 0, which is rounding: the bounds are then solutions.

    The first is asked up to 0.9 of the time at which the bound blows up, beyond which its denominator is negative and
    it says nothing; the second while z <= A / (2 B), as the lemma has it.
    """

    kind: ClassVar[str] = "comparison"

    draws: int = 200
    seed: int = 0

    def __post_init__(self) -> None:
        check_positive(draws=self.draws)

    @property
    def label(self) -> str:
        return f"lemma 7, {self.draws} draws"

    @property
    def cost(self) -> float:
        return 5.0

    def run(self) -> Result:
        rng = host_generator(derive("comparison", self.seed))
        A, B, z0 = np.exp(rng.uniform(-2, 2, (3, self.draws)) + np.array([[0], [0], [-6]]))
        slack, phase = rng.uniform(0, 1, (2, self.draws))
        ends = {"upper": 0.9 * np.log1p(A / (B * z0)) / A, "lower": np.log(np.maximum(A / (B * z0) - 1, 2.0)) / A}
        found: Result = {"draws": self.draws}
        tight = []
        with jax.enable_x64(True):
            for sign, (name, end) in zip((1.0, -1.0), ends.items(), strict=True):
                for share in (slack, np.zeros_like(slack)):
                    log_z, log_bound = map(np.asarray, _solve(*map(jnp.asarray, (A, B, z0, share, phase, end)), sign))
                    inside = (sign > 0) | (np.exp(log_z) <= (A / (2 * B))[:, None])
                    over = np.where(inside, sign * (log_z - log_bound), -np.inf)
                    if share is slack:
                        found[name] = float(over.max())
                    else:
                        tight.append(float(np.abs(over[np.isfinite(over)]).max()))
        return found | {"tight": max(tight)}


@jax.jit
@partial(jax.vmap, in_axes=(0, 0, 0, 0, 0, 0, None))
def _solve(
    A: Array, B: Array, z0: Array, slack: Array, phase: Array, end: Array, sign: Array
) -> tuple[Float[Array, " times"], Float[Array, " times"]]:
    """log z and the logarithm of its bound, for h = slack A z (1 + cos(phase + 5 t / end)) / 2."""

    def motion(t: Any, log_z: Array, _: None) -> Array:
        h = slack * A * (1 + jnp.cos(6.28 * phase + 5 * t / end)) / 2
        return A + sign * B * jnp.exp(log_z) - sign * h

    times = jnp.linspace(0.0, end, POINTS)
    solution = diffrax.diffeqsolve(
        diffrax.ODETerm(motion), diffrax.Dopri8(), 0.0, end, None, jnp.log(z0), saveat=diffrax.SaveAt(ts=times),
        stepsize_controller=diffrax.PIDController(rtol=1e-11, atol=1e-11), max_steps=4096,
    )  # fmt: skip
    log_z: Array = solution.ys
    growth = jnp.expm1(A * times)
    return log_z, jnp.log(A * z0) + A * times - jnp.log(A - sign * B * z0 * growth)
