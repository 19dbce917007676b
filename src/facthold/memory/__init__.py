"""Section 3: inputs, outputs, embeddings, and the map between them. Here are their names, without JAX."""

MAPS = ("identity", "injective", "mod", "floor", "uniform")  # the maps f* of `memory.associations`
EMBEDDINGS = ("sphere", "gaussian", "signs", "orthogonal")  # the embeddings of `memory.embeddings`
