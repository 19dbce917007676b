"""facthold locate: which heads and neurons hold a fact, and what the model says without them."""

from typing import TYPE_CHECKING, Any

import numpy as np
import typer

from facthold._util.errors import check_positive
from facthold.cli import options as o
from facthold.cli.app import command
from facthold.cli.printing import count, print_json, show, working

if TYPE_CHECKING:
    from facthold.knowledge.locate import Located, Location


@command()
def locate(
    model: o.Model,
    subject: o.Subject = None,
    relation: o.Relation = None,
    all: bool = o.flag("--all", "The whole table instead of one fact."),
    top: int = typer.Option(12, "--top", help="Components to show."),
    seed: o.Seed = 0,
    json: o.Json = False,
) -> None:
    """Take the margin of a fact apart: what each head adds, directly and through the MLP, and what is left without it.

    All in float64.
    """
    if all and subject is not None:
        raise ValueError(f"take one of --all and a fact, {subject!r}")
    if not all and (subject is None or relation is None):
        raise ValueError("give SUBJECT RELATION, or --all for the whole table")
    check_positive(top=top)
    from facthold.knowledge.locate import locate_all
    from facthold.knowledge.model import load

    opened = load(model)
    if all:
        with working(f"taking {count(len(opened.table), 'fact')} apart") as say:
            summary = _summary(locate_all(opened.model, opened.problem, seed=seed, say=say))
        print_json(summary) if json else _show_all(summary, top)
    else:
        found = opened.locate(str(subject), str(relation), seed=seed)
        print_json(found.as_json()) if json else _show(found, top)


def _show(found: "Location", top: int) -> None:
    show(
        f"{found.subject}, {found.relation}: {found.answer} by a margin of {found.margin:.4g} over {found.rival}",
        {
            "component": "{name}", "adds": "{contribution:.4g}", "directly": "{direct:.4g}",
            "through the MLP": "{through:.4g}", "attends to": "{attends}", "margin without": "{ablated:.4g}",
            "says without": "{without}",
        },
        [vars(part) | {"without": part.says if part.changed else "the same"} for part in found.parts[:top]],
    )  # fmt: skip
    _say_more(len(found.parts) - top)
    if found.bias:
        typer.echo(f"the bias of the MLP adds {found.bias:.4g}")
    if found.neurons:
        typer.echo("neurons: " + ", ".join(f"{i} adds {adds:.4g}" for i, adds in found.neurons))


def _say_more(n: int) -> None:
    if n > 0:
        typer.echo(f"and {count(n, 'component')} more (--top)")


def _summary(found: "Located") -> dict[str, Any]:
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
        {
            "component": "{component}", "adds on average": "{mean_contribution:.4g}",
            "named first": "{named_first:.1%}", "answer changes without it": "{changed:.1%}",
            "median margin without it": "{median_margin_without:.4g}",
        },
        parts[:top],
    )  # fmt: skip
    _say_more(len(parts) - top)
    ranks = ", ".join(f"{share:.1%}" for share in summary["changed_by_rank"][:5])
    typer.echo(f"without the component that is named first, second, ... the answer changes in {ranks} of the facts")
