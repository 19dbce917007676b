"""Scaling laws: what models lose that are too small for a power law (theorem 7, corollary 1)."""
