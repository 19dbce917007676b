"""Faults that the claims on memory schemes have to see."""

from mutants.harness import Mutant

MEASURE, THEORY, NAMES = "measure/test_schemes.py", "theory/test_schemes.py", "memory/test_schemes.py"
STUDY = "studies/scaling/test_scaling.py"
DRAWN = ("scheme-error", "stored-error")
MUTANTS = (
    Mutant(
        "schemes: seen means seen twice",
        "memory/schemes.py",
        '"seen": lambda _: lambda counts, p: (counts > 0).astype(float)',
        '"seen": lambda _: lambda counts, p: (counts > 1).astype(float)',
        tests=(NAMES,),
    ),
    Mutant(
        "schemes: half of the samples are drawn",
        "memory/schemes.py",
        "multinomial(n, self.p)",
        "multinomial(n // 2, self.p)",
        claims=("scaling-samples@quick",),
        tests=(NAMES, THEORY),
    ),
    Mutant(
        "schemes: twice the samples in what is not seen",
        "theory/schemes.py",
        "(1 - p) ** n",
        "(1 - p) ** (2 * n)",
        claims=("scaling-samples@quick",),
        tests=(THEORY,),
        stored=DRAWN,
    ),
    Mutant(
        "schemes: every token is held alike",
        "measure/schemes.py",
        "weights = q[k, at][used].astype(np.float32)",
        "weights = np.ones(len(used), np.float32)",
        claims=("scaling-counts@quick",),
        tests=(MEASURE,),
    ),
    Mutant(
        "schemes: the noise of all others over d squared",
        "theory/schemes.py",
        "_needed(G, g * np.sqrt(V / d), int(c))",
        "_needed(G, g * np.sqrt(V) / d, int(c))",
        claims=("scaling-counts@quick", "scaling-threshold@quick", "scaling-seen@quick"),
        tests=(THEORY,),
        stored=DRAWN,
    ),
    Mutant(
        "schemes: the worst number of tokens",
        "theory/schemes.py",
        "return int(tried[int(np.argmin(errors))])",
        "return int(tried[int(np.argmax(errors))])",
        claims=("scaling-threshold@quick",),
        tests=(THEORY,),
    ),
    Mutant(
        "schemes: what is held counts as what is not",
        "measure/schemes.py",
        "np.bincount(q[k, at] == 0, wrong, minlength=2)",
        "np.bincount(q[k, at] != 0, wrong, minlength=2)",
        tests=(MEASURE,),
    ),
    Mutant(
        "schemes: embeddings are drawn anew for the second look",
        "measure/schemes.py",
        "        if N * d <= HELD:\n            kept.append((at, E))",
        "        inputs = (inputs[0], inputs[1] + 1)",
        tests=(MEASURE,),
    ),
    Mutant(
        "schemes: what is stored is asked for by other embeddings of the outputs",
        "measure/schemes.py",
        "@ (U @ U.transpose(0, 2, 1))",
        "@ (U @ np.roll(U, 1, axis=0).transpose(0, 2, 1))",
        claims=("scaling-seen@quick",),
        tests=(MEASURE,),
    ),
    Mutant(
        "schemes: the largest bound is the smallest",
        "theory/schemes.py",
        "np.where(h > 0, bound, -np.inf).max(axis=1)",
        "np.where(h > 0, bound, -np.inf).min(axis=1)",
        claims=("scaling-seen@quick",),
        tests=(THEORY,),
        stored=DRAWN,
    ),
    Mutant(
        "schemes, many outputs: sums of other tokens count as if d were 1",
        "theory/schemes.py",
        "(math.sqrt(d) * b * (a - a_c)",
        "(b * (a - a_c)",
        tests=(THEORY,),
    ),
    Mutant(
        "schemes, many outputs: each output is a rival of its own",
        "theory/schemes.py",
        "np.where(self.foremost == c[:, None], -np.inf, h)",
        "np.where(self.foremost == -1, -np.inf, h)",
        tests=(THEORY,),
    ),
)
