"""Bits that models use, beside the fewest bits that any model needs (corollary 2, section 6)."""
