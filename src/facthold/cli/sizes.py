"""Sizes of transformers and tables as they are typed: checked before anything is made, by the option's name."""

import math

from facthold._util.errors import check_memory, unknown
from facthold.facts.prompts import MOST_NOISE, check_length
from facthold.models.transformer import n_params
from facthold.train import BATCH
from facthold.train.protocols import PROTOCOLS


def at_least_one(options: dict[str, int | None]) -> None:
    """Refuse sizes of zero or below, by the option that was typed."""
    for name, value in options.items():
        if value is not None and value < 1:
            raise ValueError(f"{name} {value} must be at least 1")


def check_goal(goal: float) -> None:
    if not 0 < goal <= 1:
        raise ValueError(f"--goal {goal:g} must be above 0 and at most 1")


def check_protocol(name: str) -> None:
    """Refuse the protocols of memories: their learning rates mean nothing here."""
    known = [p for p in PROTOCOLS if p.startswith("transformer")]
    if name not in known:
        raise unknown("--protocol", name, known)


def head_size(alpha: float | None, d_h: int | None, d: int, H: int) -> int:
    """d_h, given as it is or by alpha = H d_h / d."""
    if d_h is not None:
        if alpha is not None:
            raise ValueError(f"take one of --alpha {alpha:g} and --d-h {d_h}: H d_h = alpha d")
        at_least_one({"--d-h": d_h})
        return d_h
    alpha = 1.0 if alpha is None else alpha
    if not 1 <= alpha * d / H < math.inf:
        raise ValueError(
            f"--alpha {alpha:g} with -d {d} and --heads {H} makes heads of dimension alpha d / H = {alpha * d / H:g}; "
            f"it must be at least 1: take a larger -d or --alpha, or fewer --heads"
        )
    return int(alpha * d / H)


def width(beta: float | None, m: int | None, d: int) -> int:
    """m, given as it is or by beta = m / d."""
    if m is not None:
        if beta is not None:
            raise ValueError(f"take one of --beta {beta:g} and -m {m}: m = beta d")
        if m < 0:
            raise ValueError(f"-m {m} must not be negative; 0: no MLP")
        return m
    beta = 4.0 if beta is None else beta
    if not 0 <= beta < math.inf:
        raise ValueError(f"--beta {beta:g} must be a number and not negative; 0: no MLP")
    return int(beta * d)


def check_prompts(T: int, noise: int | None) -> None:
    try:
        check_length(T)
    except ValueError as error:
        raise ValueError(f"-T {T}: {error}") from error
    if noise is not None and not 1 <= noise <= MOST_NOISE:
        raise ValueError(f"--noise {noise} must be at least 1 and at most {MOST_NOISE}")


def check_size(S: int, R: int, A: int, *, d: int, H: int, d_h: int, m: int, noise: int | None, T: int) -> None:
    """Refuse a table that does not fit in memory, with the scores of a batch at each of the learning rates."""
    if noise is None and S + R > MOST_NOISE:
        raise ValueError(f"S + R = {S + R} noise tokens are more than {MOST_NOISE}; give --noise")
    tokens = S + R + (noise or S + R) + 1
    table = 64 * S * R + 12 * (tokens + A) * d
    step = 3 * 4 * BATCH * (3 * tokens + 3 * A + 4 * (H * d_h + m) + 4 * T)
    check_weights(d=d, H=H, d_h=d_h, m=m)
    check_memory(f"a table of S={S} subjects, R={R} relations and {A} answers with -d {d} and -T {T}", table + step)


def check_weights(*, d: int, H: int, d_h: int, m: int) -> None:
    """Weights, gradients and Adam's moments at each of the learning rates."""
    n = n_params(d=d, H=H, d_h=d_h, m=m)
    check_memory(f"a transformer with -d {d} and {n} parameters", 3 * 5 * 4 * n)
