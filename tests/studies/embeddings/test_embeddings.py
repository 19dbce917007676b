"""Embeddings: cells from specs to results, bad input, and each judge on rows that agree and on others."""

import math
from typing import Any

import pytest

from facthold._util.errors import FactholdError
from facthold.lab.claim import Judgement
from facthold.lab.registry import claim, figure
from facthold.measure.capacity import Search, find_smallest, find_smallest_of_each
from facthold.studies.embeddings import panels
from facthold.studies.embeddings.dimension import LEARNED, Dimension, MemoryDimension, Trial, room
from facthold.studies.embeddings.facts import FactDimension
from facthold.studies.embeddings.figure import fits, says
from facthold.studies.embeddings.transfer import ARMS, BEFORE, SubjectTransfer

Row = dict[str, Any]
SMALL: Row = {"steps": 256, "lrs": (3e-2,), "seeds": (0, 1)}
FACTS: Row = SMALL | {"S": 5, "R": 2, "D": 3, "batch": 64}


@pytest.mark.parametrize("kind", ["sphere", "spread", LEARNED])
def test_the_smallest_dimension_of_a_memory_is_between_one_that_is_too_small_and_one_that_is_enough(kind: str) -> None:
    cell = MemoryDimension(N=10, embeddings=kind, **SMALL | {"lrs": (1000.0,) if kind != LEARNED else (0.1,)})
    found = cell.run()
    assert found["status"] == "found"
    for one in found["per_seed"]:
        probes, d = dict(one["probes"]), one["d"]
        assert probes[d] >= 0.99 > probes[d - 1]
        assert one["n_params"] == d * d + (20 * d if kind == LEARNED else 0)
        assert set(one["overlaps"]) == {"inputs", "outputs"}
        assert one["overlaps"]["inputs"][2:] == [10, d]
    assert found["d"] == pytest.approx(sum(one["d"] for one in found["per_seed"]) / 2)
    assert MemoryDimension(N=10, embeddings=kind, ratio=3, **SMALL).counts_no_facts


def test_facts_are_learnt_in_fewer_dimensions_with_their_embeddings_and_all_of_them_are_counted() -> None:
    random, learned = (FactDimension(embeddings=kind, **FACTS) for kind in ("sphere", LEARNED))
    most, least = random.run(), learned.run()
    assert least["d"] < most["d"]
    for cell, found in ((random, most), (learned, least)):
        for one in found["per_seed"]:
            d = one["d"]
            weights = 4 * 2 * d * math.ceil(d / 2) + 2 * 4 * d * d
            assert one["n_params"] == weights + (cell is learned) * (5 + 2 + 8 + 1 + 6) * d
        accounts = cell.accounts(found)
        assert len(accounts) == 2
        assert not isinstance(accounts, str)
        assert all(account.spare > 0 for account in accounts)


def test_new_subjects_are_asked_of_every_arm() -> None:
    cell = SubjectTransfer(**FACTS | {"seeds": (0,), "S": 12}, d=6, new=4)
    recall = cell.run()["recall"]
    assert set(recall) == {*BEFORE, *ARMS}
    assert all(0 <= share <= 1 for (share,) in recall.values())
    assert recall["before"] == [1.0]
    assert recall["scratch"] == [1.0]
    assert recall["other answers"] < recall["scratch"]
    assert len(cell.accounts({"recall": recall})) == 1


def test_tables_of_new_subjects_begin_where_those_of_old_ones_end() -> None:
    cell = SubjectTransfer(**FACTS, d=6, new=4)
    both, old = cell.facts_of(9, 3), cell.facts(3)
    assert (both.matrix[:5] == old.matrix).all()
    assert both.A == old.A


def test_a_search_that_diverged_or_ended_at_its_ceiling_has_no_dimension(monkeypatch: pytest.MonkeyPatch) -> None:
    cell = MemoryDimension(N=10, embeddings="sphere", most=6, **SMALL)
    answers = {0: lambda d: float("nan"), 1: lambda d: 0.5}

    def trials(self: Dimension, questions: Any) -> list[Trial]:
        return [Trial(answers[seed](d), {"n_params": 1}) for d, seed in questions]

    monkeypatch.setattr(MemoryDimension, "trials", trials)
    found = cell.run()
    assert found["status"] == "failed, search ceiling"
    assert [one["d"] for one in found["per_seed"]] == [None, None]
    assert found["d"] is None
    assert found["n_params"] is None
    assert found["per_seed"][0]["probes"][0][1] is None
    answers[0] = lambda d: 1.0  # even d = 1 is enough: less is not asked for
    assert cell.run()["per_seed"][0]["status"] == "search floor"


@pytest.mark.parametrize("least", [1, 2, 7, 19, 30])
def test_searches_side_by_side_find_what_each_finds_alone(least: int) -> None:
    needed = {3: least, 8: 11}
    search = Search(1, 30, 0.0)
    both = find_smallest_of_each(lambda asked: [float(x >= needed[s]) for x, s in asked], 1.0, (3, 8), 6, search)
    alone = [find_smallest(lambda x: float(x >= needed[s]), 1.0, 6, ceiling=30, tolerance=0.0) for s in (3, 8)]  # noqa: B023
    assert both == alone
    assert both[1].size == 11


def test_models_of_many_dimensions_share_few_shapes() -> None:
    assert {room(d) for d in range(1, 65)} == {16, 32, 64}
    assert all(room(d) >= d for d in range(1, 200))


@pytest.mark.parametrize(("make", "says_it"), [
    (lambda: MemoryDimension(**SMALL | {"N": 1, "embeddings": LEARNED}), "N=1 must be at least 2"),
    (lambda: MemoryDimension(**SMALL | {"N": 9, "embeddings": "learnt"}), "did you mean 'learned'"),
    (lambda: MemoryDimension(**SMALL | {"N": 9, "embeddings": LEARNED, "lrs": ()}), "lrs is empty"),
    (lambda: MemoryDimension(**SMALL | {"N": 9, "embeddings": LEARNED, "lrs": (0.0,)}), r"lrs=0\.0 must be above 0"),
    (lambda: MemoryDimension(**SMALL | {"N": 9, "embeddings": LEARNED, "steps": 100}), "steps=100 must be a multiple"),
    (lambda: MemoryDimension(**SMALL | {"N": 9, "embeddings": LEARNED, "most": 0}), "most=0 must be at least 1"),
    (lambda: FactDimension(**FACTS | {"S": 1, "embeddings": LEARNED}), "S=1 must be at least 2"),
    (lambda: FactDimension(**FACTS | {"D": 1, "embeddings": LEARNED}), "D=1 must be at least 2"),
    (lambda: FactDimension(**FACTS | {"T": 2, "embeddings": LEARNED}), "T=2 must be at least 3"),
    (lambda: SubjectTransfer(**FACTS, d=0), "d=0 must be at least 1"),
    (lambda: SubjectTransfer(**FACTS, d=4, new=1), "new=1 must be at least 2"),
    (lambda: SubjectTransfer(**FACTS | {"R": 1}, d=4), "R=1: 'other answers' are those of another relation"),
    (lambda: SubjectTransfer(**FACTS, d=4, beta=0), "beta=0 leaves no MLP to freeze"),
])  # fmt: skip
def test_bad_input_is_one_clear_line(make: Any, says_it: str) -> None:
    with pytest.raises(ValueError, match=says_it) as error:
        make()
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("changes", "says_it"), [
    ({"d": 0}, "d=0"), ({"S": 1}, "S=1"), ({"fact_lrs": []}, "fact_lrs is empty"),
    ({"learned_lrs": [0.0]}, r"learned_lrs=0\.0"), ({"kinds": ["spheer"]}, "did you mean"), ({"dims": 3}, "dims"),
])  # fmt: skip
def test_the_figure_refuses_what_its_cells_cannot_be(changes: Row, says_it: str) -> None:
    with pytest.raises((FactholdError, ValueError), match=says_it):
        figure("embeddings").grid("smoke", changes)


def test_what_was_not_found_is_drawn_nowhere_and_said() -> None:
    base = {"status": "search ceiling", "d": None, "n_params": None, "per_seed": []}
    rows = [
        base | {"N": 8, "ratio": 0, "embeddings": "sphere"},
        base | {"S": 8, "R": 2, "D": 4, "beta": 4, "embeddings": LEARNED},
        {"S": 8, "d": 8, "D": 4, "recall": {arm: [0.5, None] for arm in (*BEFORE, *ARMS)}},
    ]
    assert not [line for axes in panels.plot(rows).axes for line in axes.lines if line.get_marker() not in ("None", "")]
    lines = says(rows)
    assert any("search ceiling" in line for line in lines)
    assert any("diverged" in line for line in lines)
    assert not fits(rows)


def rows_of(id: str, change: Any) -> list[Row]:
    """Rows of a claim's cells at preset quick, with results that ``change`` makes up."""
    return [{"kind": c.kind, **c.spec} | change(c) for c in claim(id).cells("quick")]


def judged(id: str, change: Any) -> Judgement:
    return claim(id).judge(rows_of(id, change))


def found(cell: Any, d: Any, params: Any = lambda d: d * d) -> Row:
    """A row of a search in which seed number i found d(i)."""
    sizes = [d(i) for i in range(len(cell.seeds))]
    seeds = [{"seed": i, "status": "found", "d": size, "n_params": params(size)} for i, size in enumerate(sizes)]
    return {"status": "found", "per_seed": seeds}


def dims(learned: Any, random: Any) -> Any:
    return lambda c: found(c, lambda i: (learned if c.embeddings == LEARNED else random)(c.S) * (1 + 0.02 * (i % 2)))


def test_a_dimension_as_the_logarithm_is_what_is_stated_and_a_power_is_not() -> None:
    id = "learned-dimension"
    assert judged(id, dims(lambda S: 2 * math.log(S), lambda S: S**0.5)).verdict == "holds"
    assert judged(id, dims(lambda S: 4.0, lambda S: S**0.5)).verdict == "holds"
    assert judged(id, dims(lambda S: S**0.5, lambda S: S**0.5)).verdict == "fails"
    assert judged(id, dims(lambda S: 4.0, lambda S: 4.0)).verdict == "fails"
    ceiling = judged(id, lambda c: {"per_seed": [{"d": None, "status": "search ceiling"}]})
    assert ceiling.verdict == "fails"
    assert "search ceiling at S=8" in ceiling.measured


def arms(**shares: float) -> Any:
    usual = {"before": 1.0, "before, fixed embeddings": 0.5, "scratch": 1.0, "transfer": 0.97}
    usual |= {"random MLP": 0.5, "fixed embeddings": 0.5, "other answers": 0.2} | shares
    return lambda c: {"recall": {a: [x + 0.01 * (i % 3 - 1) for i in range(len(c.seeds))] for a, x in usual.items()}}


def test_transfer_is_recall_beyond_every_control() -> None:
    id = "selector-transfer"
    assert judged(id, arms()).verdict == "holds"
    assert judged(id, arms(transfer=0.7)).verdict == "fails"
    for control in ("random MLP", "fixed embeddings", "other answers"):
        for share in (0.99, 0.97):  # as much is not more
            assert judged(id, arms(**{control: share})).verdict == "fails", control
    assert judged(id, arms(scratch=0.1)).verdict == "holds"  # said, and judged nowhere
    diverged = judged(id, lambda c: {"recall": {arm: [0.9, None] for arm in (*BEFORE, *ARMS)}})
    assert diverged.verdict == "fails"
    assert "diverged" in diverged.measured


def sizes(facts: float, memories: float) -> Any:
    """Parameters with random embeddings over those with learned ones."""

    def of(c: Any) -> Row:
        ratio = facts if c.kind == "fact-dimension" else memories
        return found(c, lambda i: 10 + i % 2, lambda d: 100 * d * (1 if c.embeddings == LEARNED else ratio))

    return of


def test_learned_embeddings_pay_where_it_is_stated() -> None:
    id = "learned-at-equal-parameters"
    assert judged(id, sizes(3.0, 0.5)).verdict == "holds"
    assert judged(id, sizes(0.5, 0.5)).verdict == "fails"
    assert judged(id, sizes(3.0, 2.0)).verdict == "fails"
    assert judged(id, sizes(1.0, 0.5)).verdict == "fails"  # as many are not fewer
    assert judged(id, sizes(3.0, 1.0)).verdict == "fails"
    missing = judged(id, lambda c: {"status": "search ceiling", "per_seed": [{"n_params": None}]})
    assert missing.verdict == "fails"
    assert "search ceiling" in missing.measured


@pytest.mark.parametrize(("even", "verdict"), [(1.0, "holds"), (0.98, "drifts"), (0.9, "fails"), (1.1, "fails")])
def test_spread_embeddings_are_the_same_within_the_tolerance_alone(even: float, verdict: str) -> None:
    def of(c: Any) -> Row:
        return found(c, lambda i: (20 + i % 2) * (even if c.embeddings == "spread" else 1.0))

    judgement = judged("spread-embeddings", of)
    assert judgement.verdict == verdict
    assert bool(judgement.drift) == (verdict == "drifts")
    none = judged("spread-embeddings", lambda c: {"status": "search floor", "per_seed": [{"d": None}]})
    assert (none.verdict, none.measured) == ("fails", "no d: search floor")


def test_noise_alone_decides_nothing() -> None:
    def of(c: Any) -> Row:
        return found(c, lambda i: 20 + (3 if c.embeddings == "spread" else -3) * (-1) ** i)

    judgement = judged("spread-embeddings", of)
    assert judgement.verdict == "not decided"
    assert judgement.next
