"""The page: one HTML file with the model, the style and the modules in it, which needs no network and no server.

The modules are those in ``static``, as they are. An import map gives each the name ``facthold/NAME`` by which the
others import it, as a data URL: nothing is bundled, and Node runs the same files in the tests.
"""

import base64
from pathlib import Path

import facthold
from facthold._util.arguments import checked
from facthold._util.commands import command, count
from facthold._util.errors import FactholdError
from facthold._util.files import PAGE, same_file, writing
from facthold.explore.exporting import COUNTRIES, countries, first_question, model_as_text, origin_of_countries
from facthold.facts.real import real_facts
from facthold.knowledge.model import Model, load

STATIC = Path(__file__).with_name("static")
MODULE = "data:text/javascript;base64,"


@checked
def explore(model: Model | str | Path | None, path: str | Path) -> Path:
    """Write a page that asks a model, takes it apart and breaks it, in the browser: ``fh.explore(model, "page.html")``.

    ``model`` is a model or the path of one; None: all facts about countries, built anew, which takes about a minute.
    """
    if model is None:
        known, made_by = countries(real_facts(COUNTRIES)), command("explore", output=Path(path).name)
        return write_page(known, path, made_by, origin_of_countries())
    if isinstance(model, Model):
        return write_page(model, path, 'fh.explore(model, "page.html")')
    if same_file(model, path):
        raise FactholdError(f"path={path} is the model itself, which would be lost; give another name")
    return write_page(load(model), path, command("explore", Path(model).name, output=Path(path).name))


def write_page(known: Model, path: str | Path, made_by: str, origin: str = "") -> Path:
    """Write the page of a model; ``made_by`` is the command that its foot names."""
    contents = render(known, made_by, origin)
    with writing(path, PAGE) as stream:
        stream.write(contents.encode())
    return Path(path)


def render(known: Model, made_by: str, origin: str = "") -> str:
    """The page as text."""
    import jinja2
    from markupsafe import Markup

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("facthold.explore"), autoescape=True, trim_blocks=True, lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )  # fmt: skip
    table, shape = known.table, known.model
    sizes = f"d={shape.d}, H={shape.H} heads of d_h={shape.d_h}, m={shape.m} neurons"
    return environment.get_template("page.html").render(
        title="Where a transformer keeps its facts", lead=lead(known), version=facthold.__version__, command=made_by,
        about=f"{count(table.S, 'subject')}, {count(table.R, 'relation')}, {count(table.A, 'answer')}; a transformer "
        f"with one layer ({sizes}) and, beside its parameters, {known.n_embeddings:,} numbers of fixed embeddings.",
        origin=origin, css=Markup(STATIC.joinpath("page.css").read_text()), model=model_as_text(known),
        start=first_question(table), modules={"imports": modules()},
    )  # fmt: skip


def lead(known: Model) -> str:
    """What one sees, in a sentence or two."""
    n, right = len(known.table), round(known.recall * len(known.table))
    s, r, a = known.table.to_rows()[0]
    if (first := first_question(known.table)) is not None:
        row = known.table.matrix[first["subject"], first["relation"]]
        s, r, a = (names[i] for names, i in zip(known.names, (first["subject"], first["relation"], row), strict=True))
    knows = f"knows {count(f'{n:,}', 'fact')}" if right == n else f"knows {right:,} of {count(f'{n:,}', 'fact')}"
    return (
        f"This page contains a small transformer that {knows}, such as “{s}, {r}: {a}”. They are kept in its "
        f"{known.n_params:,} weights and nowhere else."
    )


def modules() -> dict[str, str]:
    """Every module under the name that it is imported by, as a data URL."""
    files = sorted(STATIC.glob("*.js"))
    return {f"facthold/{file.stem}": MODULE + base64.b64encode(file.read_bytes()).decode() for file in files}
