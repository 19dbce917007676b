"""What the page breaks and mends is what the library breaks and mends: grids, ranks, edits, and files that it opens."""

import base64
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import facthold as fh
from explore.models import READ, models, text
from explore.node import needs_node, run
from facthold.knowledge import rank_one
from facthold.knowledge.edit import PROBES
from facthold.knowledge.model import FRESH, Model
from facthold.measure.grids import grid_of_bits
from facthold.measure.quantise import quantise
from facthold.measure.truncate import matrices, truncate
from facthold.models.judge import judge_table
from facthold.models.saving import to_numpy

pytestmark = needs_node
NAMES = ["gated", "trained", "attention alone"]
SOLVED = 1e-6  # of the largest number: ridges of 1e-8 leave so much of float64


def close(found: Any, expected: Any, rtol: float = SOLVED) -> None:
    expected = np.asarray(expected, float)
    found = np.asarray(found, float).reshape(expected.shape)
    assert_allclose(found, expected, rtol=0, atol=rtol * float(np.abs(expected).max()))


@pytest.mark.parametrize("bits", [1, 2, 5, 8])
@pytest.mark.parametrize("name", ["gated", "scaled, with a bias"])
def test_a_model_of_few_bits_is_the_library_s_to_the_bit(name: str, bits: int, tmp_path: Path) -> None:
    known = models()[name]
    found = run(
        tmp_path,
        READ + "const { rounded } = await import('facthold/damage');"
        "const shapes = Object.fromEntries(Object.keys(model.weights)"
        ".map((n) => [n, model.task.file.arrays[`model.${n}`].shape]));"
        "return rounded(model.weights, given.bits, shapes);",
        model=text(known), bits=bits,
    )  # fmt: skip
    expected = to_numpy(quantise(known.model, grid_of_bits(bits)).model)
    assert set(found) == set(expected)
    for array, W in expected.items():
        assert_array_equal(np.asarray(found[array], np.float32).reshape(W.shape), W)


@pytest.mark.parametrize("name", ["gated", "trained", "attention alone", "scaled, with a bias"])
def test_a_matrix_of_low_rank_is_the_library_s(name: str, tmp_path: Path) -> None:
    known = models()[name]
    for matrix in [m for m in matrices(known.model) if m != "mlp"]:
        full = truncate(known.model, {matrix: 0}).parts[0].full
        for r in (0, 1, full // 2, full):
            found = run(
                tmp_path,
                READ + "const { truncated, fullRank } = await import('facthold/damage');"
                "const cut = truncated(model, model.weights, given.matrix, given.r);"
                "return { ...cut, full: fullRank(model, given.matrix) };",
                model=text(known), matrix=matrix, r=r,
            )  # fmt: skip
            assert found.pop("full") == full
            cut = Model(truncate(known.model, {matrix: r}).model, known.problem)
            for array, W in to_numpy(cut.model).items():
                close(found[array], W, 1e-5)


def test_noise_is_as_large_as_it_says_and_the_same_for_a_seed(tmp_path: Path) -> None:
    known = models()["trained"]
    script = READ + "const { noisy } = await import('facthold/damage'); return noisy(model.weights, 0.1, given.seed);"
    first, again, other = (run(tmp_path, script, model=text(known), seed=seed) for seed in (0, 0, 1))
    assert first == again
    sizes, means, n = [], [], 0
    for name, W in to_numpy(known.model).items():
        change = np.asarray(first[name]).ravel() - W.ravel()
        assert not np.array_equal(first[name], other[name])
        sizes.append((change**2).sum() / (W**2).mean())
        means.append(change.sum() / np.sqrt((W**2).mean()))
        n += W.size
    assert abs(sum(sizes) / n / 0.01 - 1) < 4 * np.sqrt(2 / n)  # four standard errors
    assert abs(sum(means) / n / 0.1) < 4 / np.sqrt(n)


EDITED = (
    READ
    + """
const { edited, probed } = await import('facthold/edit');
const after = edited(model, table, given.row, given.wins);
const efficacy = probed(after.model, after.table, given.row);
return { name: after.name, weights: after.model.weights[after.name], efficacy };"""
)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("row", [0, 3, 5])
def test_an_edit_is_the_library_s(name: str, row: int, tmp_path: Path) -> None:
    known = models()[name]
    wins = _other_answer(known, row)
    found = run(tmp_path, EDITED, model=text(known), row=row, wins=wins)
    expected = known.edit(*_names(known, row, wins), in_place=True)
    before, after = (to_numpy(one.model)[found["name"]] for one in (known, expected))
    change = np.asarray(found["weights"]).reshape(before.shape) - before
    close(change, after - before, 1e-4)
    close(change + before, after)
    assert found["efficacy"] == pytest.approx(expected.report.efficacy, abs=1 / PROBES)


@pytest.mark.parametrize("name", NAMES)
def test_an_edit_does_not_hang_on_the_last_digits(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The library's own, where its sums are rounded otherwise: the page's sums are, and those of another machine."""
    known, gram = models()[name], rank_one._gram
    for row in (0, 3, 5):
        fact = _names(known, row, _other_answer(known, row))
        expected = to_numpy(known.edit(*fact, in_place=True).model)
        for seed in range(3):
            with monkeypatch.context() as local:
                local.setattr(rank_one, "_gram", _rounded_otherwise(gram, np.random.default_rng(seed)))
                found = to_numpy(known.edit(*fact, in_place=True).model)
            for array, W in expected.items():
                close(found[array], W)


def _rounded_otherwise(gram: Callable[..., Any], draw: np.random.Generator) -> Callable[..., Any]:
    return lambda h, w: gram(h, w) * (1 + 1e-15 * draw.standard_normal((h.shape[1],) * 2))


def _other_answer(known: Model, row: int) -> int:
    return next(a for a in range(known.table.A - 1, -1, -1) if a not in known.table.right(row))


def _names(known: Model, row: int, wins: int) -> tuple[str, str, str]:
    numbers = (known.table.subjects[row], known.table.relations[row], wins)
    s, r, a = (names[int(i)] for names, i in zip(known.names, numbers, strict=True))
    return s, r, a


@pytest.mark.parametrize("name", ["gated", "attention alone", "several answers"])
def test_a_model_that_was_edited_in_the_page_is_opened_by_the_library(name: str, tmp_path: Path) -> None:
    known = models()[name]
    table = known.table
    wins = next(a for a in range(table.A - 1, -1, -1) if a not in table.right(1))
    found = run(
        tmp_path,
        READ + """
        const { edited } = await import('facthold/edit'), { fileOf } = await import('facthold/saving');
        const { judgeAll } = await import('facthold/many');
        const after = edited(model, table, 1, given.wins);
        const bytes = fileOf(after.model, after.table);
        const base64 = (bytes) => Buffer.from(bytes).toString('base64');
        return { file: base64(bytes), same: base64(fileOf(model, table)),
                 margin: judgeAll(after.model, after.table, { seed: given.seed }).margin };""",
        model=text(known), wins=wins, seed=FRESH,
    )  # fmt: skip
    path = tmp_path / "edited.safetensors"
    path.write_bytes(base64.b64decode(found["file"]))
    after = fh.load(path)
    s, r = (names[int(i)] for names, i in zip(known.names, (table.subjects[1], table.relations[1]), strict=False))
    assert after.table.right(1) == (wins,)
    assert after.ask(s, r).answer == known.names[2][wins]
    close(found["margin"], judge_table(after.model, after.problem, seed=FRESH).margin, 1e-9)
    same = tmp_path / "same.safetensors"
    same.write_bytes(base64.b64decode(found["same"]))
    assert fh.load(same).table.to_rows() == table.to_rows()
    damaged = bytearray(path.read_bytes())
    damaged[-1] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(fh.FactholdError, match="is damaged: its checksum does not match"):
        fh.load(path)


def test_digests_are_those_of_hashlib(tmp_path: Path) -> None:
    texts = ["", "abc", "x" * 55, "y" * 56, "z" * 64, "ü" * 1000]
    script = (
        "const { sha256 } = await import('facthold/sha256');"
        "return given.texts.map((t) => sha256(new TextEncoder().encode(t)));"
    )
    assert run(tmp_path, script, texts=texts) == [hashlib.sha256(t.encode()).hexdigest() for t in texts]
