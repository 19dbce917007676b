"""How facts are learnt: gradient flow, its reduced equations, and the stages of a loss curve (section 5)."""

STARTS = ("balanced", "equal", "random")
"""Where learning starts, see `dynamics.start`. The names stand here, where they load no JAX."""
NOISE = ("drawn", "even")  # how noise tokens are in a batch, see `dynamics.descent`
