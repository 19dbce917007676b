"""Models: what construction and training both return."""

from facthold.models.memory import LinearMemory, LowRankMemory, Memory, MLPMemory
from facthold.models.saving import load_model, save_model, to_numpy
from facthold.models.transformer import Transformer

__all__ = [
    "LinearMemory", "LowRankMemory", "MLPMemory", "Memory", "Transformer", "load_model", "save_model", "to_numpy",
]  # fmt: skip
