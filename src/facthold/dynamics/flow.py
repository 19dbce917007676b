"""Gradient flow on the loss of equation 15, integrated with error control in float64.

Two coordinates for the same flow. *direct*: W_OV and W_KQ as they stand. *log*: kappa(z) = log W_KQ(z) and
v(a, z) = W_OV(a, z) / W_KQ(z), for starts with W_KQ > 0 (corollary 3 keeps it so). With G(a, z) the pull of lemma 4,

    d W_OV(a, z) / dt = W_KQ(z) G(a, z)          d kappa(z) / dt = sum_a v(a, z) G(a, z)
    d W_KQ(z) / dt = sum_a W_OV(a, z) G(a, z)    d v(a, z) / dt = G(a, z) - v(a, z) sum_a' v(a', z) G(a', z)

and Theta(a, z) = exp(2 kappa(z)) v(a, z). Here alpha enters by its logarithm alone: theorem 6 asks for starts that no
floating-point number holds, and exp(-100000) = 0 is then the right value of Theta.
"""

import math
from dataclasses import dataclass
from typing import Any

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from facthold._util.errors import unknown
from facthold.dynamics.population import Population, Start, Watched
from facthold.train.engine import Seen

COORDINATES = ("direct", "log")
MOST_STEPS = 1 << 16
SMALLEST = math.log(np.finfo(float).tiny) / 2  # smaller starts lose W_KQ^2 to underflow in direct coordinates


@dataclass(frozen=True, eq=False)
class Trajectory:
    """What was seen along one flow."""

    times: Float[np.ndarray, " times"]
    seen: dict[str, np.ndarray]  # observables at these times, by name
    steps: int
    failure: str | None  # why the solver gave up before the last time, times after it left out; None: it did not


def gradient_flow(
    population: Population, start: Start, times: np.ndarray, *, coordinates: str = "direct", stiff: bool = False,
    rtol: float = 1e-8, most_steps: int = MOST_STEPS,
) -> Trajectory:  # fmt: skip
    """Integrate from ``start`` and evaluate at ``times``, which begin at 0 and increase.

    The solver is explicit, of order 8. Far beyond the time at which relations are learnt all but the slowest directions
    are ``stiff``: an implicit solver of order 5 then takes longer steps, each with a dense linear system.
    """
    if coordinates not in COORDINATES:
        raise unknown("coordinates", coordinates, COORDINATES)
    times = np.asarray(times, float)
    steps_up = times.ndim == 1 and len(times) > 1 and bool((np.diff(times) > 0).all())
    if not (steps_up and times[0] == 0 and np.isfinite(times).all()):
        raise ValueError(f"times must begin at 0, increase and be finite, not {times[:3]} and so on")
    if coordinates == "direct" and start.log_alpha < SMALLEST:
        raise ValueError(f"alpha = exp({start.log_alpha:g}) underflows in direct coordinates; take coordinates='log'")
    if coordinates == "log" and start.kind == "random":
        raise ValueError("the random start can take W_KQ through 0, which has no logarithm; take direct coordinates")
    with jax.enable_x64(True):
        watched = Watched.of(population)
        W_OV, W_KQ = start.ratio(population.table.A, population.counts.shape[1])
        direct = coordinates == "direct"
        scale = math.exp(start.log_alpha) if direct else 1.0
        first = (
            (jnp.asarray(W_OV) * scale, jnp.full(W_OV.shape[1], W_KQ * scale)) if direct
            else (jnp.asarray(W_OV) / W_KQ, jnp.full(W_OV.shape[1], start.log_alpha + math.log(W_KQ)))
        )  # fmt: skip
        atol = rtol * scale * (1.0 if direct else 1e-2)
        sol = _solve(watched, first, jnp.asarray(times), rtol, atol, most_steps, direct, stiff)
        seen = {name: np.asarray(values) for name, values in sol.ys.items()}
        reached, failure = np.isfinite(seen["loss"]), None
        if bool(sol.result != diffrax.RESULTS.successful):
            until = times[reached][-1] if reached.any() else 0.0
            most = bool(sol.result == diffrax.RESULTS.max_steps_reached)
            why = f"its {most_steps} steps did not suffice" if most else "its steps became too small or not finite"
            failure = f"the solver stopped after t = {until:.4g} of {times[-1]:.4g}: {why}"
        seen = {name: values[reached] for name, values in seen.items()}
        return Trajectory(times[reached], seen, int(sol.stats["num_steps"]), failure)


@jax.jit(static_argnames=("most_steps", "direct", "stiff"))
def _solve(
    watched: Watched, first: PyTree, times: Array, rtol: Any, atol: Any, most_steps: int, direct: bool, stiff: bool
) -> Any:
    motion: Any
    motion, look = (_direct, _look_direct) if direct else (_log, _look_log)
    solver: Any = diffrax.Kvaerno5() if stiff else diffrax.Dopri8()
    return diffrax.diffeqsolve(
        diffrax.ODETerm(motion), solver, times[0], times[-1], None, first, watched,
        saveat=diffrax.SaveAt(ts=times, fn=look), max_steps=most_steps, throw=False,
        stepsize_controller=diffrax.PIDController(rtol=rtol, atol=atol),
    )  # fmt: skip


def _direct(t: Array, weights: tuple[Array, Array], watched: Watched) -> tuple[Array, Array]:
    W_OV, W_KQ = weights
    G = watched.pull(watched.counts @ (W_OV * W_KQ).T)
    return W_KQ * G, (W_OV * G).sum(axis=0)


def _log(t: Array, weights: tuple[Array, Array], watched: Watched) -> tuple[Array, Array]:
    v, kappa = weights
    G = watched.pull(watched.counts @ (v * jnp.exp(2 * kappa)).T)
    along = (v * G).sum(axis=0)
    return G - v * along, along


def _look_direct(t: Array, weights: tuple[Array, Array], watched: Watched) -> Seen:
    W_OV, W_KQ = weights
    conserved = {"conserved": W_KQ**2 - (W_OV**2).sum(axis=0), "sum_W_OV": W_OV.sum(axis=0), "W_KQ": W_KQ}
    return _look(watched, W_OV * W_KQ, jnp.log(jnp.abs(W_KQ)), jnp.log(jnp.abs(W_OV).max(axis=0))) | conserved


def _look_log(t: Array, weights: tuple[Array, Array], watched: Watched) -> Seen:
    v, kappa = weights
    return _look(watched, v * jnp.exp(2 * kappa), kappa, kappa + jnp.log(jnp.abs(v).max(axis=0)))


def _look(watched: Watched, Theta: Array, log_W_KQ: Array, log_W_OV: Array) -> Seen:
    kinds = watched.sets.by_kind("log_W_KQ", log_W_KQ) | watched.sets.by_kind("log_W_OV", log_W_OV)
    return watched.predictions(watched.counts @ Theta.T) | kinds
