"""Bits that a language model holds: of the tiny one, whose facts are known, by hand; and a judge that can say no."""

from math import log2
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from facthold.lab.registry import claim, figure
from facthold.lm import fetch as fetching
from facthold.lm.code_length import listing
from facthold.lm.library import load
from facthold.lm.prompts import facts_for
from facthold.lm.telling import scores, telling
from facthold.lm.tiny import KNOWN, LAYER, SUBJECTS
from facthold.studies.bits import efficiency
from facthold.studies.lm import bits_view, teach
from facthold.studies.lm.bits import PRESETS, LmBits, LmMatrixBits, LmSize, cells
from facthold.studies.lm.bits_account import ALONE, PLAIN, RECALL, holdings, read_off, saved, taught_bits
from gguf_files import random_weights, write

N = 100


def row(relation: str, told: float = 2.0, right: int = 50, shuffled: float = -9.0) -> dict[str, Any]:
    """A hundred facts of 5 bits each, in ``told`` bits with the model's predictions; so many best answers are right."""
    hits = np.arange(N) < right
    each = {
        "base": [5.0] * N, "plain": [3.0] * N, "fitted": [told] * N, "right": hits.astype(float).tolist(),
        "recall": np.where(hits, 5.0, 1.0).tolist(), "shuffled": shuffled,
    }  # fmt: skip
    return {
        "kind": "lm-bits", "relation": relation, "shots": 0, "templates": 1, "seed": 0,
        "subjects": [f"s{i}" for i in range(N)], "given": each, "alone": each,
    }  # fmt: skip


def of(**first: Any) -> list[dict[str, Any]]:
    return [row("capital", **first), *(row(name) for name in ("currency", "language", "region"))]


def test_it_holds_and_fails() -> None:
    judge = claim("lm-bits").judge
    assert judge(of()).verdict == "holds"
    assert judge([row(name, told=4.8) for name in ("capital", "region")]).verdict == "fails"  # 40 bits in all
    assert judge(of(told=5.1)).verdict == "fails"  # one relation of which nothing is known
    assert judge(of(shuffled=60.0)).verdict == "fails"  # bits of what nobody knows
    assert judge([row(name, right=5) for name in ("capital", "region")]).verdict == "fails"
    assert judge([row(name, right=95, told=3.0) for name in ("capital", "region")]).verdict == "fails"


def test_subjects_are_drawn_again_with_all_of_their_facts() -> None:
    rows = of()
    assert saved(rows) == (1200.0, (1200.0, 1200.0))
    for one in rows:
        one["given"]["fitted"] = [0.0, 5.0] * (N // 2)
    total, (low, high) = saved(rows)
    assert total == 1000
    assert high - low == pytest.approx(2 * 1.96 * 4 * 5 * (N * 0.25) ** 0.5, rel=0.1)
    best = saved(rows[:1], RECALL)[0]
    assert best == pytest.approx(50 * 5 + 50 - float(listing(N, 50)))


def test_the_tiny_model_holds_what_was_put_into_it() -> None:
    """Of 16 capitals Brasilia begins as Brazil does. 12 of the others are known, and their bits are saved; of those
    that are not known every capital is as likely as any other."""
    found = LmBits(relation="capital").run()
    assert (found["judged"], found["alike"], found["answers"]) == (15, 1, 15)
    known = [s in KNOWN for s in found["subjects"]]
    told = np.array(found["alone"]["plain"])
    assert told[known].max() < 0.05
    unknown = told[~np.array(known)]
    assert len(unknown) == len(SUBJECTS) - len(KNOWN) - 1
    assert unknown == pytest.approx(log2(15), abs=0.7)
    assert sum(found["alone"]["base"]) == pytest.approx(sum(log2(i) for i in range(1, 16)))
    assert found["alone"]["shuffled"] < 0
    one = dict(found) | {"relation": "capital"}
    assert saved([one], PLAIN, ALONE)[0] == pytest.approx(sum(found["alone"]["base"]) - unknown.sum(), abs=0.1)


def test_a_known_region_is_known_to_both_sides() -> None:
    given = LmBits(relation="capital").run()["given"]
    assert sum(given["base"]) < 0.5 * sum(LmBits(relation="capital").run()["alone"]["base"])
    region = LmBits(relation="region").run()
    assert region["given"] == region["alone"]


def test_scores_are_probabilities_among_the_answers_and_means_over_wordings() -> None:
    model, rows = load("tiny"), facts_for("tiny", ["capital"])
    asked = telling(model, rows)
    one, two = (scores(model, asked, rows, shots=0, templates=n) for n in (1, 2))
    np.testing.assert_allclose(np.exp(one).sum(1), 1, rtol=1e-5)
    assert not np.allclose(one, two)
    logits = np.asarray(model.run(model.batch([f"The capital of {asked.subjects[0]} is"])).logits)[0, asked.tokens]
    np.testing.assert_allclose(one[0] - one[0, 0], logits - logits[0], atol=1e-4)


def test_the_layer_that_holds_them_is_found_on_either_half() -> None:
    rows = [LmMatrixBits(relation=r).spec | LmMatrixBits(relation=r).run() for r in ("capital", "currency")]
    read = read_off([one | {"kind": "lm-matrix-bits"} for one in rows])
    assert read is not None
    assert read.layers == (LAYER, LAYER)
    assert read.bits > 15 > 0 > read.random


def test_a_layer_is_judged_on_the_half_that_did_not_choose_it() -> None:
    n, first = 8, [1.0] * 4 + [0.0] * 4  # held: the second four
    second = [0.0] * 4 + [1.0] * 4
    one = {
        "kind": "lm-matrix-bits", "subjects": [f"s{i}" for i in range(n)], "held": "00001111",
        "choosing": [first, second], "judging": [[10.0] * 4 + [1.0] * 4, [2.0] * 4 + [20.0] * 4],
        "random": [[0.0] * n] * 2,
    }  # fmt: skip
    read = read_off([one])
    assert read is not None
    assert read.layers == (1, 0)
    assert read.bits == 4 * 2 + 4 * 1


def test_taught_bits_are_those_of_random_words() -> None:
    right = {name: ["1" * 12, "1" * 11 + "0"] for name in teach.WORDINGS}
    one = {"N": 12, "layers": [0, 1], "held": "01" * 6, "right": {"solved": right}}
    assert taught_bits(one, 45) == (pytest.approx(12 * log2(45) - 1), 0)
    assert len(teach.candidates("tiny", load("tiny"))) == LmSize().run()["words"]


def test_sizes_are_of_the_weights_and_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny, c = LmSize().run(), load("tiny").config
    assert tiny["n_params"] == load("tiny").n_params
    assert tiny["layer_params"] == c.G * c.d_h * c.d + c.d * c.H * c.d_h
    assert tiny["stored_bits"] == 32 * tiny["n_params"]
    monkeypatch.setenv(fetching.FOLDER_VARIABLE, str(tmp_path / "models"))
    name = fetching.name_of(write(tmp_path / "mine.gguf", random_weights()))
    found = LmSize(model=name).run()
    assert found["stored_bits"] == 32 * found["n_params"]  # F32
    assert found["layer_bits"] == [32 * found["layer_params"]] * len(found["layer_bits"])


def test_cells_are_shared_with_other_figures() -> None:
    for preset in ("smoke", "quick"):
        made = {cell.key for cell in cells(PRESETS[preset])}
        own = {cell.key for cell in efficiency.cells(efficiency.PRESETS[preset])}
        taught = {cell.key for cell in teach.cells(teach.PRESETS[preset])}
        assert len(made & own) >= 2
        assert len(made & taught) == 1
    assert {cell.key for cell in claim("lm-bits").cells("quick")} <= {cell.key for cell in cells(PRESETS["quick"])}


def test_what_is_there_is_drawn_and_said() -> None:
    size = {"kind": "lm-size", "n_params": 1000, "stored_bits": 5000, "layer_params": 9, "layer_bits": [9], "words": 2}
    point = {"goal": 0.99, "count": "all", "bound": 100.0, "n_weights": 50, "bits": 400.0}
    memory = {"kind": "memory-bits", "method": "m", "d": 5, "tried": 4, "points": [{"used": [point]}]}
    shown = {h.what: h for h in holdings([*of(), size, memory])}
    assert shown["tables"].per_param == pytest.approx(1.2)
    assert shown["tables"].per_bit == pytest.approx(0.24)
    assert shown["memories"].per_param == pytest.approx(98 / 50)  # the bits of what was tried are taken off
    assert shown["memories"].per_bit == pytest.approx(98 / 400)
    assert bits_view.draw([size]) is not None
    assert figure("lm-bits").says([]) == []
