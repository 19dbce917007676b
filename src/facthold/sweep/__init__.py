"""Run cells and keep their results."""
