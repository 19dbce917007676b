"""Airports and landing strips by ICAO code, from airportsdata."""

from collections.abc import Iterator, Mapping
from typing import Any

from facthold.facts.real.base import Source

FIELDS = {
    "name": "name", "city": "city", "subdivision": "subd", "country": "country", "time zone": "tz", "IATA code": "iata",
}  # fmt: skip
"""Relations, and the fields that they are called there. A country is its ISO code, as there."""


def _read() -> Iterator[tuple[str, str, Any]]:
    import airportsdata

    airports: Mapping[str, Mapping[str, Any]] = airportsdata.load("ICAO")
    for code, airport in airports.items():
        for relation, field in FIELDS.items():
            yield code, relation, airport[field]


AIRPORTS = Source(
    name="airports", about="airports and landing strips", subject="the ICAO code", relations=tuple(FIELDS),
    packages=("airportsdata",), extra="facts", licence="MIT", origin="github.com/mborsetti/airportsdata", read=_read,
)  # fmt: skip
