"""What a long build has found so far, in a file beside its output: killed, it goes on from there."""

import hashlib
import json
import threading
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

import facthold
from facthold._util.errors import FactholdError
from facthold._util.files import MODEL, kind_of, writing
from facthold._util.tensors import read_tensors, tensors_as_bytes
from facthold.facts.table import FactTable
from facthold.models.memory import MLPMemory

Try = tuple[MLPMemory, float]  # neurons that were tried, and the share of their facts that they recall


def fingerprint(table: FactTable, **settings: Any) -> str:
    """A hash of the facts and of all that a build depends on: what was kept for another one is not used."""
    about = [facthold.__version__, table.S, table.R, table.A, settings]
    digest = hashlib.sha256(json.dumps(about, sort_keys=True).encode())
    for column in (table.subjects, table.relations, table.answers, table.also):
        digest.update(np.ascontiguousarray(column).tobytes())
    return digest.hexdigest()


class Kept:
    """Tries by name (the first mark of a group, and a width), in a hidden file beside the model that is to be; without
    one, in memory alone. Several threads may keep at once."""

    def __init__(self, beside: Path | None = None, mark: str = "") -> None:
        self.path, self.mark = beside and beside.with_name(f".{beside.name}.kept"), mark
        self.tries: dict[str, Try] = {} if self.path is None else _read(self.path, mark)
        self._writing = threading.Lock()

    def keep(self, name: str, found: Try) -> None:
        with self._writing:
            self.tries[name] = found
            if self.path is None:
                return
            arrays: dict[str, np.ndarray] = {}
            for i, (memory, _) in enumerate(self.tries.values()):
                arrays |= {f"{i}.W": np.asarray(memory.W), f"{i}.V": np.asarray(memory.V)}
            about = {"mark": self.mark, "tries": {n: share for n, (_, share) in self.tries.items()}}
            with writing(self.path, MODEL) as stream:
                stream.write(tensors_as_bytes(arrays, about))

    def done(self) -> None:
        """The build is finished, and its model is written."""
        if self.path is not None and self.path.is_file() and kind_of(self.path) == MODEL:
            self.path.unlink()


def _read(path: Path, mark: str) -> dict[str, Try]:
    """What the file keeps for this mark; nothing where there is none, or where it is of another build."""
    try:
        arrays, about = read_tensors(path)
        if about["mark"] != mark:
            return {}
        tries = {}
        for i, (name, share) in enumerate(about["tries"].items()):
            W, V = (jnp.asarray(arrays[f"{i}.{part}"]) for part in "WV")
            tries[name] = MLPMemory(W, V), float(share)
        return tries
    except FactholdError as error:
        if isinstance(error.__cause__, PermissionError):
            raise FactholdError(f"{error}; remove it, or write the model elsewhere") from error
        return {}  # no file, half a file or a damaged one: begin anew
    except (KeyError, ValueError, TypeError, AttributeError):  # none of ours
        return {}
