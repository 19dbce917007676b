"""Options and arguments that several commands have: each has one name and one meaning everywhere."""

from pathlib import Path
from typing import Annotated, Any

import typer

from facthold.knowledge.settings import LENGTH, TRAINED

FOLDER = "FOLDER"  # what an output is called that is none of a file


def option(*names: str, default: Any = None) -> Any:
    """An option by its names and, last, its help; None where it is not given."""
    return typer.Option(default, *names[:-1], help=names[-1])


def flag(name: str, help: str) -> Any:
    """An option that says yes."""
    return option(name, help, default=False)


def named(*names: str, metavar: str | None = None) -> Any:
    """As `option`, for a type that has it in it: the command gives the default."""
    return typer.Option(*names[:-1], help=names[-1], metavar=metavar)


Json = Annotated[bool, named("--json", "Print JSON alone on standard output.")]
Seed = Annotated[int, named("--seed", "Seed of all that is drawn.")]

# where cells are computed and kept
Store = Annotated[
    Path | None, named("--store", "Results file (default: facthold-results.sqlite here, or FACTHOLD_STORE).")
]
Preset = Annotated[str, named("--preset", "smoke (seconds), quick (minutes) or paper (its whole grid).")]
Folder = Annotated[Path, named("--output", "-o", "Folder for pictures and pages.", metavar=FOLDER)]
Workers = Annotated[int | None, named("--workers", "Compute in so many worker processes, one core each.")]
Ray = Annotated[str | None, named("--ray", "Compute on the Ray cluster at host:port, or auto.", metavar="ADDRESS")]
Config = Annotated[
    Path | None, named("--config", "TOML file with other sizes; `facthold list --figure NAME` shows them.")
]
Dry = Annotated[bool, named("--dry-run", "Say what would be computed and how long it takes.")]

# facts
Answers = Annotated[int | None, named("-D", "Answers of each relation (default: 8).")]
Facts = Annotated[
    Path | None, named("--facts", "Facts from a file: columns subject, relation, answer, perhaps p (with sum 1).")
]
OnConflict = Annotated[
    str | None, named("--on-conflict", "Several answers to a question: error (default), first or all (each is right).")
]
SomeRelations = Annotated[str | None, named("--relations", "These alone, with commas between: capital,currency.")]
SomeSubjects = Annotated[int | None, named("--subjects", "A random sample of so many subjects.")]

# models in files
Model = Annotated[Path, typer.Argument(help="A transformer with its facts, as safetensors.")]
Subject = Annotated[str | None, typer.Argument(help="The subject, such as France.")]
Relation = Annotated[str | None, typer.Argument(help="The relation, such as capital.")]

Questions = Annotated[
    Path | None, named("--file", "Questions: a CSV with subject,relation, or facts, whose answers then judge.")
]
TableFile = Annotated[Path | None, named("--output", "-o", "File to write.")]
Redraw = Annotated[
    bool | None,
    typer.Option(
        "--redraw-embeddings/--store-embeddings",
        help="Leave random embeddings out of the file, and draw them again from their keys whenever it is read, or "
        "store them (default: bits leaves them out, edit does as the model that it reads, and others store them).",
        show_default=False,
    ),
]
ModelFile = Annotated[Path | None, named("--output", "-o", "Write the model as safetensors, with what it stores.")]

# induction heads
Triggers = Annotated[int | None, named("-K", "Triggers: the K most frequent characters (default: 5).")]
SequenceLength = Annotated[int | None, named("-T", f"Length of a sequence (default: {LENGTH}).")]
HeadDimension = Annotated[int | None, named("-d", f"Embedding dimension (default: {TRAINED}).")]

# models by their size
Recipe = Annotated[str, named("--recipe", "A recipe from `facthold list`.")]
Width = Annotated[int | None, named("-m", "Width of the MLP, or rank of a low-rank memory.")]
Map = Annotated[str | None, named("--map", "identity (default), injective, mod, floor or uniform.")]
Outputs = Annotated[int | None, named("--outputs", "Outputs M of a memory (default: N).")]
Embeddings = Annotated[str | None, named("--embeddings", "sphere (default), gaussian, signs, orthogonal or spread.")]
Alpha = Annotated[float | None, named("--alpha", "H d_h = alpha d, with d_h rounded down (default: 1).")]
Heads = Annotated[int | None, named("--heads", "-H", "Heads H (default: 4).")]
Length = Annotated[int | None, named("-T", "Length of a prompt (default: 32).")]
Variant = Annotated[
    str | None, named("--variant", "code (the authors'; default), text (the paper's) or answers (text, among them).")
]
Protocol = Annotated[str | None, named("--protocol", "transformer-short (default) or transformer-code.")]
Rule = Annotated[
    str | None,
    named("--rule", "best (default): the best accuracy counts; final: that at the end; authors: the best on a sample."),
]
