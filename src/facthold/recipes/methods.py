"""Every way to put associations into a memory, by name: the constructions, and training by a protocol."""

from collections.abc import Callable
from dataclasses import dataclass

from jaxtyping import PRNGKeyArray

from facthold._util.errors import check_positive, unknown
from facthold.construct import linear, mlp, readout
from facthold.memory.associations import Problem
from facthold.models.memory import LinearMemory, LowRankMemory, Memory, MLPMemory
from facthold.theory import bounds
from facthold.train.protocols import PROTOCOLS, Protocol, protocol

LINEAR, LOW_RANK, MLP = "linear", "low-rank", "mlp"


@dataclass(frozen=True)
class Method:
    """A way to make a memory of one family."""

    name: str
    family: str
    """'linear' (no m), 'low-rank' or 'mlp' (both with m rows)."""
    place: str
    """Where it stands in the paper, or that it goes beyond it."""
    build: Callable[[Problem, int, PRNGKeyArray], Memory] | None
    """The construction from a problem, m and a key; None for training."""
    guess: Callable[[int, int], float]
    """Roughly how many associations it stores at (d, m): where a search starts."""
    protocol: Protocol | None = None
    solved: bool = False
    """Whether the construction solves a problem over all N x M scores: dearer in time and memory."""

    @property
    def holds_scores(self) -> bool:
        """Whether all N x M scores are in memory at once while the memory is made."""
        return self.solved or self.protocol is not None

    def n_params(self, d: int, m: int) -> int:
        """Parameters as the paper counts them."""
        if self.family == LINEAR:
            return d * d
        return 2 * m * d + (m if self.protocol and self.protocol.bias else 0)

    def check(self, d: int, m: int) -> None:
        """Refuse sizes that this method cannot have."""
        check_positive(d=d)
        if self.family == LINEAR and m:
            raise ValueError(f"method {self.name!r} makes a d x d matrix and takes no m, but m={m}")
        if self.family != LINEAR and m < 1:
            raise ValueError(f"method {self.name!r} needs a width or rank m of at least 1, and m={m}; give -m")
        if self.name.startswith("tangent") and m % 2:
            raise ValueError(f"m={m} neurons do not come in pairs; take m={m + 1}")
        if self.family == LOW_RANK and m > d:
            raise ValueError(f"m={m} is above d={d}: a d x d matrix has rank at most d; take m <= {d}")

    def initial(self, d: int, m: int, key: PRNGKeyArray) -> Memory:
        """The memory that training starts from."""
        if self.family == LINEAR:
            return LinearMemory.init(d, key=key)
        if self.family == LOW_RANK:
            return LowRankMemory.init(d, m, key=key)
        return MLPMemory.init(d, m, key=key, bias=bool(self.protocol and self.protocol.bias))


def _construction(name: str, family: str, place: str, build: Callable, share: float, *, solved: bool = False) -> Method:
    """A construction that stores about ``share`` associations a parameter of its readout (d^2 or m d)."""
    return Method(name, family, place, build, lambda d, m: share * (m or d) * d, solved=solved)


def _training(name: str, family: str, constant: float) -> Method:
    """Training by the protocol ``name``, guessed by constant N ln N = size.

    The first guess should lie a little below the capacity: a probe is cheap there, and dear right at it.
    """
    p = protocol(name)
    guess = lambda d, m: bounds.guide((m or d) * d, constant)  # noqa: E731
    return Method(f"train:{name}", family, f"trained, {p.source}", None, guess, p)


METHODS = {
    method.name: method
    for method in (
        _construction("outer-product", LINEAR, "theorem 1", lambda p, m, k: linear.outer_product(p), 0.02),
        _construction("quantised", LINEAR, "corollary 2", lambda p, m, k: linear.quantised(p).memory, 0.02),
        _construction("low-rank", LOW_RANK, "theorem 1", lambda p, m, k: linear.low_rank(p, m, key=k), 0.008),
        _construction(
            "hermite-features",
            MLP,
            "theorem 2, sketch",
            lambda p, m, k: mlp.hermite_features(p, m, key=k),
            0.01,
        ),
        _construction("tangent-kernel", MLP, "theorem 9", lambda p, m, k: mlp.tangent_kernel(p, m, key=k), 0.008),
        _construction(
            "tangent-convex",
            MLP,
            "theorem 9, Q solved",
            lambda p, m, k: mlp.convex_tangent(p, m, key=k),
            0.06,
            solved=True,
        ),
        _construction("ridge-readout", MLP, "beyond", lambda p, m, k: readout.ridge(p, m, key=k), 0.05),
        _construction("convex-readout", MLP, "beyond", lambda p, m, k: readout.convex(p, m, key=k), 0.14, solved=True),
        _construction("layerwise", MLP, "beyond", lambda p, m, k: readout.layerwise(p, m, key=k), 0.2, solved=True),
        _training("linear-code", LINEAR, 0.95 * bounds.LINEAR_CONSTANT),
        _training("mlp-code", MLP, 0.95 * bounds.MLP_CONSTANT),
        _training("mlp-text", MLP, bounds.MLP_CONSTANT),
    )
}


def method(name: str) -> Method:
    """The method with this name."""
    if name not in METHODS:
        raise unknown("method", name, METHODS)
    return METHODS[name]


assert {m.protocol.name for m in METHODS.values() if m.protocol} == {p for p in PROTOCOLS if "transformer" not in p}
