"""Saved models: a safetensors file with the weights under their names in the paper; kind and settings are metadata."""

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

import facthold
from facthold._util.errors import FactholdError
from facthold._util.files import MODEL, writing
from facthold.facts.problem import FactualRecall
from facthold.facts.table import NO_MORE, FactTable, Labels
from facthold.memory.activations import Activation, activation
from facthold.memory.associations import Problem
from facthold.models.memory import LinearMemory, LowRankMemory, MLPMemory
from facthold.models.transformer import Transformer

FORMAT = "1"
ARRAY = np.ndarray | jax.Array
MODELS = {kind.__name__: kind for kind in (LinearMemory, LowRankMemory, MLPMemory, Transformer)}
FACTS = ("subjects", "relations", "answers")
LONGEST = 1 << 16  # T at most: a prompt of that length for each fact is made at once
V = TypeVar("V")


def to_numpy(module: eqx.Module) -> dict[str, np.ndarray]:
    """The arrays of a model or problem by name, as NumPy arrays; those of a part as ``mlp.W``."""
    return {name: np.asarray(value) for name, value in _leaves(module).items() if isinstance(value, ARRAY)}


def save_model(path: str | Path, model: eqx.Module, problem: Problem | FactualRecall | None = None) -> Path:
    """Write a model, and with it the problem that it solves: ``fh.save_model("m.safetensors", memory, problem)``."""
    settings = {n: v for n, v in _leaves(model).items() if not (v is None or isinstance(v, ARRAY))}
    about: dict[str, Any] = {"format": FORMAT, "facthold": facthold.__version__, "model": type(model).__name__}
    about["settings"] = {n: v.name if isinstance(v, Activation) else v for n, v in settings.items()}
    solved: dict[str, np.ndarray] = {}
    if isinstance(problem, FactualRecall):
        about["problem"], solved = _facts(problem)
    elif problem is not None:
        solved = to_numpy(problem)
    arrays = {f"model.{n}": a for n, a in to_numpy(model).items()} | {f"problem.{n}": a for n, a in solved.items()}
    contents = save({n: np.ascontiguousarray(a) for n, a in arrays.items()}, {"about": json.dumps(about)})
    with writing(path, MODEL) as stream:  # safetensors' own writer would close the file to all but its owner
        stream.write(contents)
    return Path(path)


def load_model(path: str | Path) -> tuple[Any, Problem | FactualRecall | None]:
    """A saved model and its problem, or None where none was saved: ``memory, problem = fh.load_model(path)``."""
    if not Path(path).is_file():
        raise FactholdError(f"no such model file: {path}")
    try:
        with safe_open(path, framework="numpy") as file:
            about = json.loads((file.metadata() or {}).get("about", "null"))
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, json.JSONDecodeError, RecursionError, TypeError, AttributeError) as error:
        raise FactholdError(f"{path} is not a facthold model: {error}") from error  # the last two: a dtype NumPy lacks
    if not isinstance(about, dict) or about.get("format") != FORMAT or about.get("model") not in list(MODELS):
        raise FactholdError(f"{path} is not a facthold model of format {FORMAT}; build or save it again")
    try:
        of_model, of_problem, settings = _below("model", arrays), _below("problem", arrays), about["settings"]
        _check_settings(settings)
        if about["model"] == Transformer.__name__:
            _check_weights(of_model)
        model = _restore(MODELS[about["model"]], of_model, settings)
        if "problem" not in about:
            return model, _restore(Problem, of_problem, {}) if of_problem else None
        problem = _restore_facts(of_problem, **about["problem"])
        if isinstance(model, Transformer) and problem.d != model.d:
            raise ValueError(f"the weights have d={model.d}, the embeddings d={problem.d}")
        return model, problem
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
        reason = f"no {error}" if isinstance(error, KeyError) else str(error).strip().split("\n")[0]
        raise FactholdError(f"{path} is a facthold model with parts missing or wrong: {reason}") from error


def _check_settings(settings: Any) -> None:
    """Refuse settings of another type than they were saved with."""
    if not isinstance(settings, dict):
        raise ValueError(f"its settings are {settings!r:.60}, not names with values")
    for name, value in settings.items():
        kind = {"sigma": str, "scaled": bool}.get(name.rpartition(".")[2])
        if kind is not None and not isinstance(value, kind):
            raise ValueError(f"{name} is {value!r:.60}, which is no {kind.__name__}")


def _check_weights(arrays: Mapping[str, np.ndarray]) -> None:
    """Refuse weights of a transformer whose shapes do not fit together: W_K says what H, d_h and d are."""
    _check_array("W_K", arrays["W_K"], 3)
    wanted: dict[str, tuple[int, ...]] = dict.fromkeys(("W_Q", "W_V", "W_O"), arrays["W_K"].shape)
    if any(name.startswith("mlp.") for name in arrays):
        _check_array("mlp.W", arrays["mlp.W"], 2)
        m, d = len(arrays["mlp.W"]), arrays["W_K"].shape[2]
        wanted |= {"mlp.W": (m, d), "mlp.V": (m, d)} | ({"mlp.b": (m,)} if "mlp.b" in arrays else {})
    for name, shape in wanted.items():
        _check_array(name, arrays[name], len(shape))
        if arrays[name].shape != shape:
            raise ValueError(f"{name} has the shape {arrays[name].shape}, where the other weights need {shape}")


def _check_array(name: str, array: np.ndarray, dimensions: int) -> None:
    if array.ndim != dimensions or 0 in array.shape or not np.issubdtype(array.dtype, np.floating):
        kind = f"{array.dtype} of the shape {array.shape}"
        raise ValueError(f"{name} is {kind}, and should be floats in {dimensions} dimensions")


def _leaves(module: eqx.Module) -> dict[str, Any]:
    """The fields of a model, with those of its parts under dotted names."""
    leaves: dict[str, Any] = {}
    for field in dataclasses.fields(module):
        value = getattr(module, field.name)
        inner = {f".{n}": v for n, v in _leaves(value).items()} if isinstance(value, eqx.Module) else {"": value}
        leaves |= {field.name + n: v for n, v in inner.items()}
    return leaves


def _restore(kind: type[V], arrays: Mapping[str, np.ndarray], settings: Mapping[str, Any]) -> V:
    values: dict[str, Any] = {n: jnp.asarray(a) for n, a in arrays.items()}
    values |= {n: activation(v) if isinstance(v, str) else v for n, v in settings.items()}
    if inner := _below("mlp", arrays):
        values["mlp"] = _restore(MLPMemory, inner, _below("mlp", settings))
    return kind(**{name: value for name, value in values.items() if "." not in name})


def _below(part: str, names: Mapping[str, V]) -> dict[str, V]:
    return {name.removeprefix(f"{part}."): value for name, value in names.items() if name.startswith(f"{part}.")}


def _facts(problem: FactualRecall) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """What is said of a problem in the metadata, and its arrays."""
    table, labels = problem.table, problem.table.labels
    about = {"S": table.S, "R": table.R, "A": table.A, "labels": None if labels is None else dataclasses.asdict(labels)}
    arrays = {name: getattr(table, name) for name in FACTS} | {"phi": np.asarray(problem.phi)}
    if len(table.also):  # a file without it is what it was before there was such a field
        arrays["also"] = table.also
    if problem.p is not None:
        arrays["p"] = problem.p
    return about | {"T": problem.T, "outputs": problem.outputs}, arrays


def _restore_facts(
    arrays: Mapping[str, np.ndarray], *, S: Any, R: Any, A: Any, labels: Any, T: Any, outputs: Any
) -> FactualRecall:
    for name, value in {"S": S, "R": R, "A": A, "T": T}.items():
        if not isinstance(value, int) or isinstance(value, bool):
            raise ValueError(f"{name} is {value!r:.60}, which is no integer")
    if T > LONGEST:
        raise ValueError(f"T={T} is more than {LONGEST}, the longest prompt")
    for kind in FACTS if labels is not None else ():
        if not (isinstance(labels[kind], list) and all(isinstance(name, str) for name in labels[kind])):
            raise ValueError(f"the labels of the {kind} are not all text")
    _check_array("phi", arrays["phi"], 2)
    names = None if labels is None else Labels(*(tuple(labels[kind]) for kind in FACTS))
    columns = {kind: arrays[kind] for kind in FACTS}
    table = FactTable(S, R, A, **columns, labels=names, also=arrays.get("also", NO_MORE))
    return FactualRecall(table, arrays["phi"], T, arrays.get("p"), outputs)
