"""Activations sigma, and the orthonormal Hermite polynomials h_k (appendix F.1)."""

import math
from dataclasses import dataclass
from typing import TypeVar

import jax
import numpy as np
from jaxtyping import Array

from facthold._util.errors import unknown

Values = TypeVar("Values", Array, np.ndarray)  # an array of any shape; NumPy in, NumPy out


def hermite(k: int, x: Values) -> Values:
    """h_k(x): degree k, orthonormal under N(0, 1).

    By the recurrence h_{j+1} = (x h_j - sqrt(j) h_{j-1}) / sqrt(j + 1).
    """
    if k < 0:
        raise ValueError(f"the degree k={k} must be 0 or more")
    before, now = 0 * x, 0 * x + 1  # NumPy arrays stay NumPy arrays
    for j in range(k):
        before, now = now, (x * now - math.sqrt(j) * before) / math.sqrt(j + 1)
    return now


@dataclass(frozen=True)
class ReLU:
    """max(x, 0)."""

    name: str = "relu"

    def __call__(self, x: Values) -> Values:
        return np.maximum(x, 0) if isinstance(x, np.ndarray) else jax.nn.relu(x)

    def derivative(self, x: Values) -> Values:
        return (x > 0).astype(x.dtype)

    def coefficient(self, k: int) -> float:
        """c_k = E[sigma(x) h_k(x)] for x ~ N(0, 1).

        1/sqrt(2 pi), 1/2, then (-1)^(k/2+1) (k-3)!! / sqrt(2 pi k!) for even k, zero for odd k.
        """
        if k == 0:
            return 1 / math.sqrt(2 * math.pi)
        if k == 1:
            return 0.5
        if k % 2:
            return 0.0
        double_factorial = math.prod(range(k - 3, 0, -2))
        return (-1) ** (k // 2 + 1) * double_factorial / math.sqrt(2 * math.pi * math.factorial(k))


@dataclass(frozen=True)
class Polynomial:
    """sigma = sum_k c_k h_k, given by its Hermite coefficients (assumption 3)."""

    coefficients: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.coefficients:
            raise ValueError("a polynomial activation needs at least one Hermite coefficient")

    @property
    def name(self) -> str:
        return "hermite:" + ",".join(repr(c) for c in self.coefficients)

    def __call__(self, x: Values) -> Values:
        return sum((c * hermite(k, x) for k, c in enumerate(self.coefficients) if c), 0 * x)

    def derivative(self, x: Values) -> Values:
        """h_k' = sqrt(k) h_{k-1}."""
        lowered = tuple(math.sqrt(k) * c for k, c in enumerate(self.coefficients))[1:]
        return Polynomial(lowered or (0.0,))(x)

    def coefficient(self, k: int) -> float:
        return self.coefficients[k] if k < len(self.coefficients) else 0.0


Activation = ReLU | Polynomial
RELU = ReLU()


def activation(name: str) -> Activation:
    """The activation with this name: 'relu', or 'hermite:c_0,c_1,...'."""
    if name == RELU.name:
        return RELU
    if name.startswith("hermite:"):
        try:
            return Polynomial(tuple(float(c) for c in name.removeprefix("hermite:").split(",")))
        except ValueError:
            raise ValueError(f"activation {name!r}: write 'hermite:' and numbers, as in hermite:0,1,0.5") from None
    raise unknown("activation", name, [RELU.name, "hermite:c_0,c_1,..."])
