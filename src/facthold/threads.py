"""One thread a product, in JAX and in NumPy. This module loads neither: both read their settings when they start."""

import os

XLA_FLAG = "--xla_cpu_multi_thread_eigen=false"
BLAS_VARIABLES = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def configure() -> None:
    """Let each product use one thread, here and in the processes that this one starts.

    Call it before anything uses JAX and, for NumPy's solvers, before NumPy is loaded; the command line does.
    The lanes are then the only parallelism: a product is summed in the same order whatever the number of
    cores, and however busy they are. Who has set a number of threads for NumPy keeps it.
    """
    flags = os.environ.get("XLA_FLAGS", "")
    if XLA_FLAG not in flags:
        os.environ["XLA_FLAGS"] = f"{flags} {XLA_FLAG}".strip()
    for variable in BLAS_VARIABLES:
        os.environ.setdefault(variable, "1")
