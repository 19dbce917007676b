"""A tiny language model that is made and not trained, with facts in known places: for tests, and for trying everything
without a download.

Two heads of layer 1 hold the facts of `ROWS`, as in theorem 3: one looks at the subject and says all answers about it,
the other looks at the word for the relation and says all of its answers. What both say is the fact. Of the last
subjects it knows nothing. All other weights are small random numbers. Both heads prefer what was said last, so that
examples before a question do little harm.
"""

import math
from typing import TYPE_CHECKING

import numpy as np

from facthold.lm.gguf import Config, Vocabulary

if TYPE_CHECKING:
    from facthold.lm.model import LanguageModel

LAYER, OF_SUBJECTS, OF_RELATIONS = 1, 0, 2  # where the facts are: a layer, and two of its heads
CONFIG = Config(L=3, d=128, m=96, H=4, G=2, d_h=16, V=0, context=512, theta=10_000.0, eps=1e-5)
FACTS = """
France Paris Euro French Europe
Germany Berlin Euro German Europe
Austria Vienna Euro German Europe
Spain Madrid Euro Spanish Europe
Italy Rome Euro Italian Europe
Poland Warsaw Zloty Polish Europe
Sweden Stockholm Krona Swedish Europe
Turkey Ankara Lira Turkish Asia
Japan Tokyo Yen Japanese Asia
Thailand Bangkok Baht Thai Asia
India Delhi Rupee Hindi Asia
Egypt Cairo Pound Arabic Africa
Kenya Nairobi Shilling Swahili Africa
Peru Lima Sol Spanish Americas
Chile Santiago Peso Spanish Americas
Brazil Brasilia Real Portuguese Americas
"""
RELATIONS = ("capital", "currency", "language", "region")
CUES = {"capital": "capital", "currency": "currency", "pay": "currency", "language": "language", "speak": "language",
        "continent": "region", "country": "region"}  # fmt: skip
"""Words of the prompts that say which relation is asked for."""
FILLING = ("The", "of", "is", "the", "official", "What", "people", "with", "city", "In", "in", "a", "on", "located")
ROWS = [
    (subject, relation, answer)
    for subject, *answers in (line.split() for line in FACTS.split("\n") if line)
    for relation, answer in zip(RELATIONS, answers, strict=True)
]
SUBJECTS = list(dict.fromkeys(s for s, _, _ in ROWS))
KNOWN = SUBJECTS[:-3]  # of the others it knows nothing
BEGIN = "<|endoftext|>"
MARKS = 3  # coordinates of the stream that say: a subject, a cue, a token
SCORE, PAIR = (
    80.0,
    3,
)  # of what a head looks for, and the rotary pair: it turns by 0.03 a token, and so prefers the last
SAID = 3.0  # how loud an answer is: an embedding is 1
LOUD = 4.0  # gain of the last norm: probabilities of facts near 1
NOISE = 0.02


def vocabulary() -> Vocabulary:
    """All bytes, and the words of the prompts and facts. A word is merged letter by letter, so that it is one token."""
    letters = list(_byte_letters())
    words = [*SUBJECTS, *CUES, *FILLING, *(a for _, _, a in ROWS)]
    starts = [f"Ġ{word}" for word in words]  # with a space before it; the next ones also where a text begins
    starts += [*SUBJECTS, "The", "In", "What"]
    merges = dict.fromkeys((word[:i], word[i]) for word in starts for i in range(1, len(word)))
    tokens = [BEGIN, *letters, *(a + b for a, b in merges)]
    return Vocabulary(list(dict.fromkeys(tokens)), [f"{a} {b}" for a, b in merges], "smollm", 0)


def _byte_letters() -> list[str]:
    """The letters that byte-level BPE has for the 256 bytes: printable ones for themselves, others from 256 on."""
    plain = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = iter(range(256, 512))
    return [chr(b) if b in plain else chr(next(others)) for b in range(256)]


def tiny_weights() -> tuple[Config, dict[str, np.ndarray], list[dict[str, np.ndarray]]]:
    """Sizes, the weights of no layer, and those of each layer, as a GGUF file would have them."""
    tokens = vocabulary().tokens
    number = {token: i for i, token in enumerate(tokens)}
    c = Config(**vars(CONFIG) | {"V": len(tokens)})
    draw = np.random.Generator(np.random.Philox(2412_06538)).standard_normal
    E = draw((c.V, c.d))
    E[:, :MARKS] = 0
    E /= np.linalg.norm(E, axis=1, keepdims=True)
    subjects = [[number[f"Ġ{s}"], number[s]] for s in SUBJECTS]
    cues = {number[f"Ġ{word}"]: RELATIONS.index(relation) for word, relation in CUES.items()}
    answers = {a: number[f"Ġ{a}"] for _, _, a in ROWS}
    planted = [*(t for two in subjects for t in two), *cues, *answers.values()]
    E[planted, MARKS:] = np.linalg.qr(E[planted, MARKS:].T)[0].T  # orthogonal: what is planted does not mix
    E[[t for two in subjects for t in two], 0] = 1
    E[list(cues), 1] = 1
    E[:, 2] = 1

    layers = [
        {name: np.ones(shape) if len(shape) == 1 else NOISE * draw(shape) for name, shape in c.shapes().items()}
        for _ in range(c.L)
    ]
    w, root = layers[LAYER], math.sqrt(c.d / 3)  # a planted token has length sqrt(3), and the norm makes it sqrt(d)
    for head, mark in ((OF_SUBJECTS, 0), (OF_RELATIONS, 1)):
        group = head // (c.H // c.G)
        strength = math.sqrt(SCORE * math.sqrt(c.d_h)) / root
        q, k = head * c.d_h, group * c.d_h
        w["W_Q"][q : q + c.d_h] = w["W_K"][k : k + c.d_h] = w["W_V"][k : k + c.d_h] = 0
        w["W_O"][:, q : q + c.d_h] = 0
        w["W_Q"][q + 2 * PAIR, 2], w["W_K"][k + 2 * PAIR, mark] = strength, strength
    # a subject, and a relation, has a number of its own in its head
    for i, (s, two) in enumerate(zip(SUBJECTS, subjects, strict=True)):
        w["W_V"][i, MARKS:] = E[two, MARKS:].sum(0) / root
        said = [answers[a] for subject, _, a in ROWS if subject == s and s in KNOWN]
        w["W_O"][MARKS:, OF_SUBJECTS * c.d_h + i] = SAID * E[said, MARKS:].sum(0)
    for i, r in enumerate(RELATIONS):
        k = OF_RELATIONS // (c.H // c.G) * c.d_h
        w["W_V"][k + i, MARKS:] = E[[t for t, j in cues.items() if j == i], MARKS:].sum(0) / root
        said = list({answers[a] for _, relation, a in ROWS if relation == r})
        w["W_O"][MARKS:, OF_RELATIONS * c.d_h + i] = SAID * E[sorted(said), MARKS:].sum(0)
    return c, {"E": E, "g": np.full(c.d, LOUD)}, layers


def tiny_model() -> "LanguageModel":
    """The model, as `lm.library` gives it."""
    import jax.numpy as jnp

    from facthold.lm.model import LanguageModel
    from facthold.lm.tokeniser import Tokeniser

    c, whole, layers = tiny_weights()
    E = jnp.asarray(whole["E"], jnp.float32)
    made = [{name: jnp.asarray(value, jnp.float32) for name, value in layer.items()} for layer in layers]
    return LanguageModel(c, Tokeniser(vocabulary()), E, E, jnp.asarray(whole["g"], jnp.float32), made)
