"""Faults in what measures and in what predicts: recall, searches, fits, bits, rounding, bounds."""

from mutants.harness import Mutant

MEASURES = (
    Mutant(
        "recall: ties count as right", "measure/recall.py", "((~(scores < at_target)).sum(axis=1) == 1)",
        "((scores > at_target).sum(axis=1) == 0)", tests=("measure/test_recall.py::test_ties_and_infinities_are_not_recall",),
    ),
    Mutant(
        "recall of facts: ties count as right", "measure/fact_recall.py", "((scores < best[:, None]) | is_right)",
        "((scores <= best[:, None]) | is_right)", tests=("models/test_transformer.py::test_ties_and_nonsense_are_not_recall",),
    ),
    Mutant(
        "recall of facts: the first answer alone is right", "measure/fact_recall.py", "if self.more is None:\n",
        "if True:\n", tests=("facts/test_several_answers.py",),
    ),
    Mutant(
        "recall of facts: once is enough", "measure/fact_recall.py", "draws=draws) > 0).all(axis=0).mean()",
        "draws=draws) > 0).any(axis=0).mean()", tests=("measure/test_fact_recall.py::test_always_right_is_right_in_every_prompt",),
    ),
    Mutant(
        "prompts: no noise tokens", "facts/prompts.py", "tokens = jnp.concatenate([self.subjects[facts][None], self.relations[facts][None], eos, noise])",
        "tokens = jnp.concatenate([self.subjects[facts][None], self.relations[facts][None], eos, 0 * noise + eos])",
        tests=("facts/test_prompts.py::test_counts_are_those_of_the_sequences",),
    ),
    Mutant(
        "margins: the right output is a rival", "measure/recall.py",
        "others = jnp.where(jnp.arange(U.shape[0]) == f[:, None], -jnp.inf, scores)", "others = scores",
        tests=("measure/test_recall.py::test_margins_are_positive_exactly_where_recalled",),
    ),
    Mutant(
        "exact recall: half of the signs are enough", "measure/recall.py", "(jnp.sign(memory(E)) == jnp.sign(U[f])).all(axis=1)",
        "(jnp.sign(memory(E)) == jnp.sign(U[f])).mean(axis=1) > 0.5",
        claims=("exact-recall@quick",), tests=("measure/test_recall.py::test_exact_recall_is_harder_than_recall",),
    ),
    Mutant(
        "search: a ceiling is reported as a capacity", "measure/capacity.py",
        "return self.stored if self.status == FOUND else None", "return self.stored",
        tests=("measure/test_capacity.py::test_a_ceiling_is_never_a_capacity",),
    ),
    Mutant(
        "search: the refused end of the bracket", "measure/capacity.py",
        "return self.stored if self.status == FOUND else None", "return self.refused if self.status == FOUND else None",
        tests=("measure/test_capacity.py::test_the_search_finds_the_threshold_from_any_guess",),
    ),
    Mutant(
        "search: a floor is reported as a size", "measure/capacity.py",
        "return self.enough if self.status == FOUND else None", "return self.enough",
        tests=("measure/test_smallest.py::test_the_search_finds_the_smallest_size_that_is_enough",),
    ),
    Mutant(
        "search: seeds that found nothing are left out of the mean", "measure/capacity.py",
        "of(found) if len(found) == len(values) else None", "of(found) if found else None",
        tests=("measure/test_capacity.py::test_a_ceiling_is_never_a_capacity",),
    ),
    Mutant(
        "fit: an interval half as wide", "measure/scaling.py", "return float(stdtrit(freedom, (1 + CONFIDENCE) / 2))",
        "return float(stdtrit(freedom, (1 + CONFIDENCE) / 2)) / 2",
        tests=("measure/test_capacity.py::test_intervals_cover_the_truth_as_often_as_they_say",),
    ),
    Mutant(
        "fit: an interval ten times as wide", "measure/scaling.py", "return float(stdtrit(freedom, (1 + CONFIDENCE) / 2))",
        "return 10 * float(stdtrit(freedom, (1 + CONFIDENCE) / 2))", claims=("outer-product-growth@quick",),
        tests=("measure/test_capacity.py::test_intervals_cover_the_truth_as_often_as_they_say",),
    ),
    Mutant(
        "bits: scales are not counted", "measure/quantise.py", "bits = scales + sum(", "bits = sum(",
        tests=("measure/test_quantise.py::test_bits_are_counted_with_their_scales",),
    ),
    Mutant(
        "bits: chosen and judged in the same prompts", "measure/quantise.py", "share = recall.judge(found.quantised.model)",
        "share = choose(found.quantised.model)", tests=("measure/test_quantise.py::test_a_grid_that_fails_on_fresh_prompts_does_not_count",),
    ),
    Mutant(
        "bits: rounded down", "measure/quantise.py", "xp.clip(xp.rint(x - half) + half, -last, last)",
        "xp.clip(xp.floor(x - half) + half, -last, last)",
        tests=("measure/test_quantise.py::test_weights_go_to_the_nearest_point", "test_eye.py::test_a_rounded_model_recalls_what_bits_says"),
    ),
    Mutant(
        "bits of a table: an answer that is given often costs as much", "measure/bits.py",
        "total += gammaln(counts.sum() + 1) - gammaln(counts + 1).sum()", "total += gammaln(counts.sum() + 1)",
        tests=("knowledge/test_build.py::test_bits_of_a_table_count_the_tables_like_it",),
    ),
    Mutant(
        "parameters: the MLP counted once", "models/sizes.py", "2 * self.m * self.d", "self.m * self.d",
        tests=("models/test_transformer.py::test_parameters_are_counted_as_in_the_paper",),
    ),
)  # fmt: skip

THEORY = (
    Mutant(
        "bounds: the noise law without a factor of two", "theory/bounds.py", "return (N - 2) / d * (1 / d + by_rank) + 2 / d + by_rank",
        "return (N - 2) / d * (0.5 / d + by_rank) + 2 / d + by_rank", claims=("outer-product-growth@quick",),
        tests=("theory/test_noise.py::test_score_variance_against_draws",),
    ),
    Mutant(
        "bounds: the rank left out of the noise law", "theory/bounds.py", "by_rank = 1 / m if m else 0.0", "by_rank = 0.0",
        claims=("low-rank-growth@quick",), tests=("theory/test_noise.py::test_score_variance_against_draws",),
    ),
    Mutant(
        "bounds: exact recall without its logarithm", "theory/bounds.py", "return 1 + d / level(d) ** 2", "return 1 + d / level(2) ** 2 / 8",
        claims=("exact-recall@quick",), tests=("theory/test_noise.py::test_laws_have_the_theorems_growth",),
    ),
    Mutant(
        "bounds: two outputs hold twice as many", "theory/bounds.py", "return 1 + d / level(1, share) ** 2",
        "return 1 + 2 * d / level(1, share) ** 2", claims=("two-outputs-outer-product@quick",),
        tests=("theory/test_noise.py::test_laws_have_the_theorems_growth",),
    ),
    Mutant(
        "bounds: Cover's number is d", "theory/bounds.py", "return 2.0 * d, math.sqrt(2 * d)", "return 1.0 * d, math.sqrt(2 * d)",
        claims=("two-outputs-trained@quick",), tests=("theory/test_noise.py::test_cover_moments_are_those_of_covers_count",),
    ),
    Mutant(
        "bounds: a term of the margin's variance dropped", "theory/bounds.py", "return 1 / d + sharing * (1 + 1 / d) / d + 2",
        "return 1 / d + sharing / d + 2", claims=("margin-in-image@quick",), tests=("theory/test_bounds.py::test_margin_variance_is_the_papers",),
    ),
    Mutant(
        "bounds: one bystander too many", "theory/bounds.py", "+ 2 * (N - 1 - sharing) / d**2", "+ 2 * (N - sharing) / d**2",
        claims=("margin-in-image@quick", "margin-outside-image@quick"), tests=("theory/test_bounds.py::test_margin_variance_is_the_papers",),
    ),
)  # fmt: skip

MUTANTS = (*MEASURES, *THEORY)
