"""Cells, their store and places, figures and claims; knows no study. What studies declare is named here."""

from facthold.lab import style
from facthold.lab.cells import Cell, Result, TableCell
from facthold.lab.claim import Claim, Judgement
from facthold.lab.figure import Figure, Values
from facthold.lab.registry import cells_of

__all__ = ["Cell", "Claim", "Figure", "Judgement", "Result", "TableCell", "Values", "cells_of", "style"]
