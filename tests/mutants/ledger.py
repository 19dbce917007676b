"""Faults in the claims: in their cells and judges, and in the rows that they are judged on."""

from mutants.harness import AnyMutant, Mutant, RowsMutant

MUTANTS: tuple[AnyMutant, ...] = ()
