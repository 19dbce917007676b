"""How an induction head is made for a text: sizes, triggers, training; what that takes, and what cannot be."""

from dataclasses import dataclass

from facthold._util.errors import FactholdError, brief, check_number, check_positive
from facthold._util.memory import Parts, bytes_of, check_memory
from facthold.context.bigrams import TRIGGERS, Bigrams
from facthold.train.protocols import Protocol

LOOKS, LEAST = 60, 5  # evaluations along training, at most; and steps between two of them, at least
AT_LOOK = 64  # sequences of an evaluation, whose logits are held at once
MOST_STEPS = 10**6
LEAST_LR, MOST_LR = 1e-12, 1e6
TRAINED, BUILT = 128, 256  # d: what is built needs more to be right nearly always
LENGTH = 256  # T
MEMORIES = ("W_KQ^1", "W_KQ^2", "W_OV^2")  # the three that the slides train
PROBES = ("W_OV^2", "W_KQ^2", "W_KQ^1")  # in the order in which the slides have them learnt


@dataclass(frozen=True)
class Settings:
    """Sizes of the task, of the model and of its training."""

    K: int | None = None  # triggers; None: 5, or as many as leave a character that is none
    T: int = LENGTH
    d: int | None = None  # None: 128, or 256 where it is built
    steps: int = 600
    batch: int = 32
    lr: float = 0.03
    seed: int = 0
    triggers: str | None = None  # these characters, and not the most frequent ones
    random: bool = False  # other triggers in each sequence
    built: bool = False  # the construction of the slides, and no training

    def __post_init__(self) -> None:
        for name in ("K", "T", "d", "steps", "batch", "lr", "seed"):
            check_number(name, getattr(self, name))
        given = {name: size for name, size in (("K", self.K), ("d", self.d)) if size is not None}
        check_positive(**given, T=self.T, steps=self.steps, batch=self.batch)
        if self.steps > MOST_STEPS:
            raise ValueError(f"steps={self.steps} must be at most {MOST_STEPS}")
        if not LEAST_LR <= self.lr <= MOST_LR:
            raise ValueError(f"lr={self.lr} must be at least {LEAST_LR:g} and at most {MOST_LR:g}")
        if self.random and self.triggers is not None:
            raise ValueError(
                f"triggers={self.triggers!r} would be the same in all sequences, and random ones are others in each; "
                "take one of the two"
            )
        if self.triggers is not None and self.K not in (None, len(self.triggers)):
            raise ValueError(f"K={self.K} is not the number of triggers={self.triggers!r}; leave out one of the two")

    @property
    def dimension(self) -> int:
        return self.d or (BUILT if self.built else TRAINED)

    @property
    def protocol(self) -> Protocol:
        """Adam, with a learning rate that falls to zero. Steps are whole rounds between two evaluations: where their
        number is odd it is rounded up."""
        every = min(self.steps, max(LEAST, -(-self.steps // LOOKS)))
        return Protocol(
            "induction", "ours", "adam", lr=self.lr, steps=-(-self.steps // every) * every, check_every=every, goal=1.0,
            rule="final", futility=None, decay=True,
        )  # fmt: skip

    def needed(self, N: int) -> Parts:
        """Bytes, by what they grow with, for a text of N characters."""
        T, d, batch = float(self.T), float(self.dimension), float(1 if self.built else self.batch)
        return {
            f"T={self.T}": bytes_of(scores=8 * T * T + AT_LOOK * T * N, embeddings=6 * T * d),
            f"d={self.dimension}": bytes_of(weights=24 * d * d, embeddings=10.0 * N * d),
            f"batch={self.batch}": bytes_of(scores=12 * batch * (T + N)),
        }

    def n_triggers(self, N: int) -> int:
        """K, for a text of N characters."""
        return min(TRIGGERS, N - 1) if self.K is None else self.K

    def check_text(self, bigrams: Bigrams) -> None:
        """Refuse a text in which there is no such task, and a model of it that does not fit in memory."""
        bigrams.check_triggers(self.n_triggers(bigrams.N), self.T, self.triggers, self.random)
        check_memory(f"an induction head for {bigrams.N} characters", self.needed(bigrams.N))

    def products(self, N: int, judged: int) -> float:
        """Of two numbers, about: to judge it on so many sequences, and to train it."""
        T, d = float(self.T), float(self.dimension)
        forward = 2 * T * T * d + 3 * T * d * d + T * N * d
        return judged * forward + (0 if self.built else 2.0 * self.steps * self.batch * forward)


def check_sequence(sequence: str, bigrams: Bigrams, T: int) -> None:
    """Refuse a sequence that a model of a text cannot be asked."""
    if not 1 <= len(sequence) <= T:
        raise FactholdError(f"a sequence of {len(sequence)} characters cannot be asked; the model takes 1 to {T}")
    unknown = next((c for c in sequence if c not in bigrams.characters), None)
    if unknown is not None:
        raise FactholdError(
            f"{unknown!r} in {brief(sequence)} is not among the {bigrams.N} characters that the model knows"
        )
