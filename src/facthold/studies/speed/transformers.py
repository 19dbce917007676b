"""The training step of transformers: ours and a plain one, timed side by side in one run.

The multiplications that are needed are those of the counts' view: nothing is computed at a position, only for
a token or for a prompt. The embeddings are fixed, so nothing is counted for their gradients; elementwise work
and the drawing of prompts are not counted at all.
"""

import dataclasses
import json
import sys
import time
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array

from facthold.facts.problem import FactualRecall
from facthold.facts.prompts import Prompts
from facthold.models.transformer import Transformer
from facthold.studies.speed.timing import in_fresh_process, side_by_side
from facthold.studies.transformers.fact_capacity import make_problem, nested_table, racing_members
from facthold.studies.transformers.variants import VARIANTS
from facthold.train import BATCH, RecallFacts, protocol
from facthold.train.engine import Group
from facthold.train.lanes import shared_lanes

CODE = VARIANTS["code"]


@dataclass(frozen=True)
class TransformerBench:
    """One size to time."""

    H: int
    d_h: int
    d: int
    m: int
    S: int
    R: int
    D: int
    authors_ms: float
    """What the authors' public code takes for a step there, on two idle cores."""
    sketch_ms: float
    """What a first sketch with token counts took."""

    @property
    def name(self) -> str:
        return f"H={self.H} d_h={self.d_h} d={self.d} m={self.m} S={self.S} R={self.R} D={self.D}"

    def problem(self, seed: int = 0) -> FactualRecall:
        table = nested_table("random", self.S, self.R, self.D, seed)
        return make_problem(table, self.d, seed, CODE, 32)


TRANSFORMERS = (
    TransformerBench(8, 8, 64, 256, 64, 64, 8, authors_ms=42, sketch_ms=5.1),
    TransformerBench(8, 32, 64, 256, 64, 64, 8, authors_ms=150, sketch_ms=6.9),
    TransformerBench(8, 4, 32, 128, 32, 32, 8, authors_ms=19, sketch_ms=2.1),
    TransformerBench(8, 16, 128, 512, 96, 96, 8, authors_ms=121, sketch_ms=14.2),
)


def needed_flops(bench: TransformerBench) -> int:
    """Operations of one step of one member, two a multiplication and addition.

    For each prompt: the logits and their way back, 2 A d; two layers of the MLP forward and four products back,
    6 m d; W_O forward and two products back, 3 H d_h d; the counts times the table and its transpose, 2 V H (d_h + 1).
    For each token: its values and the gradient of W_V, 2 d H d_h.
    """
    A, V, heads = bench.R * bench.D, 2 * (bench.S + bench.R) + 1, bench.H * bench.d_h
    a_prompt = (2 * A + 6 * bench.m + 3 * heads) * bench.d + 2 * V * (heads + bench.H)
    return 2 * (BATCH * a_prompt + V * 2 * bench.d * heads)


def run_transformer_bench(bench: TransformerBench, seconds: float) -> dict[str, Any]:
    """Milliseconds a step and member, here and plain, their ratio, and our share of the machine's peak."""
    result = side_by_side(
        bench.name,
        lambda seconds: _time_engine(bench, seconds),
        lambda seconds: in_fresh_process(__name__, dataclasses.asdict(bench), seconds),
        needed_flops(bench),
        seconds,
    )
    return result | {"authors_ms": bench.authors_ms, "plain_against_authors": result["plain_ms"] / bench.authors_ms}


def _time_engine(bench: TransformerBench, seconds: float) -> float:
    """Milliseconds a step and member: a member on each lane, in calls of ``check_every`` steps with their looks."""
    lanes, training = shared_lanes(), protocol("transformer-code")
    endless = replace(training, goal=1.0, futility=None, steps=1 << 20)
    groups = []
    for seed in range(len(lanes)):
        task = RecallFacts.of(bench.problem(seed))
        race = racing_members(task, bench.H, bench.d_h, bench.m, seed, CODE, endless, seed)[:1]
        groups.append(Group([0], race, endless, stride=endless.check_every))
    list(lanes.map(lambda group: group.advance(lanes), groups))  # compiles
    n, start = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - start) < seconds or not n:
        list(lanes.map(lambda group: group.advance(lanes), groups))
        n += len(groups) * endless.check_every
    return elapsed * 1e3 / n


class PlainTransformer:
    """Training as it is usually written: keys and values at every position, a jitted step from a Python loop."""

    def __init__(self, bench: TransformerBench, lr: float = 1e-3) -> None:
        problem = bench.problem()
        phi, U, d_h = jnp.asarray(problem.phi), jnp.asarray(problem.U), bench.d_h
        self.prompts = Prompts.of(problem.table)
        model = Transformer.init(bench.d, bench.H, d_h, bench.m, key=jax.random.key(0), bias=True, scaled=True)
        assert model.mlp is not None
        weights = {name: getattr(model, name) for name in ("W_K", "W_Q", "W_V", "W_O")}
        self.params: Any = weights | {name: getattr(model.mlp, name) for name in ("W", "V", "b")}
        optimiser = optax.adamw(lr, weight_decay=0.0)
        self.state = optimiser.init(self.params)
        self.losses: list[Array] = []

        def logits(p: Any, tokens: Array) -> Array:
            x = phi[tokens]
            keys = jnp.einsum("btd,hid->bhti", x, p["W_K"])
            values = jnp.einsum("btd,hid->bhti", x, p["W_V"])
            queries = jnp.einsum("bd,hid->bhi", x[:, -1], p["W_Q"])
            weights = jax.nn.softmax(jnp.einsum("bhti,bhi->bht", keys, queries) / d_h**0.5)
            heads = jnp.einsum("bht,bhti->bhi", weights, values)
            x = jnp.einsum("bhi,hid->bd", heads, p["W_O"])
            x = x + jax.nn.relu(x @ p["W"].T + p["b"]) @ p["V"]
            return x @ U.T

        def loss(p: Any, tokens: Array, answers: Array) -> Array:
            return optax.softmax_cross_entropy_with_integer_labels(logits(p, tokens), answers).mean()

        @jax.jit
        def step(p: Any, state: Any, tokens: Array, answers: Array) -> tuple[Any, Any, Array]:
            value, gradient = jax.value_and_grad(loss)(p, tokens, answers)
            update, state = optimiser.update(gradient, state, p)
            return optax.apply_updates(p, update), state, value

        @jax.jit
        def sample(key: Array) -> tuple[Array, Array]:
            facts = self.prompts.draw(BATCH, key=key)
            return self.prompts.sequences(facts, key=key), self.prompts.answers[facts]

        @jax.jit
        def accuracy(p: Any, tokens: Array, answers: Array) -> Array:
            return (jnp.argmax(logits(p, tokens), axis=1) == answers).mean()

        self.step, self.sample, self.accuracy = step, sample, accuracy

    def train(self, steps: int, goal: float = 2.0, check_every: int = 128) -> float:
        """Train until the goal or for ``steps``; the best accuracy on a sample of prompts, as the authors' code."""
        best, test = 0.0, self.sample(jax.random.key(1))
        for i in range(steps):
            batch = self.sample(jax.random.key(2 + i))
            self.params, self.state, value = self.step(self.params, self.state, *batch)
            self.losses.append(value)
            if (i + 1) % check_every == 0:
                best = max(best, float(self.accuracy(self.params, *test)))
                if best >= goal:
                    break
        return best

    def milliseconds(self, seconds: float) -> float:
        """Milliseconds a step, over about ``seconds``. Its looks, one in 128 steps, are left out: to its favour."""
        self.train(2)
        n, start = 0, time.perf_counter()
        while (elapsed := time.perf_counter() - start) < seconds:
            self.train(16)
            jax.block_until_ready(self.params)
            n += 16
        return elapsed * 1e3 / n


if __name__ == "__main__":
    print(PlainTransformer(TransformerBench(**json.loads(sys.argv[1]))).milliseconds(float(sys.argv[2])))
