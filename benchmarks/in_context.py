"""Sequences per second and training steps per second on the bigram task, beside a plain implementation of both.

Plain: sequences drawn token by token in NumPy; one model at a time, attention over all positions at once, logits at all
positions, gradients by automatic differentiation of that. Ours: sequences drawn side by side by one compiled program;
as many models as there are lanes, tables instead of products in the first layer, the last layer where it is asked.

    python benchmarks/in_context.py              # d = 128, 32 sequences in a step
    python benchmarks/in_context.py -d 256 --batch 64
"""

import argparse
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from facthold._util.keys import derive
from facthold.construct.induction import untrained
from facthold.context.bigrams import Bigrams
from facthold.context.sequences import BigramTask, Sequences
from facthold.knowledge.settings import MEMORIES
from facthold.models.causal import CausalTransformer, split
from facthold.train.in_context import PredictInContext
from facthold.train.lanes import shared_lanes


def plain_sequences(bigrams: Bigrams, n: int, K: int, T: int, generator: np.random.Generator) -> np.ndarray:
    """Token by token, as a first version would have it."""
    triggers = bigrams.most_frequent(K).tolist()
    rows = []
    for _ in range(n):
        outputs = {q: int(generator.integers(bigrams.N)) for q in triggers}
        z = [int(generator.choice(bigrams.N, p=bigrams.pi_u))]
        while len(z) < T:
            last = z[-1]
            z.append(outputs[last] if last in outputs else int(generator.choice(bigrams.N, p=bigrams.pi_b[last])))
        rows.append(z)
    return np.array(rows)


def plain_loss(trained: CausalTransformer, fixed: CausalTransformer, sequences: Sequences) -> jax.Array:
    """All positions at once."""
    model = eqx.combine(trained, fixed)
    x = model.E[sequences.tokens] + model.P
    past = jnp.tril(jnp.ones((x.shape[1], x.shape[1]), bool))
    for layer in model.layers:
        scores = jnp.einsum("ntd,nsd->nts", x @ layer.W_KQ, x)
        x = x + jax.nn.softmax(jnp.where(past, scores, -jnp.inf)) @ x @ layer.W_OV.T
    losses = optax.softmax_cross_entropy_with_integer_labels((x @ model.U.T)[:, :-1], sequences.tokens[:, 1:])
    counted = sequences.counted[:, 1:]
    return jnp.where(counted, losses, 0.0).sum() / counted.sum()


def seconds(work: Callable[[], object], repeats: int) -> float:
    """The shortest of some runs, once it is compiled."""
    jax.block_until_ready(work())
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        jax.block_until_ready(work())
        times.append(time.perf_counter() - start)
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-d", type=int, default=128)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("-K", type=int, default=5)
    parser.add_argument("-T", type=int, default=256)
    parser.add_argument("--repeats", type=int, default=8)
    given = parser.parse_args()
    bigrams = Bigrams.shipped()
    task = BigramTask.of(bigrams, given.K, given.T)

    draw = eqx.filter_jit(lambda task, key: task.draw(2048, key=key))
    plain = 32 / seconds(lambda: plain_sequences(bigrams, 32, given.K, given.T, np.random.default_rng(0)), 3)
    ours = 2048 / seconds(lambda: draw(task, derive("draw")), given.repeats)
    print(f"sequences of {given.T} tokens per second: plain {plain:,.0f}, ours {ours:,.0f}: {ours / plain:.0f} times")

    trained, fixed = split(untrained(task.N, given.T, given.d, key=derive("start")), MEMORIES)
    training, lanes = PredictInContext.of(task, fixed, batch=given.batch), len(shared_lanes())
    by_plain = eqx.filter_jit(
        lambda trained, fixed, task, key: jax.grad(plain_loss)(trained, fixed, task.draw(given.batch, key=key))
    )
    by_us = eqx.filter_jit(lambda trained, training, key: jax.grad(lambda m: training.loss(m, key=key))(trained))
    pool = ThreadPoolExecutor(lanes)

    def side_by_side() -> list[object]:
        keys = [derive("step", i) for i in range(lanes)]
        return list(pool.map(lambda key: jax.block_until_ready(by_us(trained, training, key)), keys))

    rates = {"plain": [], "ours, one model": [], f"ours, {lanes} models at a time": []}  # type: dict[str, list[float]]
    for _ in range(3):  # in turns, so that other work disturbs all alike
        rates["plain"].append(1 / seconds(lambda: by_plain(trained, fixed, task, derive("step")), given.repeats))
        one, many = list(rates)[1:]
        rates[one].append(1 / seconds(lambda: by_us(trained, training, derive("step")), given.repeats))
        rates[many].append(lanes / seconds(side_by_side, given.repeats))
    for name, values in rates.items():
        rate = float(np.median(values))
        print(f"steps per second, d={given.d}, {given.batch} sequences: {name} {rate:.1f}", end="")
        print(f": {rate / np.median(rates['plain']):.1f} times" if name != "plain" else "")


if __name__ == "__main__":
    main()
