"""Associative memories (section 3): theorems 1 and 2, corollary 2, figures 1 and 6, and the ladder of recipes."""

ORDER = ("margins", "claims", "degrees", "capacity", "weighted", "pairs", "sharp", "sharp_claims")
"""The order in which claims are read."""
