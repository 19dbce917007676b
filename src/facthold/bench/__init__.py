"""Benchmarks: our training beside a plain implementation, in one run, as a ratio."""

from facthold.bench.memories import BENCHES, Bench, PlainRun, needed_flops, run_bench
from facthold.bench.timing import peak_flops
from facthold.bench.transformers import TRANSFORMERS, TransformerBench, run_transformer_bench

__all__ = [
    "BENCHES", "TRANSFORMERS", "Bench", "PlainRun", "TransformerBench", "needed_flops", "peak_flops", "run_bench",
    "run_transformer_bench",
]  # fmt: skip
