"""Saved models: one safetensors file a model, with all that is needed to use it again.

Weights are stored under their names in the paper, so that any safetensors reader (NumPy, PyTorch)
opens the file; the model's kind and settings stand in the file's metadata.
"""

import dataclasses
import json
from pathlib import Path
from typing import Any, TypeVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

import facthold
from facthold.activations import Activation, activation
from facthold.associations import Problem
from facthold.errors import FactholdError
from facthold.models.memory import LinearMemory, LowRankMemory, MLPMemory

FORMAT = "1"
_KINDS: dict[str, type[eqx.Module]] = {cls.__name__: cls for cls in (LinearMemory, LowRankMemory, MLPMemory, Problem)}
M = TypeVar("M", bound=eqx.Module)


def to_numpy(module: eqx.Module) -> dict[str, np.ndarray]:
    """The arrays of a model or problem by name, as NumPy arrays."""
    fields = ((field.name, getattr(module, field.name)) for field in dataclasses.fields(module))
    return {name: np.asarray(value) for name, value in fields if eqx.is_array(value)}


def save_model(path: str | Path, model: eqx.Module, problem: Problem | None = None) -> Path:
    """Write a model, and with it the problem that it solves, so that it can be asked again."""
    path = Path(path)
    settings = {
        field.name: getattr(model, field.name).name
        for field in dataclasses.fields(model)
        if isinstance(getattr(model, field.name), Activation)
    }
    about = {
        "format": FORMAT,
        "facthold": facthold.__version__,
        "model": type(model).__name__,
        "settings": settings,
    }
    arrays = {f"model.{name}": array for name, array in to_numpy(model).items()}
    if problem is not None:
        arrays |= {f"problem.{name}": array for name, array in to_numpy(problem).items()}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(path.name + ".partial")
        save_file({n: np.ascontiguousarray(a) for n, a in arrays.items()}, partial, {"about": json.dumps(about)})
        partial.replace(path)  # a reader never meets half a file
    except (OSError, SafetensorError, ValueError) as error:
        raise FactholdError(f"cannot write {path}: {getattr(error, 'strerror', None) or error}") from error
    return path


def load_model(path: str | Path) -> tuple[Any, Problem | None]:
    """Read a model and its problem (None where none was saved)."""
    if not Path(path).is_file():
        raise FactholdError(f"no such model file: {path}")
    try:
        with safe_open(path, framework="numpy") as file:
            about = json.loads((file.metadata() or {}).get("about", "null"))
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, json.JSONDecodeError) as error:
        raise FactholdError(f"{path} is not a facthold model: {error}") from error
    if not isinstance(about, dict) or about.get("format") != FORMAT or about.get("model") not in _KINDS:
        raise FactholdError(f"{path} is not a facthold model of format {FORMAT}; build or save it again")
    settings = {name: activation(value) for name, value in about["settings"].items()}
    model = _restore(_KINDS[about["model"]], "model.", arrays, settings)
    has_problem = any(name.startswith("problem.") for name in arrays)
    return model, _restore(Problem, "problem.", arrays, {}) if has_problem else None


def _restore(kind: type[M], prefix: str, arrays: dict[str, np.ndarray], settings: dict[str, Any]) -> M:
    weights = {n.removeprefix(prefix): jnp.asarray(a) for n, a in arrays.items() if n.startswith(prefix)}
    return kind(**weights, **settings)
