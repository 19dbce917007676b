"""An independent eye: what a saved model says, from the equations of the paper and its file alone.

It imports nothing of facthold, so that a fault there cannot hide here. The file is read byte by byte, by the names of
docs/export.md; every prompt goes through equations 4 to 7 by itself, in float64. Prompts are its own, with fresh noise
at random places. Nothing here is fast.
"""

import json
import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.polynomial import hermite_e

TYPES = {"F32": "<f4", "F64": "<f8", "I32": "<i4", "I64": "<i8", "U8": "u1"}
VOCABULARY, ANSWERS = "vocabulary", "answers"


def read(path: str | Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """A safetensors file: eight bytes with the header's length, the header as JSON, then the numbers."""
    raw = Path(path).read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    header, start = json.loads(raw[8 : 8 + length]), 8 + length
    about = json.loads(header.pop("__metadata__")["about"])
    tensors = {}
    for name, entry in header.items():
        first, last = (start + offset for offset in entry["data_offsets"])
        tensors[name] = np.frombuffer(raw[first:last], TYPES[entry["dtype"]]).reshape(entry["shape"])
    for name, grid in about.get("packed", {}).items():
        tensors[f"model.{name}"] = unpacked(grid, tensors.pop(f"packed.{name}"), tensors.pop(f"steps.{name}"))
    if "problem" in about and "problem.phi" not in tensors:
        tensors["problem.phi"] = drawn(about["problem"], tensors)
    wide = {"f": np.float64, "i": np.int64}
    return about, {name: array.astype(wide[array.dtype.kind]) for name, array in tensors.items()}


def unpacked(grid: dict[str, Any], groups: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """Weights on a grid, digit by digit: a group of bytes is a number whose digits in base L are levels."""
    L, digits = grid["levels"], []
    for group in groups:
        number = int.from_bytes(group.tobytes(), "little")
        for _ in range(grid["per_group"]):
            number, digit = divmod(number, L)
            digits.append(digit)
        assert number == 0
    points = np.array(digits[: math.prod(grid["shape"])], float) - (L - 1) / 2
    return steps * points.reshape(grid["shape"]).astype(steps.dtype)


def drawn(problem: dict[str, Any], tensors: dict[str, np.ndarray]) -> np.ndarray:
    """Embeddings that a file has left out: a stream of random rows for each kind of token, but for changed rows."""
    drawing, d = problem["drawing"], problem["drawing"]["d"]
    blocks = []
    for n, key in zip((problem["S"], problem["R"], drawing["n_noise"], 1, problem["A"]), drawing["keys"], strict=True):
        rows = np.random.Generator(np.random.Philox(key=np.array(key, np.uint64))).standard_normal((n, d))
        if drawing["kind"] == "signs":
            rows = np.where(rows > 0, 1.0, -1.0)
        blocks.append(
            rows / (np.sqrt((rows**2).sum(axis=1, keepdims=True)) if drawing["kind"] == "sphere" else np.sqrt(d))
        )
    phi = np.concatenate(blocks).astype(np.float32)
    if "problem.changed" in tensors:
        phi[tensors["problem.changed"]] = tensors["problem.changed_phi"]
    return phi


def activate(name: str, z: np.ndarray) -> np.ndarray:
    """sigma by its name: ReLU, or a sum of orthonormal Hermite polynomials He_k / sqrt(k!)."""
    if name == "relu":
        return np.where(z > 0, z, 0.0)
    kind, _, numbers = name.partition(":")
    assert kind == "hermite", name
    coefficients = [float(c) / math.sqrt(math.factorial(k)) for k, c in enumerate(numbers.split(","))]
    return hermite_e.hermeval(z, coefficients)


class MemoryEye:
    """A saved memory of section 3: its scores u_y^T F(e_x), a row for each x."""

    def __init__(self, path: str | Path) -> None:
        about, t = read(path)
        self.f, self.kind = t["problem.f"], about["model"]
        self.scores = np.stack([t["problem.U"] @ self._F(about, t, x) for x in t["problem.E"]])
        self.size = float(np.abs(self.scores).max())  # of what is summed: what cancels has its rounding
        if self.kind == "MLPMemory":
            terms = np.abs(t["model.V"]).T @ (np.abs(t["model.W"]) @ np.abs(t["problem.E"]).T)
            self.size = max(self.size, float(np.linalg.norm(terms, axis=0).max()))

    @staticmethod
    def _F(about: dict[str, Any], t: dict[str, np.ndarray], x: np.ndarray) -> np.ndarray:
        if about["model"] == "LinearMemory":
            return t["model.W"] @ x
        if about["model"] == "LowRankMemory":
            return t["model.W_1"].T @ (t["model.W_2"] @ x)
        assert about["model"] == "MLPMemory"
        z = t["model.W"] @ x + t.get("model.b", 0.0)
        return t["model.V"].T @ activate(about["settings"]["sigma"], z)

    @property
    def margins(self) -> np.ndarray:
        """The right score minus the best of the others, for each x."""
        return np.array([s[y] - np.delete(s, y).max() for s, y in zip(self.scores, self.f, strict=True)])

    @property
    def recall(self) -> float:
        return float((self.margins > 0).mean())


@dataclass(frozen=True)
class Seen:
    """One prompt, judged."""

    said: int  # the token with the largest logit
    right: int  # the right answer with the largest logit, as a token
    rival: int  # the best of those that are not right
    margin: float


class Eye:
    """A saved transformer with its facts."""

    def __init__(self, path: str | Path) -> None:
        about, self.t = read(path)
        assert about["model"] == "Transformer"
        said, self.settings = about["problem"], about["settings"]
        self.S, self.R, self.A, self.T = (said[name] for name in "SRAT")
        self.outputs, self.labels = said["outputs"], said["labels"]
        self.phi = self.t["problem.phi"]
        self.first_answer = len(self.phi) - self.A
        self.EOS = self.first_answer - 1
        self.facts = np.stack([self.t[f"problem.{name}"] for name in ("subjects", "relations", "answers")], axis=1)
        self.H, self.d_h, self.d = self.t["model.W_K"].shape

    def right(self, fact: int) -> set[int]:
        """All right answers of a fact, as tokens."""
        also = self.t.get("problem.also", np.zeros((0, 2), int))
        return {self.first_answer + int(a) for a in [self.facts[fact, 2], *also[also[:, 0] == fact, 1]]}

    def prompt(self, s: int, r: int, rng: np.random.Generator) -> np.ndarray:
        """z_1 ... z_T: s and r at two places of the first T - 1, noise at all others, EOS last (section 4.1)."""
        tokens = rng.integers(self.S + self.R, self.EOS, self.T)
        tokens[rng.permutation(self.T - 1)[:2]] = s, self.S + r
        tokens[-1] = self.EOS
        return tokens

    def prompts(self, seed: int) -> list[np.ndarray]:
        """A prompt for each fact, with fresh noise."""
        rng = np.random.default_rng(seed)
        return [self.prompt(s, r, rng) for s, r, _ in self.facts]

    def heads(self, tokens: Sequence[int] | np.ndarray) -> np.ndarray:
        """What each head adds to the residual stream (equations 4 and 5), a row for each."""
        X = self.phi[np.asarray(tokens)]
        rows = []
        for h in range(self.H):
            W_K, W_Q, W_V, W_O = (self.t[f"model.W_{name}"][h] for name in "KQVO")
            scores = X @ (W_K.T @ (W_Q @ X[-1]))
            if self.settings["scaled"]:
                scores = scores / math.sqrt(self.d_h)
            weights = np.exp(scores - scores.max())
            rows.append(W_O.T @ (W_V @ (X.T @ (weights / weights.sum()))))
        return np.stack(rows)

    def neurons(self, x: np.ndarray) -> np.ndarray:
        """What each neuron adds (equation 6), a row for each; none without an MLP."""
        if "model.mlp.W" not in self.t:
            return np.zeros((0, self.d))
        z = self.t["model.mlp.W"] @ x + self.t.get("model.mlp.b", 0.0)
        return activate(self.settings["mlp.sigma"], z)[:, None] * self.t["model.mlp.V"]

    def F(self, tokens: Sequence[int] | np.ndarray, without: str = "") -> np.ndarray:
        """F_TF of a prompt, whole or without a part: 'head 3', 'neuron 7', 'direct path' or 'MLP'."""
        part, _, number = without.partition(" ")
        heads = self.heads(tokens)
        if part == "head":
            heads[int(number)] = 0.0
        x = heads.sum(axis=0)
        neurons = self.neurons(x)
        if part == "neuron":
            neurons[int(number)] = 0.0
        mlp = neurons.sum(axis=0)
        return {"direct": mlp, "MLP": x}.get(part, x + mlp)

    def logits(self, tokens: Sequence[int] | np.ndarray, without: str = "") -> np.ndarray:
        """The logits of the whole vocabulary, as phi numbers it."""
        return self.phi @ self.F(tokens, without)

    def judge(self, logits: np.ndarray, fact: int, outputs: str | None = None) -> Seen:
        """Equation 7: the arg max over the whole vocabulary, or among the answers alone; by default as was saved."""
        first = self.first_answer if (outputs or self.outputs) == ANSWERS else 0
        among, right = range(first, len(logits)), self.right(fact)
        best = max(right, key=lambda a: logits[a])
        rival = max((z for z in among if z not in right), key=lambda z: logits[z])
        return Seen(max(among, key=lambda z: logits[z]), best, rival, float(logits[best] - logits[rival]))

    def ask(self, prompts: Sequence[Any], outputs: str | None = None, without: str = "") -> list[Seen]:
        """Every fact, each in its prompt."""
        return [self.judge(self.logits(z, without), fact, outputs) for fact, z in enumerate(prompts)]

    def margins(self, prompts: Sequence[Any], outputs: str | None = None, without: str = "") -> np.ndarray:
        return np.array([seen.margin for seen in self.ask(prompts, outputs, without)])

    def recall(self, seed: int, outputs: str | None = None) -> float:
        """The share of facts that win strictly, each in a fresh prompt of its own."""
        return float((self.margins(self.prompts(seed), outputs) > 0).mean())

    def row(self, subject: str, relation: str) -> int:
        """The fact with these names."""
        pair = self.labels["subjects"].index(subject), self.labels["relations"].index(relation)
        return [tuple(fact[:2]) for fact in self.facts.tolist()].index(pair)

    def name(self, token: int) -> str:
        """The name of an answer."""
        return self.labels["answers"][token - self.first_answer]

    def parts(self, tokens: Sequence[int] | np.ndarray, fact: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Of the margin against the best rival: what each head adds directly, what it adds through the MLP while the
        gates of its ReLUs are held, and what each neuron adds."""
        seen = self.judge(self.logits(tokens), fact)
        u = self.phi[seen.right] - self.phi[seen.rival]
        heads = self.heads(tokens)
        neurons = self.neurons(heads.sum(axis=0))
        if not len(neurons):
            return heads @ u, np.zeros(self.H), np.zeros(0)
        W, V, b = self.t["model.mlp.W"], self.t["model.mlp.V"], self.t.get("model.mlp.b", 0.0)
        on = W @ heads.sum(axis=0) + b > 0
        through = [sum((V[i] @ u) * (W[i] @ row) for i in np.flatnonzero(on)) for row in heads]
        return heads @ u, np.array(through), neurons @ u
