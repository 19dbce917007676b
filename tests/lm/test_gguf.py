"""Files: every quantisation is read as `gguf` has it, and what cannot be honoured is refused in one line."""

from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

from facthold._util.errors import FactholdError
from facthold.lm.gguf import Gguf
from facthold.lm.library import read_model
from gguf_files import as_read, random_weights, write


@pytest.mark.parametrize("quantisation", ["F32", "F16", "BF16", "Q8_0", "Q4_1", "Q4_0", "Q5_1"])
def test_weights_are_read_as_the_package_dequantises_them(quantisation: str, tmp_path: Path) -> None:
    weights = random_weights()
    file = Gguf(write(tmp_path / "m.gguf", weights, quantisation))
    there = as_read(weights, quantisation)
    np.testing.assert_array_equal(file.weight("E"), there["token_embd.weight"])
    np.testing.assert_array_equal(file.weight("g"), there["output_norm.weight"])
    np.testing.assert_array_equal(file.weight("W_down", 1), there["blk.1.ffn_down.weight"])
    np.testing.assert_array_equal(file.weight("W_K", 0), there["blk.0.attn_k.weight"])


def test_the_model_of_a_file_has_its_sizes_and_its_tied_embeddings(tmp_path: Path) -> None:
    weights = random_weights()
    model = read_model(write(tmp_path / "m.gguf", weights))
    assert model.U is model.E
    assert model.n_params == sum(value.size for value in weights.values())
    apart = random_weights(tied=False)
    model = read_model(write(tmp_path / "apart.gguf", apart))
    np.testing.assert_array_equal(model.U, apart["output.weight"])


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"architecture": "gpt2"}, "architecture 'gpt2'; facthold computes 'llama' alone"),
        ({"without": ("block_count",)}, "does not say its llama.block_count"),
        ({"without": ("eps",)}, "does not say its llama.attention.layer_norm_rms_epsilon"),
        ({"without": ("gpt2",)}, "splits texts by 'llama'; facthold has byte-level BPE alone"),
        ({"m": 64}, "has the shape .*, and by its metadata"),
        ({"L": 3}, "lacks 9 of its weights, such as blk.2"),
        ({"G": 3}, "has heads that facthold cannot compute: H=4, 3 of keys"),
        ({"extra": {"llama.rope.scaling.type": "yarn"}}, "stretches its rotary angles"),
    ],
)
def test_a_file_of_another_kind_is_refused_in_a_line(change: dict[str, Any], says: str, tmp_path: Path) -> None:
    path = write(tmp_path / "m.gguf", random_weights(), **change)
    with pytest.raises(FactholdError, match=says) as error:
        read_model(path)
    assert "\n" not in str(error.value)


def test_weights_that_would_be_left_out_are_refused(tmp_path: Path) -> None:
    weights = random_weights() | {"blk.0.attn_q.bias": np.ones(64, np.float32)}
    with pytest.raises(FactholdError, match=r"cannot use: blk.0.attn_q.bias"):
        Gguf(write(tmp_path / "m.gguf", weights))
    weights = random_weights()
    weights["blk.1.ffn_up.weight"][3, 4] = np.nan
    with pytest.raises(FactholdError, match="not finite"):
        read_model(write(tmp_path / "nan.gguf", weights))


def test_a_file_that_ends_anywhere_is_truncated_and_one_that_is_none_is_none(tmp_path: Path) -> None:
    whole = write(tmp_path / "m.gguf", random_weights()).read_bytes()
    cut = tmp_path / "cut.gguf"
    for n in [8, 30, 200, 4000, 20_000, len(whole) // 2, len(whole) - 1]:
        cut.write_bytes(whole[:n])
        with pytest.raises(FactholdError, match=r"truncated or damaged|is truncated: "):
            read_model(cut)
    for contents in (b"", b"GG", b"subject,relation,answer\n", bytes(100)):
        cut.write_bytes(contents)
        with pytest.raises(FactholdError, match="is not a GGUF file"):
            read_model(cut)
    with pytest.raises(FactholdError, match=r"cannot read .*: No such file"):
        read_model(tmp_path / "none.gguf")
    with pytest.raises(FactholdError, match=r"cannot read .*: Is a directory"):
        read_model(tmp_path)


@pytest.mark.parametrize("seed", range(40))
def test_damaged_bytes_in_the_header_end_in_a_line_or_in_a_model(seed: int, tmp_path: Path) -> None:
    """And at once: a length that is too large is not waited for."""
    contents = bytearray(write(tmp_path / "m.gguf", random_weights()).read_bytes())
    rng = np.random.default_rng(seed)
    for place in rng.integers(4, 900, 3):
        contents[place] = rng.integers(256)
    (tmp_path / "m.gguf").write_bytes(contents)
    try:
        read_model(tmp_path / "m.gguf")
    except FactholdError as error:
        assert "\n" not in str(error)  # noqa: PT017


def test_rows_that_no_block_fits_are_named(tmp_path: Path) -> None:
    """Not taken for a quantisation that is not known: that of the file is."""
    path = write(tmp_path / "m.gguf", random_weights(d=48, H=3, G=3), d=48, H=3, G=3)
    contents = bytearray(path.read_bytes())
    place = contents.index(b"blk.0.ffn_up.weight") + len("blk.0.ffn_up.weight") + 4 + 16
    contents[place : place + 4] = gguf.GGMLQuantizationType.Q8_0.to_bytes(4, "little")
    path.write_bytes(contents)
    with pytest.raises(FactholdError, match=r"ffn_up.weight has rows of 48 numbers, and Q8_0 packs them by 32"):
        read_model(path)


def test_an_unknown_quantisation_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "m.gguf", random_weights())
    contents = bytearray(path.read_bytes())
    place = contents.index(b"blk.0.ffn_up.weight") + len("blk.0.ffn_up.weight") + 4 + 16
    for number, says in (
        (250, "has quantisation 250, which gguf .* does not know"),
        (27, "cannot dequantise I64|trunc"),
    ):
        contents[place : place + 4] = number.to_bytes(4, "little")
        path.write_bytes(contents)
        with pytest.raises(FactholdError, match=says):
            read_model(path)
