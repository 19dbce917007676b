"""How many associations a memory holds whose keys are streams of real names and whose values are unembeddings, beside
Gaussian ones of the same spectrum and random ones."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from facthold._util.memory import Parts, bytes_of
from facthold.facts.real import AIRPORTS, Source
from facthold.lab import Cell, Result
from facthold.lab.fields import Between, Count, Seeds, Tolerance
from facthold.lm.fetch import TINY
from facthold.measure.capacity import CEILING, FOUND, Probe, Search, find_capacity, spread
from facthold.studies.lm.base import FETCHED, LmCell, named
from facthold.studies.lm.layers import Shares, layers_at, thirtieths
from facthold.theory import noise, sharp
from facthold.train.protocols import Protocol, protocol

if TYPE_CHECKING:
    import numpy as np

REAL, ALIKE, RANDOM = "real", "alike", "random"
SOURCES = {REAL: "names and tokens", ALIKE: "Gaussian, same covariance", RANDOM: "random"}
RAW, OUTER, WHITENED, ANY = "as they are", "outer product", "whitened", "any matrix"
TRAINED = "trained"
RATE = 3000.0
"""Of the trained memory: of 300, 1000 and 3000 the only one that reached 99% in each of six runs (N = 240, 280 and 320
at layers 6 and 24) of one draw of the names that judges nothing. Random embeddings are trained by it too: each of the
three reached it there."""
METHODS = (RAW, OUTER, WHITENED, ANY)
OF = {REAL: METHODS, ALIKE: (OUTER, WHITENED, ANY), RANDOM: (OUTER, ANY)}
"""What is searched for with which embeddings: random ones are white, and their mean is nothing."""
RIGHT = 0.99  # share of the associations that are to be recalled
WINDOWS = 16  # sets of N names that a share is a mean over, as far as there are so many names
FLOOR = 4  # associations that a search asks for at least


@dataclass(frozen=True, kw_only=True)
class LmKeys(LmCell):
    """The largest N of which 99% are recalled among N outputs, f*(x) = x, for the names' streams at one layer: by
    outer products of them as they are, from their means, and whitened on both sides; and by any matrix at all, in
    ``sub`` random directions of the d. Seeds draw the order of names and tokens."""

    kind: ClassVar[str] = "lm-keys"
    source: ClassVar[Source] = AIRPORTS

    layer: Annotated[int, Between(least=1)]
    names: Count
    sub: Annotated[int, Between(least=4)]
    seeds: Seeds
    tolerance: Tolerance = 0.03

    @property
    def cost(self) -> float:
        return self.seconds(self.names * self.layer / 30, 8) + (0.01 if self.model == TINY else 20) * len(self.seeds)

    @property
    def needed(self) -> Parts:
        embeddings = bytes_of(embeddings=6.0 * self.names * 600, scores=1 << 24)
        return {**super().needed, f"names={self.names}": embeddings}

    def run(self) -> Result:
        import numpy as np

        from facthold.lm import keys

        model, names = self.opened(), keys.names_for(self.model)
        tokens = keys.words(model)
        n = min(self.names, len(names), len(tokens))
        E = keys.streams(model, names[:n], self.layer)
        U = np.asarray(model.U)[tokens] * np.asarray(model.g)
        ratios = [keys.participation(keys.centred(X)) for X in (E, U)]
        found: dict[str, dict[str, list[Any]]] = {}
        for seed in self.seeds:
            random = np.random.Generator(np.random.Philox(seed))
            e, u = random.permutation(E), random.permutation(U)[:n]
            drawn = {
                REAL: (e, u), ALIKE: (keys.alike(E, random), keys.alike(U, random)[:n]),
                RANDOM: tuple(random.standard_normal(X.shape, np.float32) for X in (e, u)),
            }  # fmt: skip
            for source, (one, other) in drawn.items():
                for method, N in self._searches(source, one, other, seed).items():
                    found.setdefault(source, {}).setdefault(method, []).append(N)
        d = math.sqrt(math.prod(ratios))
        of_real = found[REAL][OUTER]
        return {
            "status": FOUND if None not in of_real else CEILING,
            **spread("N", of_real), "d": model.config.d, "offered": n,
            "keys": ratios[0], "values": ratios[1], "found": found, "predicted": _outer(d),
            "predicted_random": _outer(model.config.d), "whole": keys.participation(keys.directions(E)),
        }  # fmt: skip

    def _searches(self, source: str, E: "np.ndarray", U: "np.ndarray", seed: int) -> dict[str, int | None]:
        """The largest N of one seed by method; None where it lies beyond what the names allow, 0 below the floor."""
        import jax.numpy as jnp
        import numpy as np

        from facthold.construct.linear import outer_product
        from facthold.construct.separate import SEPARATED, separate
        from facthold.lm import keys
        from facthold.measure.recall import accuracy
        from facthold.memory.associations import Problem
        from facthold.models.memory import LinearMemory

        def problem(e: np.ndarray, u: np.ndarray, N: int) -> Problem:
            return Problem(jnp.asarray(e[:N]), jnp.asarray(u[:N]), jnp.arange(N))

        def share(e: np.ndarray, u: np.ndarray, on: Callable[[Any], Any] = outer_product) -> Callable[[int], float]:
            def of(N: int) -> float:
                """A mean over other names and tokens each time: of 50 associations one is 2%."""
                starts = range(0, len(e) - N + 1, N)[:WINDOWS]
                asked = [problem(e[i:], u[i:], N) for i in starts]
                return sum(accuracy(on(one), one) for one in asked) / len(asked)

            return of

        raw, centred = ((of(E), of(U)) for of in (keys.directions, keys.centred))
        left, right = keys.whitener(raw[1]), keys.whitener(raw[0])

        def whitened(asked: Problem) -> LinearMemory:
            return LinearMemory(jnp.asarray(left @ np.asarray(outer_product(asked).W, np.float64) @ right, jnp.float32))

        few = _projected(centred, self.sub, seed)

        def any_matrix(N: int) -> float:
            return float(separate(problem(few[0], few[1], N)).status == SEPARATED)

        d = math.sqrt(math.prod(keys.participation(X) for X in centred))
        searches: dict[str, tuple[Callable[[int], float], float]] = {
            RAW: (share(*raw), FLOOR), OUTER: (share(*centred), _outer(d)),
            WHITENED: (share(*raw, whitened), 6 * _outer(d) if source == REAL else _outer(E.shape[1]) / 3),
            ANY: (any_matrix, sharp.separable(self.sub)),
        }  # fmt: skip
        return {method: _largest(*searches[method], seed, len(E), self.tolerance) for method in OF[source]}


@dataclass(frozen=True, kw_only=True)
class LmTrainedKeys(LmCell):
    """The largest N of which a trained memory recalls 99% among N outputs, f*(x) = x, in ``sub`` random directions of
    the d: of the names' streams at one layer and of unembeddings, and of random embeddings. Seeds draw the order of
    names and tokens, and the directions."""

    kind: ClassVar[str] = "lm-trained-keys"
    source: ClassVar[Source] = AIRPORTS

    layer: Annotated[int, Between(least=1)]
    names: Count
    sub: Annotated[int, Between(least=4)]
    seeds: Seeds
    tolerance: Tolerance = 0.03

    @property
    def cost(self) -> float:
        return self.seconds(self.names * self.layer / 30, 8) + 12 * (self.sub / 48) ** 4 * len(self.seeds)

    @property
    def spec(self) -> dict[str, Any]:
        """The fields, and how it is trained."""
        return super().spec | {"protocol": training().spec}

    def run(self) -> Result:
        import numpy as np

        from facthold.lm import keys

        model, names = self.opened(), keys.names_for(self.model)
        tokens = keys.words(model)
        n = min(self.names, len(names), len(tokens))
        E = keys.streams(model, names[:n], self.layer)
        U = np.asarray(model.U)[tokens] * np.asarray(model.g)
        found: dict[str, list[int | None]] = {REAL: [], RANDOM: []}
        for seed in self.seeds:
            random = np.random.Generator(np.random.Philox(seed))
            real = (random.permutation(E), random.permutation(U)[:n])
            for source, drawn in ((REAL, real), (RANDOM, [random.standard_normal(X.shape, np.float32) for X in real])):
                e, u = (keys.directions(X) for X in _projected(map(keys.centred, drawn), self.sub, seed))
                found[source].append(_largest(_trained(e, u, seed), sharp.separable(self.sub), seed, n, self.tolerance))
        return {
            "status": FOUND if None not in found[REAL] else CEILING, **spread("N", found[REAL]), "offered": n,
            "found": {source: {TRAINED: numbers} for source, numbers in found.items()},
        }  # fmt: skip


def training() -> Protocol:
    """By which memories of real embeddings are trained: that of the authors' code, but for its rate."""
    return replace(protocol("linear-code"), name="linear-code-real", lr=RATE)


def _trained(E: "np.ndarray", U: "np.ndarray", seed: int) -> Callable[[int], float]:
    """The best share that a memory of the first N has in training."""
    import jax.numpy as jnp

    from facthold.memory.associations import Problem
    from facthold.recipes import memory_recipe, training_member
    from facthold.train.engine import fit

    def share(N: int) -> float:
        problem = Problem(jnp.asarray(E[:N]), jnp.asarray(U[:N]), jnp.arange(N))
        return fit([training_member(memory_recipe("train:linear-code"), problem, 0, seed)], training())[0].best

    return share


def _projected(both: Iterable["np.ndarray"], sub: int, seed: int) -> list["np.ndarray"]:
    """Keys and values in so many random directions."""
    import numpy as np

    random = np.random.Generator(np.random.Philox(seed + 1))
    return [X @ random.standard_normal((X.shape[1], sub), np.float32) for X in both]


def _largest(share: Callable[[int], float], guess: float, seed: int, most: int, tolerance: float) -> int | None:
    """The largest N of one seed of which enough is recalled; None where it is beyond ``most``, 0 below the floor."""

    def ask(questions: Sequence[tuple[int, int]]) -> list[Probe]:
        shares = [share(N) for N, _ in questions]
        return [Probe(N, seed, one, one >= RIGHT) for (N, _), one in zip(questions, shares, strict=True)]

    (found,) = find_capacity(ask, (seed,), guess, Search(min(FLOOR, most), most, tolerance))
    return found.N if found.stored is not None else 0


def _outer(d: float) -> float:
    """What an outer product of random embeddings in d dimensions recalls to 99%; 0 where not even four of them."""
    try:
        return noise.half_recall(noise.low_rank(d), RIGHT)
    except ValueError:
        return 0.0


SHARES = thirtieths(6, 12, 18, 24)
MANY = thirtieths(1, *range(3, 31, 3))


@dataclass(frozen=True)
class Grid:
    """Layers whose streams are the keys."""

    model: str  # 'tiny', the SHA-256 of a file, or its path
    names: Count
    sub: Annotated[int, Between(least=4)]
    seeds: Seeds
    names_trained: Count = 2048  # that keys of trained memories are drawn from
    layers: tuple[int, ...] = ()  # none named: those at these shares
    shares: Shares = SHARES


PRESETS = {
    "smoke": Grid(model=TINY, shares=(2 / 3, 1), names=400, sub=8, seeds=(0, 1), names_trained=400),
    "quick": Grid(model=FETCHED, names=7680, sub=48, seeds=(100, 101, 102, 103)),
    "paper": Grid(
        model=FETCHED,
        shares=MANY,
        names=8192,
        sub=64,
        seeds=tuple(range(100, 110)),
    ),
}


def key_cells(grid: Grid) -> list[Cell]:
    """What the claims need that are of no training."""
    shared: dict[str, Any] = {"model": named(grid.model), "names": grid.names, "sub": grid.sub, "seeds": grid.seeds}
    return [LmKeys(layer=layer, **shared) for layer in _layers(grid)]


def _layers(grid: Grid) -> tuple[int, ...]:
    """Streams that layers read, but the embeddings; and the last one."""
    return layers_at(named(grid.model), grid.layers, grid.shares, least=1, beyond=1)


def trained_cells(grid: Grid) -> list[Cell]:
    model, n = named(grid.model), grid.names_trained
    return [LmTrainedKeys(model=model, layer=i, names=n, sub=grid.sub, seeds=grid.seeds) for i in _layers(grid)]


def cells(grid: Grid) -> list[Cell]:
    return [*key_cells(grid), *trained_cells(grid)]
