"""A real language model: fetched, read from GGUF, asked and taken apart. No module here is loaded before it is used."""

from importlib.util import find_spec

NEEDED = "language models need gguf and tokenizers: pip install 'facthold[lm]'"


def lacking() -> str:
    """What has to be installed before any language model can be read; nothing where it is."""
    return "" if find_spec("gguf") and find_spec("tokenizers") else NEEDED
