"""Faults in the bits of facts that a language model holds. The rows are of the fetched model."""

from mutants.harness import AnyMutant, Mutant, RowsMutant

CODES = "lm/test_code_length.py::test_"
BITS = "studies/lm/test_bits.py::test_"
CLAIM = "lm-bits@quick"

MUTANTS: tuple[AnyMutant, ...] = (
    RowsMutant("lm bits: predictions of one relation know nothing", CLAIM, "currencies_untold"),
    RowsMutant("lm bits: shuffled answers are told too", CLAIM, "shuffled_told"),
    Mutant(
        "lm bits: fitted on the half that judges",
        "lm/code_length.py",
        "        fitting = judged if own else ~judged",
        "        fitting = judged",
        tests=(f"{CODES}a_half_is_judged_by_a_fit_on_the_other",),
    ),
    Mutant(
        "lm bits: without scores every answer is as likely as any other",
        "lm/code_length.py",
        "(gammaln(n + 1) / n - gammaln(own + 1) / own) / np.log(2)",
        "(np.log(self.K) + 0 * own * n) / np.log(2)",
        tests=(
            f"{CODES}without_scores_it_takes_the_logarithm_of_all_assignments",
            f"{CODES}a_constant_answer_saves_nothing",
        ),
    ),
    Mutant(
        "lm bits: wrong facts are not listed",
        "lm/code_length.py",
        "    return np.asarray(ways / np.log(2) + np.log2(n + 1))",
        "    return np.asarray(0 * ways)",
        tests=(f"{CODES}what_is_called_a_code_length_is_one[groups0]", f"{CODES}a_constant_answer_saves_nothing"),
    ),
    Mutant(
        "lm bits: answers that are read off the name count",
        "lm/code_length.py",
        "    return any(len(word) == LETTERS for word in one & other)",
        "    return False",
        tests=(f"{CODES}words_that_begin_alike_need_no_knowledge", f"{BITS}the_tiny_model_holds_what_was_put_into_it"),
    ),
    Mutant(
        "lm bits: a layer is judged on the half that chose it",
        "studies/lm/bits_account.py",
        "choosing[:, halves != side]",
        "choosing[:, halves == side]",
        tests=(f"{BITS}a_layer_is_judged_on_the_half_that_did_not_choose_it",),
    ),
)
