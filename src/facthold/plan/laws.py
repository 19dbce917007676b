"""Laws through measured sizes, and how far a new table may lie from them.

Both are least squares in logarithms, as a size is wrong by a factor and not by a number. The interval is for one *new*
table: Student's t with the residuals' spread, and with what is not known about the law itself. Away from the
measured sizes the second part grows.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

from facthold.recipes.base import CONFIDENCE

FEWEST = 4  # tables that a law is fitted to at least
LARGEST = 650.0  # logarithms end here, far above every size that can be asked for: no number becomes infinite


class Interval(NamedTuple):
    """What a law expects, and where a new table may lie."""

    low: float
    expected: float
    high: float


Features = tuple[float, ...]  # what theory says a size grows with: one number, or several with an exponent each


def _logs(name: str, values: Sequence[Features] | Sequence[float]) -> np.ndarray:
    array = np.asarray(values, float)
    if len(array) < FEWEST:
        raise ValueError(f"a law needs {FEWEST} points or more, and has {len(array)}")
    if not (array > 0).all():
        raise ValueError(f"a law is fitted in logarithms, and the smallest {name} is {array.min():g}")
    return np.log(array)


@dataclass(frozen=True, kw_only=True)
class Law:
    """What is known of every law that was fitted in logarithms."""

    spread: float  # standard deviation of log(y) around the law: what a new table adds
    n: int
    covariance: np.ndarray  # of the constants (of their logarithms, but for exponents), in units of spread^2

    def interval(self, log_y: float, gradient: np.ndarray, confidence: float) -> Interval:
        """Around log(y), whose derivatives by the constants are the ``gradient``."""
        # Student's t that leaves half of the rest above it (scipy.stats takes a second to import)
        t = float(stdtrit(self.n - len(gradient), (1 + confidence) / 2))
        half = t * self.spread * math.sqrt(1 + float(gradient @ self.covariance @ gradient))
        return Interval(*(math.exp(min(max(v, -LARGEST), LARGEST)) for v in (log_y - half, log_y, log_y + half)))


@dataclass(frozen=True, kw_only=True)
class PowerLaw(Law):
    """y = constant x_1^b_1 x_2^b_2 ..."""

    constant: float
    exponents: Features

    def at(self, x: Features, confidence: float = CONFIDENCE) -> Interval:
        """The prediction interval of a new table with these x."""
        u = np.array([1.0, *(math.log(v) for v in x)])
        return self.interval(float(u @ np.array([math.log(self.constant), *self.exponents])), u, confidence)


def fit_power(x: Sequence[Features], y: Sequence[float]) -> PowerLaw:
    u, v = np.atleast_2d(_logs("x", x)), _logs("y", y)
    if len(u) != len(v):
        raise ValueError(f"a law needs as many x as y, and has {len(u)} and {len(v)}")
    X = np.column_stack([np.ones(len(u)), u])
    n, fitted = X.shape
    if n <= fitted or np.linalg.matrix_rank(X) < fitted:
        raise ValueError(f"{n} points are too few, or too alike, to fit {fitted} constants of a law")
    constants = np.linalg.lstsq(X, v, rcond=None)[0]
    residual = v - X @ constants
    return PowerLaw(
        constant=math.exp(constants[0]), exponents=tuple(map(float, constants[1:])), n=n,
        spread=math.sqrt(float(residual @ residual) / (n - fitted)), covariance=np.linalg.inv(X.T @ X),
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class StartedLaw(Law):
    """y = start + rate x: seconds that are there at any size (compiling), and seconds in proportion to the work."""

    start: float
    rate: float

    def at(self, x: float, confidence: float = CONFIDENCE) -> Interval:
        y = self.start + self.rate * x
        return self.interval(math.log(y), np.array([self.start, self.rate * x]) / y, confidence)


def fit_started(x: Sequence[float], y: Sequence[float]) -> StartedLaw:
    """The law through the points, by least squares of log(y); both constants are positive."""
    from scipy.optimize import least_squares

    u, v = _logs("x", x), _logs("y", y)

    def residuals(logs: np.ndarray) -> np.ndarray:
        return np.logaddexp(logs[0], logs[1] + u) - v

    begin = np.array([v.min(), v.max() - u.max()])
    # below e^-30 of what is measured a constant is as good as zero, and its logarithm would run away
    fit = least_squares(residuals, begin, bounds=(begin - 30, begin + 30))
    J = fit.jac
    start, rate = map(float, np.exp(fit.x))
    return StartedLaw(
        start=start, rate=rate, n=len(u), spread=math.sqrt(2 * float(fit.cost) / (len(u) - 2)),
        covariance=np.linalg.pinv(J.T @ J, rcond=1e-9),
    )  # fmt: skip
