"""Faults that the claims on optimisers as memory schemes have to see."""

from mutants.harness import Mutant

ENSEMBLES, REALISED, THEORY = "train/test_ensembles.py", "measure/test_realised.py", "theory/test_optimisers.py"
STUDY = "studies/scaling/test_optimisers.py"
MUTANTS = (
    Mutant(
        "optimisers: q without what the rivals lose",
        "measure/realised.py",
        "return own - (alpha.sum(axis=-1) - own) / (M - 1)",
        "return own",
        claims=("large-batch-scheme@quick", "batch-one-scheme@quick"),
        tests=(REALISED,),
    ),
    Mutant(
        "optimisers: a token counts once in a large batch",
        "train/ensembles.py",
        "(1, 1, N)), counts / batch",
        "(1, 1, N)), np.minimum(counts, 1) / batch",
        claims=("large-batch-scheme@quick",),
        tests=(ENSEMBLES,),
    ),
    Mutant(
        "optimisers: the law with one rival less",
        "theory/optimisers.py",
        "lr * share * M / (",
        "lr * share * (M - 1) / (",
        claims=("batch-one-scheme@quick",),
        stored=("optimised",),
        tests=(THEORY,),
    ),
    Mutant(
        "optimisers: steps do not see what is known already",
        "train/ensembles.py",
        "(jax.nn.softmax(scores) - jax.nn.one_hot(",
        "(jax.nn.softmax(0 * scores) - jax.nn.one_hot(",
        claims=("batch-one-scheme@quick",),
        tests=(ENSEMBLES,),
    ),
    Mutant(
        "optimisers: Adam does not divide by the gradient",
        "train/ensembles.py",
        "else G / (jnp.abs(G) + EPSILON)",
        "else G",
        claims=("adam-and-norm@quick",),
        tests=(ENSEMBLES,),
    ),
    Mutant(
        "optimisers: the way back through the norm has the wrong sign",
        "train/ensembles.py",
        "(g - n * (n * g).sum(axis=-1, keepdims=True)) / length",
        "(n * (n * g).sum(axis=-1, keepdims=True) - g) / length",
        claims=("adam-and-norm@quick",),
        tests=(ENSEMBLES,),
    ),
    Mutant(
        "optimisers: late steps as long as before",
        "train/ensembles.py",
        "(until, later * lrs_)",
        "(until, lrs_)",
        claims=("small-steps-late@quick",),
        tests=(ENSEMBLES,),
    ),
    Mutant(
        "optimisers: late steps longer, not shorter",
        "train/ensembles.py",
        "(until, later * lrs_)",
        "(until, lrs_ / later)",
        claims=("small-steps-late@quick",),
        tests=(ENSEMBLES,),
    ),
    Mutant(
        "optimisers: every scheme is q = 1",
        "studies/scaling/optimised.py",
        "(q[:, None] * outputs)",
        "(np.sign(q)[:, None] * outputs)",
        claims=("equal-weights-best@quick",),
        stored=("optimised",),
        tests=(STUDY + "::test_schemes_beside_are_sums_of_outer_products",),
    ),
    Mutant(
        "optimisers: the error is what is right",
        "measure/realised.py",
        "(~right * p)",
        "(right * p)",
        claims=("equal-weights-best@quick",),
        tests=(REALISED,),
    ),
    Mutant(
        "optimisers: the engine's Adam has an epsilon d times as large",
        "train/streams.py",
        "lambda c, _, gradient: (gradient,)",
        "lambda c, _, gradient: (c * gradient,)",
        tests=(STUDY + "::test_adam_of_the_engine_is_that_of_a_plain_loop",),
    ),
    Mutant(
        "optimisers: q in trained embeddings has the start in it",
        "studies/scaling/optimised.py",
        "W - worlds.W_0[i // len(self.lrs)]",
        "W",
        tests=(STUDY + "::test_the_scheme_of_trained_embeddings_is_that_of_a_plain_loop",),
    ),
)
