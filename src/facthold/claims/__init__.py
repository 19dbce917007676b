"""The claims by name, in the order in which they are read: theorem 1, its limits, training, beyond."""

from facthold.claims import (
    bits,
    constructions,
    facts,
    facts_built,
    flow,
    learning,
    limits,
    margins,
    plan,
    scaling,
    zipf,
)
from facthold.claims.base import Claim, Judgement
from facthold.errors import unknown

ALL = (
    *margins.CLAIMS,
    *scaling.CLAIMS,
    *facts.CLAIMS,
    *facts_built.CLAIMS,
    *flow.CLAIMS,
    *learning.CLAIMS,
    *limits.CLAIMS,
    *bits.CLAIMS,
    *zipf.CLAIMS,
    *constructions.CLAIMS,
    *plan.CLAIMS,
)
CLAIMS: dict[str, Claim] = {claim.id: claim for claim in ALL}


def claim(id: str) -> Claim:
    """The claim with this name."""
    if id not in CLAIMS:
        raise unknown("claim", id, CLAIMS)
    return CLAIMS[id]


__all__ = ["CLAIMS", "Claim", "Judgement", "claim"]
