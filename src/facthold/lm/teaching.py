"""New facts for a language model whose weights stay as they are: a matrix W and a gate for each relation, in closed
form.

At the subject's last token the stream of an early layer, over its root mean square, is the key k. What is added to the
last stream x, at a token t after it, is c |x| W k / |W k|, where the gate is open: a linear threshold on the stream at
t in a late layer, which says whether this relation is asked for. W = V^T K (K^T K + m T^T T + r I)^-1, with a row of K
for each taught prompt, of V for its answer, and of T for each token of a text.

**Where the key is read is found by name**, as the paper's head finds a subject by W_KQ: a prompt that names no taught
subject is left as it is, to the bit. The answers are in W alone.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Bool, Float, Int

from facthold.lm.choices import OUTER, SOLVED
from facthold.lm.model import SIZE, Batch, Hook, LanguageModel, Site, batches
from facthold.lm.text import ANOTHER
from facthold.lm.tokeniser import Words
from facthold.lm.wordings import Prompt

RIDGE, SHRINK = 1e-3, 0.03  # of K^T K and of the unembeddings' covariance: shares of the mean diagonal
GATE_RIDGE = 0.3  # the same of a gate's covariance
STRENGTH = 2.0  # c
Say = Callable[[str], None]


def key_layer(L: int) -> int:
    """The default layer of keys: 5 of 30."""
    return L // 6


def gate_layer(L: int) -> int:
    """The layer of gates: 26 of 30."""
    return L - max(1, L // 7)


def scaled(x: Float[np.ndarray, "... d"]) -> Float[np.ndarray, "... d"]:
    """Streams over their root mean square."""
    return x / np.maximum(np.sqrt((x * x).mean(-1, keepdims=True)), 1e-12)


@dataclass(frozen=True, eq=False)
class Streams:
    """What one run of some prompts says: all that teaching and judging need, as the memory writes to the last stream
    alone."""

    keys: Mapping[int, Float[np.ndarray, "n d"]]  # by layer
    cues: Float[np.ndarray, "n d"]
    finals: Float[np.ndarray, "n d"]

    def part(self, which: np.ndarray | slice) -> "Streams":
        return Streams({layer: k[which] for layer, k in self.keys.items()}, self.cues[which], self.finals[which])


def place_of(model: Words, text: str, end: int) -> int | None:
    """The token that ends where a name does; None where a token goes on beyond it."""
    before, whole = model.encode(text[:end]), model.encode(text)
    return len(before) - 1 if whole[: len(before)] == before else None


def read(model: LanguageModel, prompts: Sequence[Prompt], layers: Collection[int], say: Say | None = None) -> Streams:
    """The streams of prompts whose subjects end with a token."""
    c, n = model.config, len(prompts)
    gate, wanted = gate_layer(c.L), sorted(set(layers))
    tokens = [model.encode(prompt.text) for prompt in prompts]
    places = np.array([place_of(model, prompt.text, prompt.end) for prompt in prompts])
    keys = {layer: np.empty((n, c.d), np.float32) for layer in wanted}
    cues, finals, done = np.empty((n, c.d), np.float32), np.empty((n, c.d), np.float32), 0
    for which, batch in batches(tokens):
        sites: list[Site] = [("stream", layer) for layer in (*wanted, gate)]
        at = np.stack([places[which], batch.last], axis=1)
        run = model.run(batch, keep=sites, at=at, logits=False)
        for layer in wanted:
            keys[layer][which] = scaled(np.asarray(run["stream", layer])[:, 0])
        cues[which] = scaled(np.asarray(run["stream", gate])[:, 1])
        finals[which] = run.final
        done += len(which)
        if say is not None:
            say(f"{done} of {n} prompts")
    return Streams(keys, cues, finals)


def text_streams(model: LanguageModel, layers: Collection[int]) -> dict[int, Float[np.ndarray, "n d"]]:
    """Of every token of a text but the first, which is a sink, over their root mean squares."""
    batch = Batch.of([model.tokeniser.encode(ANOTHER)[: model.config.context]])
    run = model.run(batch, keep=[("stream", layer) for layer in layers], logits=False)
    return {layer: scaled(np.asarray(run["stream", layer])[0, 1 : int(batch.lengths[0])]) for layer in layers}


def answer_values(model: LanguageModel, answers: Int[np.ndarray, "n"]) -> Float[np.ndarray, "n d"]:
    """Unit vectors along C^-1 a: a is an answer's unembedding with the last norm's gain, less the mean of all tokens,
    and C their covariance. Of all directions it lifts one token most against the others."""
    mean, C = _unembeddings(model)
    a = np.asarray(model.U[answers], np.float64) * np.asarray(model.g, np.float64) - mean
    v = np.linalg.solve(C, a.T).T
    return v / np.linalg.norm(v, axis=1, keepdims=True)


@lru_cache(maxsize=1)
def _unembeddings(model: LanguageModel) -> tuple[Float[np.ndarray, "d"], Float[np.ndarray, "d d"]]:
    """Their mean and covariance, which takes seconds."""
    a = np.asarray(model.U, np.float64) * np.asarray(model.g, np.float64)
    mean = a.mean(0)
    a -= mean
    C = a.T @ a / len(a)
    return mean, C + SHRINK * np.trace(C) / len(C) * np.eye(len(C))


def solve(
    K: Float[np.ndarray, "n d"], V: Float[np.ndarray, "n d"], T: Float[np.ndarray, "t d"], how: str = SOLVED
) -> Float[np.ndarray, "d d"]:
    """W, in float64. Outer products: V^T K. Whitened: the same after the inverse covariance of a text's keys T. Solved:
    ridge regression of V on K, in which the text counts as much as the facts and is to be mapped to zero."""
    K, V, T = (np.asarray(x, np.float64) for x in (K, V, T))
    if how == OUTER:
        return V.T @ K
    C = T.T @ T / len(T) * len(K)
    if how == SOLVED:
        C = C + K.T @ K
    C = C + RIDGE * np.trace(C) / len(C) * np.eye(len(C))
    return np.linalg.solve(C, K.T @ V).T


@dataclass(frozen=True, eq=False)
class Gate:
    """A linear threshold: open where w x + b > 0; the mean of what it is to open for has 1."""

    w: Float[np.ndarray, "d"]
    b: float

    def __call__(self, cues: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n"]:
        return cues @ self.w + self.b


def discriminant(own: Float[np.ndarray, "n d"], *foreign: Float[np.ndarray, "_ d"]) -> Gate:
    """Fisher's linear discriminant, with the threshold halfway between the two means. Groups of foreign cues count
    alike, however many there are of each."""
    groups = [np.asarray(x, np.float64) for x in (own, *foreign) if len(x)]
    shares = [0.5, *[0.5 / (len(groups) - 1)] * (len(groups) - 1)]
    mean = groups[0].mean(0)
    other = np.mean([x.mean(0) for x in groups[1:]], axis=0)
    C = np.zeros((len(mean), len(mean)))
    for x, share, centre in zip(groups, shares, [mean, *[other] * (len(groups) - 1)], strict=True):
        C += share * (x - centre).T @ (x - centre) / len(x)
    C += max(GATE_RIDGE * np.trace(C) / len(C), 1e-9) * np.eye(len(C))
    w = np.linalg.solve(C, mean - other)
    half = w @ (mean - other) / 2
    if not half > 0:
        raise ValueError("taught and foreign prompts cannot be told apart: they are the same words")
    return Gate((w / half).astype(np.float32), float(-w @ (mean + other) / 2 / half))


@dataclass(frozen=True, eq=False)
class Memory:
    """The facts of one relation: a matrix, a gate, and the subjects that it has facts about."""

    relation: str
    W: Float[np.ndarray, "d d"]
    gate: Gate
    subjects: tuple[str, ...]

    @property
    def n_params(self) -> int:
        return self.W.size + self.gate.w.size + 1


Named = Sequence[tuple[int, str]]  # where taught subjects end in a prompt, as tokens, from the first to the last


@dataclass(frozen=True, eq=False)
class Taught:
    """What a model was taught: `hooks` of a batch add it to a run."""

    layer: int
    memories: tuple[Memory, ...]
    strength: float = STRENGTH
    _starts: dict[str, list[str]] = field(init=False, repr=False, default_factory=dict)

    def __post_init__(self) -> None:
        for name in sorted(self.has, key=len, reverse=True):
            self._starts.setdefault(name[0], []).append(name)

    @cached_property
    def has(self) -> Mapping[str, Bool[np.ndarray, "R"]]:
        """Of every subject: which memories have a fact about it."""
        sets = [set(memory.subjects) for memory in self.memories]
        return {name: np.array([name in one for one in sets]) for name in set().union(*sets)}

    @property
    def n_params(self) -> int:
        return sum(memory.n_params for memory in self.memories)

    def named(self, model: LanguageModel, prompt: str) -> Named:
        """The taught subjects in a prompt, as whole words; of two that overlap the one that begins first, and then the
        longer one. One that ends within a token is not seen."""
        found, i = list[tuple[int, str]](), 0
        while i < len(prompt):
            name = self._at(prompt, i)
            place = None if name is None else place_of(model, prompt, i + len(name))
            if name is not None and place is not None:
                found.append((place, name))
            i += 1 if name is None else len(name)
        return found

    def _at(self, prompt: str, i: int) -> str | None:
        if i and prompt[i - 1].isalnum() and prompt[i].isalnum():
            return None
        for name in self._starts.get(prompt[i], ()):
            end = i + len(name)
            if prompt.startswith(name, i) and not (prompt[end - 1 : end + 1].isalnum() and end < len(prompt)):
                return name
        return None

    def changed(
        self, finals: Float[np.ndarray, "n d"], keys: Float[np.ndarray, "n d"], cues: Float[np.ndarray, "n d"],
        has: Bool[np.ndarray, "n R"],
    ) -> tuple[Float[np.ndarray, "n d"], Int[np.ndarray, "n"]]:  # fmt: skip
        """The last streams with what the memories add, and which memory spoke: the one whose gate is open widest, if it
        has a fact about the subject; -1: none, and the stream is as it was."""
        scores = np.stack([memory.gate(cues) for memory in self.memories], axis=1)
        rows, widest = np.arange(len(scores)), scores.argmax(1)
        which = np.where((scores[rows, widest] > 0) & has[rows, widest], widest, -1)
        found = np.array(finals, np.float32)
        for r, memory in enumerate(self.memories):
            spoke = which == r
            said = keys[spoke] @ memory.W.T
            size = np.linalg.norm(finals[spoke], axis=1, keepdims=True)
            length = np.maximum(np.linalg.norm(said, axis=1, keepdims=True), 1e-12)
            found[spoke] += self.strength * size * said / length
        return found, which

    def hooks(self, model: LanguageModel, batch: Batch, named: Sequence[Named]) -> dict[Site, list[Hook]]:
        """For `LanguageModel.run`: at every token after a taught subject's name the memories are asked, with the key of
        the subject that was named last."""
        rows, tokens, places, has = list[int](), list[int](), list[int](), list[np.ndarray]()
        for row, (names, length) in enumerate(zip(named, batch.lengths, strict=True)):
            ends = [place for place, _ in names[1:]] + [int(length)]
            for (place, name), until in zip(names, ends, strict=False):
                n = until - place
                rows += [row] * n
                tokens += range(place, until)
                places += [place] * n
                has += [self.has[name]] * n
        if not rows:
            return {}
        kept: dict[str, np.ndarray] = {}

        def keep(name: str, at: list[int]) -> Hook:
            def hook(x: Array) -> Array:
                kept[name] = scaled(np.asarray(x[np.array(rows), np.array(at)]))
                return x

            return hook

        def add(x: Array) -> Array:
            there = np.asarray(x[np.array(rows), np.array(tokens)])
            new, which = self.changed(there, kept["keys"], kept["cues"], np.stack(has))
            spoke = np.flatnonzero(which >= 0)
            return x.at[np.array(rows)[spoke], np.array(tokens)[spoke]].set(jnp.asarray(new[spoke]))

        L = model.config.L
        found: dict[Site, list[Hook]] = {("stream", self.layer): [keep("keys", places)], ("stream", L): [add]}
        found.setdefault(("stream", gate_layer(L)), []).append(keep("cues", tokens))
        return found


def firsts(model: LanguageModel, finals: Float[np.ndarray, "n d"]) -> Int[np.ndarray, "n"]:
    """The first of all tokens by last streams, some at a time."""
    found = np.empty(len(finals), np.int64)
    for start in range(0, len(finals), SIZE):
        part = finals[start : start + SIZE]
        padded = np.concatenate([part, np.ones((SIZE - len(part), finals.shape[1]), np.float32)])
        found[start : start + SIZE] = np.asarray(model.unembed(jnp.asarray(padded))).argmax(1)[: len(part)]
    return found
