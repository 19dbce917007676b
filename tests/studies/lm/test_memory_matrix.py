"""Attention matrices as memories: identities, controls, and judges that can say no."""

import jax
import numpy as np
import pytest

from facthold.lab import Values
from facthold.lm.library import load
from facthold.lm.matrices import probed, scrambled, words_before
from facthold.lm.prompts import facts_for
from facthold.lm.questions import answers, questions
from facthold.lm.tiny import LAYER, OF_SUBJECTS
from facthold.measure.probes import probe
from facthold.studies.lm.memory_claims import OF_CAPITALS, OF_LOW_RANK, RECALLS, choose, judge_rank, judge_recall
from facthold.studies.lm.memory_matrix import LmMatrix
from facthold.studies.lm.resampling import bits


def row(known: float = 0.6, unknown: float = 0.05, random: float = 0.02, rank: float = 0.6) -> Values:
    """80 facts, of which the model knows every second one: so many of them are recalled by layer 2 of 4."""
    i = np.arange(80)
    is_known, held = i % 2 == 0, i // 2 % 2 == 0

    def right(share: float) -> np.ndarray:
        return i // 4 < round(20 * share)

    recalled = np.where(is_known, right(known), right(unknown))
    return {
        "relation": "capital", "subjects": [f"s{k}" for k in i], "answers": (i // 2).tolist(), "held": bits(held),
        "known": bits(is_known), "unknown": bits(~is_known), "ranks": (64, 576),
        "whole": [bits(recalled) if layer == 2 else "0" * 80 for layer in range(4)],
        "random": [[bits(right(random)[is_known])]] * 4,
        "by rank": [[bits(right(share)[is_known]) for share in (rank, known)]] * 4,
    }  # fmt: skip


def test_the_planted_matrix_recalls_what_is_known() -> None:
    model, rows = load("tiny"), facts_for("tiny", ["capital"])
    asked = questions(model, rows)
    problem, known = probed(model, asked, answers(model, rows)), np.array([q.known for q in asked])
    recalled = problem.recalled(model.ov(LAYER))
    assert recalled[known].all()
    assert not recalled[~known].all()
    assert problem.recalled(model.ov(LAYER, head=OF_SUBJECTS))[known].all()
    share = probe(model.ov(LAYER), problem.keys, problem.outputs, problem.f)
    assert float(share) == pytest.approx(recalled.mean())


def test_keys_are_read_where_a_name_has_a_space_before_it() -> None:
    assert words_before("capital") == "The capital of "
    assert words_before("region") == "The continent on which "
    model, rows = load("tiny"), facts_for("tiny", ["capital"])
    q = questions(model, rows)[0]
    key = probed(model, [q], answers(model, rows)).keys[0]
    whole = model.run(model.batch([f"The capital of {q.fact[0]} is"]), keep=[("stream", 1)])["stream", 1][0, q.subject]
    np.testing.assert_allclose(key, whole / np.sqrt((whole**2).mean() + model.config.eps), rtol=1e-4, atol=1e-5)


def test_random_controls_have_the_same_singular_values() -> None:
    W = load("tiny").ov(LAYER)
    s = np.linalg.svd(np.asarray(W), compute_uv=False)
    other = scrambled(jax.numpy.asarray(s), key=jax.random.key(1))
    np.testing.assert_allclose(np.linalg.svd(np.asarray(other), compute_uv=False), s, atol=1e-4 * s[0])
    assert abs(float((W * other).sum())) < 0.2 * float((W * W).sum())


def test_a_cell_says_all_of_it_and_the_layer_is_found() -> None:
    cells = [LmMatrix(relation=r, ranks=(64, 128), controls=1) for r in ("capital", "region")]
    rows = [cell.spec | cell.run() for cell in cells]
    assert choose(rows) == LAYER
    for r in rows:
        known = [i for i, one in enumerate(r["known"]) if one == "1"]
        for layer, text in enumerate(r["whole"]):
            assert r["by rank"][layer][-1] == "".join(text[i] for i in known)  # rank d is the whole matrix
    assert judge_recall(rows).measured.startswith(f"layer {LAYER} recalls 1.00")
    assert judge_rank(rows).verdict == "holds"


def test_recall_holds_and_fails() -> None:
    assert judge_recall([row()]).verdict == "holds"
    assert judge_recall([row(unknown=0.9)]).verdict == "fails"
    assert judge_recall([row(random=0.95)]).verdict == "fails"
    same = dict(row()) | {"answers": [0] * 80}
    assert judge_recall([same]).verdict == "fails"
    assert all("(in one model, SmolLM2" in claim.statement for claim in (RECALLS, OF_CAPITALS))
    assert OF_CAPITALS.changed
    assert {cell.relation for cell in OF_CAPITALS.cells("smoke")} == {"capital"}  # type: ignore[attr-defined]


def test_rank_holds_and_fails() -> None:
    assert judge_rank([row()]).verdict == "holds"
    assert judge_rank([row(rank=0.1)]).verdict == "fails"
    assert "(in one model, SmolLM2" in OF_LOW_RANK.statement
