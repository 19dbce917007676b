"""How many samples one gradient step needs for a global bigram (slides: O(1) and O(N)), by counting.

The trigger q is followed by the token tau with probability alpha, and otherwise by any other one of the N tokens alike.
One step from zero on n samples, with one-hot embeddings, gives a prompt x the scores

    score of k = eta/n sum_i (1{y_i = k} - 1/N) <x_i, x>,

so that a sample counts by what its input shares with the prompt (`shared`, in units of one token).

- Feed-forward: every input is e_q, and all samples count alike. tau is the arg max if it is the most frequent label of
  n: a few samples, whatever N is.
- Attention, even at the start, over the T - 1 tokens before the trigger: those are noise. Most samples share none with
  the prompt, and of n there are about n (T - 1)^2 / N that count: n grows as N.
- Attention to all T tokens: each sample shares the trigger too, and counts.

Departs: the tokens of the prompt are taken as all different.
"""

import math
from functools import cache

import numpy as np
from jaxtyping import Float
from scipy.special import bdtr

MOST = 150  # samples that count: beyond, tau surely wins
HIGHEST = 32  # score: no other token than tau gets there
REPEATS = 12  # samples with one and the same other label: more of them never occur where tau does not surely win


def shared(reader: str, N: int, T: int) -> tuple[float, ...]:
    """How likely a sample and a prompt share 0, 1, ... of what this reader sees."""
    if reader == "feed-forward":
        return 0.0, 1.0
    n, p = T - 1, (T - 1) / (N - 1)
    tokens = tuple(math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1))
    return {"attention": tokens, "attention to all": (0.0, *tokens)}[reader]


def recall_after(n: int, alpha: float, N: int, shares: tuple[float, ...]) -> float:
    """The probability that one step on n samples makes tau the arg max, alone."""
    counts = 1 - shares[0]
    wins = _wins(alpha, N, tuple(share / counts for share in shares[1:]))
    if shares[0] == 0:
        return float(wins[n]) if n <= MOST else 1.0
    m = np.arange(min(n, MOST) + 1)
    below = np.concatenate([[0.0], bdtr(m, n, counts)])
    return float(np.diff(below) @ wins[m]) + (1 - float(below[-1]))


def samples_needed(goal: float, alpha: float, N: int, shares: tuple[float, ...]) -> float:
    """The n at which recall reaches ``goal``, between two whole numbers by the straight line in log n."""
    low, high = 1, 2
    while recall_after(high, alpha, N, shares) < goal:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if recall_after(middle, alpha, N, shares) >= goal else (middle, high)
    return between((low, recall_after(low, alpha, N, shares)), (high, recall_after(high, alpha, N, shares)), goal)


def between(low: tuple[int, float], high: tuple[int, float], goal: float) -> float:
    """Where the line in log n from one point (n, share) to another reaches ``goal``."""
    (n, share), (more, larger) = low, high
    return n * (more / n) ** ((goal - share) / (larger - share))


@cache
def _wins(alpha: float, N: int, weights: tuple[float, ...]) -> Float[np.ndarray, " m"]:
    """The probability that tau is the arg max, alone, after m = 0, 1, ... samples that count 1, 2, ... by these
    probabilities."""
    g = np.zeros(HIGHEST + 1)
    g[1 : len(weights) + 1] = weights
    sums = _sums(g, MOST)
    below = _others_below(sums, N - 1)
    wins = np.zeros(MOST + 1)
    for m in range(1, MOST + 1):
        for a in range(1, m + 1):
            wins_given = sums[a] @ below[:, m - a] + (1 - sums[a].sum())  # beyond the highest score it surely wins
            wins[m] += math.comb(m, a) * alpha**a * (1 - alpha) ** (m - a) * wins_given
    return wins


def _sums(g: Float[np.ndarray, " scores"], most: int) -> Float[np.ndarray, "a scores"]:
    """How likely 0, 1, ... samples together count so much, as far as the highest score."""
    sums = [np.eye(1, len(g))[0]]
    for _ in range(most):
        sums.append(np.convolve(sums[-1], g)[: len(g)])
    return np.array(sums)


def _others_below(sums: Float[np.ndarray, "a scores"], L: int) -> Float[np.ndarray, "scores b"]:
    """How likely all of L labels stay below a score after b samples, whose labels are drawn from them alike.

    With H_i the probability that i samples stay below it: b! / L^b times the coefficient of x^b in
    (sum_i H_i x^i / i!)^L, by the recurrence for powers of a series.
    """
    stay = np.cumsum(sums, axis=1) - sums  # H_i: strictly below
    terms = [stay[i] * L**-i / math.factorial(i) for i in range(REPEATS + 1)]
    c = [terms[0]]
    for k in range(1, MOST + 1):
        parts = [(i * L - k + i) * terms[i] * c[k - i] for i in range(1, min(REPEATS, k) + 1)]
        c.append(np.sum(parts, axis=0) / k)
    return np.array([term * math.factorial(b) for b, term in enumerate(c)]).T
