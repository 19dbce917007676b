"""What all benchmarks share: the machine's peak, and two sides that take turns."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from facthold.train.lanes import shared_lanes

ROUNDS = 3
"""The two sides take turns this often, so that a busy moment of the machine meets both."""


def peak_flops(seconds: float = 1.0, size: int = 1024) -> float:
    """The machine's float32 matrix-product rate, all lanes at work at once."""
    lanes = shared_lanes()
    product = jax.jit(lambda A: A @ A)

    def work(_: int) -> int:
        A = jnp.ones((size, size))
        product(A).block_until_ready()
        stop, n = time.perf_counter() + seconds, 0
        while time.perf_counter() < stop:
            product(A).block_until_ready()
            n += 1
        return n

    list(lanes.map(work, range(len(lanes))))  # compiles
    start = time.perf_counter()
    n = sum(lanes.map(work, range(len(lanes))))
    return n * 2.0 * size**3 / (time.perf_counter() - start)


def side_by_side(
    name: str, ours: Callable[[float], float], plain: Callable[[float], float], flops: float, seconds: float
) -> dict[str, Any]:
    """Milliseconds a step of both sides (medians over rounds), their ratio, and our share of the machine's peak.

    Each side gets the seconds it may take. ``flops`` are the operations that a step needs. The peak is measured
    in the same rounds.
    """
    times = [
        (ours(seconds / ROUNDS), plain(seconds / ROUNDS), peak_flops(min(0.5, seconds / ROUNDS))) for _ in range(ROUNDS)
    ]
    ours_ms, plain_ms, peak = (float(np.median(column)) for column in zip(*times, strict=True))
    return {
        "name": name, "ours_ms": ours_ms, "plain_ms": plain_ms, "ratio": plain_ms / ours_ms,
        "share_of_peak": flops / (ours_ms * 1e-3) / peak, "peak_gflops": peak / 1e9, "needed_mflops": flops / 1e6,
    }  # fmt: skip


def in_fresh_process(module: str, spec: dict[str, Any], seconds: float) -> float:
    """Milliseconds that ``module`` prints for ``spec``: JAX as it comes, with all cores for its one model."""
    environment = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    command = [sys.executable, "-m", module, json.dumps(spec), str(seconds)]
    return float(subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout)
