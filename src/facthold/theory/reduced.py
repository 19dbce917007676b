"""The reduced equations of a balanced table: one pair of equations for relations and one for subjects.

A table is balanced when every relation has D answers of its own, each for S / D subjects, and p(s, r) is uniform. Then
gradient flow from equal weights has one k = W_KQ(z) and w = <W_OV(., z), e_z> for all relations and one for all
subjects, and the two do not see each other. k^2 - w^2 = C never changes, and the time at which a token raises its own
answers by x is an integral:

    t(x) = (1 / lambda) [ asinh(2 s x / C) / 2 + int_0^x (exp(u) - 1) / n  s / sqrt(C^2 + 4 s^2 u^2) du ].

The first term is the escape from the origin, the second is the slowing down near the end. ``docs/dynamics.md`` derives
it, and has a closed form for C = 0.

Nothing here knows a model: a prediction cannot leak into what it judges.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Float

from facthold._util.errors import check_one_of, check_positive

Times = TypeVar("Times", float, Float[np.ndarray, " times"])
FAR = 700.0  # exp of more overflows: no gap beyond is asked for
LEAST = 1e-20  # losses below are not asked for: the curves end at gaps of 60


def first_rates(
    p_sa: Float[np.ndarray, "S A"], p_ra: Float[np.ndarray, "R A"], T: int, n_noise: int
) -> dict[str, Float[np.ndarray, " tokens"]]:
    """lambda(z) = E[C(z)] ||p*(. | z) - p_0|| of every token, by kind, for any table p(s, a) and p(r, a).

    While all weights are small and from weights that are the same for all answers, W_KQ(z) grows by cosh(lambda t).
    """

    def far(p_za: np.ndarray) -> np.ndarray:
        return np.linalg.norm(p_za - p_za.mean(axis=1, keepdims=True), axis=1)

    nothing = far(p_sa.sum(axis=0, keepdims=True))
    return {"subject": far(p_sa), "relation": far(p_ra), "noise": (T - 3) / n_noise * nothing, "EOS": nothing}


def lemma_5(p_s: float, T: int, n_noise: int) -> dict[str, float]:
    """The rates that lemma 5 allows: W_KQ <= exp(rate t) times its start."""
    return {"subject": 2 * p_s, "noise": 2 * T / n_noise}


def log_cosh(x: float) -> float:
    """By how much log W_KQ has grown at lambda t = x."""
    return abs(x) + math.log1p(math.exp(-2 * abs(x))) - math.log(2)


@dataclass(frozen=True)
class Growth:
    """How one kind of token learns to tell its ``n`` choices apart, each choice being ``block`` answers."""

    frequency: float  # p(z): how often the token stands in a prompt
    n: int
    block: int
    log_invariant: float  # log C, of k^2 - w^2

    @property
    def norm(self) -> float:
        """||p*(. | z) - p_0||."""
        return math.sqrt((1 - 1 / self.n) / self.block)

    @property
    def scale(self) -> float:
        """s: k w for each unit by which the token's own answers stand above the others."""
        return math.sqrt((1 - 1 / self.n) * self.block)

    @property
    def rate(self) -> float:
        """lambda: while small, W_KQ grows as cosh(lambda t)."""
        return self.frequency * self.norm

    def loss(self, gap: float) -> float:
        """-log P: what these tokens leave to the loss when they raise their answers by ``gap``."""
        return math.log1p((self.n - 1) * math.exp(-gap))

    def gap(self, loss: float) -> float:
        """By how much they raise their answers when they leave ``loss``."""
        return math.log(self.n - 1) - math.log(math.expm1(loss))

    def time(self, gap: float) -> float:
        """t(x)."""
        from scipy.integrate import quad  # SciPy's solvers take long to import: not before they are needed

        if gap <= 0:
            return 0.0
        slowed = quad(self._slower, 0.0, min(gap, FAR), epsabs=1e-12, epsrel=1e-10, limit=200)[0]
        return (float(self._escaping(np.array([gap]))[0]) + slowed) / self.rate

    def time_of_weight(self, k: float) -> float:
        """When W_KQ reaches k: then w^2 = k^2 - C, and k w = s x."""
        w2 = k * k - math.exp(self.log_invariant)
        return self.time(k * math.sqrt(w2) / self.scale) if w2 > 0 else 0.0

    def _escaping(self, gap: np.ndarray) -> np.ndarray:
        """psi = asinh(2 s x / C) / 2: the time it would take at the first rate, in units of 1 / lambda."""
        log_y = np.log(2 * self.scale * gap) - self.log_invariant
        near = np.arcsinh(np.exp(np.minimum(log_y, 30.0)))
        return np.where(log_y < 30.0, near, log_y + math.log(2)) / 2

    def _slower(self, u: Any) -> Any:
        """The integrand of what slowing down adds to psi."""
        C = math.exp(self.log_invariant) if self.log_invariant > -FAR else 0.0
        return np.expm1(u) / self.n * self.scale / np.hypot(C, 2 * self.scale * u)

    def loss_at(self, times: Times) -> Times:
        """What these tokens leave to the loss at these times."""
        return np.interp(times, *self._curve)

    @cached_property
    def _curve(self) -> tuple[np.ndarray, np.ndarray]:
        """Times and losses, close enough together for straight lines between them."""
        from scipy.integrate import quad

        gaps = np.geomspace(1e-7, 60.0, 8000)
        nodes, weights = np.polynomial.legendre.leggauss(8)
        width, middle = np.diff(gaps)[:, None] / 2, (gaps[1:] + gaps[:-1])[:, None] / 2
        first = quad(self._slower, 0.0, gaps[0])[0]
        slowed = first + np.cumsum(np.r_[0.0, (self._slower(middle + width * nodes) * weights * width).sum(axis=1)])
        times = (self._escaping(gaps) + slowed) / self.rate
        return np.r_[0.0, times], np.log1p((self.n - 1) * np.exp(-np.r_[0.0, gaps]))


@dataclass(frozen=True)
class Reduced:
    """The flow of a balanced table (S, R, D), as numbers. Neither T nor the noise enters: the pull on noise and on EOS
    is E[1(a = a*) - p-hat(a)] = 0, so that their weights stay where they began."""

    S: int
    R: int
    D: int
    start: str
    log_alpha: float

    def __post_init__(self) -> None:
        check_positive(S=self.S, R=self.R, D=self.D)
        if self.S % self.D:
            near = self.S // self.D * self.D or self.D
            raise ValueError(f"D={self.D} does not divide S={self.S}, so no table is balanced; take S={near}")
        if self.R < 2 or self.D < 2:
            sizes = f"R={self.R} and D={self.D}"
            raise ValueError(f"{sizes} must both be at least 2: there is nothing to tell apart otherwise")
        check_one_of("start", self.start, ("balanced", "equal"))
        if not math.isfinite(self.log_alpha):
            raise ValueError(f"log_alpha={self.log_alpha} must be finite")

    @property
    def log_invariant(self) -> float:
        """k^2 - w^2 at the start, where w = 0: alpha^2, times |A| + 1 from assumption 2's."""
        return 2 * self.log_alpha + (math.log(self.R * self.D + 1) if self.start == "balanced" else 0.0)

    @cached_property
    def relation(self) -> Growth:
        return Growth(1 / self.R, self.R, self.D, self.log_invariant)

    @cached_property
    def subject(self) -> Growth:
        return Growth(1 / self.S, self.D, self.R, self.log_invariant)

    @property
    def relation_first(self) -> bool:
        """Whether relations are learnt before subjects: S^2 (R - 1) > R^2 (D - 1), from the two rates."""
        return self.relation.rate > self.subject.rate

    @property
    def plateau(self) -> float:
        """The loss between the two: ln D where relations come first, ln R where subjects do."""
        return math.log(self.D if self.relation_first else self.R)

    def time_near(self, epsilon: float) -> float:
        """When every prediction has come within ``epsilon`` of p*(. | r), while subjects are small: with P on A_r it is
        (1 - P) sqrt(R / ((R - 1) D)) away, in the Euclidean norm."""
        missing = epsilon * math.sqrt(self.D * (1 - 1 / self.R))
        if not 0 < missing < 1 - 1 / self.R:
            raise ValueError(
                f"epsilon={epsilon} must be above 0 and below {self.relation.norm:g}, where the flow begins"
            )
        return self.relation.time(self.relation.gap(-math.log1p(-missing)))

    def loss(self, times: Times) -> Times:
        """The loss at these times: that of the relation and that of the subject add up."""
        return self.relation.loss_at(times) + self.subject.loss_at(times)

    def time_of(self, loss: float) -> float:
        """When the loss falls to this value."""
        from scipy.optimize import brentq

        if not loss > LEAST:
            raise ValueError(f"loss={loss} must be above {LEAST:g}: 0 itself is never reached")
        if loss >= math.log(self.R * self.D):
            return 0.0
        end = max(growth.time(growth.gap(loss / 4)) for growth in (self.relation, self.subject))
        return float(brentq(lambda t: self.loss(t) - loss, 0.0, end, xtol=1e-9 * end))
