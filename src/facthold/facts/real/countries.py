"""Countries and territories: countryinfo by ISO 3166 code, with names, currencies and languages from CLDR (babel)."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from typing import Any

from facthold.facts.real.base import Source


def _read() -> Iterator[tuple[str, str, Any]]:
    from babel import Locale
    from babel.languages import get_official_languages
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
        tender = [english.currencies.get(c, c) for c in _currencies(code)]
        spoken = [english.languages.get(t, t) for t in get_official_languages(code, de_facto=True)]
        yield s, "capital", _first(records, "capital")
        yield s, "currency", next(iter(tender), None)
        yield s, "language", next(iter(spoken), None)
        yield s, "region", _first(records, "region")
        yield s, "subregion", _first(records, "subregion")
        yield s, "calling code", _dialled(_first(records, "callingCodes"))
        yield s, "domain", _first(records, "tld")
        yield s, "ISO code", code
        yield from ((s, "legal tender", currency) for currency in tender)
        yield from ((s, "official language", language) for language in spoken)
        yield from ((s, "neighbour", by_three.get(three)) for three in _all(records, "borders"))


def _currencies(code: str) -> list[str]:
    """The legal tender that no end is set to, the country's own first: ISO 4217 begins it with the country's code."""
    from babel.numbers import get_territory_currencies

    return sorted(get_territory_currencies(code, start_date=date.max), key=lambda c: not c.startswith(code))


def _all(records: Sequence[Mapping[str, Any]], field: str) -> list[str]:
    """The first entry that says something, as a list: there may be several records of one code."""
    for record in records:
        value = record.get(field)
        values = [v for v in (value if isinstance(value, list) else [value]) if v]
        if values:
            return values
    return []


def _first(records: Sequence[Mapping[str, Any]], field: str) -> str | None:
    return next(iter(_all(records, field)), None)


def _dialled(code: str | None) -> str | None:
    return None if code is None else f"+{code.removeprefix('+')}"


COUNTRIES = Source(
    name="countries", about="countries and territories of ISO 3166", subject="the name in English",
    relations=("capital", "currency", "language", "region", "subregion", "calling code", "domain", "ISO code"),
    several=("official language", "legal tender", "neighbour"), packages=("countryinfo", "babel"), extra="facts",
    licence="MIT (countryinfo), BSD-3-Clause (babel) with data under the Unicode License (CLDR)",
    origin="github.com/porimol/countryinfo, cldr.unicode.org", read=_read,
)  # fmt: skip
