"""Margins as particles that push each other (slides: imbalance and small capacity). Imports no model.

A linear memory, gradient descent from zero on the population cross entropy, frequencies p_z.

*Two outputs.* Only w = W^T (u_1 - u_2) matters. With x_z = e_z where u_1 is right and -e_z elsewhere, the margins are
m_z = w^T x_z, and one step of size eta is

    m <- m + a G (p sigma(-m)),   a = eta |u_1 - u_2|^2,   G_zz' = x_z^T x_z'.

So all that is predicted here depends on p, G and a alone; ``a`` is called the pace. The Hessian's largest eigenvalue is
that of |u_1 - u_2|^2 sum_z p_z sigma'(m_z) x_z x_z^T, and sigma' <= 1/4 is largest at zero: the start is the sharpest
point of all.

*Orthonormal embeddings, M outputs.* Tokens do not push each other. By symmetry all wrong outputs of a token score
alike, and its margin moves by m <- m + a / (exp(m) + M - 1) with a = eta p_z M. Under the flow the height
y(m) = exp(m) + (M - 1) m grows by exactly a per step; each real step adds at least that.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float
from scipy.integrate import solve_ivp
from scipy.optimize import brentq
from scipy.special import expit, wrightomega

ROUNDING = 1e-9  # a loss that rises by a smaller share of itself has not risen
LARGEST = 600.0  # margins whose exponential is still a number
MOST_STEPS = 100_000  # of the perceptron: beyond these it is not followed


class Particles(NamedTuple):
    """Frequencies and signed overlaps."""

    p: Float[np.ndarray, " N"]
    G: Float[np.ndarray, "N N"]

    @classmethod
    def pair(cls, correlation: float, frequency: float) -> "Particles":
        """Two unit embeddings with different outputs: where they are alike, they want opposite things."""
        return cls(np.array([frequency, 1 - frequency]), np.array([[1.0, -correlation], [-correlation, 1.0]]))

    @property
    def sharpness(self) -> float:
        """The largest eigenvalue of the Hessian at the start, for |u_1 - u_2| = 1."""
        root = np.sqrt(self.p)
        return float(np.linalg.eigvalsh(root[:, None] * self.G * root)[-1]) / 4

    @property
    def safe_pace(self) -> float:
        """2 / sharpness at the start. Nowhere is the loss sharper: up to this pace no step raises it."""
        return 2 / self.sharpness

    def loss(self, m: Float[np.ndarray, " N"]) -> float:
        return float(self.p @ np.logaddexp(0, -m))

    def moved(self, m: Float[np.ndarray, " N"], pace: float) -> Float[np.ndarray, " N"]:
        """The margins after one step."""
        return m + pace * self.G @ (self.p * expit(-m))

    @property
    def rising_pace(self) -> float:
        """Above this pace the first step raises the loss, and below it does not; infinite where no first step does.

        The loss along the first step is convex in the pace, and falls at first: it has one more place at the height
        of its start, if the step is wrong for some token, and none if it is right for all.
        """
        first = self.moved(np.zeros(len(self.p)), 1.0)
        if first.min() >= 0:
            return np.inf
        above = lambda pace: self.loss(pace * first) - np.log(2)  # noqa: E731
        last = 2 * np.log(2) / float(self.p @ np.maximum(-first, 0))  # the wrong ones alone cost more than ln 2 there
        return float(brentq(above, 1e-6 * last, last, xtol=1e-12))

    def rises(self, paces: Float[np.ndarray, " n"], steps: int) -> Bool[np.ndarray, " n"]:
        """At which paces the loss rises at some of so many steps, by stepping the margins themselves."""
        m, before, rose = (
            np.zeros((len(paces), len(self.p))),
            np.full(len(paces), np.log(2)),
            np.zeros(len(paces), bool),
        )
        for _ in range(steps):
            m = m + paces[:, None] * (self.p * expit(-m)) @ self.G
            now = np.logaddexp(0, -m) @ self.p
            rose, before = rose | (now > before * (1 + ROUNDING)), now
        return rose

    @property
    def flow_time(self) -> float:
        """When gradient flow has all margins above zero: pace times steps, where steps are small."""
        if (self.moved(np.zeros(len(self.p)), 1.0) > 0).all():
            return 0.0

        def least(t: float, m: np.ndarray) -> float:
            return float(m.min()) if t > 0 else -1.0

        least.terminal = True  # type: ignore[attr-defined]
        least.direction = 1.0  # type: ignore[attr-defined]
        found = solve_ivp(
            lambda t, m: self.G @ (self.p * expit(-m)), (0, 1e7), np.zeros(len(self.p)), "LSODA", events=least,
            rtol=1e-9, atol=1e-12,
        )  # fmt: skip
        return float(found.t_events[0][0]) if len(found.t_events[0]) else np.inf

    @property
    def perceptron_steps(self) -> int | None:
        """Steps until all is right as the pace goes to infinity. Then only tokens that are wrong push, with their whole
        frequency (with half of it at the start, where all margins are zero): a perceptron. None: too many."""
        m = self.moved(np.zeros(len(self.p)), 1.0)
        for step in range(1, MOST_STEPS):
            if (m > 0).all():
                return step
            m = m + self.G @ (self.p * np.where(m < 0, 1.0, np.where(m == 0, 0.5, 0.0)))
        return None


def margin_bounds(
    pace: float, M: int, steps: Float[np.ndarray, " times"]
) -> tuple[Float[np.ndarray, " times"], Float[np.ndarray, " times"]]:
    """Between which a margin lies after so many steps, with orthonormal embeddings, at any pace a = eta p_z M.

    From below the flow: y grows by a at each step. From above: after the first step, which ends at a / M exactly, no
    step is longer than the second one, so that y grows by at most a exp(the length of the second) at each.
    """
    low, first = of_height(1 + pace * steps, M), pace / M
    if first > LARGEST:  # its height is beyond all floating-point numbers, and nothing that is added to it is seen
        return low, np.where(steps < 1, 0.0, first)
    second = pace / (np.exp(first) + M - 1)
    high = of_height(height(np.full_like(steps, first), M) + pace * np.exp(second) * np.maximum(steps - 1, 0), M)
    return low, np.where(steps < 1, 0.0, high)


def height(m: Float[np.ndarray, " n"], M: int) -> Float[np.ndarray, " n"]:
    """y(m) = exp(m) + (M - 1) m, which grows by the pace."""
    return np.exp(m) + (M - 1) * m


def of_height(y: Float[np.ndarray, " n"], M: int) -> Float[np.ndarray, " n"]:
    """The margin of this height: exp(m) / (M - 1) is Wright's omega of y / (M - 1) - ln(M - 1)."""
    k = M - 1
    return np.log(k * wrightomega(np.asarray(y, float) / k - np.log(k)).real)
