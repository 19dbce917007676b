"""A table from a file as plans see it: its sizes, and the methods that cannot hold it."""

import math

import numpy as np

from facthold.construct.attention import check_intersections
from facthold.construct.sums import check_sums
from facthold.facts.table import FactTable
from facthold.plan.rules import Question
from facthold.studies.constructions.built_size import text_problem

SUMS = ("attention", "attention-full", "values", "values-ridge")
"""Methods without an MLP: the score of an answer is a part for s and a part for r."""
SETS = ("attention", "attention-full")
"""theorem 3: the answer is the only one that s and r share."""


def question_of(table: FactTable, accuracy: float) -> Question:
    """The sizes of a table. D is 2^(mean over the facts of log2 A_r), for A_r different answers of relation r: a
    random table with so many answers for each relation has as many bits."""
    counts = np.array([len(table.A_r(r)) for r in range(table.R)])
    D = 2 ** float(np.log2(counts[table.relations]).mean())
    S, R = len(np.unique(table.subjects)), len(np.unique(table.relations))
    return Question(S, R, max(1, math.ceil(D - 1e-9)), accuracy, len(table))


def refusals(table: FactTable) -> dict[str, str]:
    """Why methods cannot hold this table at any size, by their names."""
    refused: dict[str, str] = {}
    try:
        check_sums(table)
    except ValueError as error:
        return dict.fromkeys(SUMS, str(error))
    try:
        check_intersections(text_problem(table, 4, 0))
    except ValueError as error:
        refused |= dict.fromkeys(SETS, str(error))
    return refused
