"""Real facts by name, taken from installed packages when they are asked for."""

from facthold.errors import unknown
from facthold.real.airports import AIRPORTS
from facthold.real.base import Source, sample_subjects, tally
from facthold.real.cities import CITIES
from facthold.real.countries import COUNTRIES
from facthold.real.elements import ELEMENTS

SOURCES = {source.name: source for source in (COUNTRIES, ELEMENTS, AIRPORTS, CITIES)}

__all__ = ["SOURCES", "Source", "find_source", "sample_subjects", "tally"]


def find_source(name: str) -> Source:
    """The source with this name."""
    if name not in SOURCES:
        raise unknown("source of facts", name, SOURCES)
    return SOURCES[name]
