"""One rank-one change of the last linear map, F = base + h M, that lets one fact have another answer.

M gains k delta^T. A prompt with features h then moves by (h . k) delta, and a fact's margin over b changes by
-(h . k) (u_b - u_a) . delta. With the features of all facts known, k and delta are chosen so that the edited fact wins
and the others keep their margins:

    the sum over facts j and rivals b of w_j max(0, tau_j - margin_jb)^2,  and a ridge |delta|^2 sum_j (h_j . k)^2,

where tau_j is the margin that j has (at most ``cap``, at least FLOOR of it, so that what earlier edits took is given
back), and for the edited fact mu. It starts from k = C^-1 h / (h^T C^-1 h), C = sum_j h_j h_j^T over the others: the
least change on average. That alone is not enough. In a tightly packed model the other answers' scores are many margins
away, so that a change small on average still ends some facts, and a hundred edits end most. Given delta the sum is
quadratic in k on the pairs that fall short, and given k in delta: each is a weighted least squares in closed form, and
a few of them in turn are the whole solve.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int, UInt8

from facthold.construct.solve import ridged
from facthold.models.forward import Embeddings, Forward, Tokens, Vectors, blocks
from facthold.models.judge import contest

ROUNDS = 8  # solves for k and for delta. Later ones change little.
RIVALS = 16  # rivals of each fact that are watched, those next to it, and the new answer
FLOOR = 0.6  # the share of ``cap`` that every fact is brought back to where it has less
URGENT = 5.0  # w of the edited fact, over all of its prompts; that of every other is 1
RIDGE = 1e-4  # of sum_j (h_j . k)^2 beside the pairs: it decides where no pair falls short.
STABLE = 1e-8  # of the mean diagonal, on every matrix that is inverted: neurons that no fact uses make it singular
FEATURES = 1 << 26  # features that are held at once, half a GiB. All else of a change is smaller, or comes in blocks.
STEPS = (1.0, 0.5, 0.25, 0.1)  # of a least-squares step, that are tried: which pairs fall short may change
SHORT = 1e-6  # the share by which the start falls short: were it exact, rounding alone would say which pairs count

Vector = Float[np.ndarray, " _"]
Edited = Int[np.ndarray, " draws"]
Pairs = Int[np.ndarray, " pairs"]
Rows = Int[np.ndarray, " _"]


@dataclass(frozen=True, eq=False)
class Readout:
    """The last linear map of a model, or some rows of it, and what goes into it at n prompts: F = base + features M."""

    M: Float[np.ndarray, "q d"]
    features: Float[np.ndarray, "n q"]
    base: Vectors

    @property
    def F(self) -> Vectors:
        return self.base + self.features @ self.M


@dataclass(frozen=True, eq=False)
class Seen:
    """A model at n prompts, as far as an edit has to know it: the features of all of them are not held."""

    U: Embeddings
    M: Float[np.ndarray, "q d"]
    x: Vectors  # what the MLP reads; without one, F
    F: Vectors
    edited: Edited  # the prompts of the edited fact
    silent: Bool[np.ndarray, " q"]  # features that are zero at all prompts
    prompts: Int[np.ndarray, " some"]
    columns: Int[np.ndarray, " used"]  # the prompts and features that hang together with the edited ones
    part: Readout  # these alone: all that the change can see


def readout(forward: Forward, tokens: Tokens, columns: Int[np.ndarray, " used"] | None = None) -> Readout:
    """V on the MLP's features, beside the residual stream; without an MLP, W_O on the heads' outputs.

    With ``columns``, these rows of M alone; what the others add is in the base.
    """
    _, M = forward.last_map
    columns = np.arange(len(M)) if columns is None else columns
    features, base = np.empty((len(tokens), len(columns))), np.empty((len(tokens), M.shape[1]))
    for at, states in forward.blocks(tokens):
        features[at] = states.features[:, columns]
        base[at] = states.F - features[at] @ M[columns]
    return Readout(M[columns], features, base)


def see(forward: Forward, tokens: Tokens, edited: Edited, most: int = FEATURES) -> Seen:
    """The model at these prompts, with the features that hang together with those of the prompts ``edited``.

    No more than ``most`` of them are held, once, beside n (2 d + q / 8) numbers and bytes. Where they would be more, k
    is left zero but at the features that are largest at the edited prompts: every prompt is still watched.
    """
    _, M = forward.last_map
    x, F = (np.empty((len(tokens), M.shape[1])) for _ in range(2))
    there = np.empty((len(tokens), -(-len(M) // 8)), np.uint8)  # a bit a feature
    for at, states in forward.blocks(tokens):
        x[at], F[at], there[at] = states.x, states.F, np.packbits(states.features != 0, axis=1)
    prompts, columns = connected(there, edited)
    if len(prompts) * len(columns) > most:
        size = np.abs(readout(forward, tokens[edited], columns).features).mean(axis=0)
        columns = np.sort(columns[np.argsort(-size, kind="stable")[: max(1, most // len(prompts))]])
    on = np.unpackbits(np.bitwise_or.reduce(there, axis=0), count=len(M)).astype(bool)
    return Seen(forward.U, M, x, F, edited, ~on, prompts, columns, readout(forward, tokens[prompts], columns))


@dataclass(frozen=True, eq=False)
class Change:
    """k delta^T."""

    k: Vector
    delta: Vector

    def size(self, M: Float[np.ndarray, "q d"]) -> float:
        """|k delta^T| over |M|, in Frobenius' norm."""
        return float(np.linalg.norm(self.k) * np.linalg.norm(self.delta)) / max(float(np.linalg.norm(M)), 1e-300)


def rank_one(
    seen: Seen, answer: int, asked: Pairs, answers: Pairs, *, draws: int = 1, goal: tuple[float, float] | None = None
) -> Change:
    """The change that lets ``answer`` win at the edited prompts. All right (prompt, answer) are given too.

    ``draws`` is how often each other fact is there; ``goal`` is (mu, cap), by default as `quantiles` has them. Where
    relations have neurons of their own, only those of the edited fact change, so that no other relation does.
    """
    k = np.zeros(len(seen.M))
    if not len(seen.columns):  # nothing is on at these prompts: no change of M can be seen there
        return Change(k, np.zeros(seen.M.shape[1]))
    inside = np.isin(asked, seen.prompts)
    asked, edited = (np.searchsorted(seen.prompts, rows) for rows in (asked[inside], seen.edited))
    change = _solved(_Problem.of(seen.part, seen.U, edited, answer, asked, answers[inside], draws, goal))
    k[seen.columns] = change.k
    return Change(k, change.delta)


def connected(there: UInt8[np.ndarray, "n bytes"], edited: Edited) -> tuple[Rows, Rows]:
    """The prompts and features that hang together with the edited ones: no prompt inside uses a feature outside.

    ``there`` has a bit for each feature that is not zero.
    """
    used = np.bitwise_or.reduce(there[edited], axis=0)
    while True:
        prompts = (there & used).any(axis=1)
        prompts[edited] = True
        more = np.bitwise_or.reduce(there[prompts], axis=0)
        if (more == used).all():
            return np.flatnonzero(prompts), np.flatnonzero(np.unpackbits(used))
        used = more


def _solved(problem: "_Problem") -> Change:
    """k and delta in turn, each by least squares."""
    change = problem.start()
    loss = problem.loss(change)
    for _ in range(ROUNDS):
        before = loss
        for solve in (problem.best_k, problem.best_delta):
            best = solve(change)
            for step in STEPS:
                tried = Change(change.k + step * (best.k - change.k), change.delta + step * (best.delta - change.delta))
                if (reached := problem.loss(tried)) < loss:
                    change, loss = tried, reached
                    break
        if loss > (1 - 1e-6) * before:
            break
    return problem.enough(change)


@dataclass(frozen=True, eq=False)
class _Problem:
    """Pairs (prompt, rival) and the margins that they should keep."""

    h: Float[np.ndarray, "n q"]
    prompt: Int[np.ndarray, " rows"]  # of each pair: all n, then the edited ones again with all rivals
    U: Embeddings
    G: Float[np.ndarray, "q q"]  # sum_j h_j h_j^T over the other facts, with `STABLE`
    right: Int[np.ndarray, " rows"]
    rivals: Int[np.ndarray, "rows k"]
    lacking: Float[np.ndarray, "rows k"]  # tau_j - margin_jb before the change; -inf at pairs that do not count
    w: Vector
    edited: Edited
    answer: int
    mu: float

    @classmethod
    def of(
        cls, at: Readout, U: Embeddings, edited: Edited, answer: int, asked: Pairs, answers: Pairs, draws: int,
        goal: tuple[float, float] | None,
    ) -> "_Problem":  # fmt: skip
        U = U.astype(np.float64)
        n, F = len(at.features), at.F
        c = contest(U, F, asked, answers, RIVALS)
        rivals = np.concatenate([c.rivals, np.full((n, 1), answer)], axis=1)
        margins = c.own[:, None] - np.concatenate([c.against, (F @ U[answer])[:, None]], axis=1)
        margins[asked[answers == answer], -1] = np.inf  # where the new answer is right too, it is no rival
        others = ~np.isin(np.arange(n), edited)
        mu, cap = quantiles(margins[others].min(axis=1)) if goal is None else goal
        lacking = np.clip(margins.min(axis=1, keepdims=True), FLOOR * cap, cap) - margins
        lacking[edited] = -np.inf  # the edited prompts come again below
        more, against, margins = _every_rival(F, U, edited, answer, rivals.shape[1])
        return cls(
            h=at.features,
            prompt=np.append(np.arange(n), more),
            U=U,
            G=ridged(_gram(at.features, others.astype(np.float64)), STABLE),
            right=np.concatenate([c.right, np.full(len(more), answer)]),
            rivals=np.concatenate([rivals, against]),
            lacking=np.concatenate([lacking, mu - margins]),
            w=np.concatenate([np.ones(n), np.full(len(more), URGENT * draws / len(edited))]),
            edited=edited,
            answer=answer,
            mu=mu,
        )

    def start(self) -> Change:
        """k = C^-1 h / (h^T C^-1 h), and delta next to the smallest multiple of u_answer with which it wins."""
        h = self.h[self.edited].mean(axis=0)
        c = np.linalg.solve(self.G, h)
        k = c / max(h @ c, 1e-300)
        n, along = len(self.h), self.U @ self.U[self.answer]
        gain = (along[self.answer] - along[self.rivals[n:]]) * self.moves(k)[n:, None]
        reach = self.lacking[n:] / np.maximum(gain, 0.01 * along[self.answer])
        return Change(k, (1 - SHORT) * reach.max(initial=0.0) * self.U[self.answer])

    def moves(self, k: Vector) -> Float[np.ndarray, " rows"]:
        """h . k: how much of delta each row's prompt gets."""
        return (self.h @ k)[self.prompt]

    def loss(self, change: Change) -> float:
        short, _ = self._short(self.moves(change.k), change)
        leak = (change.delta @ change.delta) * (change.k @ self.G @ change.k)
        return float((self.w[:, None] * short**2).sum() + RIDGE * leak)

    def best_k(self, change: Change) -> Change:
        """The k of least squares on the pairs that fall short, for this delta."""
        short, D = self._short(self.moves(change.k), change)
        pairs = short > 0
        weight = (self.w[:, None] * np.where(pairs, D**2, 0)).sum(axis=1)
        wanted = -(self.w[:, None] * D * np.where(pairs, self.lacking, 0)).sum(axis=1)
        weight, wanted = (np.bincount(self.prompt, values, len(self.h)) for values in (weight, wanted))
        A = _gram(self.h, weight) + RIDGE * (change.delta @ change.delta) * self.G
        return Change(np.linalg.solve(ridged(A, STABLE), self.h.T @ wanted), change.delta)

    def best_delta(self, change: Change) -> Change:
        """The delta of least squares on the pairs that fall short, for this k."""
        c, d = self.moves(change.k), self.U.shape[1]
        all_rows, all_columns = np.nonzero(self._short(c, change)[0] > 0)
        A, wanted = RIDGE * (change.k @ self.G @ change.k) * np.eye(d), np.zeros(d)
        for at in blocks(len(all_rows), d, 4):
            rows, columns = all_rows[at], all_columns[at]
            X = -c[rows, None] * (self.U[self.rivals[rows, columns]] - self.U[self.right[rows]])
            weighted = X * self.w[rows, None]
            A += weighted.T @ X
            wanted += weighted.T @ self.lacking[rows, columns]
        return Change(change.k, np.linalg.solve(ridged(A, STABLE), wanted))

    def enough(self, change: Change) -> Change:
        """The change made longer, where the edited fact would not win by half of mu: this one has to be held."""
        n, c = len(self.h), self.moves(change.k)
        gain = -c[n:, None] * self._short(c, change)[1][n:]
        need = self.lacking[n:] - self.mu / 2
        behind = need > gain
        if not behind.any() or (gain[behind] <= 0).any():
            return change
        return Change(change.k, change.delta * (need[behind] / gain[behind]).max())

    def _short(self, c: Vector, change: Change) -> tuple[Float[np.ndarray, "rows k"], Float[np.ndarray, "rows k"]]:
        """By how much each pair falls short of tau, and (u_b - u_a) . delta of each."""
        D = self.U @ change.delta
        D = D[self.rivals] - D[self.right][:, None]
        return np.maximum(self.lacking + c[:, None] * D, 0), D


def _every_rival(
    F: Vectors, U: Embeddings, edited: Edited, answer: int, k: int
) -> tuple[Int[np.ndarray, " rows"], Int[np.ndarray, "rows k"], Float[np.ndarray, "rows k"]]:
    """All outputs but the answer, k a row, for each edited prompt: which prompt, which rivals, and the margins.

    An answer that was far behind has to pass them all. Places that are left over hold the answer itself, with inf.
    """
    rivals = np.setdiff1d(np.arange(len(U)), [answer])
    rivals = np.pad(rivals, (0, -len(rivals) % k), constant_values=answer).reshape(-1, k)
    scores = F[edited] @ U.T
    margins = scores[:, [answer]] - scores
    margins[:, answer] = np.inf
    return np.repeat(edited, len(rivals)), np.tile(rivals, (len(edited), 1)), margins[:, rivals].reshape(-1, k)


def _gram(h: Float[np.ndarray, "n q"], w: Float[np.ndarray, " n"]) -> Float[np.ndarray, "q q"]:
    """sum_j w_j h_j h_j^T, in blocks: the rows with a weight are never held a second time."""
    G, there = np.zeros((h.shape[1], h.shape[1])), np.flatnonzero(w)
    for at in blocks(len(there), h.shape[1], 4):
        rows = h[there[at]]
        G += (rows * w[there[at], None]).T @ rows
    return G


def quantiles(margins: Vector) -> tuple[float, float]:
    """(mu, cap) from the margins that the other facts have: near their smallest, and their median.

    The new answer needs no more than what the model is content with for others. A larger mu, such as a share of the
    median, means a larger change, and a tight model loses many more facts over a hundred edits.
    """
    own = margins[np.isfinite(margins) & (margins > 0)]
    if not len(own):
        return 1.0, 1.0
    return float(np.quantile(own, 0.05)), float(np.median(own))
