"""Real facts by name, taken from installed packages when they are asked for."""

from facthold._util.errors import find
from facthold.facts.real.airports import AIRPORTS
from facthold.facts.real.base import Source, sample_subjects, tally
from facthold.facts.real.cities import CITIES
from facthold.facts.real.countries import COUNTRIES
from facthold.facts.real.elements import ELEMENTS

SOURCES = {source.name: source for source in (COUNTRIES, ELEMENTS, AIRPORTS, CITIES)}

__all__ = ["SOURCES", "Source", "find_source", "sample_subjects", "tally"]


def find_source(name: str) -> Source:
    """The source with this name."""
    return find("source of facts", name, SOURCES)
