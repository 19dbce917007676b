"""The noisy bigram task: in training one frequent token often stands in the output's place, in the test never. What is
left of the right output and of the noise token once matrices of the trained model are truncated."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from facthold._util.keys import derive
from facthold._util.memory import Parts, bytes_of
from facthold.lab import Result
from facthold.lab.fields import Between, Count, Each, OneOf, Positive, Tolerance
from facthold.studies.context.base import TrainedHead

if TYPE_CHECKING:
    from facthold.context.sequences import BigramTask
    from facthold.models.causal import CausalTransformer

STARTS = ("slides", "public")
MATRICES = ("W_KQ^1", "W_OV^1", "F^1", "W_KQ^2", "W_OV^2", "F^2")  # all but embeddings, which stay random
CUTS = ("F^1", "F^2", "F^1+F^2", "F.W^2", "F.V^2", "W_OV^1", "W_OV^2", "W_KQ^2")  # what is truncated, one at a time
SHARES = (0.0, 0.01, 0.05, 0.1, 0.2)  # of d, that a rank is
TESTED = 128  # sequences without noise


@dataclass(frozen=True, kw_only=True)
class NoisyHead(TrainedHead):
    """Two layers with ReLU memories, trained with noise, then truncated and asked without.

    ``started`` is 'slides' (everything N(0, 1/d), or by fan-in) or 'public': the sizes of the public code, where
    embeddings and positions are N(0, 1), and a matrix of PyTorch's default has a third of the usual variance; W_OV, the
    product of two such, has a ninth.
    """

    kind: ClassVar[str] = "noisy-head"

    K: Count = 1
    noise: Annotated[float, Between(low=0, most=0.99)] = 0.5
    lr: Positive = 0.3
    steps: Count = 1000
    optimiser: str = "sgd"
    decay: bool = False
    feed_forward: str = "relu"
    trained: Annotated[tuple[str, ...], Each(Annotated[str, OneOf(MATRICES)])] = MATRICES
    started: Annotated[str, OneOf(STARTS)] = "public"
    scaled: bool = True
    cuts: Annotated[tuple[str, ...], Each()] = CUTS
    shares: Annotated[tuple[float, ...], Each(Tolerance)] = SHARES

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.feed_forward != "relu" or self.layers != 2:
            raise ValueError(f"layers={self.layers} with feed_forward={self.feed_forward!r}: take 2 with 'relu'")
        if self.random:
            raise ValueError("random=True: a noise token that may be a trigger says nothing; take fixed triggers")
        if self.started == "public" and not self.unit:
            raise ValueError("unit=False is what started='public' does by itself; leave it out")

    @property
    def needed(self) -> Parts:
        return {**super().needed, f"d={self.d}": bytes_of(weights=(24.0 + 64.0) * self.d**2)}

    @property
    def cost(self) -> float:
        T, d = self.T, self.d
        flops = 2 * T * (1.5 * T * d + 12 * d**2)  # of one sequence: attention in the first layer, and its memory
        variants = 1 + len(self.cuts) * len(self.shares)
        return 5 + (3 * self.steps * self.batch + 2 * variants * TESTED) * flops / 3e10

    def taught(self) -> "BigramTask":
        return self.task(noise=self.noise)

    def start(self) -> "CausalTransformer":
        model = super().start()
        return model if self.started == "slides" else as_public(model)

    def run(self) -> Result:
        from facthold.measure.truncate import rank_of_share, truncate

        run, model = self.learnt()
        curves = {"curves": self.curves(run)}
        if run.status == "diverged":
            return {"status": run.status, "accuracy": None, "full": None, "truncated": [], **curves}
        asked = self.asking()
        full, truncated = asked(model), []
        for cut in self.cuts:
            for share in self.shares:
                r = rank_of_share(share, self.d)
                found = truncate(model, dict.fromkeys(cut.split("+"), r))
                truncated.append({"cut": cut, "share": share, "r": r, "saved": found.saved, **asked(found.model)})
        return {"status": run.status, "accuracy": full["accuracy"], "full": full, "truncated": truncated, **curves}

    def asking(self) -> "Callable[[CausalTransformer], dict[str, float]]":
        """Means over outputs that the context tells, in sequences without noise, of any model (`measure.attending`)."""
        import equinox as eqx

        from facthold.measure.attending import recalled_in_context, unambiguous

        task = self.task()
        key = derive("asked", self.seed, self.K, self.T)
        sequences = eqx.filter_jit(lambda task: task.draw(TESTED, key=key))(task)
        kept = unambiguous(sequences, task)

        def asked(model: "CausalTransformer") -> dict[str, float]:
            sums, counted = recalled_in_context(model, sequences, kept, task.noise_token)
            return {name: float(total.sum() / counted.sum()) for name, total in sums.items()}

        return asked


def as_public(model: "CausalTransformer") -> "CausalTransformer":
    """A start of the slides in the sizes of the public code."""
    import equinox as eqx

    d = model.d
    E, P, U = d**0.5 * model.E, d**0.5 * model.P, 3**-0.5 * model.U
    layers = []
    for layer in model.layers:
        F: Any = layer.F
        F = eqx.tree_at(lambda m: (m.W, m.V), F, (3**-0.5 * F.W, 3**-0.5 * F.V))
        parts = (3**-0.5 * layer.W_KQ, layer.W_OV / 3, F)
        layers.append(eqx.tree_at(lambda la: (la.W_KQ, la.W_OV, la.F), layer, parts))
    return eqx.tree_at(lambda m: (m.E, m.P, m.U, m.layers), model, (E, P, U, tuple(layers)))


def at(row: Mapping[str, Any], cut: str, share: float, name: str) -> float:
    """What was measured of a truncated model, from a row."""
    (found,) = (one[name] for one in row["truncated"] if (one["cut"], one["share"]) == (cut, share))
    return float(found)


def changes(rows: Sequence[Mapping[str, Any]], cut: str, share: float, name: str) -> list[float]:
    """Truncated minus full, of each seed."""
    return [at(row, cut, share, name) - row["full"][name] for row in rows]
