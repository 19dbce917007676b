"""Arrays in a safetensors file, with what they are as JSON, and a checksum of each part, so that damage is seen."""

import hashlib
import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

import facthold
from facthold._util.errors import FactholdError, FactholdWarning
from facthold._util.memory import check_memory

FORMAT = 2  # 1 had no checksums
ABOUT, CHECKSUMS, METADATA = "about", "checksums", "__metadata__"
DIGITS = 16  # of a checksum: enough against chance, which is all that a checksum in the same file can be for
COPIES = 4  # of a file in memory while it is read: its bytes, arrays, and what a model makes of them
AGAIN = "copy it again, or build it again"
OURS = "give a file that facthold wrote"
UNREADABLE = (SafetensorError, ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError)


def checksum(array: np.ndarray) -> str:
    """The first digits of the SHA-256 of an array: its type and shape as JSON, then its numbers."""
    kind = json.dumps([array.dtype.str, list(array.shape)])
    return _digest(kind.encode() + array.tobytes())


def tensors_as_bytes(arrays: Mapping[str, np.ndarray], about: Mapping[str, Any]) -> bytes:
    """The contents of a file with these arrays, and with ``about``, which says what they are."""
    text = json.dumps({"format": str(FORMAT), "facthold": facthold.__version__, **about})
    whole = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    return _in_order(save(whole, {ABOUT: text, CHECKSUMS: json.dumps(_checksums(text, whole))}))


def _in_order(contents: bytes) -> bytes:
    """With the metadata in one order: safetensors has them in any, and the same model is to be the same file."""
    end = 8 + int.from_bytes(contents[:8], "little")
    header = json.loads(contents[8:end])
    header[METADATA] = dict(sorted(header[METADATA].items()))
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # tensors begin at a multiple of 8
    return len(text).to_bytes(8, "little") + text + contents[end:]


def check_model_file(path: str | Path) -> None:
    """Refuse what is no file."""
    path = Path(path)
    if path.is_dir():
        raise FactholdError(f"{path} is a folder; give a model file")
    if not path.is_file():
        there = path.is_symlink() or path.exists()
        raise FactholdError(f"{path} is no model file; give one" if there else f"no such model file: {path}")


def read_tensors(path: str | Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The arrays of such a file, and what it says about them, if nothing of it has changed since it was written."""
    try:
        check_memory(f"reading {path}", COPIES * Path(path).stat().st_size, "take a machine with more")
        raw = Path(path).read_bytes()
    except OSError as error:
        raise FactholdError(f"cannot read {path}: {error.strerror or error}") from error
    metadata = _header(path, raw).get(METADATA)
    if not isinstance(metadata, dict) or ABOUT not in metadata:
        raise FactholdError(f"{path} is not a facthold model: a safetensors file, but of something else; {OURS}")
    try:
        about = json.loads(metadata[ABOUT])
        _check_format(path, about)
        arrays = load(raw)
    except UNREADABLE as error:
        raise FactholdError(f"{path} is not a facthold model, or damaged: {_first_line(error)}; {AGAIN}") from error
    _check_sums(path, metadata, about, arrays)
    return arrays, about


def _header(path: str | Path, raw: bytes) -> dict[str, Any]:
    """The header of a file that has all of its bytes."""
    if len(raw) < 9 or raw[8:9] != b"{":
        empty = "empty" if not raw else "no safetensors file"
        raise FactholdError(f"{path} is not a facthold model: it is {empty}; {OURS}")
    start = 8 + int.from_bytes(raw[:8], "little")
    if start > len(raw):
        raise FactholdError(
            f"{path} is not a facthold model, or cut short: its header would end after {start:,} bytes, and there are "
            f"{len(raw):,}; {AGAIN}"
        )
    try:
        header = json.loads(raw[8:start])
        end = start + max((entry["data_offsets"][1] for name, entry in header.items() if name != METADATA), default=0)
    except (*UNREADABLE, IndexError) as error:
        raise FactholdError(
            f"{path} is not a facthold model, or damaged: its header cannot be read ({_first_line(error)}); {AGAIN}"
        ) from error
    if len(raw) != end:
        wrong = "cut short" if len(raw) < end else "damaged"
        raise FactholdError(f"{path} is {wrong}: it has {len(raw):,} bytes, and should have {end:,}; {AGAIN}")
    return header


def _check_format(path: str | Path, about: Any) -> None:
    """Refuse what is not ours, and what only a later version can read."""
    format = about.get("format") if isinstance(about, dict) else None
    if not isinstance(format, str) or not (format.isascii() and format.isdigit()) or int(format) < 1:
        raise FactholdError(f"{path} is not a facthold model of format 1 to {FORMAT}; build or save it again")
    if int(format) > FORMAT:
        raise FactholdError(
            f"{path} has format {format}, of facthold {about.get('facthold')}; facthold {facthold.__version__} reads "
            f"formats up to {FORMAT}: install the newer one"
        )


def _check_sums(path: str | Path, metadata: Mapping[str, Any], about: Any, arrays: Mapping[str, np.ndarray]) -> None:
    if CHECKSUMS not in metadata and about["format"] == "1":
        warnings.warn(
            f"{path} is of an older version, without a checksum: damage to it would not be seen; build it again, or "
            "write it again in Python: fh.save_model(new, *fh.load_model(old))",
            FactholdWarning,
            stacklevel=4,
        )
        return
    try:
        written = json.loads(metadata.get(CHECKSUMS, "{}"))
    except UNREADABLE:
        written = None
    found = _checksums(metadata[ABOUT], arrays)
    if written == found:
        return
    wrong = [name for name, sum in found.items() if not isinstance(written, dict) or written.get(name) != sum]
    parts = ["its names and settings" if name == ABOUT else name for name in wrong] or ["the list of its arrays"]
    raise FactholdError(f"{path} is damaged: its checksum does not match in {', '.join(parts)}; {AGAIN}")


def _checksums(about: str, arrays: Mapping[str, np.ndarray]) -> dict[str, str]:
    return {ABOUT: _digest(about.encode())} | {name: checksum(array) for name, array in sorted(arrays.items())}


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:DIGITS]


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
