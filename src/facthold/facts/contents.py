"""The bytes and the text of a file of facts, unpacked where they are packed; or one line on why it cannot be read."""

import codecs
import gzip
import io
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

from facthold._util.errors import FactholdError
from facthold._util.files import GZIPPED
from facthold._util.memory import check_memory

BLOCK = 1 << 20  # bytes that are unpacked at a time: a small file may unpack to one that fits nowhere
# Bytes of memory that a byte of a file takes while it is read, and a row of it: a short one is mostly objects.
MEMORY_A_BYTE, MEMORY_A_ROW = 6, 600
OTHER_KINDS = {  # what a file is by its first bytes, and what to do about it
    b"PK\x03\x04": "a zip archive or a workbook; save the sheet as CSV in UTF-8",
    b"\x1f\x8b": "compressed with gzip; give it a name that ends in .gz, such as facts.csv.gz",
    b"PAR1": "Parquet; give it a name that ends in .parquet",
    b"\xff\xfe": "text in UTF-16; save it in UTF-8, as by: iconv -f UTF-16 -t UTF-8",
    b"\xfe\xff": "text in UTF-16; save it in UTF-8, as by: iconv -f UTF-16 -t UTF-8",
}


def is_packed(path: Path) -> bool:
    """Whether the name says that the file is compressed."""
    return path.suffix.lower() == GZIPPED


def text_of(path: Path) -> str:
    """The text of a file, in UTF-8, with or without a byte order mark."""
    check_readable(path)
    contents = contents_of(path)
    check_fits(path, len(contents), contents.count(b"\n"))
    return "".join(_decoded(path, [contents]))


def blocks_of(path: Path) -> Iterator[str]:
    """The text of a file of any length, some of it at a time."""
    check_readable(path, "a text")
    try:
        with gzip.open(path) if is_packed(path) else path.open("rb") as stream:
            yield from _decoded(path, iter(lambda: stream.read(BLOCK), b""))
    except (gzip.BadGzipFile, zlib.error, EOFError, OSError) as error:
        raise _unreadable(path, error, "a text") from error


def _decoded(path: Path, blocks: Iterable[bytes]) -> Iterator[str]:
    """Blocks of bytes as text, or one line on the first byte that is not text in UTF-8."""
    decoder, lines = codecs.getincrementaldecoder("utf-8-sig")(), 1
    for i, block in enumerate(blocks):
        for mark, kind in OTHER_KINDS.items() if i == 0 else ():
            if block.startswith(mark):
                raise FactholdError(f"{path} is {kind}")
        if (nul := block.find(b"\0")) >= 0:
            line = lines + block.count(b"\n", 0, nul)
            raise FactholdError(f"{path}, line {line}: a NUL byte, so this is no text; save it as text in UTF-8")
        try:
            yield decoder.decode(block)
        except UnicodeDecodeError as error:
            raise _not_utf8(path, error, lines) from error
        lines += block.count(b"\n")
    try:
        decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        raise _not_utf8(path, error, lines) from error


def _not_utf8(path: Path, error: UnicodeDecodeError, lines: int) -> FactholdError:
    line = lines + error.object.count(b"\n", 0, error.start)
    return FactholdError(
        f"{path}, line {line}: not text in UTF-8 (byte 0x{error.object[error.start]:02x}); "
        "save it in UTF-8, as by: iconv -f LATIN1 -t UTF-8"
    )


def contents_of(path: Path) -> bytes:
    """The bytes of a file, unpacked where its name says that they are packed."""
    try:
        check_fits(path, path.stat().st_size)
        contents = path.read_bytes() if path.is_file() else _streamed(path)
        return _unpacked(path, contents) if is_packed(path) else contents
    except (gzip.BadGzipFile, zlib.error, EOFError, OSError) as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: Exception, wanted: str = "a file of facts") -> FactholdError:
    if isinstance(error, OSError) and not isinstance(error, gzip.BadGzipFile):
        return FactholdError(f"cannot read {path}: {error.strerror or error}; give {wanted} that can be read")
    return FactholdError(
        f"{path} is not gzip that can be unpacked ({error}); take .gz off its name if it is not packed, or get it again"
    )


def _unpacked(path: Path, contents: bytes) -> bytes:
    with gzip.GzipFile(fileobj=io.BytesIO(contents)) as stream:
        return _all_of(path, stream)


def _streamed(path: Path) -> bytes:
    """Of a pipe or a device, which does not say how much there is."""
    with path.open("rb") as stream:
        return _all_of(path, stream)


def _all_of(path: Path, stream: IO[bytes] | gzip.GzipFile) -> bytes:
    """All bytes, as long as they fit: there may be no end."""
    read, blocks = io.BytesIO(), 0
    while block := stream.read(BLOCK):
        read.write(block)
        blocks += 1
        if blocks & (blocks - 1) == 0:  # to ask what is free takes longer than to read a block
            check_fits(path, 2 * read.tell())
    return read.getvalue()


def check_readable(path: Path, wanted: str = "a file of facts") -> None:
    if path.is_dir():
        raise FactholdError(f"{path} is a folder; give {wanted}")
    if not path.exists():
        way = "; for standard input give /dev/stdin" if str(path) == "-" else ""
        raise FactholdError(f"no such file: {path}{way}")


def check_fits(path: Path, size: int, rows: int = 0) -> None:
    """Refuse a file that this machine cannot hold, before it is read, and again when its rows are known."""
    check_memory(f"reading {path}", MEMORY_A_BYTE * size + MEMORY_A_ROW * rows, "keep fewer rows, or split the file")
