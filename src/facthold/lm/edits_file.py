"""Edits of a language model as a safetensors file: the matrices that changed, and whose they are. Undoing them is to
leave the file out."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from facthold._util.errors import FactholdError
from facthold._util.files import OF_EDITS, writing
from facthold._util.tensors import tensors_as_bytes
from facthold.lm.editing import Changed, Edit
from facthold.lm.model import LanguageModel
from facthold.lm.own_files import read_own

CLASS = "LmEdits"
NAME = re.compile(r"layers\.(\d{1,6})\.(\w+)")


@dataclass(frozen=True)
class Edits:
    """What a file holds: the model that it is of, the edits in their order, and the matrices."""

    model: str  # 'tiny', or the SHA-256 of a GGUF file
    made: tuple[Mapping[str, Any], ...]
    weights: Changed


def save_edits(path: Path, model: str, made: Sequence[Mapping[str, Any] | Edit], weights: Changed) -> Path:
    """Write the matrices that changed; see `load_edits`."""
    arrays = {f"layers.{layer}.{name}": np.asarray(W) for (layer, name), W in weights.items()}
    about = {"model": CLASS, "of": model, "edits": [asdict(e) if isinstance(e, Edit) else dict(e) for e in made]}
    with writing(path, OF_EDITS) as stream:
        stream.write(tensors_as_bytes(arrays, about))
    return path


def load_edits(path: Path, model: str) -> Edits:
    """The edits in a file, which must be of this model."""
    arrays, about = read_own(path, model, CLASS, "edits", "lm edit")
    names = {name: NAME.fullmatch(name) for name in arrays}
    if not all(names.values()) or not isinstance(about.get("edits"), list):
        raise FactholdError(f"{path} has parts missing or wrong; make the edits again")
    weights = {(int(m[1]), m[2]): jnp.asarray(arrays[name]) for name, m in names.items() if m is not None}
    return Edits(model, tuple(about["edits"]), weights)


def with_edits(model: LanguageModel, edits: Edits) -> LanguageModel:
    """The edited model; the one that is given stays as it is."""
    return model.replaced(edits.weights)
