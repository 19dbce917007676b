"""Files that belong to one language model: they name it by the SHA-256 of its own file."""

from pathlib import Path
from typing import Any

import numpy as np

from facthold._util.errors import FactholdError, shorten
from facthold._util.tensors import read_tensors
from facthold.lm.fetch import SMOLLM2, TINY


def read_own(path: Path, model: str, kind: str, what: str, by: str) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The arrays of a file, and what it says of them; refused are files of another kind (``what`` it should hold,
    ``by`` which command) and of another model."""
    if not path.is_file():
        raise FactholdError(f"no such file of {what}: {path}")
    arrays, about = read_tensors(path)
    if about.get("model") != kind:
        raise FactholdError(f"{path} holds no {what} of a language model; give a file that facthold {by} has written")
    if about.get("of") != model:
        of = str(about.get("of"))
        way = {TINY: f"give --model {TINY}", SMOLLM2.sha256: "leave --model out"}.get(of, "give --model FILE")
        raise FactholdError(
            f"{path} is of another model: of {shorten(of, 16)}, and this one is {shorten(model, 16)}; {way}"
        )
    return arrays, about
