"""Models: what construction and training both return."""

# what becomes of embeddings in the file of a model
STORED = "stored"
REDRAWN = "not stored: drawn again from their keys"
FIXED = "stored: no keys draw them again"
