"""GGUF files of small random models, written by the package `gguf`; a forward pass that shares no code with ours."""

from pathlib import Path
from typing import Any

import gguf
import numpy as np

from facthold.lm.gguf import tensor_name
from facthold.lm.tiny import tiny_weights, vocabulary

SIZES = {"L": 2, "d": 64, "m": 96, "H": 4, "G": 2, "d_h": 16, "theta": 5000.0, "eps": 1e-5, "context": 64}
SHAPES = {
    "attn_norm": ("d",), "attn_q": ("Hd_h", "d"), "attn_k": ("Gd_h", "d"), "attn_v": ("Gd_h", "d"),
    "attn_output": ("d", "Hd_h"), "ffn_norm": ("d",), "ffn_gate": ("m", "d"), "ffn_up": ("m", "d"),
    "ffn_down": ("d", "m"),
}  # fmt: skip


def random_weights(seed: int = 0, *, tied: bool = True, factors: bool = False, **sizes: Any) -> dict[str, np.ndarray]:
    """By the names in the file. Gains are not 1, so that one that is forgotten is seen."""
    s = SIZES | sizes
    n = {"d": s["d"], "m": s["m"], "Hd_h": s["H"] * s["d_h"], "Gd_h": s["G"] * s["d_h"]}
    rng = np.random.default_rng(seed)
    V = len(vocabulary().tokens)
    shapes = {"token_embd.weight": (V, n["d"]), "output_norm.weight": (n["d"],)}
    shapes |= {} if tied else {"output.weight": (V, n["d"])}
    for layer in range(s["L"]):
        shapes |= {f"blk.{layer}.{name}.weight": tuple(n[a] for a in shape) for name, shape in SHAPES.items()}
    made = {
        name: rng.uniform(0.5, 1.5, shape) if len(shape) == 1 else rng.normal(size=shape) / np.sqrt(shape[-1])
        for name, shape in shapes.items()
    }
    if factors:
        made["rope_freqs.weight"] = rng.uniform(1, 8, s["d_h"] // 2)
    return {name: value.astype(np.float32) for name, value in made.items()}


def planted(path: Path) -> Path:
    """The tiny model, which knows facts, as a file of one's own: it is asked about all countries then."""
    c, whole, layers = tiny_weights()
    weights = {tensor_name(name, None): value for name, value in whole.items()}
    for i, layer in enumerate(layers):
        weights |= {tensor_name(name, i): value for name, value in layer.items()}
    return write(path, {name: value.astype(np.float32) for name, value in weights.items()}, **vars(c))


def write(
    path: Path, weights: dict[str, np.ndarray], quantisation: str = "F32", *, architecture: str = "llama",
    without: tuple[str, ...] = (), extra: dict[str, Any] | None = None, **sizes: Any,
) -> Path:  # fmt: skip
    """A file with these weights, the matrices quantised; ``without`` some metadata, and with ``extra`` ones."""
    s, words = SIZES | sizes, vocabulary()
    writer = gguf.GGUFWriter(path, architecture)
    numbers = {
        "block_count": s["L"], "context_length": s["context"], "embedding_length": s["d"],
        "feed_forward_length": s["m"], "attention.head_count": s["H"],
        "attention.head_count_kv": s["G"], "rope.dimension_count": s["d_h"],
    }  # fmt: skip
    if s["H"] * s["d_h"] != s["d"]:
        numbers |= {"attention.key_length": s["d_h"], "attention.value_length": s["d_h"]}
    for key, value in numbers.items():
        if key not in without:
            writer.add_uint32(f"{architecture}.{key}", value)
    writer.add_float32(f"{architecture}.rope.freq_base", s["theta"])
    if "eps" not in without:
        writer.add_float32(f"{architecture}.attention.layer_norm_rms_epsilon", s["eps"])
    for key, text in (extra or {}).items():
        writer.add_string(key, text)
    writer.add_tokenizer_model("gpt2" if "gpt2" not in without else "llama")
    writer.add_tokenizer_pre(words.before)
    writer.add_token_list(list(words.tokens))
    writer.add_token_merges(list(words.merges))
    kind = gguf.GGMLQuantizationType[quantisation]
    for name, value in weights.items():
        if value.ndim == 1 or quantisation == "F32":
            writer.add_tensor(name, value)
        elif quantisation == "F16":
            writer.add_tensor(name, value.astype(np.float16))
        else:
            writer.add_tensor(name, gguf.quantize(value, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def as_read(weights: dict[str, np.ndarray], quantisation: str) -> dict[str, np.ndarray]:
    """The weights after a round through a quantisation."""
    if quantisation == "F32":
        return weights
    kind = gguf.GGMLQuantizationType[quantisation]
    return {
        name: value if value.ndim == 1 else gguf.dequantize(gguf.quantize(value, kind), kind).reshape(value.shape)
        for name, value in weights.items()
    }


def plain_logits(weights: dict[str, np.ndarray], tokens: list[int], **sizes: Any) -> np.ndarray:
    """The logits after every token: float64, one token and one head at a time, with the keys and values so far.

    Written from the published architecture: RMSNorm before each block, rotary positions on queries and keys (a complex
    number for each pair of neighbours, as GGUF orders them), grouped keys and values, SwiGLU.
    """
    s = SIZES | sizes
    w = {name: value.astype(np.float64) for name, value in weights.items()}
    rate = s["theta"] ** (-2 * np.arange(s["d_h"] // 2) / s["d_h"]) / w.get("rope_freqs.weight", 1.0)
    cache: list[list[tuple[np.ndarray, np.ndarray]]] = [[] for _ in range(s["L"])]
    out = []

    def norm(x: np.ndarray, gain: str) -> np.ndarray:
        return w[gain] * x / np.sqrt(np.mean(x**2) + s["eps"])

    def rotate(vector: np.ndarray, position: int) -> np.ndarray:
        turned = (vector[0::2] + 1j * vector[1::2]) * np.exp(1j * position * rate)
        return np.stack([turned.real, turned.imag], 1).ravel()

    for position, token in enumerate(tokens):
        x = w["token_embd.weight"][token]
        for layer in range(s["L"]):
            name = f"blk.{layer}."
            y = norm(x, f"{name}attn_norm.weight")
            q = (w[f"{name}attn_q.weight"] @ y).reshape(s["H"], s["d_h"])
            k = (w[f"{name}attn_k.weight"] @ y).reshape(s["G"], s["d_h"])
            v = (w[f"{name}attn_v.weight"] @ y).reshape(s["G"], s["d_h"])
            cache[layer].append((np.array([rotate(one, position) for one in k]), v))
            carried = []
            for head in range(s["H"]):
                group = head * s["G"] // s["H"]
                turned = rotate(q[head], position)
                scores = np.array([turned @ k_t[group] for k_t, _ in cache[layer]]) / np.sqrt(s["d_h"])
                share = np.exp(scores - scores.max())
                carried.append(
                    sum(p * v_t[group] for p, (_, v_t) in zip(share / share.sum(), cache[layer], strict=True))
                )
            x = x + w[f"{name}attn_output.weight"] @ np.concatenate(carried)
            y = norm(x, f"{name}ffn_norm.weight")
            gate = w[f"{name}ffn_gate.weight"] @ y
            x = x + w[f"{name}ffn_down.weight"] @ (gate / (1 + np.exp(-gate)) * (w[f"{name}ffn_up.weight"] @ y))
        out.append(w.get("output.weight", w["token_embd.weight"]) @ norm(x, "output_norm.weight"))
    return np.array(out)
