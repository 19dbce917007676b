"""Where training of a linear attention model begins."""

import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from facthold._util.errors import unknown
from facthold._util.keys import fold
from facthold.dynamics import STARTS
from facthold.memory.embeddings import host_generator
from facthold.models.linear_attention import LinearAttention

SMALLEST = 1e-30
"""The smallest alpha for steps in float32: their products with gradients, a thousandth and less, must not vanish."""


@dataclass(frozen=True)
class Start:
    """'balanced': assumption 2, W_OV = alpha and W_KQ = alpha sqrt(|A| + 1). 'equal': every weight alpha, as in figure
    5. 'random': W_KQ is alpha and W_OV normal with standard deviation alpha, which no theorem covers; the noise tokens
    of a pooled population share one draw."""

    kind: str = "balanced"
    log_alpha: float = math.log(1e-5)
    seed: int = 0  # for the random start alone

    def __post_init__(self) -> None:
        if self.kind not in STARTS:
            raise unknown("start", self.kind, STARTS)
        if not math.isfinite(self.log_alpha):
            raise ValueError(f"log_alpha={self.log_alpha} must be finite")

    def ratio(self, A: int, tokens: int) -> tuple[Float[np.ndarray, "A tokens"], float]:
        """W_OV / alpha, and W_KQ / alpha."""
        if self.kind == "random":
            return host_generator(fold(jax.random.key(self.seed), "start")).standard_normal((A, tokens)), 1.0
        return np.ones((A, tokens)), math.sqrt(A + 1) if self.kind == "balanced" else 1.0

    def model(self, A: int, tokens: int) -> LinearAttention:
        """The model to train by steps, in float32."""
        if self.log_alpha < math.log(SMALLEST) - 1e-9:
            raise ValueError(
                f"alpha = exp({self.log_alpha:g}) is too small for steps in float32; take {SMALLEST:g} or more, "
                "or gradient flow, which is in float64"
            )
        W_OV, W_KQ = self.ratio(A, tokens)
        alpha = math.exp(self.log_alpha)
        return LinearAttention(jnp.asarray(alpha * W_OV, jnp.float32), jnp.full(tokens, alpha * W_KQ, jnp.float32))
