"""Training of weights that are to be rounded: every step sees the model on its grid."""

from typing import Any

import equinox as eqx
from jaxtyping import Array, Float, PRNGKeyArray

from facthold.measure.grids import Grid
from facthold.measure.quantise import straight_through
from facthold.train.tasks import Task


class OnGrid(Task):
    """Another task, asked of the model on a grid. Its gradient moves the weights behind it (straight through).

    What is trained are these weights; what was learnt is `quantise` of them with the same grid.
    """

    task: Task
    grid: Grid = eqx.field(static=True)

    def loss(self, model: Any, *, key: PRNGKeyArray) -> Float[Array, ""]:
        return self.task.loss(straight_through(model, self.grid), key=key)

    def accuracy(self, model: Any, *, key: PRNGKeyArray) -> Float[Array, ""]:
        return self.task.accuracy(straight_through(model, self.grid), key=key)

    def observe(self, model: Any, *, key: PRNGKeyArray) -> dict[str, Array]:
        return self.task.observe(straight_through(model, self.grid), key=key)
