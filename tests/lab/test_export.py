"""Tables for other tools hold every value of every row, and come back as they were."""

import csv
import dataclasses
import io
import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from facthold._util.errors import FactholdError
from facthold._util.files import TEXT, writing
from facthold.lab.export import columns, common_type, to_csv, to_parquet
from facthold.lab.provenance import Provenance, provenance
from facthold.lab.store import Row, Rows, from_json

OWN = ["key", "kind", "version"]
ORIGIN = [f"provenance.{field.name}" for field in dataclasses.fields(Provenance)]


def row(key: str, kind: str, spec: dict[str, Any], result: dict[str, Any]) -> Row:
    return Row(key, kind, 1, spec, result, provenance(0.5, spec))


@pytest.fixture
def rows() -> list[Row]:
    """Two kinds, with text that CSV must quote, numbers to the last bit, and a run that diverged."""
    return [
        row("k1", "capacity", {"d": 16, "map": 'a "b", c\nd', "seeds": [0, 1]}, {"N": 41, "loss": 0.1 + 0.2}),
        row(
            "k2",
            "capacity",
            {"d": 32, "map": "µ", "seeds": [2]},
            {"N": None, "loss": float("nan"), "ok": False},
        ),
        row(
            "k3",
            "curve",
            {"d": 32, "seed": 2**64},
            {"loss": 2, "curve": [1.0, float("inf")], "fit": {"a": 1}},
        ),
    ]


def read_csv(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline="")))


def test_columns_are_the_union_in_the_order_of_appearance(rows: list[Row]) -> None:
    specs = ["spec.d", "spec.map", "spec.seeds", "spec.seed"]
    results = ["result.N", "result.loss", "result.ok", "result.curve", "result.fit"]
    assert list(columns(rows)) == [*OWN, *specs, *results, *ORIGIN]
    assert {len(values) for values in columns(rows).values()} == {3}
    assert list(columns([])) == [*OWN, *ORIGIN]


def test_csv_comes_back(rows: list[Row], tmp_path: Path) -> None:
    stream = io.StringIO()
    to_csv(rows, stream)
    to_csv(rows, tmp_path / "rows.csv")
    assert (tmp_path / "rows.csv").read_bytes().decode() == stream.getvalue()
    first, second, third = read_csv(stream.getvalue())
    assert first["spec.map"] == rows[0].spec["map"]
    assert float(first["result.loss"]) == rows[0].result["loss"]
    assert (second["result.N"], second["result.ok"], second["spec.seed"]) == ("", "false", "")
    assert np.isnan(float(second["result.loss"]))
    assert int(third["spec.seed"]) == 2**64
    assert from_json(third["result.curve"]) == rows[2].result["curve"]
    assert json.loads(third["result.fit"]) == rows[2].result["fit"]
    assert first["provenance.seeds"] == "[0,1]"


def test_no_rows_give_a_header_alone(tmp_path: Path) -> None:
    stream = io.StringIO()
    to_csv([], stream)
    assert stream.getvalue() == ",".join([*OWN, *ORIGIN]) + "\n"


def test_parquet_comes_back_with_types(rows: list[Row], tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    to_parquet(rows, tmp_path / "rows.parquet")
    table = pq.read_table(tmp_path / "rows.parquet")
    assert table.column_names == list(columns(rows))
    assert table.schema.field("spec.d").type == pa.int64()
    assert table.schema.field("result.loss").type == pa.float64()
    assert table.schema.field("result.ok").type == pa.bool_()
    found = table.to_pydict()
    assert found["spec.d"] == [16, 32, 32]
    assert found["result.N"] == [41, None, None]
    assert found["result.ok"] == [None, False, None]
    assert found["spec.seed"] == [None, None, str(2**64)]
    assert found["result.loss"][0] == rows[0].result["loss"]
    assert from_json(found["result.curve"][2]) == rows[2].result["curve"]
    assert found["spec.map"][:2] == [rows[0].spec["map"], "µ"]


def test_parquet_without_rows(tmp_path: Path) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    to_parquet([], tmp_path / "none.parquet")
    assert pq.read_table(tmp_path / "none.parquet").num_rows == 0


def test_parquet_without_pyarrow_says_what_to_install(
    rows: list[Row], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(FactholdError, match=r"pip install 'facthold\[parquet\]'"):
        to_parquet(rows, tmp_path / "rows.parquet")
    assert list(tmp_path.iterdir()) == []


def test_rows_become_a_frame_in_one_call(rows: list[Row]) -> None:
    frame = Rows(rows).to_pandas()
    assert list(frame.columns) == list(columns(rows))
    assert frame["spec.d"].tolist() == [16, 32, 32]
    np.testing.assert_array_equal(frame["result.N"], [41, np.nan, np.nan])
    assert frame["kind"].tolist() == ["capacity", "capacity", "curve"]
    assert frame["spec.seed"][2] == 2**64


def test_a_frame_without_pandas_says_what_to_install(rows: list[Row], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(FactholdError, match="pip install pandas"):
        Rows(rows).to_pandas()


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, 2, None], int),
        ([1, 0.5], float),
        ([True, None], bool),
        ([True, 1], object),
        (["a", None], str),
        (["a", 1], object),
        ([2**63], object),
        ([2**60, 0.5], object),
        ([2**60, 1], int),
        ([None], object),
        ([[1], [2]], object),
    ],
)
def test_the_type_of_a_column_loses_nothing(values: list[Any], kind: type) -> None:
    assert common_type(values) is kind


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "table"
    path.write_text("old")
    with pytest.raises(TypeError), writing(path, TEXT) as stream:
        stream.writelines([b"half", None])  # type: ignore[list-item]
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
    with writing(path, TEXT) as stream:
        stream.write(b"new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "real")
    with writing(link, TEXT) as stream:
        stream.write(b"x")
    assert link.is_symlink()
    assert (tmp_path / "real").read_bytes() == b"x"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
def test_a_device_is_written_as_it_is() -> None:
    with writing(os.devnull, TEXT) as stream:
        stream.write(b"x")
    assert not Path(os.devnull).is_file()


def test_what_cannot_be_written_is_told_in_one_line(rows: list[Row], tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path, tmp_path / "file" / "rows.csv"):
        with pytest.raises(FactholdError, match=r"cannot write|is a folder") as error:
            to_csv(rows, path)
        assert str(path) in str(error.value)
        assert "\n" not in str(error.value)
