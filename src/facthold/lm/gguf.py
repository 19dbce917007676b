"""GGUF files of the llama architecture, dequantised by the package `gguf`. What would be left out is refused."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from facthold._util.errors import FactholdError, brief, optional
from facthold._util.plugins import version_of
from facthold.lm import NEEDED
from facthold.lm.header import read_header

ARCHITECTURE = "llama"
LAYER = {
    "g_A": "attn_norm", "W_Q": "attn_q", "W_K": "attn_k", "W_V": "attn_v", "W_O": "attn_output",
    "g_M": "ffn_norm", "W_gate": "ffn_gate", "W_up": "ffn_up", "W_down": "ffn_down",
}  # fmt: skip
"""The weights of a layer by their names here, and by those in the file: gains of both norms, attention, MLP."""
WHOLE = {"E": "token_embd", "g": "output_norm"}  # embeddings, and the gain of the last norm
UNEMBEDDING, FACTORS = "output.weight", "rope_freqs.weight"  # in files where it is not E; of longer contexts


@dataclass(frozen=True)
class Config:
    """Sizes and constants of a model of the llama architecture."""

    L: int  # layers
    d: int  # of the stream
    m: int  # hidden neurons of an MLP
    H: int  # heads
    G: int  # heads of keys and values: each serves H / G heads
    d_h: int  # of a head
    V: int  # tokens
    context: int  # the longest prompt
    theta: float  # base of the rotary angles
    eps: float  # below the root of a norm

    @property
    def n_params(self) -> int:
        """Of a model whose unembeddings are its embeddings."""
        return (self.V + 1) * self.d + self.L * sum(math.prod(shape) for shape in self.shapes().values())

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Of a layer's weights, as (out, in)."""
        return {
            "g_A": (self.d,), "W_Q": (self.H * self.d_h, self.d), "W_K": (self.G * self.d_h, self.d),
            "W_V": (self.G * self.d_h, self.d), "W_O": (self.d, self.H * self.d_h), "g_M": (self.d,),
            "W_gate": (self.m, self.d), "W_up": (self.m, self.d), "W_down": (self.d, self.m),
        }  # fmt: skip


@dataclass(frozen=True)
class Vocabulary:
    """Tokens as the file has them: in the letters that byte-level BPE has for bytes."""

    tokens: Sequence[str]
    merges: Sequence[str]
    before: str  # how a text is split before its merges: 'smollm'
    begin: int  # the token that a prompt begins with


class Gguf:
    """An open file. Weights are dequantised one at a time, when they are asked for."""

    def __init__(self, path: Path) -> None:
        (self._package,) = optional(NEEDED, "gguf")
        self.path = path
        self.metadata, self._tensors, self._data = read_header(path)
        self._check()

    def get(self, key: str, default: Any = None) -> Any:
        """A value of the metadata; without a default it must be there."""
        value = self.metadata.get(key, default)
        if value is None:
            raise FactholdError(f"{self.path} does not say its {key}; take another file")
        return value

    @cached_property
    def config(self) -> Config:
        def size(key: str, default: int | None = None) -> int:
            value = self.get(f"{ARCHITECTURE}.{key}", default)
            if not isinstance(value, int) or value < 1:
                raise FactholdError(f"{self.path} has {brief(value)} as its {key}, and not a number above 0")
            return value

        d, H = size("embedding_length"), size("attention.head_count")
        G, d_h = size("attention.head_count_kv", H), size("attention.key_length", d // H)
        if H % G or d_h % 2 or size("rope.dimension_count", d_h) != d_h or size("attention.value_length", d_h) != d_h:
            raise FactholdError(f"{self.path} has heads that facthold cannot compute: H={H}, {G} of keys, d_h={d_h}")
        scaling = self.metadata.get(f"{ARCHITECTURE}.rope.scaling.type", "none")
        if scaling != "none":
            raise FactholdError(f"{self.path} stretches its rotary angles ({scaling}), which facthold does not do")
        return Config(
            L=size("block_count"), d=d, m=size("feed_forward_length"), H=H, G=G, d_h=d_h,
            V=len(self.get("tokenizer.ggml.tokens")), context=size("context_length"),
            theta=float(self.get(f"{ARCHITECTURE}.rope.freq_base", 10_000.0)),
            eps=float(self.get(f"{ARCHITECTURE}.attention.layer_norm_rms_epsilon")),
        )  # fmt: skip

    @cached_property
    def vocabulary(self) -> Vocabulary:
        kind = self.get("tokenizer.ggml.model")
        if kind != "gpt2":
            raise FactholdError(
                f"{self.path} splits texts by {kind!r}; facthold has byte-level BPE alone ('gpt2'): take another file"
            )
        tokens = self.get("tokenizer.ggml.tokens")
        # SmolLM2's file names another token, but its texts began with this one: the first token is a sink, and without
        # it perplexity is higher (docs/lm.md).
        end = "<|endoftext|>"
        begin = tokens.index(end) if end in tokens else self.get("tokenizer.ggml.bos_token_id")
        return Vocabulary(tokens, self.get("tokenizer.ggml.merges"), self.get("tokenizer.ggml.pre", "default"), begin)

    def _check(self) -> None:
        """Refuse another architecture, and weights that are missing, of another shape, or of no use here."""
        architecture = self.get("general.architecture")
        if architecture != ARCHITECTURE:
            raise FactholdError(
                f"{self.path} is of the architecture {architecture!r}; facthold computes {ARCHITECTURE!r} alone"
            )
        c = self.config
        shapes: dict[str, tuple[int, ...]] = {"token_embd.weight": (c.V, c.d), "output_norm.weight": (c.d,)}
        for layer in range(c.L):
            shapes |= {tensor_name(name, layer): shape for name, shape in c.shapes().items()}
        optional_ones = {UNEMBEDDING: (c.V, c.d), FACTORS: (c.d_h // 2,)}
        if lost := [name for name in shapes if name not in self._tensors]:
            raise FactholdError(f"{self.path} lacks {len(lost)} of its weights, such as {lost[0]}; get it again")
        for name, tensor in self._tensors.items():
            wanted = (shapes | optional_ones).get(name)
            if wanted is None:
                raise FactholdError(f"{self.path} has weights that facthold cannot use: {name}; take another file")
            if tensor.shape != wanted:
                raise FactholdError(f"{self.path}: {name} has the shape {tensor.shape}, and by its metadata {wanted}")
            self._bytes(name)

    def weight(self, name: str, layer: int | None = None) -> np.ndarray:
        """A weight in float32, as (out, in), by its name here."""
        return self._dequantised(tensor_name(name, layer))

    def extra(self, name: str) -> np.ndarray | None:
        """A weight that not every file has."""
        return self._dequantised(name) if name in self._tensors else None

    def stored_bits(self, name: str, layer: int | None = None) -> int:
        """Bits that a weight takes in the file, scales and all; 0 of unembeddings that are the embeddings."""
        own = name if name == UNEMBEDDING else tensor_name(name, layer)
        return 8 * self._bytes(own)[1].size if own in self._tensors else 0

    def _bytes(self, name: str) -> tuple[Any, np.ndarray]:
        """The quantisation of a tensor, and its bytes, a row of them for each row."""
        tensor = self._tensors[name]
        try:
            kind = self._package.GGMLQuantizationType(tensor.type)
            block = self._package.GGML_QUANT_SIZES[kind][0]
        except (ValueError, KeyError) as error:
            raise FactholdError(
                f"{self.path}: {name} has quantisation {tensor.type}, which gguf {version_of('gguf')} does not know; "
                "take a file with another, such as Q8_0, or a newer gguf"
            ) from error
        if tensor.shape[-1] % block:
            raise FactholdError(
                f"{self.path}: {name} has rows of {tensor.shape[-1]} numbers, and {kind.name} packs them by {block}; "
                "the file is damaged, or made by another rule: get it again"
            )
        shape = self._package.quant_shape_to_byte_shape(tensor.shape, kind)
        n = math.prod(shape)
        if tensor.start + n > len(self._data):
            raise FactholdError(f"{self.path} is truncated: {name} goes beyond its end; get it again")
        return kind, self._data[tensor.start : tensor.start + n].reshape(shape)

    def _dequantised(self, name: str) -> np.ndarray:
        kind, data = self._bytes(name)
        try:
            made = self._package.dequantize(data, kind).astype(np.float32, copy=False)
        except NotImplementedError as error:
            raise FactholdError(
                f"{self.path}: gguf {version_of('gguf')} cannot dequantise {kind.name}, which {name} has; take a file "
                "with another quantisation, such as Q8_0"
            ) from error
        made = made.reshape(self._tensors[name].shape)
        if not np.isfinite(made.sum(dtype=np.float64)):
            raise FactholdError(f"{self.path}: {name} has entries that are not finite; get the file again")
        return made


def tensor_name(name: str, layer: int | None) -> str:
    """A weight's name in the file."""
    return f"{WHOLE[name]}.weight" if layer is None else f"blk.{layer}.{LAYER[name]}.weight"
