"""How many items of a power law a few steps recall: the exponents (arXiv 2603.26554), and numbers at finite size.

**Exponents.** With k items recalled, what is left of minus the gradient is G = sum_{z>k} p(z) u_z e_z^T, whose size is
sqrt(sum_{z>k} p^2) ~ k^(1/2 - alpha). A step that is divided by this size recalls z where p(z) stands out of it by
1/d: k' = (d k^(alpha - 1/2))^(1/alpha). For the exponent a of k = d^a that is a' = 1/alpha + (1 - 1/(2 alpha)) a, or
2 - a' = (1 - 1/(2 alpha)) (2 - a). The first step of sign descent begins at a = 0. Muon's begins at a = 1: the first
d items have singular values of their own, which it makes all alike. SGD with steps of one length divides by nothing.

**Finite size.** Let the embeddings be independent and of length 1. With the resolvent of G along the imaginary axis,
h(s) = s tr (G G^T + s^2)^-1 / d, one item of weight w in G has the response w h^2 / (1 + w^2 h^2), and

    s = 1/h - 1/d sum_z w^2 h / (1 + w^2 h^2),
    u_z^T P e_z = 2/pi int w h^2 / (1 + w^2 h^2) ds    for the polar factor P = 2/pi int G (G^T G + s^2)^-1 ds.

The scores of rivals have variance 1/d each. Nothing is fitted. Exact as d grows with the shape of the weights held;
the departures are of relative order 1/sqrt(d): rivals that are frequent themselves, and lengths that are not 1.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float
from scipy.special import gammaln, log_ndtr, ndtri_exp, zeta

EXACT = 64  # items that stand for themselves; beyond, one stands for some that are nearly alike
GROUPS, POINTS = 200, 500  # of items, and of h
DRAWS = 4096  # of an item of each group and of its highest rival
OFTEN = 60  # times in a batch, beyond which an item has its expected share

Groups = Float[np.ndarray, " groups"]


def power_law(N: int, alpha: float) -> Float[np.ndarray, " N"]:
    """p(z) ~ z^-alpha for z = 1, ..., N."""
    p = np.arange(1, N + 1) ** -float(alpha)
    return p / p.sum()


def exponent(optimiser: str, alpha: float, t: int) -> float:
    """a, where about d^a items are recalled after t steps from all of the data. Adam's first step is sign descent's,
    and what it does then has no law here: nan."""
    if optimiser == "sgd":
        return 1 / alpha
    if optimiser == "adam" and t > 1:
        return math.nan
    return 2 - (1 if optimiser == "muon" else 2) * (1 - 1 / (2 * alpha)) ** t


def seen(p: Float[np.ndarray, " N"], B: int) -> float:
    """How many different items B samples are expected to show."""
    return float(-np.expm1(B * np.log1p(-np.minimum(p, 1 - 1e-16))).sum())


def seen_limit(alpha: float, B: float) -> float:
    """The same as B grows, with items without end: Gamma(1 - 1/alpha) (B / zeta(alpha))^(1/alpha)."""
    return math.gamma(1 - 1 / alpha) * (B / float(zeta(alpha))) ** (1 / alpha)


@dataclass(frozen=True, eq=False)
class Weights:
    """The items of G by their weights: so many of each."""

    w: Groups
    number: Groups

    @classmethod
    def of(cls, p: Float[np.ndarray, " N"]) -> "Weights":
        """Items in falling order: the first by themselves, the others in groups that grow with z."""
        edges = np.unique(np.geomspace(min(EXACT, len(p)), len(p), GROUPS).astype(int))
        edges = np.r_[np.arange(edges[0]), edges]
        number = np.diff(edges)
        return cls(np.sqrt(np.add.reduceat(p**2, edges[:-1]) / number), number.astype(float))

    def drawn(self, B: int) -> "Weights":
        """What a batch shows of them: of rare ones, how many are seen never, once, twice, ..."""
        mean, rare = B * self.w, B * self.w < OFTEN / 2
        c = np.arange(OFTEN + 1)[:, None]
        log = c * np.log(mean[rare]) - mean[rare] - gammaln(c + 1)
        return Weights(np.r_[self.w[~rare], c[:, 0] / B], np.r_[self.number[~rare], np.exp(log) @ self.number[rare]])


@dataclass(frozen=True, eq=False)
class Spectrum:
    """G = sum_z w(z) u_z e_z^T in d dimensions."""

    weights: Weights
    d: int

    def s(self, h: Float[np.ndarray, " points"]) -> Float[np.ndarray, " points"]:
        """The s at which the resolvent is h: it falls from infinity at h = 0 to 0."""
        wh = self.weights.w[:, None] * h
        return (1 - (self.weights.number[:, None] * wh**2 / (1 + wh**2)).sum(axis=0) / self.d) / h

    @cached_property
    def h(self) -> Float[np.ndarray, " points"]:
        """From where every response is small to where s is 0, or as good as 0 where G has less than full rank."""
        w = self.weights.w[(self.weights.number > 0) & (self.weights.w > 0)]
        low, high = 1e-4 / w.max(), 1e6 / w.min()
        if self.s(np.array([high]))[0] < 0:
            inside, outside = low, high
            for _ in range(60):
                middle = math.sqrt(inside * outside)
                inside, outside = (middle, outside) if self.s(np.array([middle]))[0] > 0 else (inside, middle)
            high = inside
        return np.geomspace(low, high, POINTS)

    @cached_property
    def ds(self) -> Float[np.ndarray, " points"]:
        """What each h stands for in an integral over s; what lies beyond the smallest h is that h in s times."""
        s = self.s(self.h)
        return (np.r_[2 * s[0], s[:-1]] - np.r_[s[1:], 0.0]) / 2 + np.r_[s[0] / 2, np.zeros(len(s) - 1)]

    def signal(self, w: Groups) -> Groups:
        """u_z^T P e_z of an item of weight w in G."""
        wh = w[:, None] * self.h
        return 2 / math.pi * (wh * self.h / (1 + wh**2)) @ self.ds

    def overlap(self, other: "Spectrum", both: Groups) -> float:
        """tr P^T P' / d with the polar factor of another G', where ``both`` of each group's items are in G and in G'.

        Given the sum C of these, the mean of G's resolvent is that of C at w(s) = s_C(h(s)), and the mean of
        x^2 / ((x^2 + w^2) (x^2 + w'^2)) over the singular values x of C is (w h - w' h') / (w^2 - w'^2).
        """
        shared = Spectrum(Weights(self.weights.w, both), self.d)
        a, b = shared.s(self.h)[:, None], shared.s(other.h)[None, :]
        ah, bh = a * self.h[:, None], b * other.h[None, :]
        close = np.abs(a - b) <= 1e-6 * np.abs(a)  # there the ratio is a derivative
        ratio = np.where(close, _slope(ah, a**2), (ah - bh) / np.where(close, 1.0, a**2 - b**2))
        return (2 / math.pi) ** 2 * float(self.ds @ ratio @ other.ds)


def _slope(y: Float[np.ndarray, "points 1"], x: Float[np.ndarray, "points 1"]) -> Float[np.ndarray, "points 1"]:
    return (np.gradient(y[:, 0]) / np.gradient(x[:, 0]))[:, None]


def wins(signal: Groups, rivals: Groups | float, own: Groups | float, N: int) -> Groups:
    """The probability that a score beats N - 1 others, of mean 0 and this standard deviation; its own beside it."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    at = (signal[:, None] + np.asarray(own).reshape(-1, 1) * nodes) / np.asarray(rivals).reshape(-1, 1)
    return np.exp((N - 1) * log_ndtr(at)) @ (weights / weights.sum())


def muon_step(weights: Weights, d: int, N: int) -> float:
    """How many of these items one step of Muon recalls, among N outputs."""
    found = wins(Spectrum(weights, d).signal(weights.w), d**-0.5, d**-0.5, N)
    return float(weights.number @ found)


def sgd_step(weights: Weights, d: int, N: int) -> float:
    """The same by one step of SGD: u_y^T W e_z = w(z) u_y^T u_z |e_z|^2 + ... of all others; embeddings N(0, I/d)."""
    w, others = weights.w, float(weights.number @ weights.w**2) / d**2
    found = wins(w, np.sqrt(w**2 / d + others), np.sqrt(4 * w**2 / d + others), N)
    return float(weights.number @ found)


def muon_steps(p: Float[np.ndarray, " N"], d: int, steps: int) -> list[float]:
    """How many items are recalled after each step of Muon on thresholded gradients, all steps of one length.

    An item gains its signal in each step before which it was not recalled; its score, and those of its rivals, gain
    noise in every step, correlated by the overlap of the directions. Which ones win is drawn, so that what is left for
    the next step is what was not recalled. Of rivals their maxima are drawn, as if those after different steps were
    independent: so they are as N grows, while the correlation stays below 1, and at N = 1,000 to within 1%.
    """
    items, N = Weights.of(p), len(p)
    draw = np.random.Generator(np.random.Philox(key=np.array([N, d], np.uint64)))
    shape = (len(items.w), DRAWS)
    spectra, alive, noises, totals = [], [np.ones(shape, bool)], [], []
    scores, overlaps = np.zeros(shape), np.eye(steps)
    for t in range(steps):
        spectra.append(Spectrum(Weights(items.w, items.number * alive[t].mean(axis=1)), d))
        for i in range(t):
            both = items.number * (alive[i] & alive[t]).mean(axis=1)
            overlaps[t, i] = overlaps[i, t] = spectra[i].overlap(spectra[t], both)
        so_far = overlaps[: t + 1, : t + 1]
        noises.append(draw.standard_normal(shape))
        scores += np.tensordot(np.linalg.cholesky(so_far)[t], noises, 1)
        scores += math.sqrt(d) * spectra[t].signal(items.w)[:, None] * alive[t]
        recalled = scores > math.sqrt(so_far.sum()) * _highest(draw.random(DRAWS), N - 1)
        totals.append(float(items.number @ recalled.mean(axis=1)))
        alive.append(~recalled)
    return totals


def _highest(share: Float[np.ndarray, " draws"], n: int) -> Float[np.ndarray, " draws"]:
    """The highest of n standard normal numbers, where this share of all cases is lower."""
    return -ndtri_exp(np.log(-np.expm1(np.log(share) / n)))
