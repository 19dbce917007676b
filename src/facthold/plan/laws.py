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
from scipy import optimize, stats

CONFIDENCE = 0.9
"""Share of new tables whose search ends within the interval. Its upper end, which is recommended, is enough for 19 of
20 of them."""
CAUTIOUS = 0.8
"""The same where a search was over three tables, each of which had to be held: the upper end is enough for 9 of 10 such
searches, and for more of single tables."""
FEWEST = 4
"""Tables that a law is fitted to at least."""
LARGEST = 650.0
"""Logarithms end here, far above every size that can be asked for: no number becomes infinite."""


class Interval(NamedTuple):
    """What a law expects, and where a new table may lie."""

    low: float
    expected: float
    high: float


def _interval(log_y: float, half: float) -> Interval:
    low, middle, high = (math.exp(min(max(v, -LARGEST), LARGEST)) for v in (log_y - half, log_y, log_y + half))
    return Interval(low, middle, high)


Features = tuple[float, ...]
"""What theory has a size grow with: one number, or several with an exponent each."""


def _logs(name: str, values: Sequence[Features] | Sequence[float]) -> np.ndarray:
    array = np.asarray(values, float)
    if len(array) < FEWEST:
        raise ValueError(f"a law needs {FEWEST} points or more, and has {len(array)}")
    if not (array > 0).all():
        raise ValueError(f"a law is fitted in logarithms, and the smallest {name} is {array.min():g}")
    return np.log(array)


@dataclass(frozen=True)
class PowerLaw:
    """y = constant x_1^b_1 x_2^b_2 ..."""

    constant: float
    exponents: Features
    spread: float
    """Standard deviation of log(y) around the law: what a new table adds."""
    n: int
    fitted: int
    """Constants that were fitted: the constant, and the exponents where they were not given."""
    covariance: np.ndarray
    """Of (log constant, exponents), in units of spread^2; zero where they were given."""

    def at(self, x: Features, confidence: float = CONFIDENCE) -> Interval:
        """The prediction interval of a new table with these x."""
        u = np.array([1.0, *(math.log(v) for v in x)])
        error = self.spread * math.sqrt(1 + float(u @ self.covariance @ u))
        return _interval(
            float(u @ np.array([math.log(self.constant), *self.exponents])),
            float(stats.t.ppf((1 + confidence) / 2, self.n - self.fitted)) * error,
        )


def fit_power(x: Sequence[Features], y: Sequence[float], exponents: Features | None = None) -> PowerLaw:
    """The power law through the points; with ``exponents``, its constant alone."""
    u, v = np.atleast_2d(_logs("x", x)), _logs("y", y)
    if len(u) != len(v):
        raise ValueError(f"a law needs as many x as y, and has {len(u)} and {len(v)}")
    X = np.ones((len(u), 1)) if exponents is not None else np.column_stack([np.ones(len(u)), u])
    fitted = X.shape[1]
    if len(u) <= fitted or np.linalg.matrix_rank(X) < fitted:
        raise ValueError(f"{len(u)} points are too few, or too alike, to fit {fitted} constants of a law")
    given = 0.0 if exponents is None else u @ np.array(exponents)
    coefficients = np.linalg.lstsq(X, v - given, rcond=None)[0]
    residual = v - given - X @ coefficients
    covariance = np.zeros((u.shape[1] + 1,) * 2)
    covariance[:fitted, :fitted] = np.linalg.inv(X.T @ X)
    return PowerLaw(
        math.exp(coefficients[0]), tuple(map(float, coefficients[1:])) if exponents is None else exponents,
        math.sqrt(float(residual @ residual) / (len(u) - fitted)), len(u), fitted, covariance,
    )  # fmt: skip


@dataclass(frozen=True)
class StartedLaw:
    """y = start + rate x: seconds that are there at any size (compiling), and seconds in proportion to the work."""

    start: float
    rate: float
    spread: float
    n: int
    covariance: np.ndarray
    """Of (log start, log rate), in units of spread^2."""

    def at(self, x: float, confidence: float = CONFIDENCE) -> Interval:
        y = self.start + self.rate * x
        gradient = np.array([self.start, self.rate * x]) / y
        error = self.spread * math.sqrt(1 + float(gradient @ self.covariance @ gradient))
        return _interval(math.log(y), float(stats.t.ppf((1 + confidence) / 2, self.n - 2)) * error)


def fit_started(x: Sequence[float], y: Sequence[float]) -> StartedLaw:
    """The law through the points, by least squares of log(y); both constants are positive."""
    u, v = _logs("x", x), _logs("y", y)

    def residuals(logs: np.ndarray) -> np.ndarray:
        return np.logaddexp(logs[0], logs[1] + u) - v

    begin = np.array([v.min(), v.max() - u.max()])
    # below e^-30 of what is measured a constant is as good as zero, and its logarithm would run away
    found = optimize.least_squares(residuals, begin, bounds=(begin - 30, begin + 30))
    J = found.jac
    spread = math.sqrt(2 * float(found.cost) / (len(u) - 2))
    start, rate = np.exp(found.x)
    return StartedLaw(float(start), float(rate), spread, len(u), np.linalg.pinv(J.T @ J, rcond=1e-9))
