"""A real language model: fetched, read from GGUF, asked and taken apart. No module here is loaded before it is used."""

NEEDED = "language models need gguf and tokenizers: pip install 'facthold[lm]'"
