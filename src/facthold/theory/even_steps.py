"""The reduced equations of a balanced table under steps without size: sign descent and Muon (docs/dynamics.md).

Time is the length of a step times their number. A relation raises its D answers above the others by x, a subject its R
answers by y, from weights that are as good as 0; and the mass on A_r is e^x / (e^x + R - 1), that on A_s
e^y / (e^y + D - 1), as under gradient flow (`theory.reduced`).

- **Sign descent.** The gradient of W_OV(., z) is positive on the token's own answers and negative on all others, so
  that they move apart by 2 t, and W_KQ(z) = t: x = y = 2 t^2.
- **Muon.** The gradient of W_OV is sum_r a e_r 1_r^T + sum_s b e_s 1_s^T. The unit vectors e_r are orthogonal to all
  e_s, so that its polar factor has one part for relations and one for subjects, whatever a and b are. The e_r are the
  corners of a simplex: their matrix has R - 1 singular values sqrt(R / (R - 1)), and its polar factor is
  sqrt((R - 1) / R) of it. Of subjects it is E_S (E_S^T E_S)^(-1/2), whose part along e_s is, as a mean over subjects,
  the sum of the singular values of E_S over S: sqrt(rank / S) at most, where they are equal. W_KQ is a vector, and its
  step has length 1: there relations and subjects share one length.
"""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from facthold.theory.reduced import FAR, Growth

STEPS = 4000  # of the equations for Muon, up to the longest time that is asked for


def halving_gap(n: int) -> float:
    """By how much a token must raise its own answers until the loss over its n choices is half of ln n."""
    return math.log1p(math.sqrt(n))


def sign_times(R: int, D: int) -> tuple[float, float]:
    """When relations and subjects halve their losses under sign descent."""
    relation, subject = (math.sqrt(halving_gap(n) / 2) for n in (R, D))
    return relation, subject


def unit_rows(p_za: Float[np.ndarray, "tokens A"]) -> Float[np.ndarray, "tokens A"]:
    """e_z: unit vectors along p*(. | z) - p_0, of a table p(z, a)."""
    rows = p_za - p_za.mean(axis=1, keepdims=True)
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


def polar_speed(e: Float[np.ndarray, "tokens A"]) -> float:
    """By how much a step of Muon moves the column of a token along its e_z, as a mean over the tokens."""
    return float(np.linalg.svd(e, compute_uv=False).sum()) / len(e)


@dataclass(frozen=True)
class MuonFlow:
    """Muon's reduced equations, of infinitely short steps: k = W_KQ(z) and w = <W_OV(., z), e_z> of each kind."""

    S: int
    R: int
    D: int
    relation_speed: float  # dw/dt
    subject_speed: float

    @classmethod
    def of(cls, p_sa: Float[np.ndarray, "S A"], p_ra: Float[np.ndarray, "R A"]) -> "MuonFlow":
        S, R, D = len(p_sa), len(p_ra), p_ra.shape[1] // len(p_ra)
        return cls(S, R, D, polar_speed(unit_rows(p_ra)), polar_speed(unit_rows(p_sa)))

    def gaps(self, t_end: float) -> tuple[Float[np.ndarray, " times"], Float[np.ndarray, "kinds times"]]:
        """Times, and by how much relations and subjects raise their own answers then."""
        kinds = Growth(1 / self.R, self.R, self.D, -math.inf), Growth(1 / self.S, self.D, self.R, -math.inf)
        n, rate, scale = (np.array([getattr(g, name) for g in kinds]) for name in ("n", "rate", "scale"))
        number, speed = np.array([self.R, self.S]), np.array([self.relation_speed, self.subject_speed])
        times, k = np.linspace(0, t_end, STEPS + 1), np.zeros(2)
        found = np.zeros((2, STEPS + 1))
        dt = t_end / STEPS

        def turned(k: np.ndarray, t: float) -> np.ndarray:
            """dk/dt: along the gradient p g w of W_KQ, where all R and S entries together have length 1."""
            w = speed * t
            pull = rate * w * n / (np.exp(np.minimum(k * w / scale, FAR)) + n - 1)
            return pull / math.sqrt(number @ pull**2)

        for i, t in enumerate(times[:-1]):
            middle = k + dt / 2 * turned(k, t + dt / 2)
            k = k + dt * turned(middle, t + dt / 2)
            found[:, i + 1] = k * speed * (t + dt) / scale
        return times, found

    def times(self) -> tuple[float, float]:
        """When relations and subjects halve their losses."""
        needed, t_end = np.array([halving_gap(self.R), halving_gap(self.D)]), 8.0
        t, gaps = self.gaps(t_end)
        while (gaps[:, -1] < needed).any():
            t_end *= 2
            t, gaps = self.gaps(t_end)
        relation, subject = (float(np.interp(gap, x, t)) for gap, x in zip(needed, gaps, strict=True))
        return relation, subject
