"""Real facts and the life of a model: the size that tables need, where facts are stored, and edits."""

ORDER = ("transfer", "storage", "edits")  # the order in which figures are read
