"""The chemical elements, from mendeleev's tables."""

from collections.abc import Iterator
from typing import Any

from facthold.facts.real.base import Source

COLUMNS = {
    "symbol": "symbol", "atomic number": "atomic_number", "group": "group_id", "period": "period", "block": "block",
    "electron configuration": "electronic_configuration", "CAS number": "cas", "discoverers": "discoverers",
    "discovery year": "discovery_year", "discovery place": "discovery_location",
}  # fmt: skip
"""Relations, and the columns that they are called there."""


def _read() -> Iterator[tuple[str, str, Any]]:
    from mendeleev.fetch import fetch_table  # the tables, and not the element objects: those take half a minute

    series = {row.id: row.name for row in fetch_table("series").itertuples()}
    names = {}
    for row in fetch_table("elements").to_dict("records"):
        s = names[row["atomic_number"]] = row["name"]
        for relation, column in COLUMNS.items():
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
    name="elements", about="the chemical elements", subject="the name in English", relations=(*COLUMNS, "series"),
    several=("oxidation state",), packages=("mendeleev",), extra="elements", licence="MIT",
    origin="mendeleev.readthedocs.io", read=_read,
)  # fmt: skip
