"""Cells of trained memories on heavy-tailed data: what optimisers make of W, as an error and as a scheme."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np

from facthold._util.keys import derive
from facthold._util.memory import Parts, bytes_of
from facthold.lab import Cell, Result
from facthold.lab.fields import Between, Count, Counts, Each, OneOf, Positive, Seeds
from facthold.memory import EMBEDDINGS, check_fits, draw_embeddings
from facthold.memory.schemes import HeavyTailed, scheme

if TYPE_CHECKING:
    from collections.abc import Sequence

    from facthold.models.token_memory import TokenMemory
    from facthold.train.ensembles import Worlds

OPTIMISERS = ("sgd", "adam-0", "sign", "muon", "adam")
TRAINED = ("W", "all", "embeddings")
PER_DIMENSION = ("adam-0", "adam", "sign")  # as in `train.ensembles`, which takes long to load
LEAST_SEEN = 100  # times that a token is expected to be seen, for its q to be compared with p: log q is off by 1/200
DIGITS = 6  # of stored errors and weights

Rates = Annotated[tuple[float, ...], Each(Positive, distinct=True)]


@dataclass(frozen=True, kw_only=True)
class WorldsCell(Cell):
    """Worlds of heavy-tailed data: for each seed new embeddings, a start W_0 from N(0, 1/d), and n samples."""

    counts_no_facts: ClassVar[str] = "what is lost is measured, not how many facts are held"

    N: Count
    M: Annotated[int, Between(least=2)]  # may be above N: some outputs are then never right
    d: Count
    n: Count  # samples
    alpha: Annotated[float, Between(least=0)] = 2.0
    embeddings: Annotated[str, OneOf(EMBEDDINGS)] = "gaussian"
    seeds: Seeds

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fits(self.embeddings, self.d, N=self.N, M=self.M)

    @property
    def data(self) -> HeavyTailed:
        return HeavyTailed(self.N, self.M, self.alpha)

    @property
    def needed(self) -> Parts:
        worlds = float(len(self.seeds))
        return {
            f"N={self.N}": bytes_of(embeddings=worlds * self.N * (self.d + self.N)),
            f"d={self.d}": bytes_of(weights=2 * worlds * self.d**2), f"n={self.n}": bytes_of(facts=worlds * self.n),
        }  # fmt: skip

    def keys(self, seed: int) -> dict[str, Any]:
        """Samples do not depend on d: the same data at all sizes."""
        own = {what: derive(f"optimiser {what}", seed, self.N, self.M, self.d) for what in ("E", "U", "W_0")}
        return own | {"samples": derive("optimiser samples", seed, self.N, self.alpha)}

    def worlds(self) -> "Worlds":
        from facthold.memory.embeddings import words_of
        from facthold.train.ensembles import Worlds
        from facthold.train.streams import samples

        keys = [self.keys(seed) for seed in self.seeds]
        kinds = {"E": (self.embeddings, self.N), "U": (self.embeddings, self.M), "W_0": ("gaussian", self.d)}
        drawn = [
            np.stack([draw_embeddings(kind, rows, self.d, words_of(key[what])) for key in keys])
            for what, (kind, rows) in kinds.items()
        ]
        z = np.stack([samples(self.data.p, self.n, key=key["samples"]) for key in keys])
        return Worlds(drawn[0], drawn[1], drawn[2], z, self.data.f((0, 0)))


def grams(X: np.ndarray) -> np.ndarray:
    """Gram matrices of the rows, for each world, in float64."""
    X = np.asarray(X, np.float64)
    return X @ X.transpose(0, 2, 1)


@dataclass(frozen=True, kw_only=True)
class Optimised(WorldsCell):
    """Training on the cross entropy of samples in their order, for each learning rate and seed.

    Of samples that do not fill a batch nothing is learnt. ``looks``: the error after so many samples, where that is a
    whole number of steps, and at the end. ``rho``: of q ~ p^rho, and ``level``: the geometric mean of q, both of tokens
    that are expected `LEAST_SEEN` times or more; nan where q is not unique or not positive.
    """

    kind: ClassVar[str] = "optimised"

    optimiser: Annotated[str, OneOf(OPTIMISERS)]
    lrs: Rates
    batch: Count
    norm: bool = False  # whether W e has norm one before it is read
    trained: Annotated[str, OneOf(TRAINED)] = "W"
    later: Positive = 1.0  # in the second half of the samples steps are so many times as long
    looks: Counts = (128, 256, 512, 1024, 2048, 5120, 10_240, 20_480, 51_200)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.batch > self.n:
            raise ValueError(f"batch={self.batch} is larger than n={self.n}: not one step; take {self.n} at most")
        if self.later != 1.0 and not self.closed:
            raise ValueError(f"later={self.later} is for what train.ensembles trains, not {self.optimiser!r} here")

    @property
    def looked(self) -> list[int]:
        """Samples after which it is looked at."""
        end = self.n - self.n % self.batch
        return [*(look for look in sorted(self.looks) if look < end and look % self.batch == 0), end]

    @property
    def closed(self) -> bool:
        """Whether `train.ensembles` trains it; the engine, otherwise."""
        whole_gram = self.d >= self.M and not self.norm  # Muon inverts the outputs' Gram matrix
        return self.trained == "W" and self.optimiser != "adam" and (whole_gram or self.optimiser != "muon")

    @property
    def cost(self) -> float:
        steps, runs = self.n / self.batch, len(self.lrs) * len(self.seeds)
        rows = min(self.batch, self.N)
        if not self.closed:
            return 4 + steps * runs * (1e-5 + 4e-9 * self.d**2 * (1 + rows / self.d))
        if self.optimiser == "adam-0" or (self.optimiser == "sign" and self.batch > 1):
            return 1.5 + steps * runs * (2e-7 + 1e-9 * self.d**2)
        return 1.5 + steps * runs * (1e-7 + 5e-10 * rows * self.N * (self.d if self.norm else self.M))

    @property
    def spec(self) -> dict[str, Any]:
        """What the engine trains has a version of its own: 2 gives q in trained embeddings, and Adam's epsilon beside
        the gradient of W itself."""
        return super().spec | ({} if self.closed else {"engine": 2})

    def run(self) -> Result:
        from facthold.theory.optimisers import power

        worlds, data = self.worlds(), self.data
        q: np.ndarray | None
        if self.closed:
            errors, raw = self._by_ensemble(worlds)
            q = self._realised(worlds, raw)
        else:
            errors, memories = self.by_engine(worlds)
            q = self._read(worlds, memories, np.isfinite(errors[-1]))
        result: Result = {"looked": self.looked, "errors": _plain(errors)}  # by look, seed and learning rate
        if q is None:
            return result
        often = self.n * data.p >= LEAST_SEEN
        often[:2] = True
        with np.errstate(invalid="ignore"):
            level = np.exp(np.log(np.where(q > 0, q, np.nan))[..., often].mean(axis=-1))
        found = {"q": q.mean(axis=0), "rho": power(q[..., often], data.p[often]), "level": level}
        return result | {name: _plain(values) for name, values in found.items()}

    def _realised(self, worlds: "Worlds", raw: np.ndarray) -> np.ndarray:
        """The q of W - W_0, by seed and learning rate, from the scores of W."""
        from facthold.measure.realised import realised

        start = np.asarray(worlds.E @ worlds.W_0.transpose(0, 2, 1) @ worlds.U.transpose(0, 2, 1), np.float64)
        K_E, K_U, changes = grams(worlds.E), grams(worlds.U), raw - start[:, None]
        return np.stack([realised(changes[w], K_E[w], K_U[w], worlds.f) for w in range(len(K_E))])

    def _read(self, worlds: "Worlds", memories: "Sequence[TokenMemory]", ended: np.ndarray) -> np.ndarray | None:
        """The same from trained memories. Of one whose embeddings were trained, in the embeddings that came out; nan
        where it did not end, as it diverged; None where there is no W."""
        from facthold.measure.realised import realised

        if self.trained == "embeddings":
            return None
        runs = (len(self.seeds), len(self.lrs))
        if self.trained == "W":
            W = np.stack([np.asarray(memory.W) for memory in memories]).reshape(*runs, self.d, self.d)
            return self._realised(worlds, np.einsum("wzj,wlij,wmi->wlzm", worlds.E, W, worlds.U, optimize=True))
        q = np.full((len(memories), self.N), np.nan)
        for i, memory in enumerate(memories):
            E, W, U = (np.asarray(part, np.float64) for part in (memory.E, memory.W, memory.U))
            if ended.ravel()[i]:
                change = W - worlds.W_0[i // len(self.lrs)]
                q[i] = realised(E @ change.T @ U.T, E @ E.T, U @ U.T, worlds.f)
        return q.reshape(*runs, self.N)

    def _by_ensemble(self, worlds: "Worlds") -> tuple[np.ndarray, np.ndarray]:
        from facthold.measure.realised import error_of
        from facthold.train.ensembles import train

        found = train(worlds, self.optimiser, self.lrs, self.batch, self.looked, norm=self.norm, later=self.later)
        return error_of(found.scores, worlds.f, self.data.p), found.raw

    def by_engine(self, worlds: "Worlds") -> tuple[np.ndarray, "list[TokenMemory]"]:
        import jax.numpy as jnp

        from facthold.models.token_memory import TokenMemory
        from facthold.train.engine import Member, fit
        from facthold.train.protocols import Protocol
        from facthold.train.streams import LearnStream

        steps = [look // self.batch for look in self.looked]
        every = math.gcd(*steps)
        protocol = Protocol(
            self.kind, "this cell", self.optimiser, self.lrs[0], steps[-1], every, goal=1.0, futility=None, rule="final"
        )
        units = (1 / self.d, self.d**-0.5) if self.optimiser in PER_DIMENSION else (1.0, 1.0)  # as in the public code
        tasks, members = [], []
        for w, seed in enumerate(self.seeds):
            E, U, W_0 = (jnp.asarray(part[w]) for part in worlds[:3])
            memory = TokenMemory(None if self.trained == "embeddings" else W_0, E, U, self.norm)
            trained, fixed = memory.split(self.trained)
            key = self.keys(seed)["samples"]
            tasks.append(LearnStream.of(fixed, worlds.f, self.data.p, self.batch, key=key, units=units))
            start = trained.times(*(1 / unit for unit in units))
            members += [Member(start, tasks[w], key, lr) for lr in self.lrs]
        runs = fit(members, protocol)
        curves = np.full((len(runs), steps[-1] // every), np.nan)  # a run that diverged ends earlier
        for i, run in enumerate(runs):
            curves[i, : len(run.curve)] = 1 - run.curve
        errors = curves[:, [step // every - 1 for step in steps]].T.reshape(-1, len(self.seeds), len(self.lrs))
        return errors, [tasks[i // len(self.lrs)].whole(run.model) for i, run in enumerate(runs)]


def _plain(values: np.ndarray) -> list[Any]:
    """As JSON has it: rounded to some digits, None for nan."""

    def one(x: Any) -> Any:
        if isinstance(x, list):
            return [one(item) for item in x]
        return float(f"{x:.{DIGITS}g}") if math.isfinite(x) else None

    return one(values.tolist())


@dataclass(frozen=True, kw_only=True)
class SchemesBeside(WorldsCell):
    """The error of memory schemes on the worlds of `Optimised` with the same seeds: the same embeddings and samples."""

    kind: ClassVar[str] = "schemes-beside"

    schemes: Annotated[tuple[str, ...], Each(str, distinct=True)]

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in self.schemes:
            scheme(name)

    @property
    def cost(self) -> float:
        return 1 + len(self.seeds) * (1e-7 * self.d**2 + 2e-8 * self.N**2 * len(self.schemes))

    def run(self) -> Result:
        from facthold.measure.realised import error_of

        worlds, data = self.worlds(), self.data
        outputs = np.eye(self.M)[worlds.f]  # of each token the one that it has
        K_E, K_U = grams(worlds.E), grams(worlds.U)
        errors: dict[str, list[float]] = {name: [] for name in self.schemes}
        for w, z in enumerate(worlds.z):
            counts = np.bincount(z, minlength=self.N)
            for name in self.schemes:
                q = scheme(name)(counts, data.p)
                scores = K_E[w] @ (q[:, None] * outputs) @ K_U[w]
                errors[name].append(float(error_of(scores, worlds.f, data.p)))
        return {"errors": errors}
