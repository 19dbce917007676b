"""The sequential cell: theorem 6 in its own setting, with starts so small that only their logarithm is a number.

The theorem says that there are a runtime T* and a scale alpha such that subjects and noise stay below sqrt(alpha) up to
T*, and that at some t <= T* every prediction is within epsilon of p*(. | r). Two readings are measured:

- *own*: T* is the first time at which the second statement holds, for each alpha of a ladder.
- *proof*: T* is lemma 6's formula, with the proof's epsilon and target, and alpha small enough for its assumptions.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from facthold._util.errors import check_positive
from facthold._util.keys import derive
from facthold.dynamics.flow import Trajectory, gradient_flow
from facthold.dynamics.population import Population, population
from facthold.dynamics.start import Start
from facthold.facts.prompts import check_length
from facthold.facts.table import make_table
from facthold.lab.cells import Cell, Result
from facthold.studies.learning.flows import rates

LADDER = (-1.0, -2.0, -4.0, -8.0, math.log(1e-30), -1024.0, -1e4)
"""log alpha of the starts that are tried, largest first."""
POINTS = 2000
SMALL = ("subject", "noise")


@dataclass(frozen=True, kw_only=True)
class Sequential(Cell):
    """Gradient flow in logarithmic coordinates, from assumption 2's start, p(s, r) uniform."""

    kind: ClassVar[str] = "sequential"

    S: int
    R: int
    D: int
    T: int
    n_noise: int
    epsilon: float
    table: str = "balanced"
    proof: bool = True
    """Whether the proof's own T* is gone to. In a table that is not balanced the flow is so stiff by then that its
    steps stay short: half an hour and more."""
    seed: int = 0

    def __post_init__(self) -> None:
        check_positive(S=self.S, R=self.R, D=self.D, n_noise=self.n_noise)
        check_length(self.T)
        if not 0 < self.epsilon < 1:
            raise ValueError(f"epsilon={self.epsilon} must lie between 0 and 1")

    @property
    def label(self) -> str:
        return f"theorem 6 at S={self.S} R={self.R} D={self.D} T={self.T}, {self.table} table"

    @property
    def cost(self) -> float:
        return 40.0 if self.proof else 10.0

    def run(self) -> Result:
        facts = make_table(self.table, self.S, self.R, self.D, key=derive("flow", self.seed))
        asked = population(facts, T=self.T, n_noise=self.n_noise)
        far = 2 * self.R * math.sqrt(2 * self.D)
        return {
            "subjects_wanted": 4 * far, "noise_wanted": 4 * far * self.T, "rates": rates(asked),
            "own": [self._own(asked, log_alpha) for log_alpha in LADDER],
            "proof": self._proof(asked) if self.proof else None,
        }  # fmt: skip

    def _own(self, asked: Population, log_alpha: float) -> dict[str, Any]:
        """What is seen from this start up to the first time at which every prediction is near; no time: not seen."""
        long = 4 * self._escape(asked, log_alpha) + 200 * self.R * math.sqrt(self.D)
        run = gradient_flow(asked, Start("balanced", log_alpha), np.linspace(0, long, POINTS + 1), coordinates="log")
        hit = np.flatnonzero(run.seen["from_relation_worst"] <= self.epsilon)
        if len(hit):
            return _up_to(run, int(hit[0]), log_alpha)
        return {"log_alpha": log_alpha, "time": None, "failure": run.failure}

    def _escape(self, asked: Population, log_alpha: float) -> float:
        """max_r p(r)^-1 ||p*(. | r) - p_0||^-1 log(1 / alpha)."""
        return -log_alpha / self._slowest(asked)

    def _slowest(self, asked: Population) -> float:
        """min_r p(r) ||p*(. | r) - p_0||, relations being alike in frequency."""
        return self._distance(asked) / self.R

    def _distance(self, asked: Population) -> float:
        """min_r ||p*(. | r) - p_0||."""
        return float(np.linalg.norm(asked.given("relation") - 1 / asked.table.A, axis=1).min())

    def _proof(self, asked: Population) -> dict[str, Any]:
        """Lemma 6 with alpha_sm = sqrt(alpha): the smallest |log alpha| of a ladder that meets its assumptions.

        The lemma bounds sum_r p(r)^2 ||p*(. | r) - E[p-hat | r]||^2 by epsilon_min^2; epsilon_min = epsilon / R makes
        each relation's own distance at most epsilon. Its proof also uses eps^2 <= distance / (100 (|A| + 1)), where the
        statement has 50, and sqrt(2) T alpha_sm^2 < 1 / (2 S): both are kept to.
        """
        A1, distance = asked.table.A + 1, self._distance(asked)
        eps, eps_min = math.sqrt(distance / (100 * A1)), self.epsilon / self.R
        late = 100 * A1 * math.log(asked.table.A) / (eps * eps_min) ** 2
        log_alpha = -1.0
        while True:
            iota = math.log(eps) - log_alpha - 0.5 * math.log(A1)
            T_star = iota / self._slowest(asked) + late
            # lemma 5's bounds at T*, against sqrt(alpha); and the lemma's own condition on alpha_sm^2 = alpha
            speeds = (2 / self.S, 2 * self.T / self.n_noise)
            bounded = all(v * T_star + log_alpha + 0.5 * math.log(A1) <= 0.5 * log_alpha for v in speeds)
            small = log_alpha + math.log(self.T) <= math.log(distance / 150) - math.log(2 * iota) if iota > 0 else False
            small &= log_alpha + math.log(math.sqrt(2) * self.T) < -math.log(2 * self.S)
            if bounded and small:
                break
            log_alpha *= 2
            if log_alpha < -1e12:
                return {"failure": "no alpha above exp(-1e12) meets the assumptions: S or the noise is too small for R"}
        times = np.concatenate([[0.0], np.geomspace(1e-6 * T_star, T_star, POINTS)])
        run = gradient_flow(asked, Start("balanced", log_alpha), times, coordinates="log", stiff=True, rtol=1e-6)
        if run.failure:
            return {"failure": run.failure, "log_alpha": log_alpha, "T_star": T_star}
        near = np.flatnonzero(run.seen["relation_gap"] <= eps_min)
        worst = np.flatnonzero(run.seen["from_relation_worst"] <= self.epsilon)
        return _up_to(run, len(run.times) - 1, log_alpha) | {
            "failure": None, "T_star": T_star, "eps": eps, "eps_min": eps_min,
            "lemma_time": float(run.times[near[0]]) if len(near) else None,
            "theorem_time": float(run.times[worst[0]]) if len(worst) else None,
        }  # fmt: skip


def _up_to(run: Trajectory, last: int, log_alpha: float) -> dict[str, Any]:
    """Up to the look ``last``: the time, and by how much the logarithm of the largest |W_OV| or W_KQ comes above
    log sqrt(alpha), for subjects and noise together and for EOS, which the theorem does not speak of."""

    def above(kinds: tuple[str, ...]) -> float:
        logs = [run.seen[f"log_{name}_{kind}"][: last + 1] for kind in kinds for name in ("W_KQ", "W_OV")]
        return float(np.max(logs) - log_alpha / 2)

    return {
        "log_alpha": log_alpha, "time": float(run.times[last]), "above": above(SMALL), "EOS_above": above(("EOS",)),
        "distance": float(run.seen["from_relation_worst"][: last + 1].min()),
    }  # fmt: skip
