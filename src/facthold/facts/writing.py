"""Facts into files: CSV, TSV, JSON lines, Parquet."""

import csv
import io
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from facthold._util.errors import FactholdError
from facthold._util.files import writing
from facthold.facts.formats import COLUMNS
from facthold.facts.table import FactTable

Row = tuple[str, str, str]  # subject, relation, answer


def write_facts(path: str | Path, facts: FactTable | Iterable[Row]) -> Path:
    """Write a table or rows (subject, relation, answer) in the format that the name says:
    ``fh.write_facts("countries.csv", table)``. A reader never meets the file half written."""
    rows = facts.to_rows() if isinstance(facts, FactTable) else facts
    path = Path(path)
    check_ending(path)
    contents = WRITERS[path.suffix.lower()](list(rows))
    with writing(path) as stream:
        stream.write(contents)
    return path


def to_csv(rows: Iterable[Row], delimiter: str = ",") -> str:
    """Facts as the text of a CSV file."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, delimiter=delimiter, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(rows)
    return text.getvalue()


def check_ending(path: Path) -> None:
    """Refuse a name whose ending says no format."""
    if path.suffix.lower() not in WRITERS:
        raise FactholdError(f"{path}: facts are written to files whose names end in {', '.join(WRITERS)}")


def _to_json_lines(rows: Sequence[Row]) -> bytes:
    lines = (json.dumps(dict(zip(COLUMNS, row, strict=True)), ensure_ascii=False) + "\n" for row in rows)
    return "".join(lines).encode()


def _to_parquet(rows: Sequence[Row]) -> bytes:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise FactholdError("Parquet needs pyarrow: pip install 'facthold[parquet]'") from error
    columns = {name: pa.array([row[i] for row in rows], pa.string()) for i, name in enumerate(COLUMNS)}
    stream = io.BytesIO()
    pq.write_table(pa.table(columns), stream)
    return stream.getvalue()


WRITERS: dict[str, Callable[[Sequence[Row]], bytes]] = {
    ".csv": lambda rows: to_csv(rows).encode(),
    ".tsv": lambda rows: to_csv(rows, "\t").encode(),
    ".jsonl": _to_json_lines,
    ".ndjson": _to_json_lines,
    ".parquet": _to_parquet,
}
