"""All deliberate faults. One more is one more entry in the file of its part; `python tests/mutants/run.py NAME` tries it."""

from mutants import constructions, knowledge, ledger, measures
from mutants.harness import AnyMutant, Mutant

MUTANTS: tuple[AnyMutant, ...] = (
    *constructions.MUTANTS, *knowledge.MUTANTS, *measures.MUTANTS, *ledger.MUTANTS,
)  # fmt: skip

QUICK: tuple[str, ...] = (
    "outer product: the wrong row of E",
    "edit: specificity judged on the old model",
)
"""Those that are tried in the short form: seconds each."""

PENDING: frozenset[str] = frozenset()
"""Claims and recipes that do not have two faults yet."""


def covered() -> dict[str, int]:
    """How many faults there are of each claim and each recipe."""
    counts: dict[str, int] = {}
    for mutant in MUTANTS:
        for name in {claim.partition("@")[0] for claim in mutant.claims} | set(mutant.recipes):
            counts[name] = counts.get(name, 0) + 1
    return counts


def sources() -> list[Mutant]:
    return [mutant for mutant in MUTANTS if isinstance(mutant, Mutant)]
