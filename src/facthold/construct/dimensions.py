"""How many dimensions keys need to select tokens, and how many weights facts need. `plan` reads it too: no JAX here."""

import math
from collections.abc import Callable
from functools import cache

from scipy.special import ndtr

from facthold.theory.bounds import MLP_CONSTANT

GAP = 0.1  # between EOS and the tokens below it in a gate, in standard deviations of a random key's score
CHOSEN = 8  # tokens that a gate is made to see: those that other gates see least
CONDITION, CHOICE = 1.7, 0.8  # dimensions for each that Gardner's count takes: below EOS, and chosen where it is easy
WORTH = 5  # tokens that are seen by chance, for each that is chosen: of those some are seen by many gates
SLACK = 1.8  # first guess of a gated model's width over figure 1's guide line: training there is ten times as long
WIDTHS = 4.0  # so many times sqrt(delta) above delta: all of some hundred heads then separate


def gate_threshold(below: int, chosen: int, d: int) -> float:
    """The lowest score of EOS, in standard deviations of a random key's, that a gate reaches where ``below`` tokens are
    to stay under it and the chosen ones above; infinite where there is none.

    Gardner's count again: a key exists while the sum of the squares by which a random one misses its conditions is
    less than d. The chosen tokens are those that a random key nearly sees, hence `CHOICE`.
    """

    def taken(b: float) -> float:
        return CONDITION * below * _excess(b - GAP) + CHOICE * chosen * _excess(-b - GAP)

    low, high, step = 0.0, math.inf, 0.25
    while taken(low) > d and taken(low + step) < taken(low):  # first less for those below, then more for the chosen
        low += step
    if taken(low) > d:
        return high
    low, high = max(0.0, low - step), low
    for _ in range(20):
        middle = (low + high) / 2
        low, high = (middle, high) if taken(middle) > d else (low, middle)
    return high


@cache
def gate_sight(many: int, below: int, d: int) -> tuple[float, int, float]:
    """Tokens, of ``many``, that a gate can see; how many of them it is made for; and its threshold.

    The others are above EOS by chance. One that is chosen is worth `WORTH` of those: it is one that no other gate sees.
    """
    best = (0.0, 0, math.inf)
    for chosen in range(1, min(CHOSEN, many) + 1):
        b = gate_threshold(below, chosen, d)
        if b < math.inf:
            seen = chosen + (many - chosen) * float(ndtr(-b))
            best = max(best, (seen, chosen, b), key=lambda one: one[0] + WORTH * one[1])
    return best


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


def seen_by(many: int) -> float:
    """Gates that must see a token on average, so that of all of them hardly one is seen by a single gate: codes of such
    tokens lie on one line, where no number of neurons tells many of them apart."""
    return 4 + math.log(many) / 2


def gated_dimensions(few: int, many: int, K: float, n_noise: int, d: int | None = None) -> tuple[int, int]:
    """d, and the number of gates, for K weights that see something.

    A neuron has one for each gate and d for its output. With n gates this makes 4 n d + 2 d K / (n + d) parameters,
    least at n + d = sqrt(K / 2). d itself should be small, but an answer must be told from all others in it, and the
    gates that fit into it must see every token, and no noise.
    """
    codes = math.ceil(3 * math.log(many) + 8)

    def fewest_gates(d: int) -> float:
        seen, *_ = gate_sight(many, n_noise + few, d)
        return max(codes, math.ceil(seen_by(many) * many / seen)) if seen else math.inf

    if d is None:
        least = max(few + codes, 4 * math.ceil(0.35 * K ** (1 / 3)))
        most = few + codes + 2 * (n_noise + few) + math.ceil(seen_by(many) * many)
        d = smallest(lambda d: d >= least and few + fewest_gates(d) <= d, max(least, most))
    return d, int(max(1, min(max(fewest_gates(d), round(math.sqrt(K / 2)) - d), d - few)))


def weights_for(facts: float, answers: float) -> float:
    """Weights that see something, about, for so many facts with so many different answers: figure 1's 2 c N ln A."""
    return SLACK * 2 * MLP_CONSTANT * facts * math.log(max(2.0, answers))
