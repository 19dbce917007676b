"""Facts in a real language model: what it knows, and where."""
