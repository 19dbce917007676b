"""The kinds of cells that figures and claims are made of."""
