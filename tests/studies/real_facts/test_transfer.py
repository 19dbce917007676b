"""Sizes that tables need, random and real: identities of the cell, and laws judged on rows made by hand."""

import dataclasses
import math

import pytest
from numpy.testing import assert_allclose

import facthold.facts.real
import facthold.knowledge.build
from facthold._util.errors import FactholdError
from facthold._util.keys import derive
from facthold.facts.real import find_source
from facthold.facts.table import FactTable, balanced_table
from facthold.lab.api import figures_for
from facthold.measure.bits import table_bits
from facthold.studies.real_facts.base import RANDOM
from facthold.studies.real_facts.transfer import FIGURE, LAWS, WHOLE, TableSize, answer_nats

TINY = TableSize(S=12, R=2, D=4)
REAL = TableSize(source="countries", S=8, seed=8)


def made_up(source: str, facts: int, *, nats: float, total: float, mlp: float) -> dict:
    """A row with a model of this size."""
    return {"source": source, "facts": facts, "nats": nats, "bits": nats / math.log(2), "n_params": total,
            "mlp_params": mlp, "status": "found", "accuracy": 1.0}  # fmt: skip


RANDOM_ROWS = [made_up(RANDOM, n, nats=n * x, total=10 * n, mlp=3 * n * x) for n, x in ((50, 2), (100, 1), (400, 3))]


def test_nats_of_a_table_are_n_ln_a_over_its_relations() -> None:
    even = balanced_table(24, 3, 6, key=derive("even"))
    assert_allclose(answer_nats(even), 24 * 3 * math.log(6))
    # No table with these answers needs more bits: N! / prod C! <= A^N.
    assert table_bits(even) < answer_nats(even) / math.log(2)
    uneven = FactTable.from_rows([("a", "r", "x"), ("b", "r", "y"), ("c", "r", "y"), ("a", "q", "x"), ("b", "q", "x")])
    assert_allclose(answer_nats(uneven), 3 * math.log(2))  # one answer to all subjects says nothing


def test_the_parts_of_a_model_add_up_and_the_spec_decides() -> None:
    found = TINY.run()
    assert found["status"] == "found"
    assert found["accuracy"] == 1.0  # asked for, and found to be so with fresh prompts
    assert found["smallest_margin"] > 0
    assert found["attention_params"] == 4 * found["H"] * found["d"]  # heads of one dimension
    assert found["mlp_params"] == 2 * found["m"] * found["d"]
    assert found["n_params"] == found["attention_params"] + found["mlp_params"]
    assert found["facts"] == 24
    (account,) = TINY.accounts(found)
    assert (account.facts, account.D, account.wrong) == (24, 4, 0)
    assert account.bits == 32 * (found["n_params"] + found["m"])  # weights and biases
    assert account.spare > 0
    assert "not drawn at random" in REAL.accounts(found)
    again = TINY.run()
    assert {k: v for k, v in found.items() if k != "seconds"} == {k: v for k, v in again.items() if k != "seconds"}


def test_a_real_table_is_the_sample_of_its_source_and_its_spec_names_the_versions() -> None:
    source = find_source("countries")
    table = REAL.table()
    assert table.S == 8
    assert table.labels is not None
    whole = set(source.facts())
    for s, r, a in zip(table.subjects, table.relations, table.answers, strict=True):
        assert (table.labels.subjects[s], table.labels.relations[r], table.labels.answers[a]) in whole
    assert REAL.spec["versions"] == source.versions
    assert any(character.isdigit() for character in REAL.spec["versions"])
    assert "versions" not in TINY.spec
    assert dataclasses.replace(REAL, S=0).table().S > REAL.S


def test_a_missing_package_is_the_line_of_its_source(monkeypatch: pytest.MonkeyPatch) -> None:
    before = REAL.key
    with monkeypatch.context() as without:
        without.setattr(facthold.facts.real, "find_spec", lambda package: None)
        with pytest.raises(FactholdError, match="the facts of countries need countryinfo and babel: pip install"):
            REAL.run()
    monkeypatch.setattr(facthold.facts.real, "version_of", lambda package: "0.0")
    assert REAL.key != before  # other facts, another cell


def test_a_table_that_no_width_holds_is_a_row_without_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise FactholdError("no width up to 8 recalls 1 of the facts")

    monkeypatch.setattr(facthold.knowledge.build, "build", fails)
    row = TINY.spec | TINY.run()
    assert row["n_params"] is None
    assert row["status"].startswith("no width")
    assert row["facts"] == 24
    canvas = FIGURE.plot([*RANDOM_ROWS, row])
    assert "no size found for 1 of 4" in canvas.get_suptitle()
    assert [fit.n for fit in FIGURE.fits([*RANDOM_ROWS, row])] == [3] * len(LAWS) * len(WHOLE)


def test_laws_are_fitted_on_random_tables_alone_and_ratios_are_of_real_ones() -> None:
    # Totals follow the facts and the MLP follows the nats; real tables need twice and three times as much.
    real = [made_up("countries", n, nats=5 * n, total=20 * n, mlp=45 * n) for n in (70, 90, 200)]
    fits = {fit.name: fit for fit in FIGURE.fits([*RANDOM_ROWS, *real])}
    assert len(fits) == 2 * len(LAWS) * len(WHOLE)
    total = fits["random: all parameters per fact"]
    assert_allclose([total.constant, *total.interval], 10)
    ratio = fits["real: all parameters, found / predicted by facts"]
    assert_allclose([ratio.constant, *ratio.interval], 2)
    assert_allclose(fits["random: MLP parameters per nat"].constant, 3)
    assert_allclose(fits["real: MLP parameters, found / predicted by nats"].constant, 3)
    assert_allclose(fits["real: MLP parameters, found / predicted by bits"].constant, 3)  # bits are nats / ln 2 here
    # The MLP does not follow the facts: the constant is unsure, and the ratio is another.
    by_facts = fits["random: MLP parameters per fact"]
    assert by_facts.interval[0] < 0.9 * by_facts.constant
    assert_allclose(fits["real: MLP parameters, found / predicted by facts"].constant, 15 / 6 ** (1 / 3))
    alone = {fit.name: fit for fit in FIGURE.fits(RANDOM_ROWS)}
    assert alone == {name: fit for name, fit in fits.items() if name.startswith("random")}


def test_the_picture_counts_what_is_in_the_band() -> None:
    real = [
        made_up("countries", 70, nats=1, total=14.9 * 70, mlp=1),
        made_up("airports", 90, nats=1, total=1360, mlp=1),
    ]
    left, total, mlp = FIGURE.plot([*RANDOM_ROWS, *real]).axes
    assert "by facts (the paper): 1 of 2 in the band" in total.get_legend_handles_labels()[1]
    assert "by facts (the paper): 0 of 2 in the band" in mlp.get_legend_handles_labels()[1]
    assert "10 per fact (mean of the random tables)" in left.get_legend_handles_labels()[1]
    # Real tables alone have no law to be judged by, and are drawn all the same.
    left, total, _ = FIGURE.plot(real).axes
    assert len(left.lines) > 2
    assert total.get_legend() is None
    assert FIGURE.fits(real) == []


def test_samples_of_one_source_are_drawn_apart() -> None:
    cells = [c for c in FIGURE.cells(FIGURE.grid("quick")) if isinstance(c, TableSize) and c.source == "airports"]
    small, large = (dataclasses.replace(c, S=20, seed=c.seed).table() for c in cells[:2])
    assert small.labels is not None
    assert large.labels is not None
    assert set(small.labels.subjects) != set(large.labels.subjects)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"S": 0}, "S=0 must be at least 1"),
        ({"D": 0}, "D=0 must be at least 1"),
        ({"n_noise": -1}, "n_noise=-1 must be at least 0"),
        ({"source": "country"}, "unknown source of facts 'country'"),
        ({"source": "countries"}, "R=2 and D=4 are sizes of random tables; leave them 0 for countries"),
        ({"source": "countries", "R": 0, "D": 0, "S": -1}, "S=-1 must be at least 0"),
    ],
)
def test_what_has_no_meaning_is_refused(changes: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(TINY, **changes)


def test_without_the_packages_everything_else_is_still_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(facthold.facts.real, "find_spec", lambda package: None)
    possible, left_out = figures_for((), "smoke", {})
    assert list(left_out) == ["transfer"]  # the others ask for random tables alone at this preset
    assert "need countryinfo and babel: pip install" in left_out["transfer"]
    assert "fig6" in [figure.name for figure in possible]
