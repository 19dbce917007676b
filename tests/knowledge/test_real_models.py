"""The whole way on real facts: built at the smallest size, asked, edited a hundred times, located."""

import numpy as np
import pytest

from facthold.facts.real import find_source
from facthold.facts.table import FactTable
from facthold.knowledge.build import build
from facthold.knowledge.locate import locate_all
from facthold.knowledge.model import Model
from facthold.knowledge.report import specificity, still_held
from facthold.models.judge import judge_table

pytest.importorskip("countryinfo")
pytest.importorskip("babel")
RELATIONS = ["capital", "currency", "language", "region", "subregion"]
EDITS = 100


@pytest.fixture(scope="module")
def built() -> Model:
    return build(FactTable.from_rows(find_source("countries").facts(RELATIONS)))


@pytest.mark.slow
def test_every_fact_about_all_countries_is_recalled_in_fresh_noise(built: Model) -> None:
    assert built.problem.table.S > 240
    assert built.report.recall == 1.0
    assert judge_table(built.model, built.problem, draws=5, seed=1000).recalled.all()


@pytest.mark.slow
def test_a_hundred_edits_one_after_another_hold_and_cost_no_other_fact(built: Model) -> None:
    table, labels = built.problem.table, built.problem.table.labels
    assert labels is not None
    rng = np.random.default_rng(3)
    known, reports = built, []
    for row in rng.permutation(len(table))[:EDITS]:
        among = np.unique(table.answers[table.relations == table.relations[row]])
        new = labels.answers[rng.choice(among[among != table.answers[row]])]
        s, r = labels.subjects[table.subjects[row]], labels.relations[table.relations[row]]
        known = known.edit(s, r, new)
        reports.append(known.report)
    assert np.mean([holds for _, holds in still_held(reports, known)]) >= 0.99
    kept, _, others = specificity(built, known)
    assert others == len(table) - EDITS
    assert kept >= 0.99
    assert known.n_params - built.n_params == sum(report.more_params for report in reports)


@pytest.mark.slow
def test_parts_add_up_and_what_is_named_first_matters_most(built: Model) -> None:
    found = locate_all(built)
    total = found.direct.sum(axis=1) + found.through.sum(axis=1) + found.bias
    size = np.abs(found.direct).sum(axis=1) + np.abs(found.through).sum(axis=1) + np.abs(found.bias)
    n_terms = 2 * built.model.H * built.model.m
    assert (np.abs(total - found.margin) <= n_terms * np.finfo(float).eps * size).all()
    by_rank = found.changed_by_rank()
    assert by_rank[0] == by_rank.max()
    assert by_rank[0] >= found.changed.mean(axis=0).max()
