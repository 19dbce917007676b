"""Models: what construction and training both return."""
