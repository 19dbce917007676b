"""Beyond the paper: heads as gates, for tables with far more subjects than dimensions.

A subset of k among n tokens, as lemma 1 has it, is only separable while k log(n / k) is below d. So here a head serves
whichever subjects happen to score above EOS, and some that it was made for; only relations and noise are kept below it
(docs/knowledge.md). That d grows with the logarithm of the number of noise tokens, as in lemma 1, at a given S. What
it writes of s is sigmoid(beta <v, phi(s) - phi(EOS)>) <w, phi(s)>: with many heads, a code for s in general position.
The relations, few, have a head each. Where a table has more relations than subjects the two change places.
"""

import math
from dataclasses import dataclass, replace

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int, PRNGKeyArray

from facthold._util.keys import fold
from facthold.construct.attention import RESIDUAL, Tokens, asked_tokens, assemble, beta_for, gaps, separating_keys
from facthold.construct.dimensions import GAP, gate_sight
from facthold.facts.problem import FactualRecall, check_length
from facthold.memory.embeddings import host_generator
from facthold.models.memory import MLPMemory
from facthold.models.transformer import Transformer

STEPS = 400  # of the search for keys, at most; most end after a tenth
MOMENTUM, RATE = 0.9, 0.25  # of its steps
MISS = 0.03, 0.05  # by which a token that must be below EOS, and one that should be above, may miss it at its end
AT_ONCE = 10  # groups that gates are made in: each group is made to see what those before it see least
URGENCY = 8.0  # what makes up for a score that is lower by so many standard deviations: not to be seen by any gate
EASED = 1.5  # each so many gates that see a token make it less urgent by a factor of e


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

    The condition on the key v of a gate: <v, phi(z)> is below <v, phi(EOS)> for noise and for the few kind, whichever
    subjects are above it. So whatever noise a prompt holds, it takes `attention.LEAK` of the attention at most.
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
    phi, EOS = problem.phi.astype(np.float64), problem.EOS
    noise = np.arange(problem.table.S + problem.table.R, EOS)
    marks = [np.array([token]) for token in few]
    own = separating_keys(problem, marks)
    gap = gaps(problem, own, marks)
    if (gap <= 0).any():
        raise ValueError(
            f"d={problem.d} is too small for a head that tells one token from {problem.n_tokens - 2} others: "
            f"{(gap <= 0).sum()} of {len(few)} such heads would see a wrong one; take a larger d"
        )
    v = _gate_keys(phi, n_gates, many, np.concatenate([noise, few]), EOS, host_generator(fold(key, "keys")))
    beta = beta_for(np.full(1, GAP), problem.T)[0]
    w = host_generator(fold(key, "values")).standard_normal((n_gates, problem.d))
    reading = np.concatenate([w, phi[few] / (phi[few] ** 2).sum(axis=1, keepdims=True)])
    reading -= np.outer(reading @ phi[EOS], phi[EOS]) / (phi[EOS] @ phi[EOS])
    keys = np.concatenate([beta * v, beta_for(gap, problem.T)[:, None] * own])
    return Gates(keys, reading, few, _codes(problem, keys, reading, many, few))


def _gate_keys(
    phi: Float[np.ndarray, "V d"], n_gates: int, many: Tokens, below: Tokens, EOS: int, random: np.random.Generator
) -> Float[np.ndarray, "H d"]:
    """Keys with which all of ``below`` score at least `GAP` less than EOS, and each of ``many`` is above it somewhere.

    v = x + c phi(EOS) / |phi(EOS)|, with x orthogonal to EOS and of norm sqrt(d), so that scores are about standard
    normal. x starts at random and goes down the squares of what is missing; c is then what the conditions need.
    """
    d = phi.shape[1]
    eos = phi[EOS] / np.linalg.norm(phi[EOS])
    scale = np.sqrt((phi[many] ** 2).sum(axis=1).mean())
    at_eos, along = np.linalg.norm(phi[EOS]) / scale, phi @ eos / scale
    across = ((phi - np.outer(phi @ eos, eos)) / scale).astype(np.float32)
    if (along[below] >= at_eos).any():
        raise ValueError(
            f"d={d} is too small: a noise token or relation lies beyond EOS in its direction; take a larger d"
        )

    seen_by = np.zeros(len(many))
    _, n_chosen, b = gate_sight(len(many), len(below), d)
    too_small = f"d={d} is too small for {n_gates} gates that keep {len(below)} tokens below EOS"
    if not n_chosen:
        raise ValueError(f"{too_small}; take a larger d, or fewer noise tokens")
    over, under = across[many], across[below]
    of_many, of_below = along[many] - at_eos, along[below] - at_eos
    keys: list[np.ndarray] = []
    for gates in np.array_split(np.arange(n_gates), min(AT_ONCE, n_gates)):
        x = _on_sphere(random.standard_normal((len(gates), d)).astype(np.float32), eos)
        chosen = _least_seen(x @ over.T, seen_by, n_chosen)
        x = _descend(x, eos, under, b * of_below, over[chosen], b * of_many[chosen])
        c = ((x @ under.T + GAP) / -of_below).max(axis=1)  # the least that keeps all of them below EOS
        seen_by += (x @ over.T + np.outer(c, of_many) > 0).sum(axis=0)
        keys.append((x + np.outer(c, eos)) / scale)
    if (unseen := (seen_by == 0).sum()) > 1:  # one may have the code zero
        raise ValueError(
            f"{too_small}: {unseen} of {len(many)} others are above it in none; take a larger d, or fewer noise tokens"
        )
    return np.concatenate(keys)


def _on_sphere(x: np.ndarray, eos: np.ndarray) -> np.ndarray:
    """x without its part along EOS, at norm sqrt(d)."""
    x = x - np.outer(x @ eos, eos).astype(x.dtype)
    return x * (math.sqrt(x.shape[1]) / np.linalg.norm(x, axis=1, keepdims=True))


def _least_seen(score: Float[np.ndarray, "H n"], seen_by: Float[np.ndarray, " n"], k: int) -> Int[np.ndarray, "H k"]:
    """The tokens that each key is to see: those that hardly any other sees, and that it nearly sees."""
    seen_by = seen_by.copy()
    chosen = np.zeros((len(score), k), np.int64)
    for row, of_key in zip(chosen, score, strict=True):
        row[:] = np.argpartition(-of_key - URGENCY * np.exp(-seen_by / EASED), k - 1)[:k]
        seen_by[row] += 1
    return chosen


def _descend(
    x: np.ndarray, eos: np.ndarray, below: np.ndarray, under: np.ndarray, chosen: np.ndarray, over: np.ndarray
) -> np.ndarray:
    """The keys' directions after steps down the sum of squares by which conditions are missed. ``under`` and ``over``:
    what the part of a key along EOS adds to a token's score, less than to that of EOS."""
    d, velocity = x.shape[1], np.zeros_like(x)
    under, over = (under + GAP).astype(x.dtype), (GAP - over).astype(x.dtype)
    for _ in range(STEPS):
        excess = np.maximum(x @ below.T + under, 0)
        lack = np.maximum(over - np.einsum("hd,hkd->hk", x, chosen), 0)
        if excess.max() < MISS[0] and lack.max() < MISS[1]:
            break
        slope = excess @ below - np.einsum("hk,hkd->hd", lack, chosen)
        slope -= (slope * x).sum(axis=1, keepdims=True) * x / d
        active = (excess > 0).sum(axis=1, keepdims=True) + (lack > 0).sum(axis=1, keepdims=True)
        velocity = MOMENTUM * velocity - RATE / np.maximum(2 * active / d, 0.5) * slope
        x = _on_sphere((x + velocity).astype(x.dtype), eos)
        velocity -= (velocity * x).sum(axis=1, keepdims=True) * x / d
    return x


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
