"""The claims by name, in the order in which they are read: theorem 1, its limits, training, beyond."""

from facthold._util.errors import unknown
from facthold.lab.claim import Claim, Judgement
from facthold.studies.bits import claims as bits
from facthold.studies.constructions import claims as facts_built
from facthold.studies.learning import flow_claims as flow
from facthold.studies.learning import stage_claims as learning
from facthold.studies.memories import construction_claims as constructions
from facthold.studies.memories import growth_claims as scaling
from facthold.studies.memories import limit_claims as limits
from facthold.studies.memories import margin_claims as margins
from facthold.studies.sizes import claims as plan
from facthold.studies.transformers import claims as facts
from facthold.studies.zipf import claims as zipf

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
