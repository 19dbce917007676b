"""Where facts are read: sums that are exact, parts that are found where they were put, and judges that can say no."""

import numpy as np
import pytest

from facthold.lab import Values
from facthold.lm.ablation import later, margins, without_heads, without_layers
from facthold.lm.library import load
from facthold.lm.locating import locate
from facthold.lm.prompts import facts_for
from facthold.lm.questions import answers, questions, relation_of
from facthold.lm.tiny import LAYER, OF_SUBJECTS
from facthold.studies.lm.resampling import bits, flags, interval_of, mean_by
from facthold.studies.lm.where import LmHeads, LmTogether, LmWhere
from facthold.studies.lm.where_claims import CONTRAST, ONE_LAYER, Facts, choose, judge_contrast, judge_layer
from facthold.studies.lm.where_view import lines

SUBJECTS = [f"s{i}" for i in range(40)]


def row(chosen: float = 0.1, other: float = 0.95, parts: tuple[float, ...] = (4.0, 7.0, 1.8, 0.1)) -> Values:
    """40 facts of which so many stay right without layer 2, and without any other of 4 layers; parts of margins:
    attention and MLPs against the answers, then against the runner-up."""

    def right(share: float) -> str:
        return bits(np.arange(40) // 2 < round(20 * share))

    found = {"relation": "capital", "subjects": SUBJECTS, "held": bits(np.arange(40) % 2 == 0)}
    found["attention last"] = [right(chosen if i == 2 else other) for i in range(4)]
    spread = np.linspace(0.9, 1.1, 40)
    names = ("attention answers", "mlp answers", "attention runner-up", "mlp runner-up")
    return found | {name: (part * spread).tolist() for name, part in zip(names, parts, strict=True)}


def test_parts_sum_to_the_margin_which_is_that_of_the_logits() -> None:
    model, rows = load("tiny"), facts_for("tiny", ["capital"])
    asked = questions(model, rows)
    rivals = answers(model, rows)
    found = margins(model, asked, rivals)
    assert list(found) == ["answers", "runner-up", "best-answer"]
    for contrast, parts in found.items():
        for i, q in enumerate(asked):
            logits = np.asarray(model.run(model.batch([f"The capital of {q.fact[0]} is"])).logits)[0]
            others = logits[rivals[rivals != q.answer]]
            best = {"runner-up": np.delete(logits, q.answer).max(), "best-answer": others.max()}
            other = best.get(contrast, others)
            assert parts.margin[i] == pytest.approx(logits[q.answer] - np.mean(other), rel=1e-5, abs=1e-5)


def test_ablation_finds_what_was_put_there() -> None:
    model = load("tiny")
    asked = [q for q in questions(model, facts_for("tiny", ["capital"])) if q.known]
    own = np.array([q.answer for q in asked])
    last = later(model, asked, "last")
    right = without_layers(last, own, "attention").mean(1)
    assert right.argmin() == LAYER
    assert right[LAYER] < 0.2
    assert without_layers(last, own, "mlp").all()
    heads = without_heads(last, own).mean(-1)
    assert np.unravel_index(heads.argmin(), heads.shape) == (LAYER, OF_SUBJECTS)
    assert (np.delete(heads.ravel(), heads.argmin()) == 1).all()


def test_cells_choose_on_one_half_and_judge_on_the_other() -> None:
    found = {"relation": "capital"} | LmWhere(relation="capital").run()
    assert choose(Facts([found])) == LAYER
    judged = judge_layer([found])
    assert judged.verdict == "holds"
    assert f"layer {LAYER}: 0.00 of" in judged.measured
    heads = LmHeads(relation="capital", facts_each=6).run()
    assert len(heads["subjects"]) == 6
    assert heads["subjects"] == found["subjects"][:6]


def test_one_layer_holds_and_fails() -> None:
    assert judge_layer([row()]).verdict == "holds"
    assert judge_layer([row(chosen=0.95)]).verdict == "fails"
    assert judge_layer([row(other=0.35)]).verdict == "not decided"
    assert "(in one model, SmolLM2" in ONE_LAYER.statement


def test_a_layer_that_the_judging_half_does_not_need_fails() -> None:
    """Chosen where it matters, judged where it does not."""
    one = dict(row())
    one["attention last"] = ["1" * 40, "1" * 40, bits(np.arange(40) % 2 == 0), "1" * 40]
    assert judge_layer([one]).verdict == "fails"


def test_contrast_holds_and_fails() -> None:
    assert judge_contrast([row()]).verdict == "holds"
    assert judge_contrast([row(parts=(7.0, 4.0, 1.8, 0.1))]).verdict == "fails"
    assert judge_contrast([row(parts=(4.0, 7.0, 0.1, 1.8))]).verdict == "fails"
    assert "(in one model, SmolLM2" in CONTRAST.statement


def test_intervals_draw_whole_subjects() -> None:
    values = np.repeat(np.arange(20) % 2, 3).astype(float)
    subjects = [f"s{i}" for i in range(20) for _ in range(3)]
    mean, (low, high) = interval_of(subjects, lambda w: mean_by(w, values))
    alone = interval_of([f"{i}" for i in range(60)], lambda w: mean_by(w, values))[1]
    assert mean == 0.5
    assert low == pytest.approx(0.5 - 1.96 * 0.5 / 20**0.5, abs=0.03)
    assert high - low > 1.4 * (alone[1] - alone[0])
    assert bits(flags("0110")) == "0110"
    groups = mean_by(np.ones((1, 3)), np.array([0.0, 0.0, 1.0]), ["a", "a", "b"])
    assert groups.tolist() == [0.5]


def test_one_prompt_is_located_by_any_contrast() -> None:
    model, rows = load("tiny"), facts_for("tiny")
    assert relation_of("The capital of France is") == ("capital", "The capital of {} is", "France")
    assert relation_of("The capital of is") is None
    for against in ("runner-up", "best-answer", "answers", "Rome"):
        found = locate(model, "The capital of France is", "Paris", rows, against=against)
        total = found.embedding + sum(part.contribution for part in found.parts)
        assert total == pytest.approx(found.margin, rel=1e-5)
        assert found.attention + found.mlp + found.embedding == pytest.approx(found.margin, rel=1e-5)
        assert found.parts[0].name == f"layer {LAYER} head {OF_SUBJECTS}"
        assert found.parts[0].changed
    assert found.rival == "Rome"


def test_layers_together_are_chosen_and_judged_as_single_ones_are() -> None:
    """Two of the tiny model's three layers in a row: both pairs have the planted one."""
    found = {"relation": "capital"} | LmTogether(relation="capital").run()
    assert found["width"] == 2
    assert [flags(text).mean() < 0.2 for text in found["attention runs"]] == [True, True]
    assert [flags(text).mean() for text in found["mlp runs"]] == [1, 1]
    said = lines([found])
    assert said[0].startswith("attention of layers 0 to 1 together, chosen on half: of ")
    assert "0.00 stay right" in said[0]
    assert any(
        "against the best other answer of the relation" in line and "share of attention" in line for line in said
    )
