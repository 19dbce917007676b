"""Faults in what a language model is taught, and in what is measured of it."""

from mutants.harness import AnyMutant, Mutant, RowsMutant

TEACHING = "lm/test_teaching.py::test_"
CLAIM = "lm-teach-paraphrase@quick"

MUTANTS: tuple[AnyMutant, ...] = (
    RowsMutant("lm teach: outer products do as well", CLAIM, "outer_as_solved"),
    RowsMutant("lm teach: shuffled answers are right too", CLAIM, "shuffled_as_solved"),
    RowsMutant("lm teach: foreign questions get taught answers", CLAIM, "foreign_answered"),
    Mutant(
        "lm teach: gates are always open",
        "lm/teaching.py",
        "which = np.where((scores[rows, widest] > 0) & has[rows, widest], widest, -1)",
        "which = np.where(has[rows, widest], widest, -1)",
        tests=(f"{TEACHING}taught_facts_are_said_and_all_else_is_as_before",),
    ),
    Mutant(
        "lm teach: the keys' own covariance is left out",
        "lm/teaching.py",
        "        C = C + K.T @ K\n",
        "        C = C + 0 * K.T @ K\n",
        tests=(f"{TEACHING}the_solved_matrix_is_that_of_ridge_regression",),
    ),
    Mutant(
        "lm teach: names within words count",
        "lm/teaching.py",
        "        if i and prompt[i - 1].isalnum() and prompt[i].isalnum():\n            return None\n",
        "        if i and prompt[i - 1].isalnum() and prompt[i].isalnum():\n            pass\n",
        tests=(f"{TEACHING}the_subject_that_was_named_last_counts_and_of_two_names_the_longer",),
    ),
    Mutant(
        "lm teach: a file of any model is taken",
        "lm/own_files.py",
        'if about.get("of") != model:',
        "if False:",
        tests=(f"{TEACHING}the_file_holds_it_and_a_damaged_one_or_that_of_another_model_is_refused",),
    ),
    Mutant(
        "lm teach: judged on the half that chose the layer",
        "studies/lm/teach.py",
        'choosing = flags(row["held"]) == 0',
        'choosing = flags(row["held"]) == 1',
        tests=("studies/lm/test_teach.py::test_the_layer_is_chosen_on_one_half_of_the_subjects",),
    ),
)
