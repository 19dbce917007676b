"""Section 3: inputs, outputs, embeddings, and the map between them."""
