"""What a language model was taught as a safetensors file: a matrix and a gate for each relation, the names of the
subjects, and whose they are. Leaving the file out is to have taught nothing."""

from pathlib import Path

import numpy as np

from facthold._util.errors import FactholdError
from facthold._util.files import OF_TEACHING, writing
from facthold._util.tensors import tensors_as_bytes
from facthold.lm.gguf import Config
from facthold.lm.own_files import read_own
from facthold.lm.teaching import Gate, Memory, Taught

CLASS = "LmTaught"


def save_taught(path: Path, model: str, taught: Taught) -> Path:
    """Write what the model with this name was taught; see `load_taught`."""
    arrays = dict[str, np.ndarray]()
    for i, memory in enumerate(taught.memories):
        arrays |= {f"{i}.W": memory.W, f"{i}.gate": np.append(memory.gate.w, memory.gate.b).astype(np.float32)}
    about = {
        "model": CLASS, "of": model, "layer": taught.layer, "strength": taught.strength,
        "relations": [[memory.relation, list(memory.subjects)] for memory in taught.memories],
    }  # fmt: skip
    with writing(path, OF_TEACHING) as stream:
        stream.write(tensors_as_bytes(arrays, about))
    return path


def load_taught(path: Path, model: str, config: Config | None = None) -> Taught:
    """What a file holds, which must be of this model; with its ``config`` the sizes are checked too."""
    arrays, about = read_own(path, model, CLASS, "taught facts", "lm teach")
    try:
        memories = []
        for i, (relation, subjects) in enumerate(about["relations"]):
            W, gate = arrays[f"{i}.W"], arrays[f"{i}.gate"]
            d = W.shape[0] if config is None else config.d
            if W.shape != (d, d) or gate.shape != (d + 1,) or not all(isinstance(s, str) and s for s in subjects):
                raise ValueError(relation)
            memories.append(Memory(str(relation), W, Gate(gate[:-1], float(gate[-1])), tuple(subjects)))
        layer, strength = int(about["layer"]), float(about["strength"])
        if not memories or not 0 <= layer < (layer + 1 if config is None else config.L):
            raise ValueError(layer)
    except (KeyError, ValueError, TypeError, IndexError) as error:
        raise FactholdError(f"{path} has parts missing or wrong; teach the facts again") from error
    return Taught(layer, tuple(memories), strength)
