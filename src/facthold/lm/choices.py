"""What commands and cells may ask for: which matrices of a layer are cut, how an edit is solved for, and how facts are
taught. Nothing is computed here, so that grids can be checked without JAX."""

OF_MLP, OF_ATTENTION = ("W_gate", "W_up", "W_down"), ("W_Q", "W_K", "W_V", "W_O")
MATRICES = {"mlp": OF_MLP, "attention": OF_ATTENTION} | {name: (name,) for name in (*OF_MLP, *OF_ATTENTION)}
"""What can be cut, and the matrices of a layer that this cuts. Rank 0 of an MLP's matrix, of W_V or of W_O takes the
whole MLP or attention away: what is left of it writes nothing."""
IDENTITY, TEXT, NEIGHBOURS = "identity", "text", "neighbours"
COVARIANCES = (IDENTITY, TEXT, NEIGHBOURS)  # of which keys C is: of none, of a text, of it and of other subjects
GRADIENT, CLOSED = "gradient", "closed"
VALUES = (GRADIENT, CLOSED)  # how v is found
OUTER, WHITENED, SOLVED = "outer", "whitened", "solved"
TEACHING_RECIPES = (OUTER, WHITENED, SOLVED)  # how the matrix of taught facts is made
TEACHING = SOLVED  # the one that is used
