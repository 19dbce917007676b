"""Facts in attention alone, without training (theorems 3 and 10, lemmas 1 and 2).

The heads of s add phi(a) for each answer a of s, those of r for each answer of r. The answer to (s, r) is in both
sums, and wins where it is the only one.
"""

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int, PRNGKeyArray
from scipy.sparse import csr_array

from facthold._util.errors import check_positive
from facthold._util.keys import fold
from facthold.construct.heads import Keys, Tokens, beta_for, gaps, hebbian_keys, partition, partition_into
from facthold.construct.sums import check_sums
from facthold.facts.problem import FactualRecall
from facthold.facts.table import FactTable
from facthold.memory.embeddings import host_generator
from facthold.models.memory import MLPMemory
from facthold.models.transformer import Transformer

Heads = Float[np.ndarray, "H d_h d"]

RESIDUAL = 1e-3
"""Size of codes in the residual stream that an MLP reads: their own scores are nothing beside a margin of 1."""
BLOCK = 1 << 22  # subjects times relations whose shared answers are counted at once


def attention_only(
    problem: FactualRecall, H: int, d_h: int, *, key: PRNGKeyArray, per_head: int | None = None,
    beta: float | None = None,
) -> Transformer:  # fmt: skip
    """The attention-only transformer of theorem 10, with heads of rank one in keys and of rank d_h in values.

    A head serves ``per_head`` tokens; without it, as few as H heads allow. Departs: beta, "a large constant", is the
    one at which attention outside is `heads.LEAK`, where lemma 1 holds. Heads that no subset needs are zero.
    """
    check_positive(H=H, d_h=d_h)
    check_dimension(problem)
    check_sums(problem.table)
    check_intersections(problem.table)
    subsets = partition_into(problem, H) if per_head is None else partition(problem, per_head)
    if len(subsets) > H:
        raise ValueError(f"H={H} heads of {per_head} tokens each are too few: the partition needs {len(subsets)}")
    W_V = sphere_without_EOS(problem, len(subsets), d_h, key=fold(key, "values"))
    memory = [projected_memory(problem, tokens, w) for tokens, w in zip(subsets, W_V, strict=True)]
    keys = hebbian_keys(problem, subsets)
    return assemble(problem, subsets, keys, W_V, np.stack(memory), H=H, beta=beta)


def projected_memory(
    problem: FactualRecall, tokens: Tokens, w: Float[np.ndarray, "d_h d"]
) -> Float[np.ndarray, "d_h d"]:
    """W_O of a head with W_V = w: together d/d_h sum_z sum_{a in A_z} phi(a) phi(z)^T sum_i w_i w_i^T (lemma 2)."""
    phi = problem.phi.astype(np.float64)
    return problem.d / len(w) * (w @ phi[tokens].T) @ answer_sums(problem)[tokens]


def answer_sums(problem: FactualRecall) -> Float[np.ndarray, "tokens d"]:
    """sum_{a in A_z} phi(a) for each subject and relation z."""
    table = problem.table
    among = np.zeros((table.S + table.R, table.A))
    among[table.subjects, table.answers] = 1
    among[table.S + table.relations, table.answers] = 1
    return among @ problem.phi[problem.n_tokens :].astype(np.float64)


def sphere_without_EOS(problem: FactualRecall, n: int, d_h: int, *, key: PRNGKeyArray) -> Heads:
    """w_i uniform on the unit sphere, orthogonal to phi(EOS): a head that attends to EOS then adds nothing."""
    w = host_generator(key).standard_normal((n, d_h, problem.d))
    EOS = problem.phi[problem.EOS].astype(np.float64)
    w -= (w @ EOS)[..., None] * EOS / (EOS @ EOS)
    return w / np.linalg.norm(w, axis=-1, keepdims=True)


def assemble(
    problem: FactualRecall, subsets: Sequence[Tokens], keys: Keys, W_V: Heads, W_O: Heads, *, H: int,
    beta: float | None = None, repeat: int = 1, mlp: MLPMemory | None = None,
) -> Transformer:  # fmt: skip
    """A transformer of H heads; ``repeat`` heads in a row share the keys of one subset.

    W_K^T W_Q = beta v phi(EOS)^T has rank one: the first row of each holds it.
    """
    sharp = beta_for(gaps(problem, keys, subsets), problem.T) if beta is None else np.full(len(keys), beta)
    EOS = problem.phi[problem.EOS].astype(np.float64)
    n, d_h, d = W_V.shape
    W_K, W_Q = np.zeros((2, H, d_h, d))
    W_K[:n, 0] = np.repeat(sharp[:, None] * keys, repeat, axis=0)
    W_Q[:n, 0] = EOS / (EOS @ EOS)  # so that the score is beta <v, phi(z)> for embeddings of any norm
    spare = [(0, H - n), (0, 0), (0, 0)]
    k, q, v, o = (jnp.asarray(W, jnp.float32) for W in (W_K, W_Q, np.pad(W_V, spare), np.pad(W_O, spare)))
    return Transformer(k, q, v, o, mlp)


def check_dimension(problem: FactualRecall) -> None:
    """Refuse a d in which phi(EOS) and two more directions do not fit."""
    if problem.d < 3:
        raise ValueError(f"d={problem.d} has no room for phi(EOS), a subject and a relation; take d >= 3")


def check_intersections(table: FactTable) -> None:
    """Refuse facts whose right answers are not the only ones that their subject and their relation share."""
    if (unclear := np.flatnonzero(_shared_wrong(table) > 0)).size:
        raise ValueError(
            f"{len(unclear)} facts have more than one answer that both their subject and their relation have, "
            f"so that adding the two cannot tell them apart; the first is {table.question(unclear[0])}. "
            f"Take a construction with an MLP"
        )


def _shared_wrong(table: FactTable) -> Int[np.ndarray, " facts"]:
    """How many answers the subject and the relation of each fact share that are not right for it.

    From the sparse sets A_s and A_r, in blocks of subjects: S x A and S x R are never held.
    """
    of_s, of_r = _answer_sets(table.subjects, table.S, table), _answer_sets(table.relations, table.R, table)
    right = np.ones(len(table), np.int64)  # a*(s, r) is in both sets, a further answer may be
    row, also = table.also[:, 0], table.also[:, 1]
    np.add.at(right, row, of_s[table.subjects[row], also] * of_r[table.relations[row], also])
    shared = np.zeros(len(table), np.int64)
    size = max(1, BLOCK // table.R)
    for start in range(0, table.S, size):
        here = np.flatnonzero(table.subjects // size == start // size)
        common = (of_s[start : start + size] @ of_r.T).toarray()
        shared[here] = common[table.subjects[here] - start, table.relations[here]]
    return shared - right


def _answer_sets(tokens: Int[np.ndarray, " facts"], n: int, table: FactTable) -> csr_array:
    """The answers of each subject, or of each relation, as rows of zeros and ones."""
    sets = csr_array((np.ones(len(tokens), np.int32), (tokens, table.answers)), shape=(n, table.A))
    sets.data[:] = 1  # one for an answer that is given twice, too
    return sets
