"""Cells, their store and places, figures and claims; knows no study. What studies declare is named here."""

from facthold.lab import style
from facthold.lab.accounts import FLOAT_BITS, Account, of_accuracy, of_goal
from facthold.lab.cells import Cell, Result, TableCell
from facthold.lab.claim import Claim, Judgement, Verdict, at_least, at_most, near, worst
from facthold.lab.figure import Figure, Values
from facthold.lab.registry import cells_of
from facthold.lab.summary import Finding

__all__ = [
    "FLOAT_BITS", "Account", "Cell", "Claim", "Figure", "Finding", "Judgement", "Result", "TableCell", "Values",
    "Verdict", "at_least", "at_most", "cells_of", "near", "of_accuracy", "of_goal", "style", "worst",
]  # fmt: skip
