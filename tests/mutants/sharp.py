"""Faults in what any linear memory holds: the solver, its certificate, the listwise criterion, and the laws."""

from mutants.harness import Mutant

SEARCHES = ("separable", "listwise-capacity", "capacity")
"""Kinds that a fault of theory cannot reach, or only by where a search starts."""

MUTANTS = (
    Mutant(
        "separate: a coarse certificate is enough",
        "construct/separate.py",
        "        if angle <= NO_MARGIN:",
        "        if angle <= 3e-2:",
        claims=("sharp-threshold@quick",),
        tests=("construct/test_separate.py::test_decisions_are_those_of_linear_programming",),
        recipes=("separated",),
        stored=("capacity", "sphere-rivals"),
        why="what can be separated is said to be inseparable",
    ),
    Mutant(
        "separate: margins need not be positive",
        "construct/separate.py",
        "        if pairs.least > on.rounding * float(np.linalg.norm(W)):",
        "        if pairs.least > -1:",
        tests=("construct/test_separate.py::test_a_separating_matrix_recalls_all",),
        recipes=("separated",),
        why="what does not separate is said to",
    ),
    Mutant(
        "separate: no undecided solve is looked beyond",
        "studies/memories/separable.py",
        "asked[N].detail == UNDECIDED and",
        'asked[N].detail == "separated" and',
        tests=("studies/memories/test_sharp.py::test_a_search_goes_up_until_it_is_certified",),
    ),
    Mutant(
        "sharp law: rivals that are not active may be above",
        "theory/sharp.py",
        "    others = (N - 1 - k)[:, None] * log_ndtr(t)",
        "    others = (N / 2 - 1 - k)[:, None] * log_ndtr(t)",
        claims=("sharp-threshold@quick",),
        tests=("theory/test_sharp.py::test_active_rivals_are_the_mean_squared_distance",),
        stored=(*SEARCHES, "sphere-rivals"),
    ),
    Mutant(
        "listwise: half of the tail",
        "construct/listwise.py",
        "1 - own + t + above / k)",
        "1 - own + t + above / (2 * k))",
        claims=("listwise-threshold@quick",),
        tests=("construct/test_listwise.py::test_it_asks_for_less_than_separation",),
        stored=("listwise-law",),
    ),
    Mutant(
        "listwise law: the answer moves twice as far",
        "theory/listwise.py",
        "        reached = own + mu >=",
        "        reached = own + 2 * mu >=",
        claims=("listwise-threshold@quick",),
        tests=("theory/test_listwise.py::test_a_tail_of_one_is_the_largest_rival",),
        stored=("listwise-capacity",),
    ),
)
