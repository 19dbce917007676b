"""Faults in what is measured of truncated and edited language models."""

from mutants.harness import AnyMutant, Mutant, RowsMutant

CUTS = "lm/test_truncation.py"

MUTANTS: tuple[AnyMutant, ...] = (
    RowsMutant("lm truncation: a cut helps the half that chose it alone", "lm-truncation@quick", "held_swapped"),
    RowsMutant("lm truncation: no cut changes anything", "lm-truncation@quick", "uncut_lm"),
    Mutant(
        "lm truncation: judged on the half that chose it",
        "studies/lm/truncation.py",
        "before, after = (on_half(hits[MAIN], 1 - half) for",
        "before, after = (on_half(hits[MAIN], half) for",
        tests=("studies/lm/test_truncation.py::test_it_holds_where_the_other_half_agrees_and_fails_where_it_does_not",),
    ),
    Mutant(
        "lm truncation: one rank too many",
        "measure/truncate.py",
        "(left[:, :r] * s[:r]) @ right[:r]).astype",
        "(left[:, : r + 1] * s[: r + 1]) @ right[: r + 1]).astype",
        tests=(f"{CUTS}::test_a_rank_is_that_of_the_matrix_and_nothing_is_nearer",),
    ),
    RowsMutant("lm edits: neighbours' keys do nothing", "lm-edit-neighbours@quick", "neighbours_as_text"),
    RowsMutant("lm edits: specificity is bought with edits", "lm-edit-neighbours@quick", "edits_lost"),
    Mutant(
        "lm edits: C is never solved with",
        "lm/editing.py",
        "return (k - X.T @ inner) / self.ridge",
        "return k",
        tests=("lm/test_editing.py::test_what_c_is_of_moves_less",),
    ),
    Mutant(
        "lm edits: a file of any model is taken",
        "lm/own_files.py",
        'if about.get("of") != model:',
        "if False:",
        tests=("lm/test_editing.py::test_a_file_of_another_model_or_a_damaged_one_is_refused",),
    ),
)
