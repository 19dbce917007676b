"""Texts as tokens: byte-level BPE by the vocabulary of a GGUF file, with the library `tokenizers`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from facthold._util.errors import FactholdError, brief, optional
from facthold.lm import NEEDED
from facthold.lm.gguf import Config, Vocabulary

LLAMA3 = (  # the pattern of Llama 3
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
SPLITS = ("smollm", "gpt-2", "default", "llama-bpe")  # how a text is split before its merges, by the names of GGUF


def _byte_letters() -> dict[str, int]:
    """The letters that stand for bytes in a byte-level vocabulary: itself where it can be printed, else the next of
    those from 256 on."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in plain]
    return {chr(b): b for b in plain} | {chr(256 + i): b for i, b in enumerate(others)}


BYTES = _byte_letters()


class Tokeniser:
    """From texts to tokens and back. A prompt begins with ``begin``; what looks like <|im_start|> is plain text."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        (tokenizers,) = optional(NEEDED, "tokenizers")
        before = vocabulary.before
        if before not in SPLITS:
            raise FactholdError(f"texts split by {before!r} are not known here; known are {', '.join(SPLITS)}")
        tokens = {token: i for i, token in enumerate(vocabulary.tokens)}
        merges = [tuple(merge.split(" ")) for merge in vocabulary.merges]
        try:
            bpe = tokenizers.models.BPE(vocab=tokens, merges=merges, ignore_merges=before == "llama-bpe")
        except Exception as error:  # the library has no errors of its own: a merge of tokens that are not there
            raise FactholdError(f"the file's vocabulary cannot be used: {brief(str(error))}; get it again") from error
        self._library = tokenizers.Tokenizer(bpe)
        self._library.pre_tokenizer = _splitter(tokenizers.pre_tokenizers, tokenizers, before)
        self._library.decoder = tokenizers.decoders.ByteLevel()
        self.begin = vocabulary.begin
        self._tokens = vocabulary.tokens

    def encode(self, text: str, *, begin: bool = True) -> list[int]:
        """The tokens of a prompt, or with ``begin=False`` of a part of a text."""
        return [self.begin] * begin + self._library.encode(text, add_special_tokens=False).ids

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of tokens. A character whose bytes are in several tokens is there when all of them are."""
        return self._library.decode([int(t) for t in tokens], skip_special_tokens=False)

    def shown(self, token: int) -> str:
        """The text of one token, to be read by people: bytes that are a part of a letter as \\xe6."""
        text, letters = self.decode([token]), self._tokens[token]
        if "\N{REPLACEMENT CHARACTER}" not in text or not BYTES.keys() >= set(letters):
            return text
        return bytes(BYTES[letter] for letter in letters).decode("utf-8", "backslashreplace")

    def first(self, answer: str) -> int:
        """The first token of an answer, as it goes on after a prompt: with a space before it."""
        return self.encode(f" {answer}", begin=False)[0]


@dataclass(frozen=True, eq=False)
class Words:
    """What is known of a model without its weights: enough to check what it is asked before they are read."""

    config: Config
    tokeniser: Tokeniser

    def encode(self, prompt: str) -> list[int]:
        """The tokens of a prompt; an empty one, and one that is longer than the context, is refused."""
        if not prompt.strip():
            raise ValueError("the prompt is empty; write the beginning of a sentence")
        tokens = self.tokeniser.encode(prompt)
        if len(tokens) > self.config.context:
            raise ValueError(
                f"the prompt has {len(tokens)} tokens, and the model reads at most {self.config.context}; shorten it"
            )
        return tokens

    def check_layer(self, layer: int | None) -> None:
        """A layer, where one is given, is there."""
        L = self.config.L
        if layer is not None and not 0 <= layer < L:
            raise ValueError(f"layer={layer} must be from 0 to {L - 1}: the model has {L}")


def _splitter(ways: Any, tokenizers: Any, before: str) -> Any:
    if before == "smollm":  # each digit by itself, and then as GPT-2
        return ways.Sequence([ways.Digits(individual_digits=True), ways.ByteLevel(add_prefix_space=False)])
    if before == "llama-bpe":
        whole = ways.Split(tokenizers.Regex(LLAMA3), behavior="isolated")
        return ways.Sequence([whole, ways.ByteLevel(add_prefix_space=False, use_regex=False)])
    return ways.ByteLevel(add_prefix_space=False)
