"""A folder for each study: its cells, analysis, drawing and claims, side by side. `lab.registry` finds them."""

ORDER = ("memories", "transformers", "constructions", "learning", "real_facts", "bits", "zipf", "sizes")
"""The order in which claims are read: theorem 1 and its limits, training, constructions, dynamics, beyond."""
