"""Cells about gradient flow (appendix D): on one table from one start, theorem 6 in its own setting, and lemma 7."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np

from facthold._util.keys import derive
from facthold.dynamics import KINDS
from facthold.dynamics.stages import crossing
from facthold.facts.table import TABLES, FactTable
from facthold.lab import Cell, Result
from facthold.lab.fields import Count, OneOf, Positive, Share
from facthold.studies.learning.base import LearningCell, LogAlpha, Start, staged
from facthold.theory.reduced import lemma_5

if TYPE_CHECKING:
    from facthold.dynamics.flow import Trajectory
    from facthold.dynamics.population import Population

LEFT = math.log(0.1)  # a token has left the origin when the logarithm of its W_KQ has reached this
DELTAS = (0.1, 0.01, 0.001)  # losses whose times are kept


@dataclass(frozen=True, kw_only=True)
class Flow(LearningCell):
    """Gradient flow in float64, evaluated `points` times up to t_end, of which the stored curves keep 400."""

    kind: ClassVar[str] = "flow"
    version: ClassVar[int] = 2

    log_alpha: LogAlpha
    t_end: Positive
    start: Start = "balanced"
    points: Count = 2000
    spacing: Annotated[str, OneOf(("linear", "log"))] = "linear"  # how the evaluations lie between 0 and t_end

    cost = 5.0

    @property
    def spec(self) -> dict[str, Any]:
        return super().spec | {"way": "pooled", "coordinates": "direct"}

    @property
    def times(self) -> np.ndarray:
        if self.spacing == "log":
            return np.concatenate([[0.0], np.geomspace(1e-3 * self.t_end, self.t_end, self.points)])
        return np.linspace(0.0, self.t_end, self.points + 1)

    def run(self) -> Result:
        from facthold.dynamics.flow import gradient_flow
        from facthold.dynamics.population import Start, population

        facts = self.learnt
        prompts = population(facts, T=self.T, n_noise=self.n_noise)
        run = gradient_flow(prompts, Start(self.start, self.log_alpha, self.seed), self.times)
        about: Result = {"failure": run.failure, "steps": run.steps}
        if len(run.times) < 2:
            return about
        left = {kind: crossing(run.times, -run.seen[f"log_W_KQ_{kind}"], -LEFT) for kind in KINDS}
        fell = {f"{delta:g}": crossing(run.times, run.seen["loss"], delta) for delta in DELTAS}
        about |= {"rates": self.rates(facts), "left": left, "fell": fell, **staged(run.times, run.seen, facts)}
        about["rise"] = float(np.diff(run.seen["loss"]).max())
        return about | self._conserved(run) | {"excess": _excess(run, lemma_5(1 / self.S, self.T, self.n_noise))}

    def _conserved(self, run: "Trajectory") -> Result:
        """How far what gradient flow conserves has drifted, for each token as a share of its own largest W_KQ^2; what
        it was at first, over all tokens; and the largest and the smallest W_KQ, in units of alpha."""
        conserved, sums, W_KQ = (run.seen[name] for name in ("conserved", "sum_W_OV", "W_KQ"))
        largest, alpha = np.abs(W_KQ).max(axis=0), math.exp(self.log_alpha)
        return {
            "drift": float((np.abs(conserved - conserved[0]).max(axis=0) / largest**2).max()),
            "sum_drift": float((np.abs(sums - sums[0]).max(axis=0) / largest).max()),
            "invariant": [float(edge(conserved[0]) / alpha**2) for edge in (np.min, np.max)],
            "grown": float(largest.max() / alpha),
            "least_ratio": float(W_KQ.min() / alpha),
        }


def _grown(run: "Trajectory") -> dict[str, np.ndarray]:
    """By how much the logarithm of the largest W_KQ of each kind has grown."""
    logs = {kind: run.seen[f"log_W_KQ_{kind}"] for kind in KINDS}
    return {kind: values - values[0] for kind, values in logs.items()}


def _excess(run: "Trajectory", allowed: Mapping[str, float]) -> dict[str, float]:
    """By how much log W_KQ exceeds what these rates allow, at the worst time; 0, at t = 0, where it never does."""
    grown = _grown(run)
    return {kind: float((grown[kind] - rate * run.times).max()) for kind, rate in allowed.items()}


EXCEPTION = "exception"  # a table in which one subject has an answer of its own, and all others have the same one


@dataclass(frozen=True, kw_only=True)
class SlowWeights(LearningCell):
    """How much of the growth that lemma 5 allows is used, as a share of its rate, where theory says how much.

    ``used``, from t = 0 until the first token is about to leave the origin: W_KQ(z) grows by cosh(lambda t), lambda =
    E[C(z)] ||p*(. | z) - p_0||.

    ``late``, in the table with an exception: S - 1 subjects have one answer, the last one has another, and R = 1. EOS,
    noise and the relation learn p*(.) first, and are then as wrong about the last subject as can be: it is pulled by
    p(s) sqrt(2) (1 - 1/S), and grows at this rate until it leaves the origin. So lemma 5's 2 p(s) could be sqrt(2)
    p(s), and no less.
    """

    kind: ClassVar[str] = "slow-weights"

    table: Annotated[str, OneOf((*TABLES, EXCEPTION))] = "random"
    log_alpha: LogAlpha = -300.0

    cost = 5.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.table == EXCEPTION and (self.R, self.D) != (1, 2):
            raise ValueError(f"R={self.R} and D={self.D} must be 1 and 2 for the table with an exception")

    @property
    def learnt(self) -> FactTable:
        if self.table != EXCEPTION:
            return super().learnt
        return FactTable.from_matrix((np.arange(self.S) == self.S - 1).astype(np.int32)[:, None])

    def run(self) -> Result:
        from facthold.dynamics.flow import gradient_flow
        from facthold.dynamics.population import Start, population

        facts, odd = self.learnt, self.table == EXCEPTION
        rates = self.rates(facts)
        times = [0.0, 0.9 * -self.log_alpha / max(rates.values())]  # the fastest token is about to leave
        if odd:  # when the others have left long ago and the last subject, at -log alpha / (sqrt(2) p(s)), has not
            times += [share * -self.log_alpha * self.S / math.sqrt(2) for share in (0.4, 0.8)]
        run = gradient_flow(
            population(facts, T=self.T, n_noise=self.n_noise), Start("balanced", self.log_alpha), np.array(times),
            coordinates="log", stiff=odd,
        )  # fmt: skip
        if run.failure:
            return {"failure": run.failure}
        allowed, grown = lemma_5(1 / self.S, self.T, self.n_noise), _grown(run)

        def used(kind: str, i: int) -> float:
            """Between the i-th time and the one before it."""
            return float((grown[kind][i] - grown[kind][i - 1]) / (run.times[i] - run.times[i - 1]) / allowed[kind])

        return {
            "failure": None, "rates": rates, "until": float(run.times[1]), "excess": _excess(run, allowed),
            "used": {kind: used(kind, 1) for kind in allowed}, "late": used("subject", -1) if odd else None,
        }  # fmt: skip


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
        "grown": {kind: float(np.interp(time, run.times, values)) for kind, values in _grown(run).items()},
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
