"""Faults that the claims on induction heads have to see: in their matrices, their rules, their stages and judges."""

from mutants.harness import AnyMutant, Mutant, RowsMutant

CLAIMS, CELLS = "studies/context/test_head_claims.py", "studies/context/test_heads.py"
TRAINED = (
    "induction-head",
    "staged-head",
    "generic-head",
)  # these take minutes, and no fault here reaches them
MUTANTS: tuple[AnyMutant, ...] = (
    Mutant(
        "one layer: held against the rule by counts",
        "studies/context/claims.py",
        'r["accuracy"] - r["baselines"]["mode"] for r in linear',
        'r["accuracy"] - r["baselines"]["counts"] for r in linear',
        claims=("one-layer@quick",),
        tests=(CLAIMS,),
        stored=TRAINED,
    ),
    RowsMutant("one layer: ten points more are right", "one-layer@quick", "more_right"),
    RowsMutant("two layers: ten points fewer are right", "two-layers@quick", "less_right"),
    Mutant(
        "two layers: judged by their first evaluation",
        "studies/context/claims.py",
        'found = [r["accuracy"] for r in of_kind(rows, TWO)]',
        'found = [r["curves"]["accuracy"][0] for r in of_kind(rows, TWO)]',
        claims=("two-layers@quick",),
        tests=(CLAIMS,),
        stored=TRAINED,
    ),
    Mutant(
        "induction head: layer 1 looks at the next position",
        "construct/induction.py",
        "c * P[1:].T @ P[:-1]",
        "c * P[:-1].T @ P[1:]",
        claims=("built-head@quick",),
        tests=("construct/test_induction.py",),
    ),
    Mutant(
        "induction head: no inverse temperature in layer 2",
        "construct/induction.py",
        "c * asked.T @ (asked @ W_OV_1.T)",
        "asked.T @ (asked @ W_OV_1.T)",
        claims=("built-head@quick",),
        tests=("construct/test_induction.py",),
    ),
    Mutant(
        "mistakes: every trigger counts as one at position 0",
        "studies/context/looking.py",
        "at_start = counted & (tokens[:, :-1] == tokens[:, :1])",
        "at_start = counted & (tokens[:, :-1] != tokens[:, :1])",
        claims=("built-head@quick",),
    ),
    Mutant(
        "learning order: half of all associations, and not of those that are learnt",
        "studies/context/induction.py",
        "(curve >= curve[-1] / 2).argmax()",
        "(curve >= 0.5).argmax()",
        tests=(CLAIMS,),
    ),
    RowsMutant("learning order: W_KQ^1 is there from the first evaluation on", "learning-order@quick", "early_first"),
    RowsMutant("learning order: W_KQ^2 comes last", "learning-order@quick", "late_second"),
    Mutant(
        "stages: each begins with the untrained model",
        "studies/context/heads.py",
        "trained, fixed = split(model, [part])",
        "trained, fixed = split(self.start(), [part])",
        tests=(CELLS,),
    ),
    RowsMutant("joint training: one after another is as good", "joint-training@quick", "staged_as_good"),
    Mutant(
        "joint training: the two swapped",
        "studies/context/claims.py",
        'a["accuracy"] - b["accuracy"] for a, b in zip(joint, staged, strict=True)',
        'b["accuracy"] - a["accuracy"] for a, b in zip(joint, staged, strict=True)',
        claims=("joint-training@quick",),
        tests=(CLAIMS,),
        stored=TRAINED,
    ),
    Mutant(
        "solved head: its first layer may look at other triggers",
        "construct/induction_solved.py",
        "trigger & ~same)",
        "trigger & same)",
        tests=("construct/test_induction_solved.py",),
    ),
    Mutant(
        "what is told: the trigger itself, and not what stood after it",
        "context/sequences.py",
        "same = tokens[:, :, None] == after_same[:, None, :]",
        "same = tokens[:, :, None] == tokens[:, None, :]",
        tests=("measure/test_attending.py",),
    ),
)
