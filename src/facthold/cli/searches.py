"""What the two capacity commands say about a search that is done."""

from collections.abc import Mapping
from typing import Any

import typer

from facthold.cli.basics import count

MEANING = {
    "search ceiling": "every {} up to the largest that was tried is recalled",
    "search floor": "not even the smallest {} is recalled",
    "failed": "training diverged",
}


def say_search(found: Mapping[str, Any], searched: str, capacity: str | None) -> None:
    """The capacity, or why there is none, and the probes that it took; ``searched`` is the symbol of the number."""
    if capacity is None:
        meaning = MEANING.get(found["status"], "seeds ended differently").format(searched)
        capacity = f"no capacity: {found['status']} ({meaning})"
    typer.echo(capacity)
    probes = sum(len(seed["probes"]) for seed in found["per_seed"])
    typer.echo(f"{found['n_params']} parameters; {count(probes, 'probe')}, all kept in the results file")
