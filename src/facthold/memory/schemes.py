"""Heavy-tailed data and memory schemes (slides, part IV): W = sum_z q(z) u_{f*(z)} e_z^T after n samples of p(z).

A scheme says how much of each token W gets, q(z), from how often it was seen and from p. Schemes have names, so that
cells can be told them: those of `KINDS`, with a number where one says so ('at-least-3', 'counts^0.5', 'first-40').
Any other function of counts and p is a scheme too.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from facthold._util.errors import check_positive, check_whole, find
from facthold.memory import MAPS, generator

Counts = Int[np.ndarray, " N"]
Weights = Float[np.ndarray, " N"]
Scheme = Callable[[Counts, Weights], Weights]

NUMBER = re.compile(r"(at-least-|counts\^|first-)(.+)")
KINDS: Mapping[str, Callable[[float], Scheme]] = {
    "p": lambda _: lambda counts, p: p,  # one gradient step on the population
    "all": lambda _: lambda counts, p: np.ones(len(p)),
    "counts": lambda _: lambda counts, p: counts.astype(float),  # one step on the sum over n samples
    "seen": lambda _: lambda counts, p: (counts > 0).astype(float),
    "at-least-": lambda s: lambda counts, p: (counts >= s).astype(float),
    "counts^": lambda rho: lambda counts, p: np.where(counts > 0, counts.astype(float) ** rho, 0.0),
    "first-": lambda k: lambda counts, p: (np.arange(len(p)) < k).astype(float),  # the k most frequent
}


def scheme(name: str) -> Scheme:
    """The scheme with this name: ``scheme("at-least-3")(counts, p)`` is q."""
    if parts := NUMBER.fullmatch(name):
        kind, number = parts.groups()
        try:
            value = float(number)
        except ValueError as error:
            raise ValueError(f"scheme {name!r} ends in {number!r}, which is no number") from error
        if not 0 < value < math.inf or (kind != "counts^" and value != round(value)):
            wanted = "above 0" if kind == "counts^" else "a whole number above 0"
            raise ValueError(f"scheme {name!r}: {number} must be {wanted}")
        return KINDS[kind](value)
    known = {one + ("N" if one[-1] in "-^" else ""): make for one, make in KINDS.items()}
    return find("scheme", name, known)(0.0)


@dataclass(frozen=True)
class HeavyTailed:
    """p(z) proportional to z^-alpha for z = 1, ..., N, and y = f*(z) among M outputs; alpha = 0 is uniform."""

    N: int
    M: int
    alpha: float
    map: str = "mod"

    def __post_init__(self) -> None:
        check_whole(N=self.N, M=self.M)
        check_positive(N=self.N, M=self.M)
        if not (np.isfinite(self.alpha) and self.alpha >= 0):
            raise ValueError(f"alpha={self.alpha} must be 0 or more, and finite")
        if self.map in ("identity", "injective") and self.M < self.N:
            raise ValueError(f"the map {self.map!r} needs M >= N, but M={self.M} and N={self.N}; take 'mod'")

    @property
    def p(self) -> Weights:
        weights = np.arange(1, self.N + 1) ** -float(self.alpha)
        return weights / weights.sum()

    def f(self, words: Sequence[int]) -> Int[np.ndarray, " N"]:
        """f*(z), drawn by the two words of a key where the map is random."""
        return find("map", self.map, MAPS)(self.N, self.M, generator(words))

    def counts(self, n: int, words: Sequence[int]) -> Counts:
        """How often each token is seen in n samples."""
        check_whole(n=n)
        if n < 0:
            raise ValueError(f"n={n} must be at least 0")
        return generator(words).multinomial(n, self.p)
