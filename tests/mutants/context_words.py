"""Faults that tests have to see: in what an induction head for a text is said to predict, where it looks, and how well
it does."""

from mutants.harness import Mutant

HEADS = "knowledge/test_induction.py"
MUTANTS = (
    Mutant(
        "induction: layer 1 is shown from the trigger and not from where layer 2 looks",
        "knowledge/induction.py",
        "told, look, finds[look.to])",
        "told, look, finds[t])",
        tests=(HEADS,),
    ),
    Mutant(
        "induction: a token that follows later is told already",
        "knowledge/induction.py",
        "told = tuple(followed.get(token, ()))",
        "told = tuple(followed.get(token, sequence[-1]))",
        tests=(HEADS,),
    ),
    Mutant(
        "induction: any look at the token before counts as induction",
        "knowledge/induction.py",
        "return self.finds.to == self.copies.to - 1 and self.finds.token == self.token",
        "return True",
        tests=(HEADS,),
    ),
    Mutant(
        "judging: outputs of a first occurrence count too",
        "measure/in_context.py",
        "counted, tokens = np.asarray(sequences.counted)[:, 1:]",
        "counted, tokens = np.asarray(sequences.outputs)[:, 1:]",
        tests=(HEADS,),
    ),
    Mutant(
        "judging: outputs of one sequence as if independent",
        "measure/in_context.py",
        "error = np.sqrt(((n - share * of) ** 2).sum()) / of.sum()",
        "error = np.sqrt(share * (1 - share) / of.sum())",
        tests=(HEADS,),
    ),
    Mutant(
        "probing: half of all associations and not of the final probe",
        "knowledge/probing.py",
        "(curve >= curve[-1] / 2)",
        "(curve >= 0.5)",
        tests=("knowledge/test_probing.py",),
    ),
    Mutant(
        "texts: a whole text in memory",
        "context/bigrams.py",
        "for block in blocks_of(path):",
        'for block in ["".join(blocks_of(path))]:',
        tests=("context/test_bigrams.py",),
    ),
)
