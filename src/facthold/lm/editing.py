"""A fact of a language model changed in closed form, in W_down of one layer, at the subject's last token:

    W + (v - W k) (C^-1 k)^T / (k^T C^-1 k)

k is what the MLP's hidden neurons say there (the mean over some beginnings), v what the MLP is to write instead, and C
the second moments of keys that are to be left alone. Of all changes with W k = v it moves W x least over those keys x.
Keys of a layer do not depend on its W_down, so that many edits in one layer can be computed from the model as it was.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from facthold._util.errors import FactholdError
from facthold.lm import hooks
from facthold.lm.choices import GRADIENT, IDENTITY, NEIGHBOURS, TEXT
from facthold.lm.model import Batch, LanguageModel, batches
from facthold.lm.questions import subject_place
from facthold.lm.text import ANOTHER
from facthold.lm.tokeniser import Words

PREFIXES = ("", "It is well known. ", "Yesterday we talked about it. ")  # texts before a prompt, for k and for v
RIDGE = 0.03  # of C's diagonal, as a share of its mean: a text has fewer tokens than an MLP has neurons
STEPS, STEP, LONGEST = 12, 0.15, 1.5  # of v: steps, their length and the longest way, as shares of the stream's length
TOGETHER = 10  # edits whose gradients are taken at once: what all layers computed for each of them is kept
SURE = 0.9  # probability of the new answer at which no further step is made
REACHES = (0.5, 1.0, 2.0, 4.0, 8.0)  # lengths of v without a gradient: the first that is enough


@dataclass(frozen=True)
class Edit:
    """What a prompt, with its subject, is to go on with."""

    prompt: str
    subject: str
    answer: str


def places_of(model: LanguageModel, edits: Sequence[Edit]) -> tuple[Batch, np.ndarray]:
    """All edits with all beginnings as one batch, edit by edit, and where the subjects end."""
    texts = [(f"{prefix}{edit.prompt}", edit.subject) for edit in edits for prefix in PREFIXES]
    batch = model.batch([text for text, _ in texts])
    return batch, np.array([subject_place(model, text, subject) for text, subject in texts])


def subject_keys(model: LanguageModel, layer: int, edits: Sequence[Edit]) -> Float[np.ndarray, "n m"]:
    """k of each edit."""
    batch, at = places_of(model, edits)
    kept = model.run(batch, keep=[("keys", layer)], at=at, logits=False)["keys", layer]
    return np.asarray(kept[:, 0], np.float64).reshape(len(edits), len(PREFIXES), -1).mean(1)


def plain_keys(model: LanguageModel, layer: int, prompts: Sequence[tuple[str, str]]) -> Float[np.ndarray, "n m"]:
    """Keys at the last token of each (prompt, subject), without other beginnings: of neighbours."""
    tokens = [model.encode(prompt) for prompt, _ in prompts]
    at = np.array([subject_place(model, prompt, subject) for prompt, subject in prompts])
    found = np.empty((len(prompts), model.config.m))
    for places, batch in batches(tokens):
        run = model.run(batch, keep=[("keys", layer)], at=at[places], logits=False)
        found[places] = np.asarray(run["keys", layer])[:, 0]
    return found


def text_keys(model: LanguageModel, layer: int) -> Float[np.ndarray, "n m"]:
    """Keys at every token of a text but the first, which is a sink."""
    batch = Batch.of([model.tokeniser.encode(ANOTHER)[: model.config.context]])
    run = model.run(batch, keep=[("keys", layer)], logits=False)
    return np.asarray(run["keys", layer], np.float64)[0, 1 : int(batch.lengths[0])]


class Covariance:
    """C = ridge I + the sum over groups of keys of their mean x x^T; without keys the identity."""

    def __init__(self, *groups: Float[np.ndarray, "n m"]) -> None:
        rows = [np.asarray(keys, np.float64) / np.sqrt(len(keys)) for keys in groups if len(keys)]
        self.rows = np.concatenate(rows) if rows else None
        self.ridge = 1.0 if self.rows is None else RIDGE * float((self.rows**2).sum()) / self.rows.shape[1]

    def solve(self, k: Float[np.ndarray, "m"]) -> Float[np.ndarray, "m"]:
        """C^-1 k, by a system as large as there are keys (Woodbury)."""
        if self.rows is None:
            return k
        X = self.rows
        inner = np.linalg.solve(self.ridge * np.eye(len(X)) + X @ X.T, X @ k)
        return (k - X.T @ inner) / self.ridge


def covariances(text: np.ndarray, neighbours: np.ndarray) -> dict[str, Covariance]:
    """C of each kind."""
    return {IDENTITY: Covariance(), TEXT: Covariance(text), NEIGHBOURS: Covariance(text, neighbours)}


def closed_form(
    W: Float[np.ndarray, "d m"], k: Float[np.ndarray, "m"], v: Float[np.ndarray, "d"], C: Covariance
) -> Float[np.ndarray, "d m"]:
    """W with W k = v, in float64."""
    W, towards = np.asarray(W, np.float64), C.solve(np.asarray(k, np.float64))
    return W + np.outer(v - W @ k, towards) / (k @ towards)


def answer_token(model: Words, answer: str, others: Sequence[str] = ()) -> int:
    """The first token of an answer; refused where another answer begins with it too, or it has no whole letter."""
    if not (answer := answer.strip()):
        raise ValueError(f"answer={answer!r} is empty; give one")
    if reason := _ambiguous(model, answer, others):
        name = answer.title()  # ' rome' may be a space and 'rome' where ' Rome' is one token
        way = "give another answer" if _ambiguous(model, name, others) else f"write {name!r}, or give another answer"
        raise FactholdError(f"answer={answer!r} begins with the token {reason}; {way}")
    return model.tokeniser.first(answer)


def _ambiguous(model: Words, answer: str, others: Sequence[str]) -> str:
    """The first token of an answer and what is wrong with it; nothing where it says which answer is meant."""
    token = model.tokeniser.first(answer)
    text = model.tokeniser.decode([token])
    if (alike := next((o for o in others if o != answer and model.tokeniser.first(o) == token), None)) is not None:
        return f"{text!r}, that of {alike} too"
    if not text.strip():
        return f"{text!r}, no letter of it"
    return f"number {token}, a part of a letter" if "\N{REPLACEMENT CHARACTER}" in text else ""


def gradient_values(
    model: LanguageModel, layer: int, edits: Sequence[Edit], steps: int = STEPS
) -> Float[np.ndarray, "n d"]:
    """What to add to the MLP's output at each subject's last token, for its prompt to go on with the answer: normalised
    gradient steps on -ln p, no longer than `LONGEST` times the stream there."""
    parts = [edits[i : i + TOGETHER] for i in range(0, len(edits), TOGETHER)]
    return np.concatenate([_gradient_values(model, layer, part, steps) for part in parts])


def _gradient_values(model: LanguageModel, layer: int, edits: Sequence[Edit], steps: int) -> Float[np.ndarray, "n d"]:
    batch, at = places_of(model, edits)
    n, P = len(edits), len(PREFIXES)
    targets = jnp.repeat(jnp.array([model.tokeniser.first(edit.answer) for edit in edits]), P)
    run = model.run(batch, keep=[("stream", layer)], logits=False)
    stream = run["stream", layer]
    size = jnp.linalg.norm(stream[jnp.arange(n * P), at], axis=-1).reshape(n, P).mean(1)[:, None]

    def loss(delta: Array) -> tuple[Array, Array]:
        added = hooks.add(jnp.repeat(delta, P, axis=0)[:, None], at=at)
        logits = model.run(batch, hooks={("mlp", layer): added}, start=(layer, stream)).logits
        p = jnp.take_along_axis(jax.nn.log_softmax(logits), targets[:, None], 1)[:, 0].reshape(n, P)
        return -p.mean(1).sum(), p

    gradient = jax.grad(loss, has_aux=True)
    delta = jnp.zeros((n, model.config.d))
    for _ in range(steps):
        towards, p = gradient(delta)
        go = (jnp.exp(p).min(1) < SURE)[:, None]
        if not bool(go.any()):
            break
        length = jnp.linalg.norm(towards, axis=1, keepdims=True)
        delta = delta - jnp.where(go, STEP * size * towards / jnp.maximum(length, 1e-12), 0)
        far = jnp.linalg.norm(delta, axis=1, keepdims=True)
        delta = delta * jnp.minimum(1, LONGEST * size / jnp.maximum(far, 1e-12))
    return np.asarray(delta, np.float64)


def closed_values(model: LanguageModel, layer: int, edits: Sequence[Edit]) -> Float[np.ndarray, "n d"]:
    """The same without a gradient: along the unembedding of the answer less that of what is said now, with the last
    norm's gain, as far as the first of `REACHES` that is enough."""
    batch = model.batch([edit.prompt for edit in edits])
    at = np.array([subject_place(model, edit.prompt, edit.subject) for edit in edits])
    run = model.run(batch, keep=[("stream", layer)])
    stream, rows = run["stream", layer], np.arange(len(edits))
    targets = np.array([model.tokeniser.first(edit.answer) for edit in edits])
    along = (model.U[targets] - model.U[np.asarray(run.logits).argmax(1)]) * model.g
    along = along / jnp.maximum(jnp.linalg.norm(along, axis=1, keepdims=True), 1e-12)
    along = along * jnp.linalg.norm(stream[rows, at], axis=1, keepdims=True)
    found = np.asarray(along, np.float64) * REACHES[-1]
    done = np.zeros(len(edits), bool)
    for reach in REACHES:
        added = hooks.add((reach * along)[:, None], at=at)
        said = np.asarray(model.run(batch, hooks={("mlp", layer): added}, start=(layer, stream)).logits).argmax(1)
        new = (said == targets) & ~done
        found[new] = reach * np.asarray(along, np.float64)[new]
        done |= new
    return found


def values(model: LanguageModel, layer: int, edits: Sequence[Edit], how: str = GRADIENT) -> Float[np.ndarray, "n d"]:
    """What each edit adds to the MLP's output, by a gradient or without."""
    return gradient_values(model, layer, edits) if how == GRADIENT else closed_values(model, layer, edits)


def edited(model: LanguageModel, layer: int, keys: np.ndarray, added: np.ndarray, C: Covariance) -> LanguageModel:
    """The model after these edits, one after another; what each adds is to the output of the model as it is given."""
    start = W = np.asarray(model.layers[layer]["W_down"], np.float64)
    for k, more in zip(keys, added, strict=True):
        W = closed_form(W, k, start @ k + more, C)
    return model.replaced({(layer, "W_down"): jnp.asarray(W, jnp.float32)})


Changed = Mapping[tuple[int, str], Array]  # matrices by layer and name


def changes(before: LanguageModel, after: LanguageModel) -> dict[tuple[int, str], Array]:
    """The matrices that are no longer the same arrays."""
    return {
        (i, name): new for i, (old_layer, new_layer) in enumerate(zip(before.layers, after.layers, strict=True))
        for name, new in new_layer.items() if new is not old_layer[name]
    }  # fmt: skip
