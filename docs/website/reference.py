"""Pages that are read off the program: every command by its own help, what `import facthold` offers, the explorer."""

import importlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import facthold as fh

COLUMNS = 80  # of the help, at most
API = {
    "Your own facts": (
        "build", "load", "Model", "explore", "real_facts", "read_facts", "write_facts", "FactTable", "random_table",
    ),
    "Facts in context": ("induction", "Induction", "Bigrams", "BigramTask"),
    "The paper": ("verify", "run_figure", "reproduce", "figures", "claims", "results", "Store"),
    "Sizes and recipes": (
        "plan", "recipes", "make_memory", "random_problem", "Problem", "factual_recall", "FactualRecall",
    ),
    "Models and training": (
        "Transformer", "LinearMemory", "LowRankMemory", "MLPMemory", "save_model", "load_model", "fit", "protocol",
        "Protocol",
    ),
    "Other": ("derive", "FactholdError"),
}  # fmt: skip
"""Every name of `import facthold`, by what a person wants to do."""


def commands_page() -> str:
    """All commands, in the order of `facthold --help`."""
    parts = [
        "# Every command",
        "What `facthold COMMAND --help` prints. [Commands by what one wants](tour.md) has examples.",
    ]
    for section, commands in _sections().items():
        parts.append(f"## {section}")
        for name, outline, text in commands:
            parts += [f"### {name}", f"{outline[0].upper()}{outline[1:]}.", f"```text\n{text}\n```"]
    return "\n\n".join(parts) + "\n"


def _sections() -> dict[str, list[tuple[str, str, str]]]:
    import typer

    from facthold.cli import app

    for module in set(app.COMMANDS.values()):
        importlib.import_module(f"facthold.cli.{module}")
    group: Any = typer.main.get_command(app.app)
    above = group.context_class(group, info_name="facthold", **group.context_settings)
    return {
        section: [
            one for name, (_, outline) in commands.items()
            for one in _helps(name, outline, group.commands[name], above)
        ]
        for section, commands in app.SECTIONS.items()
    }  # fmt: skip


def _helps(name: str, outline: str, command: Any, above: Any) -> Iterator[tuple[str, str, str]]:
    """A command, or a group and the commands below it."""
    context = command.context_class(command, info_name=name.split()[-1], parent=above, **command.context_settings)
    with mock.patch.dict(os.environ, COLUMNS=str(COLUMNS)):
        text = command.get_help(context).strip()
    yield name, outline, text
    for below, one in getattr(command, "commands", {}).items():
        yield from _helps(f"{name} {below}", (one.get_short_help_str(200) or below).rstrip("."), one, context)


def api_page() -> str:
    """What `import facthold as fh` offers, from the docstrings: mkdocstrings fills it in."""
    missing = set(fh.__all__) ^ {name for names in API.values() for name in names}
    if missing:
        raise SystemExit(f"docs/website/reference.py and facthold.__all__ differ by {', '.join(sorted(missing))}")
    parts = ["# The Python API", "`import facthold as fh` offers these names, and imports each when it is first used."]
    for section, names in API.items():
        parts.append(f"## {section}")
        parts += [f"::: facthold.{name}" for name in names]
    return "\n\n".join(parts) + "\n"


def explorer(path: Path, model: Path | None) -> None:
    """The page with a model inside: of a file, or of two relations of all countries, built anew."""
    if model is None:
        fh.explore(fh.build(fh.real_facts("countries", relations=["capital", "region"])), path)
    else:
        fh.explore(model, path)
