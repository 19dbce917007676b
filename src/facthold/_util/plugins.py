"""What can be added in one file: recipes, figures and claims are found by looking, not by a list that names them.

A module of the package `facthold.recipes` is found by being there; so is one in a folder of `facthold.studies`. Files
of one's own are found in the folders that the variable FACTHOLD_PLUGINS names, and in installed packages with an entry
point in the group 'facthold'.
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
from typing import TypeVar

from facthold._util.errors import FactholdError
from facthold._util.errors import find as find

VARIABLE = "FACTHOLD_PLUGINS"
GROUP = "facthold"
T = TypeVar("T")


def defined(package: str, kind: type[T], name: str = "name") -> dict[str, T]:
    """All objects of this type at the top level of these modules, alone or in a tuple, by their attribute ``name``."""
    known: dict[str, T] = {}
    for module in modules(package):
        for value in vars(module).values():
            for one in value if isinstance(value, tuple) else (value,):
                if isinstance(one, kind) and known.setdefault(getattr(one, name), one) is not one:
                    what = f"{kind.__name__.lower()}s are called {getattr(one, name)!r}"
                    raise FactholdError(f"two {what}; rename the one in {module.__file__}")
    return known


def modules(package: str) -> Iterator[ModuleType]:
    """The modules of a package and of the packages in it, and those that were added from outside.

    A package may say in which ``ORDER`` its modules are read; those that it does not name come after them.
    """
    yield from _inside(package)
    yield from outside()


def _inside(package: str) -> Iterator[ModuleType]:
    folder = importlib.import_module(package)
    order = {name: i for i, name in enumerate(getattr(folder, "ORDER", ()))}
    for found in sorted(pkgutil.iter_modules(folder.__path__), key=lambda m: (order.get(m.name, len(order)), m.name)):
        name = f"{package}.{found.name}"
        if found.ispkg:
            yield from _inside(name)
        else:
            yield importlib.import_module(name)


def outside() -> tuple[ModuleType, ...]:
    """The files of the folders that $FACTHOLD_PLUGINS names (as PATH does), and what installed packages offer."""
    return _outside(os.environ.get(VARIABLE, ""))


@cache
def _outside(folders: str) -> tuple[ModuleType, ...]:
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
