"""Benchmarks: our training beside a plain implementation, in one run, as a ratio."""

from facthold.studies.speed.memories import BENCHES, Bench, PlainRun, needed_flops, run_bench
from facthold.studies.speed.timing import peak_flops
from facthold.studies.speed.transformers import TRANSFORMERS, TransformerBench, run_transformer_bench

__all__ = [
    "BENCHES", "TRANSFORMERS", "Bench", "PlainRun", "TransformerBench", "needed_flops", "peak_flops", "run_bench",
    "run_transformer_bench",
]  # fmt: skip
