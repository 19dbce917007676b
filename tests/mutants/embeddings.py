"""Faults that the claims on embeddings have to see."""

from mutants.harness import AnyMutant, Mutant, RowsMutant

SPREAD, TRAINED, STUDY = "memory/test_spread.py", "train/test_embedded.py", "studies/embeddings/test_embeddings.py"
MUTANTS: tuple[AnyMutant, ...] = (
    Mutant(
        "embeddings: those of prompts get no gradient",
        "train/embedded.py",
        "        phi = model.phi\n",
        "        phi = jax.lax.stop_gradient(model.phi)\n",
        claims=("learned-dimension@quick", "selector-transfer@quick"),
        tests=(TRAINED + "::test_gradients_of_embeddings_are_differences",),
    ),
    Mutant(
        "embeddings: random ones are trained too",
        "studies/embeddings/facts.py",
        '        trained = "all" if self.learned else "weights"\n',
        '        trained = "all"\n',
        claims=("learned-at-equal-parameters@quick",),
        stored=("memory-dimension",),
        tests=(
            STUDY + "::test_facts_are_learnt_in_fewer_dimensions_with_their_embeddings_and_all_of_them_are_counted",
        ),
    ),
    Mutant(
        "embeddings: the frozen model's tokens in another order",
        "models/embedded.py",
        "EmbeddedTransformer(self.weights, self.phi[kept], self.U, subjects)",
        "EmbeddedTransformer(self.weights, self.phi[kept][::-1], self.U, subjects)",
        claims=("selector-transfer@quick",),
        tests=(TRAINED + "::test_new_subjects_leave_all_other_tokens_as_they_are",),
    ),
    Mutant(
        "embeddings: learned ones of memories are not counted",
        "studies/embeddings/dimension.py",
        "+ (problem.n_embeddings if self.learned else 0)",
        "+ 0",
        claims=("learned-at-equal-parameters@quick",),
        stored=("fact-dimension",),
        tests=(
            STUDY + "::test_the_smallest_dimension_of_a_memory_is_between_one_that_is_too_small_and_one_that_is_enough",
        ),
    ),
    Mutant(
        "spread: rows move to the nearest ones",
        "memory/spread.py",
        "_unit(X + STEP * (1 - t / ROUNDS)",
        "_unit(X - STEP * (1 - t / ROUNDS)",
        claims=("spread-embeddings@quick",),
        tests=(SPREAD + "::test_no_two_are_as_near_as_among_random_rows",),
    ),
    Mutant(
        "spread: half of the dimensions are left out",
        "memory/spread.py",
        "    return X\n\n\ndef _away",
        "    return np.where(np.arange(d) <= d // 2, X, 0.0)\n\n\ndef _away",
        claims=("spread-embeddings@quick",),
        tests=(SPREAD + "::test_more_rows_are_a_tight_frame_and_meet_the_bound_of_welch",),
    ),
    Mutant(
        "spread: no tight frame at the end",
        "memory/spread.py",
        "    for _ in range(FRAMES):",
        "    for _ in range(0):",
        tests=(SPREAD + "::test_more_rows_are_a_tight_frame_and_meet_the_bound_of_welch",),
    ),
    Mutant(
        "Welch's bound: one vector too many",
        "theory/bounds.py",
        "(n - d) / (d * (n - 1))",
        "(n - d) / (d * n)",
        tests=(SPREAD + "::test_the_bound_of_welch_by_hand",),
    ),
    RowsMutant("embeddings: learned ones need the root of S", "learned-dimension@quick", "learned_as_the_root"),
    RowsMutant("embeddings: random ones need a logarithm", "learned-dimension@quick", "random_as_the_logarithm"),
    RowsMutant(
        "embeddings: learned ones cost ten times as much", "learned-at-equal-parameters@quick", "learned_cost_more"
    ),
    RowsMutant("embeddings: a random MLP is as good", "selector-transfer@quick", "random_as_good"),
)
