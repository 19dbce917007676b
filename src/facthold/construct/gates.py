"""Beyond the paper: heads as gates, for tables with far more subjects than dimensions.

A subset of k among n tokens, as lemma 1 has it, is only separable while k log(n / k) is below d. So here a head serves
whichever subjects happen to score above EOS, and only relations and noise are kept below it (docs/knowledge.md). What
it writes of s is sigmoid(beta <v, phi(s) - phi(EOS)>) <w, phi(s)>: with many heads, a code for s in general position.
The relations, few, have a head each. Where a table has more relations than subjects the two change places.
"""

from dataclasses import dataclass, replace

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from facthold._util.keys import fold
from facthold.construct.attention import RESIDUAL, Tokens, asked_tokens, assemble, beta_for, gaps, separating_keys
from facthold.construct.dimensions import fewest_dimensions
from facthold.facts.problem import FactualRecall, check_length
from facthold.memory.embeddings import host_generator
from facthold.models.memory import MLPMemory
from facthold.models.transformer import Transformer

SPREAD = 4.0
"""Standard deviation of what is random in a key's score, where the gap to noise is 1. What the conditions on a key add
to the score of a subject is the same in all heads; beside this spread it is small, so that no subject is seen by none.
"""


@dataclass(frozen=True)
class Gates:
    """Attention that writes a code for each token of the many kind, and marks the one of the few kind."""

    keys: Float[np.ndarray, "H d"]  # beta v of each head: those of the many kind, then one for each token of the few
    reading: Float[np.ndarray, "H d"]  # w of each head, orthogonal to phi(EOS)
    few: Tokens  # the tokens with a head of their own
    codes: Float[np.ndarray, "tokens H"]  # what the heads write of each subject and relation, before `RESIDUAL`

    @property
    def H(self) -> int:
        return len(self.keys)

    @property
    def n_gates(self) -> int:
        """Heads of the many kind."""
        return self.H - len(self.few)


def gate_heads(problem: FactualRecall, n_gates: int, *, key: PRNGKeyArray) -> Gates:
    """``n_gates`` heads for the many kind of token, and one for each token of the few kind.

    The condition on a key v of a gate: <v, phi(z)> is -1 for noise and for the few kind and 0 for EOS; what is left of
    v is random. So whatever noise a prompt holds, it takes `attention.LEAK` of the attention at most.
    """
    check_length(problem.T)
    subjects, relations = asked_tokens(problem)
    many, few = (subjects, relations) if len(subjects) >= len(relations) else (relations, subjects)
    needed = n_gates + len(few)
    if n_gates < 1 or needed > problem.d:
        raise ValueError(
            f"{n_gates} gates and a head for each of {len(few)} tokens need d >= {max(needed, len(few) + 1)}, "
            f"and d={problem.d}"
        )
    if problem.d < (least := fewest_dimensions(len(few), problem.n_noise)):
        raise ValueError(
            f"d={problem.d} is too small to keep {problem.n_noise} noise tokens and {len(few)} others below EOS in "
            f"every head; take d >= {least}, or fewer noise tokens"
        )
    phi, EOS = problem.phi.astype(np.float64), problem.EOS
    noise = np.arange(problem.table.S + problem.table.R, EOS)
    below = phi[[*noise, *few, EOS]]
    wanted = np.append(np.full(len(below) - 1, -1.0), 0.0)
    random = host_generator(fold(key, "keys")).standard_normal((n_gates, problem.d))
    # spread <v, phi(s)> by SPREAD for embeddings of any norm and any number of conditions
    random *= SPREAD * np.sqrt(problem.d / (problem.d - len(below)) / (phi[many] ** 2).sum(axis=1).mean())
    v = random + (wanted - random @ below.T) @ np.linalg.pinv(below).T
    beta = beta_for(np.ones(1), problem.T)[0]
    w = host_generator(fold(key, "values")).standard_normal((n_gates, problem.d))
    marks = [np.array([token]) for token in few]
    own = separating_keys(problem, marks)
    gap = gaps(problem, own, marks)
    if (gap <= 0).any():
        raise ValueError(
            f"d={problem.d} is too small for a head that tells one token from {problem.n_tokens - 2} others: "
            f"{(gap <= 0).sum()} of {len(few)} such heads would see a wrong one; take a larger d"
        )
    reading = np.concatenate([w, phi[few] / (phi[few] ** 2).sum(axis=1, keepdims=True)])
    reading -= np.outer(reading @ phi[EOS], phi[EOS]) / (phi[EOS] @ phi[EOS])
    keys = np.concatenate([beta * v, beta_for(gap, problem.T)[:, None] * own])
    return Gates(keys, reading, few, _codes(problem, keys, reading, many, few))


def _codes(problem: FactualRecall, keys: np.ndarray, reading: np.ndarray, many: Tokens, few: Tokens) -> np.ndarray:
    """sigmoid(score - score of EOS) <w, phi(z)>: what a head writes of z beside tokens that are far below EOS."""
    phi = problem.phi[: problem.table.S + problem.table.R].astype(np.float64)
    score = phi @ keys.T - keys @ problem.phi[problem.EOS].astype(np.float64)
    codes = (phi @ reading.T) / (1 + np.exp(-np.clip(score, -500, 500)))
    n_gates = len(keys) - len(few)
    # The other kind's heads are far below EOS by their conditions: exactly nothing, where the sigmoid has a leak.
    codes[few, :n_gates] = 0
    codes[many, n_gates:] = 0
    return codes


def gated_transformer(problem: FactualRecall, gates: Gates, mlp: MLPMemory) -> Transformer:
    """The transformer with these heads, and an MLP that was made for their codes as they are in `Gates.codes`."""
    mlp = replace(mlp, W=jnp.asarray(np.asarray(mlp.W, np.float64) / RESIDUAL, jnp.float32))
    reading, writing = gates.reading[:, None], RESIDUAL * np.eye(gates.H, problem.d)[:, None]
    return assemble(problem, (), gates.keys, reading, writing, H=gates.H, beta=1.0, mlp=mlp)  # beta is in the keys
