"""Storing many associations: batches instead of all inputs, drawn rivals instead of all outputs."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from facthold._util.padding import next_power_of_two, pad_rows, padded
from facthold.facts.table import NO_MORE
from facthold.memory.associations import Problem
from facthold.models.memory import Memory
from facthold.train.tasks import BATCH, Task, longer, mean_cross_entropy

RIVALS = 1 << 10  # outputs that a batch is compared with at most, of those that some input has
OTHERS = 1 << 9  # outputs of all, as rivals beside them
ALL = 1 << 11  # up to so many outputs all are rivals: drawing them would cost more in steps than it saves in time
FEWEST = 1 << 8  # own outputs are padded to so many at least: small problems then share a compiled loop
LOOKED = 1 << 12  # up to so many inputs a look asks them all
SAMPLE = 1 << 8  # inputs that it asks of more: 4,096 against all outputs would cost as much as the steps between looks
BLOCK = 1 << 8  # inputs whose scores against all outputs are held at once


class StoreSampled(Task):
    """Cross entropy of a batch against drawn rivals, for problems whose N x M scores are too many for each step.

    Rivals are the outputs of the problem's own inputs (all of them, while they are few) and some of the others. A look
    counts an input only where its output wins over *all* others by ``margin``.
    """

    problem: Problem
    n_inputs: Int[Array, ""]
    n_outputs: Int[Array, ""]
    own: Int[Array, " own"]  # the outputs that some input has, padded
    n_own: Int[Array, ""]
    also: Int[Array, "N k"]  # further outputs that are right too: no rivals. Padded by the right one.
    margin: Float[Array, ""]

    @classmethod
    def of(cls, problem: Problem, *, margin: float = 0.0, also: Int[np.ndarray, "extra 2"] = NO_MORE) -> "StoreSampled":
        """The task for ``problem``, padded. ``also``: pairs (input, a further output that is right too)."""
        n, f = padded(problem.N), np.asarray(problem.f)
        own = np.unique(f).astype(np.int32)
        n_inputs, n_outputs, n_own = np.array([problem.N, problem.M, len(own)], np.int32)
        own = pad_rows(own, max(FEWEST, next_power_of_two(len(own))))
        arrays = (n_inputs, n_outputs, own, n_own, pad_rows(_beside(f, also), n), np.float32(margin))
        return cls(longer(problem, n, padded(problem.M)), *map(jnp.asarray, arrays))

    def loss(self, model: Memory, *, key: PRNGKeyArray) -> Float[Array, ""]:
        k_inputs, k_own, k_other = jax.random.split(key, 3)
        rows = len(self.problem.f)
        if rows <= BATCH:
            inputs, counted = jnp.arange(rows), jnp.arange(rows) < self.n_inputs
        else:
            inputs, counted = jax.random.randint(k_inputs, (BATCH,), 0, self.n_inputs), jnp.ones(BATCH, bool)
        F, f = model(self.problem.E[inputs]), self.problem.f[inputs]
        if len(self.problem.U) <= ALL and self.also.shape[1] == 1:  # nothing is drawn and nothing left out
            offered = jnp.arange(len(self.problem.U)) < self.n_outputs
            return mean_cross_entropy(F, self.problem.U, self.problem.U[f], counted, offered)
        rivals, offered = self._rivals(k_own, k_other)
        is_right = (self.also[inputs][:, :, None] == rivals).any(axis=1)
        scores = jnp.where(offered & ~is_right, F @ self.problem.U[rivals].T, -jnp.inf)
        target = (F * self.problem.U[f]).sum(axis=1)
        losses = jax.nn.softplus(jax.nn.logsumexp(scores, axis=1) - target)
        return jnp.where(counted, losses, 0.0).sum() / counted.sum()

    def _rivals(self, k_own: PRNGKeyArray, k_other: PRNGKeyArray) -> tuple[Int[Array, " k"], Bool[Array, " k"]]:
        """The outputs of this step, and which of them are there: all, while they are few."""
        M = len(self.problem.U)
        if M <= ALL:
            return jnp.arange(M), jnp.arange(M) < self.n_outputs
        if len(self.own) <= RIVALS:
            own, offered = self.own, jnp.arange(len(self.own)) < self.n_own
        else:
            own = self.own[jax.random.randint(k_own, (RIVALS,), 0, self.n_own)]
            offered = jnp.ones(RIVALS, bool)
        other = jax.random.randint(k_other, (OTHERS,), 0, self.n_outputs)
        return jnp.concatenate([own, other]), jnp.concatenate([offered, jnp.ones(OTHERS, bool)])

    def accuracy(self, model: Memory, *, key: PRNGKeyArray) -> Float[Array, ""]:
        rows = len(self.problem.f)
        asked = jnp.arange(rows) if rows <= LOOKED else jax.random.randint(key, (SAMPLE,), 0, self.n_inputs)
        counted = asked < self.n_inputs
        blocks = jnp.pad(asked, (0, -len(asked) % BLOCK)).reshape(-1, BLOCK)
        won = lax.map(lambda inputs: self.won(model, inputs), blocks).ravel()[: len(asked)]
        return (won & counted).sum() / counted.sum()

    def won(self, model: Memory, inputs: Int[Array, " n"]) -> Bool[Array, " n"]:
        """Which inputs have their output above all rivals by the margin."""
        scores = model.logits(self.problem.E[inputs], self.problem.U)
        offered = jnp.arange(len(self.problem.U)) < self.n_outputs
        target = jnp.take_along_axis(scores, self.problem.f[inputs][:, None], axis=1)
        rivals = jnp.where(offered, scores, -jnp.inf)
        rivals = rivals.at[jnp.arange(len(inputs))[:, None], self.also[inputs]].set(-jnp.inf)
        return (target[:, 0] - rivals.max(axis=1)) > self.margin


def _beside(f: Int[np.ndarray, " N"], also: Int[np.ndarray, "extra 2"]) -> Int[np.ndarray, "N k"]:
    """Each input's right outputs in a row, the first repeated where there are fewer."""
    x, y = also[np.argsort(also[:, 0], kind="stable")].T
    place = np.arange(len(x)) - np.searchsorted(x, x)
    table = np.repeat(f[:, None], 2 + place.max(initial=-1), axis=1).astype(np.int32)
    table[x, 1 + place] = y
    return table
