"""The training step of memories: ours and a plain one, timed side by side in one run.

The multiplications that are needed are those of the model's own equations: the products of the forward
pass, and of the backward pass to its weights and hidden values. The embeddings are fixed, so nothing is
counted for their gradients, and elementwise work (the softmax's exponentials) is not counted at all.
"""

import dataclasses
import json
import sys
import time
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import optax

from facthold._util.keys import derive
from facthold.memory.associations import Problem, random_problem
from facthold.models.memory import Memory
from facthold.recipes.make import training_member
from facthold.recipes.methods import Method, method
from facthold.studies.speed.timing import in_fresh_process, side_by_side
from facthold.train import fit
from facthold.train.lanes import shared_lanes
from facthold.train.protocols import Protocol


@dataclass(frozen=True)
class Bench:
    """One size to time: a training method at (N, d, m)."""

    method: str
    N: int
    d: int
    m: int = 0

    @property
    def name(self) -> str:
        return f"{self.method} N={self.N} d={self.d}" + (f" m={self.m}" if self.m else "")

    def problem(self, seed: int) -> Problem:
        return random_problem(self.N, self.d, key=derive("bench", seed, self.d))


BENCHES = (
    Bench("train:linear-code", 180, 32),
    Bench("train:mlp-code", 160, 16, 16),
    Bench("train:mlp-code", 520, 16, 64),
    Bench("train:mlp-code", 850, 32, 64),
)


def needed_flops(N: int, M: int, d: int, m: int) -> int:
    """Floating-point operations of one training step of one member, two a multiplication and addition.

    Scores F U^T and their way back P U: 2 N M d each. A linear memory: E W and its weight gradient,
    2 N d^2 each. An MLP: two layers forward, two weight gradients and the hidden values' gradient,
    2 N m d each.
    """
    scores = 2 * 2 * N * M * d
    return scores + (5 * 2 * N * m * d if m else 2 * 2 * N * d * d)


def run_bench(bench: Bench, seconds: float) -> dict[str, Any]:
    """Milliseconds a step and member, here and plain, their ratio, and our share of the machine's peak."""
    way = method(bench.method)
    problems = [bench.problem(seed) for seed in range(len(shared_lanes()))]
    return side_by_side(
        bench.name,
        lambda seconds: _time_engine(way, problems, bench.m, seconds),
        lambda seconds: in_fresh_process(__name__, dataclasses.asdict(bench), seconds),
        needed_flops(bench.N, bench.N, bench.d, bench.m),
        seconds,
    )


def _time_engine(way: Method, problems: list[Problem], m: int, seconds: float) -> float:
    """Milliseconds a step and member, with a member on each lane and the protocol's own looks."""
    assert way.protocol is not None
    endless = dataclasses.replace(way.protocol, goal=1.0, futility=None, steps=4 * way.protocol.check_every)
    members = [training_member(way, problem, m, seed=i) for i, problem in enumerate(problems)]
    fit(members, endless)  # compiles
    n, start = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - start) < seconds:
        n += sum(run.steps for run in fit(members, endless))
    return elapsed * 1e3 / n


class PlainRun:
    """Training as it is usually written: one model, a jitted step called from a Python loop.

    It keeps each step's loss and looks at the accuracy now and then, as the authors' public code does.
    """

    def __init__(self, way: Method, problem: Problem, m: int, seed: int = 0) -> None:
        assert way.protocol is not None
        self.protocol: Protocol = way.protocol
        self.params: Memory = way.initial(problem.d, m, derive("init", seed, problem.d, m, way.name))
        optimiser = optax.adamw(self.protocol.lr, weight_decay=0.0)
        self.state = optimiser.init(self.params)
        self.losses: list[jax.Array] = []

        def loss(params: Memory) -> jax.Array:
            scores = params.logits(problem.E, problem.U)
            return optax.softmax_cross_entropy_with_integer_labels(scores, problem.f).mean()

        @jax.jit
        def step(params: Memory, state: Any) -> tuple[Memory, Any, jax.Array]:
            value, gradient = jax.value_and_grad(loss)(params)
            update, state = optimiser.update(gradient, state, params)
            return optax.apply_updates(params, update), state, value

        @jax.jit
        def accuracy(params: Memory) -> jax.Array:
            return (jnp.argmax(params.logits(problem.E, problem.U), axis=1) == problem.f).mean()

        self.step, self.accuracy = step, accuracy

    def train(self, steps: int, goal: float = 2.0) -> float:
        """Train until the goal or for ``steps``; the best accuracy seen."""
        best = 0.0
        for i in range(steps):
            self.params, self.state, value = self.step(self.params, self.state)
            self.losses.append(value)
            if i % self.protocol.check_every == 0:
                best = max(best, float(self.accuracy(self.params)))
                if best >= goal:
                    break
        return best

    def milliseconds(self, seconds: float) -> float:
        """Milliseconds a step with its looks, over about ``seconds``."""
        n, chunk = 0, self.protocol.check_every
        self.train(2)
        start = time.perf_counter()
        while (elapsed := time.perf_counter() - start) < seconds:
            self.train(chunk)
            n += chunk
        return elapsed * 1e3 / n


if __name__ == "__main__":
    asked = Bench(**json.loads(sys.argv[1]))
    print(PlainRun(method(asked.method), asked.problem(0), asked.m).milliseconds(float(sys.argv[2])))
