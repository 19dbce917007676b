"""How fast training is: a step of ours and a plain one, timed side by side. docs/speed.md says what is counted."""

import os
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import count, islice
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, PRNGKeyArray

from facthold._util.keys import derive
from facthold._util.runtime import BLAS_VARIABLES
from facthold.facts.problem import FactualRecall, seeded_recall, seeded_table, variant
from facthold.facts.prompts import Prompts
from facthold.memory.associations import Problem, random_problem
from facthold.models.memory import Memory, initial_memory
from facthold.models.sizes import Shape
from facthold.models.transformer import Transformer
from facthold.train.engine import Member, fit
from facthold.train.lanes import shared_lanes
from facthold.train.protocols import BATCH, Protocol, protocol
from facthold.train.race import racing
from facthold.train.tasks import RecallFacts, StoreAssociations

ROUNDS = 3  # the two sides take turns this often, so that a busy moment of the machine meets both
STEPS = 128  # of ours that are timed together, at least
STEPS_BETWEEN = 16  # plain ones between two looks at the clock
Plain = Iterator[tuple[Any, Array]]  # the weights and the loss after each step


def plain_training(
    model: Any, logits: Callable[[Any, Array], Array], sample: Callable[[PRNGKeyArray], tuple[Array, Array]], lr: float
) -> Plain:
    """Training as it is usually written, and as the authors' public code does it: one model, a jitted step called from
    a Python loop. ``sample`` draws inputs and answers."""
    optimiser = optax.adamw(lr, weight_decay=0.0)
    state = optimiser.init(model)

    def loss(model: Any, inputs: Array, answers: Array) -> Array:
        return optax.softmax_cross_entropy_with_integer_labels(logits(model, inputs), answers).mean()

    @jax.jit
    def step(model: Any, state: Any, inputs: Array, answers: Array) -> tuple[Any, Any, Array]:
        value, gradient = jax.value_and_grad(loss)(model, inputs, answers)
        update, state = optimiser.update(gradient, state, model)
        return optax.apply_updates(model, update), state, value

    for i in count():
        model, state, value = step(model, state, *sample(jax.random.key(i)))
        yield model, value


def plain_memory(model: Memory, problem: Problem, training: Protocol) -> Plain:
    """The plain side for an associative memory: all associations at each step."""
    data = (jnp.asarray(problem.E), jnp.asarray(problem.f))
    return plain_training(model, lambda p, E: p.logits(E, problem.U), lambda key: data, training.lr)


def plain_transformer(model: Transformer, problem: FactualRecall, lr: float = 1e-3) -> Plain:
    """The plain side for a transformer: keys and values at every position of a prompt."""
    phi, U, prompts = jnp.asarray(problem.phi), jnp.asarray(problem.U), Prompts.of(problem.table)

    def logits(p: Any, tokens: Array) -> Array:
        x = phi[tokens]
        keys, values = (jnp.einsum("btd,hid->bhti", x, W) for W in (p.W_K, p.W_V))
        queries = jnp.einsum("bd,hid->bhi", x[:, -1], p.W_Q)
        weights = jax.nn.softmax(jnp.einsum("bhti,bhi->bht", keys, queries) / queries.shape[-1] ** 0.5)
        x = jnp.einsum("bhi,hid->bd", jnp.einsum("bht,bhti->bhi", weights, values), p.W_O)
        x = x + jax.nn.relu(x @ p.mlp.W.T + p.mlp.b) @ p.mlp.V
        return x @ U.T

    @jax.jit
    def sample(key: PRNGKeyArray) -> tuple[Array, Array]:
        facts = prompts.draw(BATCH, key=key)
        return prompts.sequences(facts, key=key), prompts.answers[facts]

    return plain_training(model, logits, sample, lr)


@dataclass(frozen=True)
class Bench:
    """One size to time: ``flops`` of a step, a ``member`` to train here, and the same model on the ``plain`` side."""

    protocol: str

    @property
    def name(self) -> str:
        sizes = (f"{name}={value}" for name, value in vars(self).items() if value and name != "protocol")
        return " ".join([self.protocol, *sizes])


@dataclass(frozen=True)
class MemoryBench(Bench):
    """An associative memory of size (d, m), linear for m = 0, that stores N associations."""

    N: int
    d: int
    m: int = 0

    @property
    def flops(self) -> int:
        """Two for a multiplication and addition. Scores F U^T and their way back P U: 2 N N d each. A linear memory:
        E W and its weight gradient, 2 N d^2 each. An MLP: two layers forward, two weight gradients and the hidden
        values' gradient, 2 N m d each."""
        N, d, m = self.N, self.d, self.m
        return 2 * 2 * N * N * d + (5 * 2 * N * m * d if m else 2 * 2 * N * d * d)

    def _problem(self, seed: int) -> Problem:
        return random_problem(self.N, self.d, key=derive("bench", seed, self.d))

    def member(self, seed: int) -> Member:
        bias, key = protocol(self.protocol).bias, derive("bench-init", seed, self.d, self.m)
        model = initial_memory("mlp" if self.m else "linear", self.d, self.m, key=key, bias=bias)
        return Member(model, StoreAssociations.of(self._problem(seed)), derive("bench-train", seed))

    def plain(self) -> Plain:
        return plain_memory(self.member(0).model, self._problem(0), protocol(self.protocol))


@dataclass(frozen=True)
class TransformerBench(Bench):
    """A transformer that learns a random table, as the authors' code trains it."""

    H: int
    d_h: int
    d: int
    m: int
    S: int
    R: int
    D: int

    @property
    def flops(self) -> int:
        """For each prompt: the logits and their way back, 2 A d; two layers of the MLP forward and four products back,
        6 m d; W_O forward and two products back, 3 H d_h d; the counts times the table and its transpose,
        2 V H (d_h + 1). For each token: its values and the gradient of W_V, 2 d H d_h."""
        A, V, heads = self.R * self.D, 2 * (self.S + self.R) + 1, self.H * self.d_h
        per_prompt = (2 * A + 6 * self.m + 3 * heads) * self.d + 2 * V * (heads + self.H)
        return 2 * (BATCH * per_prompt + V * 2 * self.d * heads)

    def _problem(self, seed: int) -> FactualRecall:
        return seeded_recall(seeded_table("random", self.S, self.R, self.D, seed), self.d, seed, "code")

    def member(self, seed: int) -> Member:
        shape, task = Shape(self.d, self.H, self.d_h, self.m), RecallFacts.of(self._problem(seed))
        return racing(task, shape, seed, variant("code"), protocol(self.protocol), race=seed)[0]

    def plain(self) -> Plain:
        return plain_transformer(self.member(0).model, self._problem(0))


AnyBench = MemoryBench | TransformerBench
BENCHES: tuple[AnyBench, ...] = (
    MemoryBench("linear-code", 180, 32),
    MemoryBench("mlp-code", 160, 16, 16),
    MemoryBench("mlp-code", 520, 16, 64),
    MemoryBench("mlp-code", 850, 32, 64),
    TransformerBench("transformer-code", 8, 8, 64, 256, 64, 64, 8),
    TransformerBench("transformer-code", 8, 32, 64, 256, 64, 64, 8),
    TransformerBench("transformer-code", 8, 4, 32, 128, 32, 32, 8),
    TransformerBench("transformer-code", 8, 16, 128, 512, 96, 96, 8),
)


def run_bench(bench: AnyBench, seconds: float) -> dict[str, Any]:
    """Milliseconds per step and member, ours and plain (medians over rounds), their ratio, and our share of the peak,
    which is measured in the same rounds."""
    each = seconds / ROUNDS
    times = [(engine_ms(bench, each), plain_ms(bench, each), peak_flops(min(0.5, each))) for _ in range(ROUNDS)]
    ours, plain, peak = (float(np.median(column)) for column in zip(*times, strict=True))
    return {
        "name": bench.name, "ours_ms": ours, "plain_ms": plain, "ratio": plain / ours,
        "share_of_peak": bench.flops / (ours * 1e-3) / peak, "peak_gflops": peak / 1e9,
        "needed_mflops": bench.flops / 1e6,
    }  # fmt: skip


def engine_ms(bench: AnyBench, seconds: float) -> float:
    """Milliseconds per step and member: a member on each lane, with the protocol's own evaluations."""
    whole = protocol(bench.protocol)
    endless = replace(whole, goal=1.0, futility=None, steps=max(STEPS, whole.check_every))
    members = [bench.member(seed) for seed in range(len(shared_lanes()))]
    return 1e3 * _seconds_each(lambda: sum(run.steps for run in fit(members, endless)), seconds)


def plain_ms(bench: AnyBench, seconds: float) -> float:
    """Milliseconds per step of the plain side, in a process of its own: all cores for its one model."""
    return float(in_fresh_process("-c", f"from {__name__} import *; print(time_plain({bench!r}, {seconds}))"))


def time_plain(bench: AnyBench, seconds: float) -> float:
    """The same in this process. No accuracy is evaluated: to the favour of the plain side."""
    steps = bench.plain()

    def some() -> int:
        jax.block_until_ready(list(deque(islice(steps, STEPS_BETWEEN), maxlen=1)))
        return STEPS_BETWEEN

    return 1e3 * _seconds_each(some, seconds)


def in_fresh_process(*arguments: str) -> str:
    """What Python prints for these arguments, with XLA's own threads and as many of NumPy's as there are cores."""
    threads = {"XLA_FLAGS": "--xla_cpu_multi_thread_eigen=true"}
    threads |= {name: str(os.cpu_count()) for name in BLAS_VARIABLES}
    command = [sys.executable, *arguments]
    return subprocess.run(command, env=os.environ | threads, check=True, stdout=subprocess.PIPE, text=True).stdout


def peak_flops(seconds: float = 1.0, size: int = 1024) -> float:
    """The machine's float32 matrix-product rate, all lanes at work at once."""
    lanes, A = shared_lanes(), jnp.ones((size, size))
    product = jax.jit(lambda A: A @ A).lower(A).compile()

    def one() -> int:
        product(A).block_until_ready()
        return 1

    rates = [lanes.submit(_seconds_each, one, seconds) for _ in range(len(lanes))]
    return sum(2.0 * size**3 / rate.result() for rate in rates)


def _seconds_each(work: Callable[[], int], seconds: float) -> float:
    """Seconds for one of the things that ``work`` does at a time; not counting the first time, which compiles."""
    work()
    n, start = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - start) < seconds or not n:
        n += work()
    return elapsed / n
