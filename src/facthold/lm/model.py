"""A language model that can be read and changed at every place, in float32.

    model = library.load(name)                                    # 'tiny', or the SHA-256 of a file
    batch = model.batch(["The capital of France is"])
    run = model.run(batch, keep=["mlp"], at=batch.last)           # run["mlp", 28] is [b, 1, d]
    model.run(batch, hooks={("mlp", 28): hooks.put(0.0, at=batch.last)}).logits

The places of layer l, in the order in which they are computed: ``stream`` l, what it reads (``stream`` 0 are the
embeddings, ``stream`` L is what the last norm reads); ``heads``, what each head carries, before W_O; ``attention``,
what they write to the stream; ``keys``, the hidden neurons of the MLP; ``mlp``, what these write to the stream.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from facthold._util.errors import check_one_of
from facthold._util.memory import check_memory
from facthold.lm import forward
from facthold.lm.forward import Weights
from facthold.lm.tokeniser import Words

PLACES = ("stream", "heads", "attention", "keys", "mlp")
GRID = 4  # prompts are padded to a multiple of this: each length costs a compilation
ROWS = 128  # positions whose logits are computed at once, where all of them are asked for
SIZE = 64  # prompts that run at once

Site = tuple[str, int]  # a place, and its layer
Hook = Callable[[Array], Array]  # from what is computed at a place, [b, T, ...], to what is used instead
Hooks = Mapping[Site, Hook | Sequence[Hook]]


@dataclass(frozen=True, eq=False)
class Batch:
    """Prompts as tokens, padded at their end."""

    tokens: Int[np.ndarray, "b T"]
    lengths: Int[np.ndarray, "b"]

    @classmethod
    def of(cls, prompts: Sequence[Sequence[int]]) -> "Batch":
        lengths = np.array([len(prompt) for prompt in prompts], np.int32)
        tokens = np.zeros((len(prompts), -(-int(lengths.max()) // GRID) * GRID), np.int32)
        for row, prompt in zip(tokens, prompts, strict=True):
            row[: len(prompt)] = prompt
        return cls(tokens, lengths)

    @property
    def last(self) -> Int[np.ndarray, "b"]:
        """The position of each prompt's last token."""
        return self.lengths - 1

    @property
    def real(self) -> np.ndarray:
        """Which tokens are no padding, [b, T]."""
        return np.arange(self.tokens.shape[1]) < self.lengths[:, None]


@dataclass(frozen=True, eq=False)
class Run:
    """What a batch of prompts led to: the stream and the logits at the last token, and what was kept elsewhere."""

    final: Float[Array, "b d"]  # what the last norm reads there
    kept: Mapping[Site, Array]
    scores: Float[Array, "b V"] | None

    @property
    def logits(self) -> Float[Array, "b V"]:
        """Of every token to be the next one."""
        if self.scores is None:
            raise ValueError("logits were not computed; run with logits=True")
        return self.scores

    def __getitem__(self, site: Site) -> Array:
        return self.kept[site]

    def stack(self, place: str) -> Array:
        """A place of all layers at which it was kept, [layers, b, ...]."""
        return jnp.stack([value for (name, _), value in sorted(self.kept.items()) if name == place])


@dataclass(frozen=True, eq=False)
class LanguageModel(Words):
    """Weights with their tokeniser. Nothing changes in place: `replaced` gives another model that shares the rest."""

    E: Float[Array, "V d"]  # embeddings
    U: Float[Array, "V d"]  # unembeddings: the same array, where they are tied
    g: Float[Array, "d"]  # gain of the last norm
    layers: Sequence[Weights]
    factors: Float[Array, "half"] | None = None  # of rotary angles, in files that have them

    @property
    def n_params(self) -> int:
        whole = [self.E, self.g] + ([] if self.U is self.E else [self.U])
        return sum(int(w.size) for w in whole) + sum(int(w.size) for layer in self.layers for w in layer.values())

    def batch(self, prompts: Sequence[str]) -> Batch:
        """Texts as a batch; each begins with the token that a prompt begins with."""
        return Batch.of([self.encode(prompt) for prompt in prompts])

    def run(
        self, batch: Batch, *, hooks: Hooks | None = None, keep: Collection[str | Site] = (),
        at: np.ndarray | None = None, logits: bool = True, start: tuple[int, Array] | None = None,
    ) -> Run:  # fmt: skip
        """Run a batch through all layers.

        ``hooks`` change what is computed at a site. ``keep`` names places (of all layers) or sites, whose values come
        with the run, as the hooks left them: at the positions ``at``, [b] or [b, P], as [b, P, ...], or without ``at``
        at all of them, [b, T, ...]. With ``start=(l, x)`` the layers before l are skipped, x being the whole ``stream``
        l of an earlier run. Whatever a hook closes over can be differentiated with `jax.grad`.
        """
        self._check_memory(batch)
        c, wanted, kept = self.config, self._sites(keep), {}
        changes = {site: list(h) if isinstance(h, Sequence) else [h] for site, h in (hooks or {}).items()}
        self._sites(changes)
        rows, columns = np.arange(len(batch.lengths))[:, None], None if at is None else at.reshape(len(at), -1)

        def pass_by(place: str, layer: int, value: Array) -> Array:
            for change in changes.get((place, layer), ()):
                value = change(value)
            if (place, layer) in wanted:
                kept[place, layer] = value if columns is None else value[rows, columns]
            return value

        first, x = start or (0, self.E[batch.tokens])
        for i in range(first, c.L):
            w = self.layers[i]
            x = pass_by("stream", i, x)
            z = pass_by("heads", i, forward.heads(c, w, x, self.factors))
            x = x + pass_by("attention", i, forward.attention(w, z))
            k = pass_by("keys", i, forward.keys(c, w, x))
            x = x + pass_by("mlp", i, forward.mlp(w, k))
        x = pass_by("stream", c.L, x)
        final = x[rows[:, 0], batch.last]
        return Run(final, kept, self.unembed(final) if logits else None)

    def _check_memory(self, batch: Batch) -> None:
        """Refuse prompts that do not fit in memory: by the scores of attention, neurons and logits, in float32."""
        c, (b, T) = self.config, batch.tokens.shape
        needed = 4.0 * b * (3 * c.H * T * T + T * (3 * c.m + 8 * c.d) + 2 * c.V)
        check_memory(f"a batch of {b} prompts of {T} tokens", needed, "take fewer or shorter prompts")

    def _sites(self, given: Collection[str | Site]) -> set[Site]:
        """Sites, with a place alone for that of all layers; one that is not there is refused."""
        sites: set[Site] = set()
        for one in given:
            place, layers = (one, None) if isinstance(one, str) else (one[0], [one[1]])
            check_one_of("place", place, PLACES)
            most = self.config.L + (place == "stream")
            if layers is not None and not 0 <= layers[0] < most:
                raise ValueError(f"layer={layers[0]}: the model has {self.config.L}, counted from 0")
            sites |= {(place, layer) for layer in layers or range(most)}
        return sites

    def unembed(self, x: Float[Array, "n d"]) -> Float[Array, "n V"]:
        """The logits of streams as the last norm reads them."""
        return forward.logits(self.config, self.g, self.U, x)

    def pattern(self, layer: int, stream: Float[Array, "b T d"]) -> Float[Array, "b H T T"]:
        """Where each head of a layer looks, from the ``stream`` that the layer reads."""
        return forward.pattern(self.config, self.layers[layer], stream, self.factors)

    def first(self, n: int) -> "LanguageModel":
        """Its first n layers alone: for what stands in the stream up to there, without the work of the others."""
        if not 0 <= n <= self.config.L:
            raise ValueError(f"layer={n}: the model has {self.config.L}, counted from 0")
        return replace(self, config=replace(self.config, L=n), layers=self.layers[:n])

    def replaced(self, weights: Mapping[tuple[int, str], Array]) -> "LanguageModel":
        """The model with other weights: ``model.replaced({(28, "W_down"): W})``. All others are shared, not copied."""
        layers = list(self.layers)
        for (layer, name), value in weights.items():
            shape = self.config.shapes().get(name)
            if shape is None or not 0 <= layer < len(layers):
                raise ValueError(f"there is no {name!r} in layer {layer}; names are {', '.join(self.config.shapes())}")
            if value.shape != shape:
                raise ValueError(f"{name} of a layer has the shape {shape}, and not {value.shape}")
            layers[layer] = layers[layer] | {name: jnp.asarray(value, jnp.float32)}
        return replace(self, layers=layers)

    def losses(self, batch: Batch, *, hooks: Hooks | None = None) -> Float[np.ndarray, "n"]:
        """-ln p of every token but each prompt's first, in nats, prompt after prompt: of texts, not of questions."""
        x = self.run(batch, hooks=hooks, keep=[("stream", self.config.L)], logits=False)["stream", self.config.L]
        rows, columns = np.nonzero(batch.real[:, 1:])
        found = []
        for start in range(0, len(rows), ROWS):
            r, t = rows[start : start + ROWS], columns[start : start + ROWS]
            padding = np.zeros(ROWS - len(r), int)  # one shape for all: one compilation
            r, t = np.concatenate([r, padding]), np.concatenate([t, padding])
            found.append(forward.losses(self.config, self.g, self.U, x[r, t], jnp.asarray(batch.tokens[r, t + 1])))
        return np.concatenate(found)[: len(rows)]

    def perplexity(self, text: str, *, hooks: Hooks | None = None) -> float:
        """exp of the mean loss over the tokens of a text."""
        return float(np.exp(self.losses(self.batch([text]), hooks=hooks).mean()))

    def ov(self, layer: int, head: int | None = None) -> Float[Array, "d d"]:
        """W_OV of a head, or of all heads of a layer summed: what a position that is looked at adds to the one that
        looks, as a map of the stream over its root mean square. The norm's gain is in it."""
        c, w = self.config, self.layers[layer]
        W_O = w["W_O"].reshape(c.d, c.G, c.H // c.G, c.d_h)
        W_V = w["W_V"].reshape(c.G, c.d_h, c.d) * w["g_A"]
        if head is not None:
            g, r = divmod(head, c.H // c.G)
            return W_O[:, g, r] @ W_V[g]
        return jnp.einsum("igrc,gcj->ij", W_O, W_V)


def batches(prompts: Sequence[Sequence[int]], size: int = SIZE) -> list[tuple[np.ndarray, Batch]]:
    """Prompts in batches of about the same length, each with the places of its prompts in the list: a short prompt
    does not wait for a long one, and there are few shapes to compile for."""
    order = np.argsort([len(prompt) for prompt in prompts], kind="stable")
    chosen = [order[start : start + size] for start in range(0, len(order), size)]
    return [(places, Batch.of([prompts[i] for i in places])) for places in chosen]
