"""A language model by the name that results have for it, read once per process."""

from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from threading import Lock

import jax.numpy as jnp
from jaxtyping import Array

from facthold._util.memory import check_memory
from facthold.lm.fetch import TINY, find_file
from facthold.lm.gguf import FACTORS, LAYER, UNEMBEDDING, Config, Gguf
from facthold.lm.model import SIZE, LanguageModel
from facthold.lm.tokeniser import Tokeniser, Words

_loading = Lock()  # lanes are threads: the second waits for what the first reads
LENGTH = 64  # tokens of a prompt, for a guess at the memory
READERS = 2  # threads that dequantise: NumPy lets others run meanwhile


def load(name: str) -> LanguageModel:
    """The model with this name: 'tiny', or the SHA-256 of a file that `lm.fetch` finds."""
    with _loading:
        return _loaded(name)


@cache
def _loaded(name: str) -> LanguageModel:
    if name == TINY:
        from facthold.lm.tiny import CONFIG, tiny_model

        check_memory("the tiny model", bytes_of_model(CONFIG), "free some")
        return tiny_model()
    return read_model(find_file(name))


def words_of(name: str) -> Words:
    """What is known of the model with this name without its weights, in half a second."""
    if name == TINY:
        return load(name)
    file = Gguf(find_file(name))
    return Words(file.config, Tokeniser(file.vocabulary))


def bytes_of_model(c: Config) -> float:
    """Of the weights as float32, and of what runs through them beside: most of it are a batch's logits."""
    return 4.0 * c.n_params + 16.0 * SIZE * (c.V + LENGTH * (c.m + c.d))


def read_model(path: Path) -> LanguageModel:
    """The model in a GGUF file, with its weights as float32."""
    file = Gguf(path)
    c, tokeniser = file.config, Tokeniser(file.vocabulary)
    check_memory(f"{path} with about {c.n_params / 1e6:.0f} million weights", bytes_of_model(c), "take a smaller model")

    def weight(name: str, layer: int | None = None) -> Array:
        return jnp.asarray(file.weight(name, layer))

    with ThreadPoolExecutor(READERS) as readers:
        whole = [readers.submit(weight, name) for name in ("E", "g")]
        layers = [{name: readers.submit(weight, name, i) for name in LAYER} for i in range(c.L)]
        E, g = (one.result() for one in whole)
        made = [{name: one.result() for name, one in layer.items()} for layer in layers]
    U, factors = (
        None if (found := file.extra(name)) is None else jnp.asarray(found) for name in (UNEMBEDDING, FACTORS)
    )
    return LanguageModel(c, tokeniser, E, E if U is None else U, g, made, factors)
