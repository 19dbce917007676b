"""Faults in real embeddings as keys and values of a memory. Their claims need the fetched language model."""

from mutants.harness import Mutant, RowsMutant

OF = "studies/lm/test_embeddings.py::test_"
KEYS = "lm/test_keys.py::test_"

MUTANTS = (
    Mutant(
        "real embeddings: participation is of roots",
        "lm/keys.py",
        "    return float(np.trace(C) ** 2 / (C**2).sum())",
        "    return float(np.trace(C) ** 2 / (C**2).sum()) ** 0.5",
        claims=("lm-effective-dimension@quick",),
        tests=(f"{KEYS}participation_counts_directions",),
    ),
    Mutant(
        "real embeddings: their mean is not taken away",
        "lm/keys.py",
        "    return directions(X - X.mean(0))",
        "    return directions(X)",
        claims=("lm-effective-dimension@quick", "lm-whitening@quick"),
        tests=(f"{OF}a_cell_finds_more_whitened_than_as_they_are",),
    ),
    Mutant(
        "real embeddings: whitening does nothing",
        "lm/keys.py",
        "    return np.linalg.inv(C + RIDGE * np.trace(C) / len(C) * np.eye(len(C)))",
        "    return np.eye(len(C))",
        claims=("lm-whitening@quick",),
        tests=(f"{KEYS}whitening_makes_the_least_squares_of_the_scores",),
    ),
    Mutant(
        "real embeddings: streams at the first token",
        "lm/keys.py",
        'keep=[("stream", layer)], at=batch.last,',
        'keep=[("stream", layer)], at=0 * batch.last,',
        claims=("lm-any-matrix@quick", "lm-trained@quick"),
        tests=(f"{KEYS}streams_are_those_of_the_whole_model_at_the_last_token",),
    ),
    Mutant(
        "real embeddings: any matrix of what is not separated",
        "studies/lm/embeddings.py",
        "            return float(separate(problem(few[0], few[1], N)).status == SEPARATED)",
        "            return float(separate(problem(few[0], few[1], N)).status != SEPARATED)",
        claims=("lm-any-matrix@quick",),
        tests=(f"{OF}a_cell_finds_more_whitened_than_as_they_are",),
    ),
    Mutant(
        "real embeddings: one layer that fails is outvoted",
        "studies/lm/embeddings_claims.py",
        '    return Judgement(predicted, "; ".join(words), error, worst(*verdicts), next=undecided)',
        '    return Judgement(predicted, "; ".join(words), error, verdicts[0], next=undecided)',
        tests=(f"{OF}claims_hold_and_fail",),
    ),
    Mutant(
        "real embeddings: training ends at its first look",
        "studies/lm/embeddings.py",
        'training_member(memory_recipe("train:linear-code"), problem, 0, seed)], training())[0].best',
        'training_member(memory_recipe("train:linear-code"), problem, 0, seed)], '
        "replace(training(), steps=32, futility=None))[0].best",
        tests=(f"{OF}training_recalls_most_of_what_any_matrix_does",),
    ),
    RowsMutant("real embeddings: training loses a fifth to them", "lm-trained@quick", "trained_short"),
)
