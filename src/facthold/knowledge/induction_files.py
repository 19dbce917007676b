"""Saved induction heads: a safetensors file with checksums, as of all models, with the counts of the text."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np

from facthold._util.errors import FactholdError
from facthold._util.files import model_of, writing
from facthold._util.tensors import check_model_file, read_tensors, tensors_as_bytes
from facthold.context.baselines import NAMES
from facthold.context.bigrams import Bigrams
from facthold.knowledge.settings import PROBES, Settings
from facthold.models.causal import CausalTransformer, Layer
from facthold.models.saving import IN_CONTEXT, check_finite

if TYPE_CHECKING:
    from facthold.knowledge.induction import Induction

EMBEDDINGS, LAYER = ("E", "P", "U"), ("W_KQ", "W_OV")
FOUND = ("accuracy", "error", "judged", "baselines", "probes")


def save(path: str | Path, made: "Induction") -> Path:
    """Write a model: E, P and U, W_KQ and W_OV of both layers (`model.W_KQ^1`), and the counts of its text."""
    model, bigrams = made.model, made.bigrams
    arrays = {f"model.{name}": np.asarray(getattr(model, name)) for name in EMBEDDINGS}
    for i, layer in enumerate(model.layers, 1):
        arrays |= {f"model.{name}^{i}": np.asarray(getattr(layer, name)) for name in LAYER}
    first, second = np.nonzero(bigrams.counts)
    arrays["text.unigrams"] = bigrams.unigrams.astype(np.int64)
    arrays["text.pairs"] = np.stack([first, second, bigrams.counts[first, second]], axis=1).astype(np.int64)
    about: dict[str, Any] = {
        "model": IN_CONTEXT, "settings": asdict(made.settings), "silent_first": model.layers[0].silent_first,
        "characters": "".join(bigrams.characters), "found": {name: getattr(made, name) for name in FOUND},
    }  # fmt: skip
    contents = tensors_as_bytes(arrays, about)
    with writing(path, model_of(IN_CONTEXT)) as stream:
        stream.write(contents)
    return Path(path)


def load(path: str | Path) -> "Induction":
    """A model that `save` has written, to the last bit."""
    from facthold.knowledge.induction import Induction, task_of

    path = Path(path)
    check_model_file(path)
    arrays, about = read_tensors(path)
    if about.get("model") != IN_CONTEXT:
        raise FactholdError(f"{path} is a facthold model, but of no text; facthold induction -o writes one that is")
    try:
        bigrams = _bigrams(about["characters"], arrays["text.unigrams"], arrays["text.pairs"])
        settings = Settings(**about["settings"])
        model = _model(arrays, settings, bigrams.N, bool(about["silent_first"]))
        found = _found(**{name: about["found"][name] for name in FOUND})
        task_of(bigrams, settings)  # they must fit
        return Induction(model, bigrams, settings, **found)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError, FactholdError) as error:
        reason = f"no {error}" if isinstance(error, KeyError) else str(error).strip().split("\n")[0]
        raise FactholdError(f"{path} is a facthold model with parts missing or wrong: {reason}") from error


def _found(accuracy: Any, error: Any, judged: Any, baselines: Any, probes: Any) -> dict[str, Any]:
    """What was measured of a model, as numbers whatever the file has."""
    shares = {"baselines": {name: float(baselines[name]) for name in NAMES}}
    shares["probes"] = {name: float(probes[name]) for name in PROBES}
    return {"accuracy": float(accuracy), "error": float(error), "judged": int(judged), **shares}


def _bigrams(characters: str, unigrams: np.ndarray, pairs: np.ndarray) -> Bigrams:
    N = len(characters)
    if len(set(characters)) < N or N < 2 or unigrams.shape != (N,) or pairs.ndim != 2 or pairs.shape[1] != 3:
        raise ValueError("the counts of its text do not fit its characters")
    first, second, times = pairs.T
    if min(pairs.min(initial=0), unigrams.min()) < 0 or pairs[:, :2].max(initial=0) >= N or not unigrams.sum():
        raise ValueError("the counts of its text cannot be")
    counts = np.zeros((N, N), np.int64)
    counts[first, second] = times
    return Bigrams(tuple(characters), unigrams, counts)


def _model(arrays: dict[str, np.ndarray], settings: Settings, N: int, silent_first: bool) -> CausalTransformer:
    T, d = settings.T, settings.dimension
    wanted = dict(zip(EMBEDDINGS, ((N, d), (T, d), (N, d)), strict=True))
    wanted |= {f"{name}^{i}": (d, d) for i in (1, 2) for name in LAYER}
    found = {name: arrays[f"model.{name}"] for name in wanted}
    for name, shape in wanted.items():
        if found[name].shape != shape or found[name].dtype != np.float32:
            raise ValueError(f"{name} is {found[name].dtype} of the shape {found[name].shape}, and should be {shape}")
    check_finite(found)
    parts = {name: jnp.asarray(array) for name, array in found.items()}
    first = Layer(parts["W_KQ^1"], parts["W_OV^1"], silent_first=silent_first)
    return CausalTransformer(parts["E"], parts["P"], parts["U"], (first, Layer(parts["W_KQ^2"], parts["W_OV^2"])))
