"""Names of a package that are imported when they are first used (PEP 562)."""

import importlib
import importlib.util
import sys
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any


def lazy(package: str, modules: Mapping[str, Sequence[str]]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package with public names from these modules; those from itself are packages."""
    module_of = {name: module for module, names in modules.items() for name in names}

    def find(name: str) -> Any:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if module_of[name] == package:
            return importlib.import_module(f"{package}.{name}")
        value = getattr(importlib.import_module(module_of[name]), name)
        setattr(sys.modules[package], name, value)  # the next time it is found without this function
        return value

    return find, lambda: sorted({*vars(sys.modules[package]), *module_of})


def modules_of(package: str) -> Callable[[str], Any]:
    """`__getattr__` of a package whose modules are loaded when they are first used: ``construct.linear.low_rank``."""

    def find(name: str) -> Any:
        if importlib.util.find_spec(f"{package}.{name}") is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return importlib.import_module(f"{package}.{name}")

    return find


def callable_package(package: str, module: str, name: str) -> None:
    """Let a package be called as its main function is: ``facthold.plan`` is a package, and ``facthold.plan(...)`` a
    plan. The function alone under that name would hide the package from whoever imports a part of it."""

    class CallablePackage(ModuleType):
        def __call__(self, *arguments: Any, **options: Any) -> Any:
            return getattr(importlib.import_module(module), name)(*arguments, **options)

    sys.modules[package].__class__ = CallablePackage
