"""Saved models: a safetensors file with the weights under their names in the paper; kind and settings are metadata.

Weights on a grid may be packed, and embeddings that a key draws again may be left out (docs/export.md).
"""

import dataclasses
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from facthold._util.arguments import checked
from facthold._util.commands import command
from facthold._util.errors import FactholdError, with_article
from facthold._util.files import model_of, writing
from facthold._util.memory import check_memory
from facthold._util.tensors import check_model_file, checksum, read_tensors, tensors_as_bytes
from facthold.facts.problem import NOTHING_FORGOTTEN, Drawing, FactualRecall
from facthold.facts.table import NO_MORE, FactTable, Labels
from facthold.memory.activations import Activation, activation
from facthold.memory.associations import Problem
from facthold.models import FIXED, REDRAWN, STORED
from facthold.models.memory import LinearMemory, LowRankMemory, MLPMemory
from facthold.models.packing import OnGrid, pack, unpack
from facthold.models.transformer import Transformer

ARRAY = np.ndarray | jax.Array
MODELS = {kind.__name__: kind for kind in (LinearMemory, LowRankMemory, MLPMemory, Transformer)}
IN_CONTEXT = "CausalTransformer"  # what `facthold.knowledge.induction_files` writes, in the same format
FACTS = ("subjects", "relations", "answers")
EMBEDDINGS = ("problem.phi", "problem.E", "problem.U", "problem.changed", "problem.changed_phi")
LONGEST = 1 << 16  # T at most: a prompt of that length for each fact is made at once
COPIES = 4  # of a file's bytes while it is read: as they are, as arrays, and as JAX has them, with room for names
V = TypeVar("V")


def to_numpy(module: eqx.Module) -> dict[str, np.ndarray]:
    """The arrays of a model or problem by name, as NumPy arrays; those of a part as ``mlp.W``."""
    return {name: np.asarray(value) for name, value in _leaves(module).items() if isinstance(value, ARRAY)}


def check_finite(arrays: Mapping[str, np.ndarray]) -> None:
    """Refuse a model with numbers that are none: it says nothing, and cannot be rounded."""
    for name, W in arrays.items():
        if wrong := int((~np.isfinite(W)).sum()):
            raise FactholdError(
                f"{wrong} of {W.size} numbers in {name} are nan or infinite, so the model says nothing; "
                "build or train it again"
            )


@dataclasses.dataclass(frozen=True)
class Written:
    """A model that was written, and the bytes of its file."""

    path: Path
    bytes: int
    weight_bytes: int
    embedding_bytes: int
    embeddings: str
    """Whether they are `STORED`, `REDRAWN` or `FIXED`; 'none' without a problem."""


@checked
def save_model(
    path: str | Path, model: eqx.Module, problem: Problem | FactualRecall | None = None, *, redraw: bool | None = None
) -> Path:
    """Write a model, and with it the problem that it solves: ``fh.save_model("m.safetensors", memory, problem)``.

    With ``redraw`` the embeddings of facts are left out and drawn again from their keys when the file is read; by
    default they are stored, or left out if they came from a file that had left them out.
    """
    return write_model(path, model, problem, redraw=redraw).path


def write_model(
    path: str | Path, model: eqx.Module, problem: Problem | FactualRecall | None = None, *,
    points: Mapping[str, OnGrid] | None = None, redraw: bool | None = None,
) -> Written:  # fmt: skip
    """`save_model`, with weights packed where it is said on which ``points`` of a grid they are; what was written."""
    contents, arrays, embeddings = model_as_bytes(model, problem, points=points, redraw=redraw)
    # safetensors' own writer would close the file to all but its owner
    with writing(path, model_of(type(model).__name__)) as stream:
        stream.write(contents)
    return Written(Path(path), len(contents), _weight_bytes(arrays), _size(arrays, EMBEDDINGS), embeddings)


def model_as_bytes(
    model: eqx.Module, problem: Problem | FactualRecall | None = None, *,
    points: Mapping[str, OnGrid] | None = None, redraw: bool | None = None,
) -> tuple[bytes, dict[str, np.ndarray], str]:  # fmt: skip
    """The contents of the file that `write_model` writes, its arrays, and what is in it of the embeddings."""
    if type(model).__name__ not in MODELS:
        raise ValueError(f"model is {with_article(type(model).__name__)}; only these can be saved: {', '.join(MODELS)}")
    settings = {n: v for n, v in _leaves(model).items() if not (v is None or isinstance(v, ARRAY))}
    about: dict[str, Any] = {"model": type(model).__name__}
    about["settings"] = {n: v.name if isinstance(v, Activation) else v for n, v in settings.items()}
    solved: dict[str, np.ndarray] = {}
    embeddings = "none"
    if isinstance(problem, FactualRecall):
        about["problem"], solved, embeddings = _facts(problem, redraw)
    elif problem is not None:
        solved, embeddings = to_numpy(problem), FIXED
    arrays = {f"model.{n}": a for n, a in to_numpy(model).items()}
    if points:
        packed, about["packed"] = pack(points)
        for name, on in points.items():
            if not np.array_equal(on.weights, arrays.pop(f"model.{name}")):
                raise ValueError(f"points={name}: these are not the weights of the model")
        arrays |= packed
    arrays |= {f"problem.{n}": a for n, a in solved.items()}
    return tensors_as_bytes(arrays, about), arrays, embeddings


@checked
def load_model(path: str | Path) -> tuple[Any, Problem | FactualRecall | None]:
    """A saved model and its problem, or None where none was saved: ``memory, problem = fh.load_model(path)``."""
    check_model_file(path)
    check_memory(f"reading {path}", COPIES * Path(path).stat().st_size, "open it where there is more")
    arrays, about = read_tensors(path)
    if about.get("model") == IN_CONTEXT:
        asked = command("induction", model=path)
        raise FactholdError(f"{path} is a model of a text and knows no facts; ask it with: {asked}")
    if about.get("model") not in list(MODELS):
        raise FactholdError(f"{path} is not a facthold model: it holds something else; build or save it again")
    try:
        of_model, of_problem, settings = _below("model", arrays), _below("problem", arrays), about["settings"]
        of_model |= {name: on.weights for name, on in unpack(arrays, about.get("packed", {}))}
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


def read_points(path: str | Path) -> tuple[dict[str, OnGrid], int]:
    """The weights of a saved model that are packed in its file, which `load_model` reads, on their grids; and the bytes
    that all of its weights take there."""
    arrays, about = read_tensors(path)
    return dict(unpack(arrays, about.get("packed", {}))), _weight_bytes(arrays)


def _weight_bytes(arrays: Mapping[str, np.ndarray]) -> int:
    return _size(arrays, [name for name in arrays if not name.startswith("problem.")])


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


def _size(arrays: Mapping[str, np.ndarray], names: Iterable[str]) -> int:
    return sum(arrays[name].nbytes for name in names if name in arrays)


def _facts(problem: FactualRecall, redraw: bool | None) -> tuple[dict[str, Any], dict[str, np.ndarray], str]:
    """What is said of a problem in the metadata, its arrays, and whether its embeddings are among them."""
    table, labels = problem.table, problem.table.labels
    about = {"S": table.S, "R": table.R, "A": table.A, "labels": None if labels is None else dataclasses.asdict(labels)}
    drawing, embeddings, kept = _embeddings(problem, redraw)
    arrays = {name: getattr(table, name) for name in FACTS} | embeddings
    for name, rows in (("also", table.also), ("forgotten", problem.forgotten)):
        if len(rows):  # a file without it is what it was before there was such a field
            arrays[name] = rows
    if problem.p is not None:
        arrays["p"] = problem.p
    return about | {"T": problem.T, "outputs": problem.outputs, "drawing": drawing}, arrays, kept


def _embeddings(
    problem: FactualRecall, redraw: bool | None
) -> tuple[dict[str, Any] | None, dict[str, np.ndarray], str]:
    """How the embeddings were drawn, and those of them that a file has to hold: all, or the rows that differ from what
    is drawn again here and now."""
    phi, drawing = np.ascontiguousarray(problem.phi), problem.drawing
    if drawing is None or phi.dtype != np.float32:
        return None, {"phi": phi}, FIXED
    about: dict[str, Any] = {"kind": drawing.kind, "keys": drawing.keys}
    if not (redraw or (redraw is None and not drawing.stored)):
        return about, {"phi": phi}, STORED
    changed = np.flatnonzero((drawing.phi(problem.sizes, problem.d).view(np.int32) != phi.view(np.int32)).any(axis=1))
    if 2 * len(changed) > len(phi):
        return None, {"phi": phi}, FIXED
    about |= {"n_noise": problem.n_noise, "d": problem.d, "numpy": np.__version__, "checksum": checksum(phi)}
    return about, {"changed": changed.astype(np.int32), "changed_phi": phi[changed]} if len(changed) else {}, REDRAWN


def _redraw(arrays: Mapping[str, np.ndarray], drawing: Drawing, about: Mapping[str, Any], SRA: tuple) -> np.ndarray:
    """Embeddings that a file has left out, if they are those that it was written with."""
    (S, R, A), n_noise, d = SRA, about["n_noise"], about["d"]
    _check_integers(n_noise=n_noise, d=d)
    try:
        check_memory(f"n_noise={n_noise} with d={d}", 12.0 * (S + R + n_noise + 1 + A) * d)
    except FactholdError as error:  # of the file: it is said with its name
        raise ValueError(str(error)) from error
    phi = drawing.phi((S, R, n_noise, 1, A), d)
    if "changed" in arrays:
        phi[arrays["changed"]] = arrays["changed_phi"]
    if checksum(phi) != about["checksum"]:
        raise ValueError(
            f"its embeddings were left out, and NumPy {np.__version__} draws others here than NumPy {about['numpy']} "
            f"did; open it where it was written, with numpy=={about['numpy']}, and save it with redraw=False"
        )
    return phi


def _check_integers(**values: Any) -> None:
    for name, value in values.items():
        if not isinstance(value, int) or isinstance(value, bool):
            raise ValueError(f"{name} is {value!r:.60}, which is no integer")


def _restore_facts(
    arrays: dict[str, np.ndarray], *, S: Any, R: Any, A: Any, labels: Any, T: Any, outputs: Any, drawing: Any = None
) -> FactualRecall:
    _check_integers(S=S, R=R, A=A, T=T)
    if T > LONGEST:
        raise ValueError(f"T={T} is more than {LONGEST}, the longest prompt")
    for kind in FACTS if labels is not None else ():
        if not (isinstance(labels[kind], list) and all(isinstance(name, str) for name in labels[kind])):
            raise ValueError(f"the labels of the {kind} are not all text")
    drawn = None
    if drawing is not None:
        drawn = Drawing(drawing["kind"], tuple((one, two) for one, two in drawing["keys"]), "phi" in arrays)
        if not drawn.stored:
            arrays["phi"] = _redraw(arrays, drawn, drawing, (S, R, A))
    _check_array("phi", arrays["phi"], 2)
    names = None if labels is None else Labels(*(tuple(labels[kind]) for kind in FACTS))
    columns = {kind: arrays[kind] for kind in FACTS}
    table = FactTable(S, R, A, **columns, labels=names, also=arrays.get("also", NO_MORE))
    forgotten = arrays.get("forgotten", NOTHING_FORGOTTEN)
    return FactualRecall(table, arrays["phi"], T, arrays.get("p"), outputs, drawn, forgotten)
