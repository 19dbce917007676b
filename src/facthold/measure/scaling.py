"""Power laws through measured points: exponent, constant, and intervals that say how sure."""

from collections.abc import Hashable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.special import stdtrit

CONFIDENCE = 0.95
NO_INTERVAL = "one seed, no interval"  # one draw alone says nothing of others


@dataclass(frozen=True)
class Fit:
    """y = constant * x^slope, by least squares in log-log; or the constant alone where the slope is set to 1."""

    name: str
    slope: float
    constant: float
    interval: tuple[float, float]  # 95% interval of the slope (of the constant, where the slope was given)
    n: int  # points in the fit

    @property
    def sure(self) -> bool:
        """Whether it has an interval: one seed alone gives none."""
        return bool(np.isfinite(self.interval).all())

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | ({} if self.sure else {"interval": None})


def fit_exponent(
    name: str, x: Sequence[float] | np.ndarray, y: Sequence[float] | np.ndarray, groups: Sequence[Hashable] = (),
    shared: Sequence[Hashable] = (),
) -> Fit:  # fmt: skip
    """Slope and constant of log y against log x. The interval is Student's, from the residuals.

    With ``groups``, a name for each point, each group has a constant of its own and all share the slope, and two sizes
    are enough where there are several points at each; the constant is then that through the mean of all points.
    With ``shared``, a name for each point too, points of one name go up and down together (they have the same
    embeddings, say), and count as one draw: the interval is that of a slope whose errors are summed by name first.
    """
    log_x, log_y = _logs(name, x, y)
    if len(set(log_x)) < (2 if groups else 3):
        raise ValueError(f"fit {name!r} needs three different sizes, and has {len(set(log_x))}")
    of = [list(dict.fromkeys(groups)).index(group) for group in groups] or [0] * len(log_x)
    dx, dy = _centred(log_x, of), _centred(log_y, of)
    slope, half = _slope(name, dx, dy, len(log_x) - max(of) - 2)
    if shared:
        half = _half_of_sums(dx * (dy - slope * dx), shared) / (dx @ dx)
    constant = np.exp(log_y.mean() - slope * log_x.mean())
    return Fit(name, float(slope), float(constant), (float(slope - half), float(slope + half)), len(log_x))


def fit_constant(
    name: str, x: Sequence[float] | np.ndarray, y: Sequence[float] | np.ndarray, shared: Sequence[Hashable] = ()
) -> Fit:
    """The constant of y = constant * x: the geometric mean of y / x, with Student's interval on its logarithm. Points
    that are ``shared`` count as one draw, as in `fit_exponent`."""
    log_x, log_y = _logs(name, x, y)
    if len(log_x) < 2:
        raise ValueError(f"fit {name!r} needs two points, and has {len(log_x)}")
    ratio = log_y - log_x
    half = _student(len(ratio) - 1) * ratio.std(ddof=1) / np.sqrt(len(ratio))
    mean = ratio.mean()
    if shared:
        half = _half_of_sums(ratio - mean, shared) / len(ratio)
    interval = (float(np.exp(mean - half)), float(np.exp(mean + half)))
    return Fit(name, 1.0, float(np.exp(mean)), interval, len(ratio))


def fit_means(name: str, x: Sequence[float], means: Sequence[tuple[float, float]], of: int = 1) -> Fit:
    """Slope and constant of log y against log x for y that are means, each with its standard error.

    The interval is what these errors make of the slope, and no more: points that lie off a straight line do not widen
    it, as they are no chance. With ``of`` slopes that are judged together, all have theirs right in 95% of all cases.
    """
    from scipy.special import ndtri

    values, errors = np.array(means, float).T
    log_x, log_y = _logs(name, x, values)
    if len(set(log_x)) < 2:
        raise ValueError(f"fit {name!r} needs two different sizes, and has {len(set(log_x))}")
    dx = log_x - log_x.mean()
    weights = dx / (dx @ dx)
    slope = weights @ log_y
    one = (
        float(np.linalg.norm(weights * errors / values)) if np.isfinite(errors).all() else np.inf
    )  # a mean of one seed
    half = float(ndtri(1 - (1 - CONFIDENCE) / (2 * of))) * one
    constant = np.exp(log_y.mean() - slope * log_x.mean())
    return Fit(name, float(slope), float(constant), (float(slope - half), float(slope + half)), len(log_x))


def _half_of_sums(parts: np.ndarray, shared: Sequence[Hashable]) -> float:
    """Half of Student's interval of a sum whose parts are independent from name to name alone."""
    of = [list(dict.fromkeys(shared)).index(one) for one in shared]
    if (n := max(of) + 1) < 2:
        return float("inf")  # one draw alone says nothing of others
    sums = np.bincount(of, parts)
    return _student(n - 1) * float(np.sqrt(n / (n - 1) * (sums @ sums)))


def mean_interval(values: Sequence[float]) -> tuple[float, float]:
    """Student's interval of the mean of independent values; everything where there is one alone."""
    mean = float(np.mean(values))
    if len(values) < 2:
        return -np.inf, np.inf
    half = _student(len(values) - 1) * float(np.std(values, ddof=1)) / len(values) ** 0.5
    return mean - half, mean + half


def share_interval(hits: int, n: int) -> tuple[float, float]:
    """Clopper and Pearson's 95% interval of a share, of which ``hits`` among n were seen."""
    from scipy.special import betaincinv

    low = float(betaincinv(hits, n - hits + 1, 0.025)) if hits else 0.0
    high = float(betaincinv(hits + 1, n - hits, 0.975)) if hits < n else 1.0
    return low, high


def _student(freedom: int) -> float:
    """Student's t beyond which `CONFIDENCE` leaves half of the rest. (scipy.stats takes a second to import.)"""
    return float(stdtrit(freedom, (1 + CONFIDENCE) / 2))


def fit_line(name: str, x: Sequence[float], y: Sequence[float]) -> tuple[float, tuple[float, float]]:
    """The slope of y against x, with Student's interval."""
    of = [0] * len(x)
    slope, half = _slope(name, _centred(np.asarray(x, float), of), _centred(np.asarray(y, float), of), len(x) - 2)
    return float(slope), (float(slope - half), float(slope + half))


@dataclass(frozen=True)
class Limit:
    """y = value + slope x, where x goes to zero with size: the value is extrapolated, with Student's interval."""

    value: float
    interval: tuple[float, float]
    slope: float


def fit_limit(name: str, x: Sequence[float], y: Sequence[float], weight: Sequence[float]) -> Limit:
    """The value at x = 0 of a line through points whose standard errors are as 1 / ``weight``."""
    w, A = np.asarray(weight, float), np.stack([np.ones(len(x)), np.asarray(x, float)], axis=1)
    if len(set(x)) < 3:
        raise ValueError(f"fit {name!r} needs three different sizes, and has {len(set(x))}")
    A, b = A * w[:, None], np.asarray(y, float) * w
    (value, slope), *_ = np.linalg.lstsq(A, b, rcond=None)
    residual = b - A @ (value, slope)
    spread = np.linalg.inv(A.T @ A)[0, 0] * (residual @ residual) / (len(b) - 2)
    half = _student(len(b) - 2) * float(np.sqrt(spread))
    return Limit(float(value), (float(value - half), float(value + half)), float(slope))


def _slope(name: str, dx: np.ndarray, dy: np.ndarray, freedom: int) -> tuple[float, float]:
    """Least squares through the origin, and half of Student's interval."""
    if freedom < 1 or not dx.any():
        raise ValueError(f"fit {name!r} has too few points, or all at one size")
    slope = dx @ dy / (dx @ dx)
    residual = dy - slope * dx
    return slope, _student(freedom) * np.sqrt(residual @ residual / freedom / (dx @ dx))


def _centred(values: np.ndarray, of: Sequence[int]) -> np.ndarray:
    """The values minus the mean of their group."""
    return values - (np.bincount(of, values) / np.bincount(of))[of]


def _logs(name: str, x: Sequence[float] | np.ndarray, y: Sequence[float] | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    xs, ys = np.asarray(x, float), np.asarray(y, float)
    if xs.shape != ys.shape or not (np.all(xs > 0) and np.all(ys > 0)):
        raise ValueError(f"fit {name!r} needs as many positive x as positive y")
    return np.log(xs), np.log(ys)
