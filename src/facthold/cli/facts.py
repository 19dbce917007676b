"""facthold facts, build: real facts as a file, and a file of facts as the smallest transformer that recalls them."""

from pathlib import Path
from typing import Annotated, Any

import typer

from facthold._util.errors import FactholdError
from facthold._util.files import OF_FACTS
from facthold.cli import options as o
from facthold.cli.app import command, in_options
from facthold.cli.inputs import (
    LONG,
    about_file,
    about_table,
    file_in_words,
    real_rows,
    refuse,
    say_replaced,
    say_table,
    split_names,
    writable_file,
)
from facthold.cli.printing import count, messages, paragraph, print_json, times_text, working
from facthold.facts.files import holds_only, kind_for, read_facts, to_csv, write_facts
from facthold.facts.problem import SEQUENCE
from facthold.facts.real import SOURCES, Source, find_source, sample_subjects, tally
from facthold.facts.table import FactTable
from facthold.plan.plan import plan as make_plan

TIMED = 1000  # facts of a table that a build may take long for


@command()
def facts(
    name: str | None = typer.Argument(None, help=f"Where from: {', '.join(SOURCES)}.", show_default=False),
    output: Annotated[
        Path | None,
        o.named(
            "--output",
            "-o",
            "File: .csv, .tsv, .json, .jsonl, .parquet, or packed as .csv.gz (default: CSV on standard output).",
        ),
    ] = None,
    relations: o.SomeRelations = None,
    subjects: o.SomeSubjects = None,
    seed: int | None = o.option("--seed", "Which sample (default: 0)."),
    list_: bool = o.flag("--list", "Print the sources, and what is in them."),
    json: o.Json = False,
) -> None:
    """Write real facts, taken from an installed package, as rows subject, relation, answer."""
    if list_:
        refuse("does not go with --list, which says what there is",
               NAME=name, output=output, relations=relations, subjects=subjects, seed=seed)  # fmt: skip
        sources = [_about(known) for known in SOURCES.values()]
        return print_json(sources) if json else paragraph("\n".join(map(_described, sources)))
    if name is None:
        raise ValueError(f"which facts? give a NAME: {', '.join(SOURCES)}; --list says what is in them")
    source = find_source(name)
    if seed is not None and subjects is None:
        raise ValueError(f"seed={seed} says which sample; give its size, --subjects")
    if output is not None:
        writable_file(output, kind_for(output))
    elif json:
        raise ValueError("--json is about what was written; give a file with --output")
    rows = sample_subjects(real_rows(name, split_names(relations)), subjects, seed or 0)
    if output is None:
        typer.echo(to_csv(rows), nl=False)
    else:
        _check_ours(output, source)
        say_replaced(output)
        write_facts(output, rows)
    n = tally(rows)
    if json:
        about = {"source": source.name, **n, "packages": source.versions, "licence": source.licence}
        return print_json(about | {"file": str(output)})
    sizes = ", ".join(count(n[f"{what}s"], what) for what in ("subject", "relation", "answer"))
    several = f"{count(n['several'], 'pair')} with several answers"
    if n["several"]:
        several += " (read them with --on-conflict first or all)"
    typer.echo(f"{count(n['facts'], 'fact')}: {sizes}, {several}; from {source.versions}, {source.licence}", err=True)


def _check_ours(output: Path, source: Source) -> None:
    """Refuse to replace a table that this command has not written: the work of a person is not made again."""
    if not output.is_file() or not output.stat().st_size:
        return
    known = [source, *(other for other in SOURCES.values() if other is not source and other.installed)]
    if not any(holds_only(output, one.facts((*one.relations, *one.several))) for one in known):
        raise FactholdError(
            f"{output} is there already, and facthold facts did not write it, or not with the packages that are "
            "installed now: its rows would be lost; give another name, or remove it first"
        )


def _described(about: dict[str, Any]) -> str:
    here = "installed" if about["installed"] else f"not installed: {about['install']}"
    facts = "" if about["facts"] is None else f"{about['facts']:,} facts: "
    several = f"; with several answers, only when named: {', '.join(about['several'])}" if about["several"] else ""
    return (
        f"{about['name']}: {about['about']}; subject: {about['subject']}\n"
        f"  {facts}{', '.join(about['relations'])}{several}\n"
        f"  {about['packages']} ({here}); {about['licence']}; {about['origin']}"
    )


def _about(source: Source) -> dict[str, Any]:
    """A source as --list shows it. How many facts there are is counted, where its packages are here."""
    names = ("name", "about", "subject", "relations", "several", "licence", "origin", "installed")
    return {name: getattr(source, name) for name in names} | {
        "packages": source.versions, "install": f"pip install 'facthold[{source.extra}]'",
        "facts": tally(source.facts())["facts"] if source.installed else None,
    }  # fmt: skip


@command()
def build(
    context: typer.Context,
    file: Annotated[
        Path,
        typer.Argument(
            help="Facts, with subject, relation, answer: .csv, .tsv, .json, .jsonl or .parquet; or packed: .csv.gz."
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Model to write, as safetensors, with its facts.")],
    recipe: str = typer.Option(
        "auto", "--recipe", help="A recipe of transformers; auto: the smaller of gated and values, or else train."
    ),
    accuracy: float = typer.Option(1.0, "--accuracy", help="Share of the facts that must be recalled."),
    max_params: int | None = o.option("--max-params", "Parameters at most."),
    on_conflict: o.OnConflict = None,
    n_noise: int | None = o.option(
        "--noise-tokens", "Different noise tokens, which other words in a prompt are taken for (default: S + R)."
    ),
    variant: str = typer.Option(
        "text", "--variant", help="text: the best of the whole vocabulary; answers: the best among the answers."
    ),
    T: int = typer.Option(SEQUENCE, "-T", help="Length of a prompt, with subject, relation and the token EOS."),
    redraw: o.Redraw = None,
    seed: o.Seed = 0,
    json: o.Json = False,
) -> None:
    """Put a file of facts into the weights of a transformer, as small as recalls them, and ask for each of them.

    Where a model recalls fewer than its search had counted, the next size, the other recipe of auto and the next two
    seeds are tried; what was tried is named where none is good enough, and nothing is written.

    Parameters are counted as in the paper, without the embeddings, whose size is said beside them. What the model says
    is the arg max over the whole vocabulary (subjects, relations, noise, EOS and answers), as in the paper's equation
    7.
    """
    writable_file(output, OF_FACTS)
    from facthold.knowledge.build import build as build_model
    from facthold.knowledge.build import check_wish
    from facthold.measure.bits import constant_recall
    from facthold.models.saving import write_model

    table, p = read_facts(file, on_conflict or "error")
    wish: dict[str, Any] = {
        "recipe": recipe, "accuracy": accuracy, "max_params": max_params, "n_noise": n_noise, "T": T,
        "variant": variant,
    }  # fmt: skip
    check_wish(table, **wish)
    _say_time(table, recipe, accuracy)
    say_replaced(output)
    with working(f"building {count(len(table), 'fact')}") as say:
        tell = lambda news: say(in_options(news, context.command.params))  # noqa: E731
        built = build_model(table, p=p, seed=seed, say=tell, beside=output, **wish)
    made, report, bits = built.model, built.report, 32 * built.n_params
    about = {
        "recipe": report.recipe, "seed": report.seed, "variant": variant, "n_noise": built.problem.n_noise,
        "T": built.problem.T,
        **about_table(table), "facts": len(table), "recall": report.recall,
        "smallest_margin": report.smallest_margin, "d": made.d, "H": made.H, "d_h": made.d_h, "m": made.m,
        "n_params": built.n_params, "parameter_bits": bits, "n_embeddings": built.n_embeddings,
        "facts_per_param": report.recall * len(table) / built.n_params,
        "table_bits": report.bits, "constant_recall": constant_recall(table),
        "bits_per_param": report.bits / built.n_params if report.bits else None,
        "times_lower_bound": bits / report.bits if report.bits else None, "seconds": report.seconds,
        "widths": [vars(width) for width in report.widths],
    }  # fmt: skip
    about |= about_file(write_model(output, made, built.problem, redraw=redraw))
    report.kept.done()
    print_json(about) if json else _say_built(about, seed)


def _say_time(table: FactTable, recipe: str, accuracy: float) -> None:
    """Say before a long build how long it takes, by the laws of `plan`, and what would be quicker."""
    if len(table) < TIMED:
        return
    name = "gated" if recipe == "auto" else recipe
    times = {row.name: row.seconds for row in make_plan(table, accuracy=accuracy).rows if row.seconds is not None}
    if name not in times or times[name].expected < LONG:
        return
    quickest = min(times, key=lambda other: times[other].expected)
    quicker = (
        f"--recipe {quickest} takes {times_text(times[quickest])}"
        if times[quickest].expected < times[name].expected / 2
        else "a smaller --accuracy or fewer facts take less"
    )
    kept = "; stopped, the same command goes on from what it has found" if name == "gated" else ""
    messages.print(f"by {name} this takes about {times_text(times[name])} here; {quicker}{kept}", markup=False)


def _needed(a: dict[str, Any]) -> str:
    """How many bits the facts need: where the bound is zero, whether that is because none are needed."""
    if a["table_bits"]:
        return (
            f" for facts that need {a['table_bits']:,.0f}: {a['times_lower_bound']:.3g} times the lower bound, "
            f"{a['bits_per_param']:.3g} bits of facts per parameter"
        )
    if a["recall"] <= a["constant_recall"]:
        return f"; none are needed: one answer for each relation is right in {a['constant_recall']:.4%} of the facts"
    return "; how many the facts need is not known: the lower bound counts neither several answers nor wrong ones well"


def _say_built(a: dict[str, Any], seed: int) -> None:
    over = "over the whole vocabulary" if a["variant"] == "text" else "among the answers"
    paragraph(f"{a['recall']:.4%} of {count(a['facts'], 'fact')} recalled {over}, by {a['recipe']}")
    other = f"; by seed {a['seed']}, as models of seed {seed} recall fewer" if a["seed"] != seed else ""
    noise = f"with noise from {count(a['n_noise'], 'token')}" if a["T"] > 3 else "without noise"
    paragraph(f"in prompts {noise}{other}")
    say_table(a)
    paragraph(
        f"{a['n_params']} parameters (d={a['d']}, H={a['H']}, d_h={a['d_h']}, m={a['m']}), "
        f"{a['facts_per_param']:.3g} recalled facts per parameter; smallest margin {a['smallest_margin']:.3g}\n"
        f"embeddings, beside the parameters: {a['n_embeddings']:,} random numbers of seed {a['seed']}\n"
        f"{a['parameter_bits']:,} bits in float32{_needed(a)}"
    )
    for w in a["widths"]:
        tried = ", ".join(f"{m} ({share:.2%})" for m, share in w["tries"])
        paragraph(f"  {w['name']}: {count(w['m'], 'neuron')} for {count(w['facts'], 'fact')}; tried {tried}")
    paragraph(f"built in {a['seconds']:.1f} s: {file_in_words(a)}")
