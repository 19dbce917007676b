"""What can be added in one file: recipes, figures and claims are found by looking, not by a list that names them.

A module of the package `facthold.recipes` or `facthold.studies` is found by being there. Files of one's own are
found in the folders that the variable FACTHOLD_PLUGINS names, and in installed packages with an entry point in the
group 'facthold'.
"""

import importlib
import importlib.metadata
import importlib.util
import os
import pkgutil
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

from facthold._util.errors import FactholdError

VARIABLE = "FACTHOLD_PLUGINS"
GROUP = "facthold"


def modules(package: str) -> Iterator[ModuleType]:
    """The modules of a package, without the private ones, and those that were added from outside."""
    folder = importlib.import_module(package)
    for found in pkgutil.iter_modules(folder.__path__):
        if not found.name.startswith("_"):
            yield importlib.import_module(f"{package}.{found.name}")
    yield from outside(os.environ.get(VARIABLE, ""))


@cache
def outside(folders: str) -> tuple[ModuleType, ...]:
    """The files of these folders (separated as in PATH), and the modules that installed packages offer."""
    files = [file for folder in folders.split(os.pathsep) if folder for file in _files(Path(folder).expanduser())]
    offered = importlib.metadata.entry_points(group=GROUP)
    return (*(_load(file) for file in files), *(entry.load() for entry in offered))


def _files(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise FactholdError(f"{VARIABLE} names {folder}, which is not a folder; give folders with .py files")
    return sorted(folder.glob("*.py"))


def _load(file: Path) -> ModuleType:
    """The module in a file, under a name that a worker process finds too."""
    name = f"facthold_plugins.{file.stem}"
    if name in sys.modules:
        return sys.modules[name]
    sys.modules.setdefault("facthold_plugins", ModuleType("facthold_plugins"))
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise FactholdError(f"cannot load {file}: {type(error).__name__}: {error}") from error
    return module
