"""All deliberate faults. A new one is an entry in the file of its part; `python tests/mutants/run.py NAME` tries it."""

from mutants import (
    constructions,
    context_heads,
    context_steps,
    context_truncation,
    context_words,
    embeddings,
    knowledge,
    learning,
    ledger,
    lm,
    lm_bits,
    lm_edit,
    lm_keys,
    lm_teach,
    lm_where,
    measures,
    optimisers,
    oscillations,
    recovery,
    scaling,
    sharp,
)
from mutants.harness import AnyMutant, Mutant

MUTANTS: tuple[AnyMutant, ...] = (
    *constructions.MUTANTS,
    *knowledge.MUTANTS,
    *measures.MUTANTS,
    *learning.MUTANTS,
    *context_heads.MUTANTS,
    *ledger.MUTANTS,
    *context_steps.MUTANTS,
    *context_truncation.MUTANTS,
    *context_words.MUTANTS,
    *scaling.MUTANTS,
    *oscillations.MUTANTS,
    *recovery.MUTANTS,
    *optimisers.MUTANTS,
    *sharp.MUTANTS,
    *lm.MUTANTS,
    *embeddings.MUTANTS,
    *lm_where.MUTANTS,
    *lm_edit.MUTANTS,
    *lm_keys.MUTANTS,
    *lm_teach.MUTANTS,
    *lm_bits.MUTANTS,
)

QUICK = (
    "outer product: the wrong row of E",
    "low rank: factor",
    "lemma 1: EOS left out of the key",
    "theorem 10: values not orthogonal to EOS",
    "gates: noise tokens left out of the conditions",
    "build: judged on the prompts of its search",
    "edit: specificity judged on the old model",
    "locate: the MLP and the direct path swapped",
    "judge: ties count as right",
    "search: a ceiling is reported as a capacity",
    "bits: chosen and judged in the same prompts",
    "bounds: one bystander too many",
)
"""Those that are tried in the short form: some seconds each."""

UNTRIED: frozenset[str] = frozenset(
    {
        "optimisers: late steps as long as before",
        "separate: a coarse certificate is enough",
        "separate: margins need not be positive",
        "separate: no undecided solve is looked beyond",
        "sharp law: rivals that are not active may be above",
        "listwise: half of the tail",
        "listwise law: the answer moves twice as far",
        "parts: the last norm's gain is left out",
        "parts: the runner-up is the answer",
        "truncated: the smallest singular values are kept",
        "truncated: singular values are left out",
        "real embeddings: participation is of roots",
        "real embeddings: their mean is not taken away",
        "real embeddings: whitening does nothing",
        "real embeddings: streams at the first token",
        "real embeddings: any matrix of what is not separated",
    }
)
"""Faults that `make mutants` has not tried yet: the table says so."""

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
