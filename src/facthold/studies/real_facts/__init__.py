"""Real facts and the life of a model: the size that tables need, what the task costs, where facts are, and edits."""

ORDER = ("transfer", "task", "storage", "edits")  # the order in which figures are read
