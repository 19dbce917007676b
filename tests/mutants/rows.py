"""Faults in rows, by name: each takes a row's values and gives others. `RowsMutant` names them."""

from typing import Any

Row = dict[str, Any]


def tenth(row: Row) -> Row:
    """Capacities a tenth of what they are."""
    return row | {name: row[name] * 0.1 for name in ("N", "facts") if isinstance(row.get(name), int | float)}


def threefold(row: Row) -> Row:
    """Capacities three times as large."""
    return row | {name: row[name] * 3 for name in ("N", "facts") if isinstance(row.get(name), int | float)}
