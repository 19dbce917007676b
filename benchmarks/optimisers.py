"""Training runs per second of the ensembles behind `facthold figure optimisers`, beside a plain NumPy loop.

Plain: one model at a time, W stepped by its gradient in float32, written as one would write it. Ours: 5 learning rates
of each of 20 seeds side by side (`train.ensembles`; Adam with moments: the engine, which draws its samples as it goes),
on all lanes, compiled before it is timed. Both make the same steps on the same samples. The two take turns, and the
median of their ratios counts.

    python benchmarks/optimisers.py              # N = 100, M = 5, d = 100, all optimisers and batch sizes
    python benchmarks/optimisers.py -d 25 --optimisers sgd sign
"""

import facthold  # noqa: I001  before NumPy: it sets one thread per matrix product, which is best for both sides

import argparse
import time
from dataclasses import replace

import numpy as np

from facthold.studies.scaling.optimised import Optimised
from facthold.studies.scaling.optimisers import LRS
from facthold.train.ensembles import SINGULAR
from facthold.train.ensembles import EPSILON, PER_DIMENSION, Worlds, train

BATCHES = (1, 4, 16, 64, 256, 1024)
MOST = {
    "adam-0": 4096,
    "adam": 1024,
    "muon": 2048,
}  # steps of ours that are timed at most, where those of a run would take long
PLAIN_STEPS = 400
BETAS = (0.9, 0.999)  # of Adam as usual
GOAL = 100  # times, at batch one


def plain(worlds: Worlds, rule: str, lr: float, batch: int, steps: int) -> np.ndarray:
    """W after so many steps on the first world."""
    E, U, W, z = worlds.E[0], worlds.U[0], worlds.W_0[0].copy(), worlds.z[0]
    rows, d = np.arange(batch), E.shape[1]
    lr = lr / d if rule in PER_DIMENSION else lr
    moments = np.zeros((2, d, d), np.float32)
    for t in range(steps):
        x = z[t * batch % (len(z) - batch + 1) :][:batch]
        e = E[x]
        scores = e @ W.T @ U.T
        P = np.exp(scores - scores.max(axis=1, keepdims=True))
        P /= P.sum(axis=1, keepdims=True)
        P[rows, worlds.f[x]] -= 1
        G = (P @ U).T @ e / batch
        if rule == "adam-0":
            G = G / (np.abs(G) + EPSILON)
        elif rule == "adam":
            for moment, beta, part in zip(moments, BETAS, (G, G * G), strict=True):
                moment *= beta
                moment += (1 - beta) * part
            first, second = (moment / (1 - beta ** (t + 1)) for moment, beta in zip(moments, BETAS, strict=True))
            G = first / (np.sqrt(second) + EPSILON)
        elif rule == "sign":
            G = np.sign(G)
        elif rule == "muon":
            left, values, right = np.linalg.svd(G, full_matrices=False)
            G = (left * (values > SINGULAR * values[0])) @ right
        W -= np.float32(lr) * G
    return W


def ours(cell: Optimised, worlds: Worlds, steps: int) -> None:
    """All seeds and learning rates, so many steps, looked at once at the end."""
    end = steps * cell.batch
    if cell.closed:
        train(worlds, cell.optimiser, cell.lrs, cell.batch, [end])
    else:
        replace(cell, n=end, looks=(end,)).by_engine(worlds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-d", type=int, default=100)
    parser.add_argument("-N", type=int, default=100)
    parser.add_argument("-M", type=int, default=5)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--optimisers", nargs="+", default=["sgd", "adam-0", "adam", "sign", "muon"])
    parser.add_argument("--batch", nargs="+", type=int, default=list(BATCHES))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--samples", type=int, default=102_400, help="of a whole run")
    given = parser.parse_args()
    print(f"facthold {facthold.__version__}: N={given.N} M={given.M}, {given.seeds} seeds, {len(LRS)} learning rates")
    for rule in given.optimisers:
        for batch in given.batch:
            cell = Optimised(
                N=given.N, M=given.M, d=given.d, n=given.samples, seeds=tuple(range(given.seeds)),
                optimiser=rule, lrs=LRS, batch=batch,
            )  # fmt: skip
            worlds, n_runs = cell.worlds(), given.seeds * len(LRS)
            steps = min(given.samples // batch, MOST.get(rule, given.samples))
            plain_steps = PLAIN_STEPS if rule != "muon" else 10
            ours(cell, worlds, steps)
            ratios, times = [], []
            for _ in range(given.rounds):
                start = time.perf_counter()
                ours(cell, worlds, steps)
                middle = time.perf_counter()
                plain(worlds, rule, LRS[2], batch, plain_steps)
                end = time.perf_counter()
                times.append((middle - start) / steps / n_runs)
                ratios.append((end - middle) / plain_steps / times[-1])
            ratio, step = float(np.median(ratios)), float(np.median(times))
            rate = batch / given.samples / step
            verdict = f" (goal {GOAL}: {'reached' if ratio >= GOAL else 'MISSED'})" if batch == 1 else ""
            print(
                f"{rule:7s} d={given.d} batch {batch:5d}: ours {step * 1e6:8.3f} us per step and run, {rate:9.2f} runs "
                f"per second; plain {step * ratio * 1e6:8.1f} us; {ratio:7.1f} times{verdict}", flush=True,
            )  # fmt: skip


if __name__ == "__main__":
    main()
