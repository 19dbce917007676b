"""How many dimensions keys need to select tokens, and how many weights facts need. `plan` reads it too: no JAX here."""

import math
from collections.abc import Callable
from functools import cache

from scipy.special import ndtr

from facthold.theory.bounds import MLP_CONSTANT

ROOM = 0.75  # share of the dimensions that conditions on the key of a gate may take at most; what is left is random
NOISE = 32  # noise tokens of models for people's own facts: words that are no names are told apart as so many
SLACK = 1.8  # first guess of a gated model's width over figure 1's guide line: training there is ten times as long
WIDTHS = 4.0  # so many times sqrt(delta) above delta: all of some hundred heads then separate


def fewest_dimensions(few: int, n_noise: int) -> int:
    """The smallest d that leaves the key of a gate enough freedom beside its conditions."""
    return math.ceil((few + n_noise + 1) / ROOM)


@cache
def separating_dimensions(tokens: int, k: int) -> float:
    """d from which on a linear score tells k of n random points from the others, with room for bad luck.

    The share of both sides that a random direction leaves on the wrong one, at the best threshold b, is the smallest
    of f E(z + b)_+^2 + (1 - f) E(z - b)_+^2 for f = k / n (Gardner's count for labels of which a share f is positive);
    n times that is delta, the dimensions that the conditions take. The step at delta is about sqrt(delta) wide.
    """
    from scipy.optimize import minimize_scalar

    f = k / tokens
    best = minimize_scalar(lambda b: f * _excess(-b) + (1 - f) * _excess(b), bounds=(0.0, 40.0), method="bounded")
    delta = tokens * float(best.fun)
    return 1 + delta + WIDTHS * math.sqrt(delta)


def _excess(b: float) -> float:
    """E (z - b)_+^2 for a standard normal z."""
    density = math.exp(-b * b / 2) / math.sqrt(2 * math.pi)
    return (1 + b * b) * float(ndtr(-b)) - b * density


def smallest(enough: Callable[[int], bool], ceiling: int) -> int:
    """The smallest whole number that is enough, if that is monotone and the ceiling is."""
    low, high = 0, ceiling  # `bisect` takes no numbers as large as `plan` may be asked for
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def tokens_per_head(S: int, R: int, H: int) -> int:
    """The fewest tokens per head that H heads allow, with a head for subjects or for relations."""
    return smallest(lambda M: -(-S // M) - (-R // M) <= H, max(S, R))


def gated_dimensions(few: int, many: int, K: float, n_noise: int, d: int | None = None) -> tuple[int, int]:
    """d, and the number of gates, for K weights that see something.

    A neuron has one for each gate and d for its output. With n gates this makes 4 n d + 2 d K / (n + d) parameters,
    least at n + d = sqrt(K / 2). d itself should be small, but an answer must be told from all others in it, and noise
    from EOS.
    """
    codes = math.ceil(3 * math.log(many) + 8)
    if d is None:
        d = max(fewest_dimensions(few, n_noise), few + codes, 4 * math.ceil(0.35 * K ** (1 / 3)))
    return d, max(1, min(max(codes, round(math.sqrt(K / 2)) - d), d - few))


def weights_for(facts: float, answers: float) -> float:
    """Weights that see something, about, for so many facts with so many different answers: figure 1's 2 c N ln A."""
    return SLACK * 2 * MLP_CONSTANT * facts * math.log(max(2.0, answers))
