"""The bytes and the text of a file of facts, unpacked where they are packed; or one line on why it cannot be read."""

import gzip
import io
import zlib
from pathlib import Path

from facthold._util.errors import FactholdError
from facthold._util.memory import check_memory

GZIP = ".gz"  # after any of the endings
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
    return path.suffix.lower() == GZIP


def text_of(path: Path) -> str:
    """The text of a file, in UTF-8, with or without a byte order mark."""
    check_readable(path)
    contents = contents_of(path)
    check_fits(path, len(contents), contents.count(b"\n"))
    for mark, kind in OTHER_KINDS.items():
        if contents.startswith(mark):
            raise FactholdError(f"{path} is {kind}")
    if (nul := contents.find(b"\0")) >= 0:
        line = contents.count(b"\n", 0, nul) + 1
        raise FactholdError(f"{path}, line {line}: a NUL byte, so this is no text; save the facts as text in UTF-8")
    try:
        return contents.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = contents.count(b"\n", 0, error.start) + 1
        raise FactholdError(
            f"{path}, line {line}: not text in UTF-8 (byte 0x{contents[error.start]:02x}); "
            "save it in UTF-8, as by: iconv -f LATIN1 -t UTF-8"
        ) from error


def contents_of(path: Path) -> bytes:
    """The bytes of a file, unpacked where its name says that they are packed."""
    try:
        check_fits(path, path.stat().st_size)
        contents = path.read_bytes()
        return _unpacked(path, contents) if is_packed(path) else contents
    except (gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise FactholdError(
            f"{path} is not gzip that can be unpacked ({error}); take .gz off its name if it is not packed, or get it "
            "again"
        ) from error
    except OSError as error:
        raise FactholdError(f"cannot read {path}: {error.strerror or error}; give another file of facts") from error


def _unpacked(path: Path, contents: bytes) -> bytes:
    unpacked = io.BytesIO()
    with gzip.GzipFile(fileobj=io.BytesIO(contents)) as stream:
        while block := stream.read(BLOCK):
            unpacked.write(block)
            check_fits(path, unpacked.tell())
    return unpacked.getvalue()


def check_readable(path: Path) -> None:
    if path.is_dir():
        raise FactholdError(f"{path} is a folder; give a file of facts")
    if not path.exists():
        raise FactholdError(f"no such file: {path}")


def check_fits(path: Path, size: int, rows: int = 0) -> None:
    """Refuse a file that this machine cannot hold, before it is read, and again when its rows are known."""
    check_memory(f"reading {path}", MEMORY_A_BYTE * size + MEMORY_A_ROW * rows, "keep fewer rows, or split the file")
