"""Cells of memory schemes on heavy-tailed data: what each of them loses, measured, and as it is expected."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np

from facthold._util.keys import derive
from facthold._util.memory import Parts, bytes_of
from facthold.lab import Cell, Result
from facthold.lab.fields import Between, Count, Each, OneOf, Seeds, Whole
from facthold.memory import EMBEDDINGS, MAPS, check_fits
from facthold.memory.schemes import HeavyTailed, scheme
from facthold.studies.judging import mean_and_error

if TYPE_CHECKING:
    from collections.abc import Sequence

FIRST, AT_LEAST = "first-best", "at-least-best"
"""The number of tokens with the least expected error; the threshold that is best on other seeds."""
THRESHOLDS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 512, 1024)
FEW, MANY = 256, 1 << 13  # draws in a batch of an expected error: with samples, and without where q has few values
CHOOSING = 24  # seeds on which a threshold is chosen; none of them is one of those that judge
WITHOUT_SAMPLES = ("p", "all", "first-")


def counts_samples(name: str) -> bool:
    """Whether a scheme asks how often tokens were seen."""
    return not name.startswith(WITHOUT_SAMPLES)


class SchemeName:
    """A scheme by its name, or one that is the best of its kind."""

    def check(self, name: str, value: str) -> None:
        if value not in (FIRST, AT_LEAST):
            scheme(value)


Schemes = Annotated[tuple[str, ...], Each(Annotated[str, SchemeName()], distinct=True)]
Alpha = Annotated[float, Between(least=0)]


@dataclass(frozen=True, kw_only=True)
class HeavyTailedCell(Cell):
    """N tokens with p(z) ~ z^-alpha, M outputs, embeddings in d dimensions."""

    counts_no_facts: ClassVar[str] = "what is lost is measured, not how many facts are held"

    N: Count
    M: Count
    d: Count
    alpha: Alpha = 2.0
    map: Annotated[str, OneOf(MAPS)] = "mod"

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.data  # it refuses a map that has too few outputs

    @property
    def data(self) -> HeavyTailed:
        return HeavyTailed(self.N, self.M, self.alpha, self.map)

    @property
    def needed(self) -> Parts:
        return {
            f"N={self.N}": bytes_of(facts=4.0 * self.N),
            f"M={self.M}": bytes_of(embeddings=4.0 * self.M * self.d),
            f"d={self.d}": bytes_of(embeddings=float(min(self.N * self.d, 1 << 26)), weights=2.0 * self.d**2),
        }


@dataclass(frozen=True, kw_only=True)
class SchemeError(HeavyTailedCell):
    """The error of schemes after n samples, with new embeddings and samples for each seed.

    What of it lies on tokens that W holds (q above 0) and on the others stands apart: the first is rare and large, the
    second frequent and small.
    """

    kind: ClassVar[str] = "scheme-error"

    n: Whole = 0  # samples; 0: none, for schemes that do not ask for them
    schemes: Schemes
    embeddings: Annotated[str, OneOf(EMBEDDINGS)] = "gaussian"
    seeds: Seeds

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fits(self.embeddings, self.d, N=self.N, M=self.M)
        if not self.n and (asking := [name for name in self.schemes if counts_samples(name)]):
            raise ValueError(f"n=0: scheme {asking[0]!r} asks how often tokens were seen; take n of 1 or more")

    @property
    def cost(self) -> float:
        """Drawing and multiplying what was drawn."""
        draws = 1.5e-8 + 4e-11 * self.M * len(self.schemes)
        rounds = len(self.seeds) + (CHOOSING * len(THRESHOLDS) / 6 if AT_LEAST in self.schemes else 0)
        return 0.05 + rounds * self.N * self.d * draws

    def run(self) -> Result:
        chosen, names = {}, list(self.schemes)
        if FIRST in names:
            chosen[FIRST] = f"first-{self.best_first()}"
        if AT_LEAST in names:
            candidates = [f"at-least-{s}" for s in THRESHOLDS if s <= max(1, self.n)]
            tried = self._errors(candidates, range(-CHOOSING, 0)).sum(axis=2).mean(axis=0)
            chosen[AT_LEAST] = candidates[int(np.argmin(tried))]
        errors = self._errors([chosen.get(name, name) for name in names], self.seeds)
        return {
            "chosen": chosen,
            "errors": {name: errors[:, i].sum(axis=1).tolist() for i, name in enumerate(names)},
            "not_held": {name: errors[:, i, 1].tolist() for i, name in enumerate(names)},
        }

    def best_first(self) -> int:
        from facthold.memory.embeddings import words_of
        from facthold.theory.schemes import best_first

        f = self.data.f(words_of(derive("scheme map", 0, self.N, self.M)))
        return best_first(self.data.p, f, self.M, self.d)

    def _errors(self, names: "Sequence[str]", seeds: "Sequence[int]") -> np.ndarray:
        """By seed and scheme: the error on tokens that are held, and on the others."""
        from facthold.measure.schemes import scheme_errors
        from facthold.memory.embeddings import words_of

        data, p, makes = self.data, self.data.p, [scheme(name) for name in names]
        errors = []
        for seed in seeds:
            words = {
                what: words_of(derive(f"scheme {what}", seed, self.N, self.M, self.d, self.alpha, self.n))
                for what in ("inputs", "outputs", "samples")
            }
            f = data.f(words_of(derive("scheme map", seed, self.N, self.M)))
            counts = data.counts(self.n, words["samples"])
            q = np.stack([make(counts, p) for make in makes])
            errors.append(
                scheme_errors(
                    q, p, f, self.M, self.d, embeddings=self.embeddings, inputs=words["inputs"],
                    outputs=words["outputs"],
                )
            )  # fmt: skip
        return np.stack(errors)


@dataclass(frozen=True, kw_only=True)
class StoredError(HeavyTailedCell):
    """The expected error on the k tokens that are stored with q = 1, from many more draws than all N tokens allow: the
    most frequent token is seldom lost, and costs most of what there is to lose then (`measure.schemes`)."""

    kind: ClassVar[str] = "stored-error"

    k: Whole = 0  # tokens that are stored; 0: as many as have the least expected error
    n_draws: Annotated[int, Between(least=2)]
    seed: Whole = 0

    @property
    def cost(self) -> float:
        return 0.5 + self.n_draws * 1.5e-8 * (self.k or self.d / 4) * self.d

    def run(self) -> Result:
        from facthold.measure.schemes import stored_errors
        from facthold.memory.embeddings import words_of
        from facthold.theory.schemes import best_first

        p, f = self.data.p, self.data.f(words_of(derive("scheme map", 0, self.N, self.M)))
        k = self.k or best_first(p, f, self.M, self.d)
        words = words_of(derive(self.kind, self.seed, self.N, self.M, self.d, self.alpha, k))
        errors = stored_errors(p[:k], f[:k], self.M, self.d, self.n_draws, words=words)
        return {"stored": k, "error": mean_and_error(errors)}


@dataclass(frozen=True, kw_only=True)
class ExpectedError(HeavyTailedCell):
    """The expected error of schemes by `theory.schemes`: no embedding is drawn. With n samples it is a mean over some
    draws of them, by what is lost for each unit of probability that was not seen: that one is known exactly."""

    kind: ClassVar[str] = "expected-error"

    n: Whole = 0
    schemes: Schemes
    n_batches: Annotated[int, Between(least=2)] = 16  # of draws; with samples, a tenth of their draws

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.n and (asking := [name for name in self.schemes if counts_samples(name)]):
            raise ValueError(f"n=0: scheme {asking[0]!r} asks how often tokens were seen; take n of 1 or more")
        if AT_LEAST in self.schemes:
            raise ValueError(f"schemes: {AT_LEAST!r} is chosen by trying; the expected error is of 'at-least-3' or so")

    @property
    def cost(self) -> float:
        from facthold.theory.schemes import SHARED, few

        rivals = self.n_batches * len(self.schemes) * (MANY // 8 if not self.n else 10 * FEW) / SHARED
        return 1.0 if few(self.M, self.d) else 1.0 + rivals * (4e-4 + 2e-7 * min(self.M, self.N))

    def run(self) -> Result:
        from facthold.memory.embeddings import words_of
        from facthold.theory.schemes import best_first, expected_error, unseen

        data, p = self.data, self.data.p
        f = data.f(words_of(derive("scheme map", 0, self.N, self.M)))
        best = best_first(p, f, self.M, self.d) if FIRST in self.schemes else 0
        makes = {name: scheme(f"first-{best}" if name == FIRST else name) for name in self.schemes}
        if not self.n:
            weights = {name: make(np.zeros(self.N, int), p) for name, make in makes.items()}
            return {"best_first": best, "expected": {name: self._exactly(q, p, f) for name, q in weights.items()}}
        lost: dict[str, list[float]] = {name: [] for name in makes}
        left = []
        for i in range(10 * self.n_batches):
            counts = data.counts(self.n, words_of(derive("expected samples", i, self.N, self.n, self.alpha)))
            left.append(p[counts == 0].sum())
            for name, make in makes.items():
                lost[name].append(expected_error(p, make(counts, p), f, self.M, self.d, draws=FEW, seed=i))
        of_unseen = {name: _ratio(np.array(lost[name]), np.array(left)) for name in makes}
        whole = unseen(p, self.n)
        return {"best_first": best, "expected": {name: (whole * r, whole * e) for name, (r, e) in of_unseen.items()}}

    def _exactly(self, q: np.ndarray, p: np.ndarray, f: np.ndarray) -> tuple[float, float]:
        """The expected error, and the standard error that its draws leave."""
        from facthold.theory.schemes import expected_error

        draws = MANY if len(np.unique(q)) < 8 else MANY // 8
        return mean_and_error(
            [expected_error(p, q, f, self.M, self.d, draws=draws, seed=1 + i) for i in range(self.n_batches)]
        )


def _ratio(lost: np.ndarray, left: np.ndarray) -> tuple[float, float]:
    """The ratio of two means over the same draws, and its standard error."""
    ratio = lost.mean() / left.mean()
    return float(ratio), float((lost - ratio * left).std(ddof=1) / left.mean() / len(left) ** 0.5)
