"""Files of arrays: a flipped bit, a lost end or a foreign file is one clear line, and never another answer."""

import json
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save

import known
from facthold._util.errors import FactholdError, FactholdWarning
from facthold._util.tensors import FORMAT, checksum, read_tensors, tensors_as_bytes
from facthold.measure.grids import grid_of_bits
from facthold.measure.quantise import grid_points, quantise
from facthold.models.saving import load_model, save_model, write_model

FORMS = ("plain", "packed", "redrawn")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """A model with names in each form that a file can have."""
    folder, (model, problem) = tmp_path_factory.mktemp("forms"), known.countries()
    grid = grid_of_bits(5)
    q = quantise(model, grid)
    save_model(folder / "plain", model, problem)
    write_model(folder / "packed", q.model, problem, points=grid_points(model, q.grids))
    write_model(folder / "redrawn", model, problem, redraw=True)
    return {name: (folder / name).read_bytes() for name in FORMS}


def header_end(raw: bytes) -> int:
    return 8 + int.from_bytes(raw[:8], "little")


def refusal(path: Path, raw: bytes) -> str:
    """The one line that reading these bytes gives."""
    path.write_bytes(raw)
    with pytest.raises(FactholdError) as error:
        load_model(path)
    (line,) = str(error.value).splitlines()
    assert str(path) in line
    return line


def flip(raw: bytes, position: int, bit: int) -> bytes:
    return raw[:position] + bytes([raw[position] ^ 1 << bit]) + raw[position + 1 :]


@pytest.mark.parametrize("form", FORMS)
def test_every_bit_that_flips_is_seen(form: str, files: dict[str, bytes], tmp_path: Path) -> None:
    """A bit of every byte that says what the file is, and of bytes all over names and arrays."""
    raw, draw = files[form], np.random.default_rng(0)
    load_model(_written(tmp_path / "whole", raw))
    end = header_end(raw)
    places = [*range(64), *draw.integers(64, end, 300).tolist(), *draw.integers(end, len(raw), 200).tolist()]
    for place in places:
        refusal(tmp_path / "m", flip(raw, place, int(draw.integers(8))))


@given(data=st.data())
def test_any_damage_is_seen(
    data: st.DataObject, files: dict[str, bytes], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Any bytes in the place of any others, of as many or of more or fewer: also of all to the end."""
    raw = files[data.draw(st.sampled_from(FORMS))]
    first = data.draw(st.integers(0, len(raw)))
    new = data.draw(st.binary(max_size=16))
    last = first + data.draw(st.sampled_from([0, len(new), len(raw)]) | st.integers(0, len(raw) - first))
    damaged = raw[:first] + new + raw[last:]
    if damaged != raw:
        refusal(tmp_path_factory.getbasetemp() / "any", damaged)


@given(st.binary(max_size=400), st.booleans())
def test_any_bytes_are_no_model(tmp_path_factory: pytest.TempPathFactory, raw: bytes, as_header: bool) -> None:
    """Also where they stand as the header of a file that is long enough for it."""
    contents = (len(raw) + 1).to_bytes(8, "little") + b"{" + raw if as_header else raw
    refusal(tmp_path_factory.getbasetemp() / "any", contents)


def _written(path: Path, raw: bytes) -> Path:
    path.write_bytes(raw)
    return path


@pytest.mark.parametrize("name", ["model.W_V", "problem.phi", "problem.answers", "model.mlp.b"])
def test_the_damaged_part_is_named(name: str, tmp_path: Path) -> None:
    model, problem = known.random_model()
    raw = save_model(tmp_path / "m", model, problem).read_bytes()
    first, _ = json.loads(raw[8 : header_end(raw)])[name]["data_offsets"]
    line = refusal(tmp_path / "m", flip(raw, header_end(raw) + first, 0))
    assert line.endswith(f"m is damaged: its checksum does not match in {name}; copy it again, or build it again")


def test_a_damaged_name_is_named(files: dict[str, bytes], tmp_path: Path) -> None:
    raw = files["plain"]
    line = refusal(tmp_path / "m", raw.replace(b"France", b"Frbnce", 1))
    assert "m is damaged: its checksum does not match in its names and settings" in line


def test_a_list_of_checksums_cannot_be_lost_or_shortened(files: dict[str, bytes], tmp_path: Path) -> None:
    """What has the present format has checksums, of every array that it has."""
    arrays, about = read_tensors(_written(tmp_path / "m", files["plain"]))
    assert "its checksum does not match" in refusal(tmp_path / "m", save(arrays, {"about": json.dumps(about)}))
    without = tensors_as_bytes({n: a for n, a in arrays.items() if n != "model.W_K"}, about)
    metadata = json.loads(without[8 : header_end(without)])["__metadata__"]
    assert "does not match in model.W_K;" in refusal(tmp_path / "m", save(arrays, metadata))
    fewer = {n: a for n, a in arrays.items() if n != "problem.also"}
    full = json.loads(files["plain"][8 : header_end(files["plain"])])["__metadata__"]
    assert "does not match in the list of its arrays" in refusal(tmp_path / "m", save(fewer, full))


@pytest.mark.parametrize("form", FORMS)
def test_a_file_that_was_cut_says_so(form: str, files: dict[str, bytes], tmp_path: Path) -> None:
    raw, draw = files[form], np.random.default_rng(1)
    end = header_end(raw)
    for length in (end, end + 1, len(raw) - 1, *draw.integers(end, len(raw), 40).tolist()):
        line = refusal(tmp_path / "m", raw[:length])
        assert f"m is cut short: it has {length:,} bytes, and should have {len(raw):,}" in line
    for length in (0, 1, 8, 9, end - 1, *draw.integers(0, end, 40).tolist()):
        assert "m is not a facthold model" in refusal(tmp_path / "m", raw[:length])
    assert "m is damaged: it has" in refusal(tmp_path / "m", raw + b"\0")


@pytest.mark.parametrize(
    "raw",
    [
        b"", b"{}", b"PK\x03\x04" * 40, b'{"format": "2"}' * 9, b"\0" * 64, b"\2\0\0\0\0\0\0\0{}",
        b"\3\0\0\0\0\0\0\0{]}", b"\2\0\0\0\0\0\0\0[]", save({"W": np.eye(3)}), save({"W": np.eye(3)}, {"about": "[1]"}),
        save({"W": np.eye(3)}, {"about": '{"format": 2}'}), save({"W": np.eye(3)}, {"about": "no JSON"}),
        save({"W": np.eye(3)}, {"about": "[" * 10**5}), (10**5).to_bytes(8, "little") + b'{"a":' * 20_000,
        b'\x3e\0\0\0\0\0\0\0{"W": {"dtype": "F32", "shape": [3], "data_offsets": [0, "x"]}}',
    ],
)  # fmt: skip
def test_a_foreign_file_is_one_line(raw: bytes, tmp_path: Path) -> None:
    assert "is not a facthold model" in refusal(tmp_path / "foreign", raw)


def test_a_newer_format_says_so(files: dict[str, bytes], tmp_path: Path) -> None:
    arrays, about = read_tensors(_written(tmp_path / "m", files["plain"]))
    newer = about | {"format": str(FORMAT + 1), "facthold": "9.9"}
    line = refusal(tmp_path / "m", tensors_as_bytes(arrays, newer))
    assert f"m has format {FORMAT + 1}, of facthold 9.9" in line
    assert "install the newer one" in line


def old_version(arrays: dict[str, np.ndarray], about: dict) -> bytes:
    """The file as it was before there were checksums."""
    about = about | {"format": "1", "problem": {n: v for n, v in about["problem"].items() if n != "drawing"}}
    return save(arrays, {"about": json.dumps(about)})


def test_a_file_of_an_older_version_opens_with_a_note(files: dict[str, bytes], tmp_path: Path) -> None:
    old = _written(tmp_path / "old", old_version(*read_tensors(_written(tmp_path / "m", files["plain"]))))
    with pytest.warns(FactholdWarning, match=r"old is of an older version, without a checksum.*write it again"):
        model, problem = load_model(old)
    assert problem is not None
    assert problem.table.labels == known.countries()[1].table.labels
    np.testing.assert_array_equal(model.W_K, known.countries()[0].W_K)
    again = save_model(tmp_path / "again", model, problem)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load_model(again)


def test_a_checksum_is_of_the_type_and_the_shape_too() -> None:
    zeros = [np.zeros(4, np.float32), np.zeros((2, 2), np.float32), np.zeros(4, np.int32), np.zeros(2, np.float64)]
    assert len({checksum(array) for array in zeros}) == len(zeros)
