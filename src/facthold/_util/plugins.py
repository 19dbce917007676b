"""What can be added in one file: recipes, figures and claims are found by looking, not by a list that names them.

They are looked for in the modules of a package, in the folders that the variable FACTHOLD_PLUGINS names, and in
installed packages with an entry point in the group 'facthold'.
"""

import importlib.metadata
import importlib.util
import os
import pkgutil
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TypeVar

from facthold._util.errors import FactholdError

VARIABLE = "FACTHOLD_PLUGINS"
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


def version_of(package: str) -> str:
    """The version of an installed package; nothing where its metadata cannot be read."""
    with suppress(importlib.metadata.PackageNotFoundError):
        return importlib.metadata.version(package)
    return ""


def modules(package: str) -> Iterator[ModuleType]:
    """The modules of a package and of the packages in it, first those that its ``ORDER`` names; then from outside."""
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
    found = []
    for folder in (Path(name).expanduser() for name in folders.split(os.pathsep) if name):
        if not folder.is_dir():
            raise FactholdError(f"{VARIABLE} names {folder}, which is not a folder; give folders with .py files")
        found += [_load(file) for file in sorted(folder.glob("*.py"))]
    return (*found, *(entry.load() for entry in importlib.metadata.entry_points(group="facthold")))


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
