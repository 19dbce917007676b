"""Truncated models of facts: the table, what is measured, and what is said of it."""

from typing import Any

import equinox as eqx
import numpy as np
import pytest

from facthold._util.keys import derive
from facthold.facts.problem import seeded_recall
from facthold.measure.truncate import truncate
from facthold.models.transformer import Transformer
from facthold.studies.zipf import fact_truncation as figure
from facthold.studies.zipf.truncated import VARIANT, TruncatedFacts

CELL = TruncatedFacts(d=8, S=16, R=4, D=8, steps=64, shares=(0.0, 0.5, 1.0))


def test_every_second_relation_has_few_answers_and_none_is_shared() -> None:
    table = TruncatedFacts(d=8, S=256, R=4, D=16, few=2).table()
    assert [len(table.A_r(r)) for r in range(4)] == [16, 2, 16, 2]
    assert table.assumption_1
    assert len(table) == 256 * 4
    assert table.A == 64


def test_groups_are_means_over_fourths_and_relations() -> None:
    table = CELL.table()
    recall = np.random.default_rng(0).random(len(table))
    by = CELL.by_group(recall, table)
    assert by.shape == (4, 4)
    for fourth in range(4):
        for r in range(4):
            ours = (table.subjects // 4 == fourth) & (table.relations == r)
            assert by[fourth, r] == pytest.approx(recall[ours].mean())


def test_full_rank_recalls_what_the_model_does_and_rank_0_what_it_does_without() -> None:
    found = CELL.run()
    assert {(one["cut"], one["r"]) for one in found["truncated"]} == {
        (cut, r) for cut in ("mlp", "mlp.W", "mlp.V", "W_OV") for r in (0, 4, 8)
    }
    for one in found["truncated"]:
        assert np.mean(one["by"]) == pytest.approx(one["recall"])
        if one["r"] == 8:
            assert one["recall"] == found["accuracy"]
            assert one["saved"] < 0
        if one["r"] == 0:
            assert one["saved"] == one["stored"]
    problem = seeded_recall(CELL.table(), 8, 0, VARIANT, T=8, n_noise=16)
    model = Transformer.init(8, 2, 4, 32, key=derive("m"), bias=True)
    without = eqx.tree_at(lambda m: m.mlp, model, None)
    np.testing.assert_array_equal(
        CELL.recall(truncate(model, {"mlp": 0}).model, problem), CELL.recall(without, problem)
    )


def test_a_run_that_diverged_is_left_out() -> None:
    found = TruncatedFacts(d=8, S=8, R=2, D=4, steps=64, lr=1e30).run()
    assert found["status"] == "diverged"
    assert figure.sound([found, {"accuracy": 0.5}]) == [{"accuracy": 0.5}]


def row(frequent: float, rare: float, seed: int) -> dict[str, Any]:
    """Half of the rank loses the rare subjects, or whoever is given less."""

    def one(r: int, top: float, bottom: float, saved: int) -> dict[str, Any]:
        by = np.repeat(np.linspace(top, bottom, 4)[:, None], 4, axis=1)
        return {"cut": "mlp.V", "r": r, "recall": float(by.mean()), "asked": top, "by": by.tolist(), "saved": saved,
                "stored": 256}  # fmt: skip

    ladder = [one(8, 1.0, 1.0, -64), one(0, 0.0, 0.0, 256), one(4, frequent, rare, 96)]
    return {"alpha_s": 1.0, "alpha_r": 0.0, "few": 2, "D": 16, "d": 8, "seed": seed, "accuracy": 1.0,
            "cuts": ["mlp.V"], "truncated": ladder}  # fmt: skip


def test_it_says_which_go_first_with_the_interval_and_what_is_saved() -> None:
    found = [row(0.6, 0.1 + e, i) for i, e in enumerate((0.0, 0.02, 0.04))]
    text = "\n".join(figure.says(found))
    assert "mlp.V at rank 4: recall 36.0%" in text
    assert "the most frequent fourth of the subjects 60.0%, the rarest fourth 12.0% (difference [+0.43, +0.53])" in text
    assert "factors save +96 of 256 parameters" in text
    assert "from rank 7 on the factors have more parameters than the matrix" in text  # 7 (8 + 32) > 256
    turned = "\n".join(figure.says([row(0.1, 0.6, i) for i in range(3)]))
    assert "fourth of the subjects 10.0%, the rarest fourth 60.0%" in turned


def test_where_nothing_is_lost_it_says_so() -> None:
    kept = [row(1.0, 1.0, 0)]
    kept[0]["truncated"] = [one for one in kept[0]["truncated"] if one["r"]]
    assert any("every rank keeps 90%" in line for line in figure.says(kept))


def test_laws_are_told_apart() -> None:
    names = [figure.law({"alpha_s": s, "alpha_r": r, "d": 8}) for s, r in ((0, 0), (1, 0), (0, 1))]
    assert names == [f"d = 8, {words}" for words in (figure.UNIFORM, figure.SUBJECTS, figure.RELATIONS)]


def test_what_a_group_keeps_is_a_share_of_what_the_full_model_has_of_it() -> None:
    """Facts that were not known before did not go."""
    known = [row(0.5, 0.25, i) for i in range(3)]
    for one in known:
        one["truncated"][0]["by"] = (np.array(one["truncated"][0]["by"]) * [[1.0], [1.0], [1.0], [0.5]]).tolist()
    assert "fourth of the subjects 50.0%, the rarest fourth 50.0%" in "\n".join(figure.says(known))
