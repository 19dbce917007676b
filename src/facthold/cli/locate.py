"""facthold locate: which heads and neurons hold a fact, and what the model says without them."""

from typing import Annotated, Any

import numpy as np
import typer

from facthold.cli.app import app
from facthold.cli.ask import ModelArgument, RelationArgument, SeedOption, SubjectArgument
from facthold.cli.basics import JsonOption, count, print_json
from facthold.cli.messages import telling
from facthold.cli.tables import show
from facthold.knowledge.ask import open_model
from facthold.knowledge.locate import Located, Location, locate_all
from facthold.knowledge.locate import locate as find


@app.command()
def locate(
    model: ModelArgument,
    subject: SubjectArgument = None,
    relation: RelationArgument = None,
    all: Annotated[bool, typer.Option("--all", help="The whole table instead of one fact.")] = False,
    top: Annotated[int, typer.Option("--top", help="Components to show.")] = 12,
    seed: SeedOption = 0,
    json: JsonOption = False,
) -> None:
    """Take the margin of a fact apart: what each head adds, directly and through the MLP, and what is left without it.

    All in float64.
    """
    if all and subject is not None:
        raise ValueError(f"take one of --all and a fact, {subject!r}")
    if not all and (subject is None or relation is None):
        raise ValueError("give SUBJECT RELATION, or --all for the whole table")
    if top < 1:
        raise ValueError(f"--top {top} must be at least 1")
    opened = open_model(model)
    if all:
        with telling(f"taking {count(len(opened[1].table), 'fact')} apart") as say:
            summary = _summary(locate_all(*opened, seed=seed, say=say))
        print_json(summary) if json else _show_all(summary, top)
    else:
        found = find(*opened, str(subject), str(relation), seed=seed)
        print_json(found.as_json()) if json else _show(found, top)


def _show(found: Location, top: int) -> None:
    rows = [
        (
            part.name, f"{part.contribution:.4g}", _number(part.direct), _number(part.through), part.attends,
            f"{part.ablated:.4g}", part.says if part.changed else "the same",
        )
        for part in found.parts[:top]
    ]  # fmt: skip
    title = f"{found.subject}, {found.relation}: {found.answer} by a margin of {found.margin:.4g} over {found.rival}"
    columns = ("component", "adds", "directly", "through the MLP", "attends to", "margin without", "says without")
    show(title, columns, rows)
    if len(found.parts) > top:
        typer.echo(f"and {count(len(found.parts) - top, 'component')} more (--top)")
    if found.bias:
        typer.echo(f"the bias of the MLP adds {found.bias:.4g}")
    if found.neurons:
        typer.echo("neurons: " + ", ".join(f"{i} adds {adds:.4g}" for i, adds in found.neurons))


def _summary(found: Located) -> dict[str, Any]:
    first = np.bincount(found.order[:, 0], minlength=len(found.components))
    by_rank = found.changed_by_rank()
    return {
        "facts": len(found.margin), "median_margin": float(np.median(found.margin)),
        "share_of_the_MLP": float(np.median(found.mlp / found.margin)) if len(found.margin) else None,
        "changed_without_the_first": float(by_rank[0]), "changed_by_rank": by_rank.tolist(),
        "components": [
            {
                "component": name, "mean_contribution": float(found.contributions[:, c].mean()),
                "named_first": float(first[c] / len(found.margin)), "changed": float(found.changed[:, c].mean()),
                "median_margin_without": float(np.median(found.ablated[:, c])),
            }
            for c, name in enumerate(found.components)
        ],
    }  # fmt: skip


def _show_all(summary: dict[str, Any], top: int) -> None:
    parts = sorted(summary["components"], key=lambda part: -part["mean_contribution"])
    show(
        f"{count(summary['facts'], 'fact')}, median margin {summary['median_margin']:.4g}",
        ("component", "adds on average", "named first", "answer changes without it", "median margin without it"),
        [
            (
                part["component"], f"{part['mean_contribution']:.4g}", f"{part['named_first']:.1%}",
                f"{part['changed']:.1%}", f"{part['median_margin_without']:.4g}",
            )
            for part in parts[:top]
        ],
    )  # fmt: skip
    if len(parts) > top:
        typer.echo(f"and {count(len(parts) - top, 'component')} more (--top)")
    ranks = ", ".join(f"{share:.1%}" for share in summary["changed_by_rank"][:5])
    typer.echo(f"without the component that is named first, second, ... the answer changes in {ranks} of the facts")


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"
