"""Embeddings: what random, spread and learned ones hold, how orthogonal these become, and what they carry over."""
