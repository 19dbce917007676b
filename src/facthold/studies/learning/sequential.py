"""Cells about learning in stages (appendix D): theorem 6 and lemma 6 in their own setting, and lemma 7."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from facthold._util.keys import derive
from facthold.dynamics.stages import crossing
from facthold.lab import Cell, Result
from facthold.lab.fields import Count, Share
from facthold.studies.learning.base import LearningCell
from facthold.studies.learning.flows import grown_of
from facthold.theory.reduced import lemma_5

if TYPE_CHECKING:
    from facthold.dynamics.flow import Trajectory
    from facthold.dynamics.population import Population

LADDER = (-1.0, -2.0, -4.0, -8.0, math.log(1e-30), -1024.0, -1e4)  # log alpha of the starts, largest first
POINTS = 2000


@dataclass(frozen=True, kw_only=True)
class Sequential(LearningCell):
    """Gradient flow in logarithmic coordinates, from assumption 2's start, p(s, r) uniform: theorem 6 in its own
    setting, with starts so small that only their logarithm is a number.

    The theorem says that there are a runtime T* and a scale alpha such that subjects and noise stay below sqrt(alpha)
    up to T*, and that at some t <= T* every prediction is within epsilon of p*(. | r). Two readings are measured:

    - *own*: T* is the first time at which the second statement holds, for each alpha of a ladder.
    - *proof*: T* is lemma 6's formula, with the proof's epsilon and target, and alpha small enough for its assumptions.
    """

    kind: ClassVar[str] = "sequential"
    version: ClassVar[int] = 2

    epsilon: Share
    proof: bool = True
    """Whether the flow is followed up to the proof's own T*. In a table that is not balanced it is so stiff by then
    that its steps stay short: half an hour and more."""

    @property
    def cost(self) -> float:
        return 40.0 if self.proof else 10.0

    def run(self) -> Result:
        from facthold.dynamics.population import population

        prompts = population(self.learnt, T=self.T, n_noise=self.n_noise)
        far = 2 * self.R * math.sqrt(2 * self.D)
        return {
            "subjects_wanted": 4 * far, "noise_wanted": 4 * far * self.T, "rates": self.rates(prompts.table),
            "slowest_relation": _distance(prompts) / self.R,
            "own": [self._own(prompts, log_alpha) for log_alpha in LADDER],
            "proof": self._proof(prompts) if self.proof else None,
        }  # fmt: skip

    def _flow(self, prompts: "Population", log_alpha: float, times: np.ndarray, **more: Any) -> "Trajectory":
        from facthold.dynamics.flow import gradient_flow
        from facthold.dynamics.population import Start

        return gradient_flow(prompts, Start("balanced", log_alpha), times, coordinates="log", **more)

    def _own(self, prompts: "Population", log_alpha: float) -> dict[str, Any]:
        """What is seen from this start up to the first time at which every prediction is near; no time: not seen."""
        escape = -log_alpha * self.R / _distance(prompts)  # max_r p(r)^-1 ||p*(. | r) - p_0||^-1 log(1 / alpha)
        times = np.linspace(0, 4 * escape + 200 * self.R * math.sqrt(self.D), POINTS + 1)
        run = self._flow(prompts, log_alpha, times)
        if (time := crossing(run.times, run.seen["from_relation_worst"], self.epsilon)) is None:
            return {"log_alpha": log_alpha, "time": None, "failure": run.failure}
        return _up_to(run, time, log_alpha)

    def _proof(self, prompts: "Population") -> dict[str, Any]:
        """Lemma 6 with alpha_sm = sqrt(alpha): the smallest |log alpha| of a ladder that meets its assumptions.

        The lemma bounds sum_r p(r)^2 ||p*(. | r) - E[p-hat | r]||^2 by epsilon_min^2; epsilon_min = epsilon / R makes
        each relation's own distance at most epsilon. Its proof also uses eps^2 <= distance / (100 (|A| + 1)), where the
        statement has 50, and sqrt(2) T alpha_sm^2 < 1 / (2 S): both are kept to.
        """
        A1, distance = prompts.table.A + 1, _distance(prompts)
        eps, eps_min = math.sqrt(distance / (100 * A1)), self.epsilon / self.R
        late = 100 * A1 * math.log(prompts.table.A) / (eps * eps_min) ** 2
        for power in range(40):
            log_alpha = -(2.0**power)
            iota = math.log(eps) - log_alpha - 0.5 * math.log(A1)
            escape = iota * self.R / distance
            T_star = escape + late
            # lemma 5's bounds at T*, against sqrt(alpha); and the lemma's own condition on alpha_sm^2 = alpha
            speeds = lemma_5(1 / self.S, self.T, self.n_noise).values()
            bounded = all(v * T_star + log_alpha + 0.5 * math.log(A1) <= 0.5 * log_alpha for v in speeds)
            small = log_alpha + math.log(self.T) <= math.log(distance / 150) - math.log(2 * iota) if iota > 0 else False
            small &= log_alpha + math.log(math.sqrt(2) * self.T) < -math.log(2 * self.S)
            if bounded and small:
                break
        else:
            return {"failure": "no alpha above exp(-1e12) meets the assumptions: S or the noise is too small for R"}
        times = np.linspace(0.0, T_star, POINTS + 1)
        run = self._flow(prompts, log_alpha, times, stiff=True, rtol=1e-6)
        if run.failure:
            return {"failure": run.failure, "log_alpha": log_alpha, "T_star": T_star}
        return _up_to(run, float(run.times[-1]), log_alpha) | {
            "failure": None, "T_star": T_star, "escape": escape, "eps": eps, "eps_min": eps_min,
            "lemma_time": crossing(run.times, run.seen["relation_gap"], eps_min),
            "theorem_time": crossing(run.times, run.seen["from_relation_worst"], self.epsilon),
        }  # fmt: skip


def _distance(prompts: "Population") -> float:
    """min_r ||p*(. | r) - p_0||."""
    return float(np.linalg.norm(prompts.table.given("relation") - 1 / prompts.table.A, axis=1).min())


def _up_to(run: "Trajectory", time: float, log_alpha: float) -> dict[str, Any]:
    """Up to this time: by how much the logarithm of the largest |W_OV| or W_KQ exceeds log sqrt(alpha), for subjects
    and noise together and for EOS, which the theorem does not speak of; and by how much each kind's W_KQ has grown."""
    at = np.searchsorted(run.times, time) + 1  # the look at this time, or the first one after it, and all before it

    def above(*kinds: str) -> float:
        logs = [run.seen[f"log_{name}_{kind}"][:at] for kind in kinds for name in ("W_KQ", "W_OV")]
        return float(np.max(logs) - log_alpha / 2)

    return {
        "log_alpha": log_alpha, "time": time, "above": above("subject", "noise"), "EOS_above": above("EOS"),
        "grown": {kind: float(np.interp(time, run.times, values)) for kind, values in grown_of(run).items()},
    }  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Comparison(Cell):
    """Lemma 7's bounds on solutions of differential inequalities, with random slack.

    z' = A z + B z^2 - h and z' = A z - B z^2 + h, with h(t) >= 0 drawn for each of many solutions.

    By how much log z is inside its bound follows from H, the integral of h / z: in the first case by H or more, as what
    is missing compounds, in the second by something between 0 and H. ``upper`` and ``lower``: by how much it is off
    these at worst; 0 or less where they hold. ``slack``: the largest H. ``tight``: the largest distance from the
    lemma's bounds where h = 0, which is rounding, as the bounds are then solutions.

    The first is followed up to 0.9 of the time at which the bound blows up; beyond it the denominator is negative and
    the bound says nothing. The second is followed while z <= A / (2 B), as in the lemma.
    """

    kind: ClassVar[str] = "comparison"
    version: ClassVar[int] = 2
    counts_no_facts: ClassVar[str] = "there is no model"

    draws: Count = 200
    seed: int = 0

    def run(self) -> Result:
        import jax
        import jax.numpy as jnp

        from facthold.memory.embeddings import host_generator

        rng = host_generator(derive("comparison", self.seed))
        A, B, z0 = np.exp(rng.uniform(-2, 2, (3, self.draws)) + np.array([[0], [0], [-6]]))
        slack, phase = rng.uniform(0, 1, (2, self.draws))
        solve = jax.jit(jax.vmap(_solution, in_axes=(0, 0, 0, 0, 0, 0, None)))
        ends = {"upper": 0.9 * np.log1p(A / (B * z0)) / A, "lower": np.log(np.maximum(A / (B * z0) - 1, 2.0)) / A}

        def inside(sign: float, end: np.ndarray, share: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            """By how much log z is inside its bound, at all times at which the lemma speaks of it; and H there."""
            with jax.enable_x64(True):
                drawn = map(jnp.asarray, (A, B, z0, share, phase, end))
                log_z, log_bound, H = map(np.asarray, solve(*drawn, sign))
            spoken = (sign > 0) | (np.exp(log_z) <= (A / (2 * B))[:, None])
            return (sign * (log_bound - log_z))[spoken], H[spoken]

        by, H = inside(1.0, ends["upper"], slack)
        above, H_above = inside(-1.0, ends["lower"], slack)
        tight = [
            float(np.abs(inside(sign, end, 0 * slack)[0]).max())
            for sign, end in zip((1.0, -1.0), ends.values(), strict=True)
        ]
        return {
            "draws": self.draws, "upper": float((H - by).max()), "slack": float(min(H.max(), H_above.max())),
            "lower": float(np.maximum(-above, above - H_above).max()), "tight": max(tight),
        }  # fmt: skip


def _solution(A: Any, B: Any, z0: Any, slack: Any, phase: Any, end: Any, sign: Any) -> tuple[Any, Any, Any]:
    """log z, the logarithm of its bound, and H, for h = slack A z (1 + cos(phase + 5 t / end)) / 2."""
    import diffrax
    import jax.numpy as jnp

    def motion(t: Any, log_z: Any, _: None) -> Any:
        h = slack * A * (1 + jnp.cos(6.28 * phase + 5 * t / end)) / 2
        return A + sign * B * jnp.exp(log_z) - sign * h

    times = jnp.linspace(0.0, end, 200)
    log_z: Any = diffrax.diffeqsolve(
        diffrax.ODETerm(motion), diffrax.Dopri8(), 0.0, end, None, jnp.log(z0), saveat=diffrax.SaveAt(ts=times),
        stepsize_controller=diffrax.PIDController(rtol=1e-11, atol=1e-11), max_steps=4096,
    ).ys  # fmt: skip
    turns = jnp.sin(6.28 * phase + 5 * times / end) - jnp.sin(6.28 * phase)
    H = slack * A * (times + end / 5 * turns) / 2
    return log_z, jnp.log(A * z0) + A * times - jnp.log(A - sign * B * z0 * jnp.expm1(A * times)), H
