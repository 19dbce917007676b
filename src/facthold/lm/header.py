"""The header of a GGUF file: its metadata, and where its tensors stand. The package `gguf` reads it too, an entry at a
time and without looking at lengths: a vocabulary takes seconds there, and a truncated file ends anywhere."""

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from facthold._util.errors import FactholdError

MAGIC, VERSIONS = b"GGUF", (2, 3)
ALIGNMENT = 32  # of tensors, where the file does not say
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
STRING, ARRAY = 8, 9  # other types of values
MOST_DIMENSIONS = 4


class Damaged(Exception):
    """What is read cannot be so."""


@dataclass(frozen=True)
class Tensor:
    """Where a tensor stands: its shape as (out, in), the number of its type, and its first byte."""

    shape: tuple[int, ...]
    type: int
    start: int


class _Cursor:
    """A place in the bytes of a file, which moves as values are read."""

    def __init__(self, data: np.ndarray) -> None:
        self.data, self.place = data, 0

    def take(self, n: int) -> bytes:
        if self.place + n > len(self.data):
            raise Damaged(f"it ends at byte {len(self.data):,}, within its header")
        self.place += n
        return self.data[self.place - n : self.place].tobytes()

    def number(self, form: str) -> Any:
        return struct.unpack(f"<{form}", self.take(struct.calcsize(form)))[0]

    def text(self) -> str:
        return self.take(self.number("Q")).decode("utf-8", "replace")

    def value(self, kind: int) -> Any:
        if kind == STRING:
            return self.text()
        if kind == ARRAY:
            of, n = self.number("I"), self.number("Q")
            if of in SCALARS:
                form = SCALARS[of]
                return list(np.frombuffer(self.take(n * struct.calcsize(form)), f"<{form}").tolist())
            if n > len(self.data):  # each entry has a byte at least
                raise Damaged(f"a list in its header has {n:,} entries")
            return [self.value(of) for _ in range(n)]
        if kind not in SCALARS:
            raise Damaged(f"a value in its header is of type {kind}, which GGUF does not have")
        return self.number(SCALARS[kind])


def read_header(path: Path) -> tuple[Mapping[str, Any], Mapping[str, Tensor], np.ndarray]:
    """Metadata, tensors, and the bytes of the file. A file that is none, or ends too early, is refused."""
    try:
        with path.open("rb") as stream:
            if stream.read(len(MAGIC)) != MAGIC:
                raise FactholdError(f"{path} is not a GGUF file; give one of the llama architecture")
        data = np.memmap(path, mode="r")
    except OSError as error:
        raise FactholdError(f"cannot read {path}: {error.strerror}; give another file") from error
    try:
        return *_parsed(_Cursor(data)), data
    except (Damaged, RecursionError) as error:
        raise FactholdError(f"{path} is truncated or damaged: {error}; get it again") from error


def _parsed(cursor: _Cursor) -> tuple[dict[str, Any], dict[str, Tensor]]:
    cursor.take(len(MAGIC))
    version, n_tensors, n_values = cursor.number("I"), cursor.number("Q"), cursor.number("Q")
    if version not in VERSIONS:
        raise Damaged(f"its version is {version}, and not one of {', '.join(map(str, VERSIONS))}")
    metadata = {}
    for _ in range(n_values):
        name = cursor.text()
        metadata[name] = cursor.value(cursor.number("I"))
    found = {}
    for _ in range(n_tensors):
        name, n = cursor.text(), cursor.number("I")
        if n > MOST_DIMENSIONS:
            raise Damaged(f"the tensor {name!r} has {n} dimensions")
        sizes = [cursor.number("Q") for _ in range(n)]
        found[name] = Tensor(tuple(reversed(sizes)), cursor.number("I"), cursor.number("Q"))
    alignment = metadata.get("general.alignment", ALIGNMENT)
    if not isinstance(alignment, int) or alignment < 1:
        raise Damaged(f"its alignment is {alignment!r}")
    base = -(-cursor.place // alignment) * alignment
    return metadata, {name: Tensor(t.shape, t.type, base + t.start) for name, t in found.items()}
