"""Which facts can tell how many bits a language model holds, and the scores that it gives to their answers."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import jax
import numpy as np
from jaxtyping import Bool, Float, Int

from facthold.facts.table import Row
from facthold.lm.code_length import Table, alike, fitted_bits, numbered, plain_bits, recall_bits
from facthold.lm.knowing import AMBIGUOUS, CONTAINED, reason_left_out
from facthold.lm.matrices import probed, scrambled
from facthold.lm.model import LanguageModel, batches
from facthold.lm.prompts import by_hash, draw_shots, prompt
from facthold.lm.questions import held

ALIKE = "alike"
SEED = 2412_06538  # of matrices with random directions


@dataclass(frozen=True)
class Answered:
    """A fact with its answer's first token."""

    fact: Row
    answer: int


@dataclass(frozen=True, eq=False)
class Telling:
    """The facts of one relation that can be judged, in an order by hashes. All others are counted as zero bits."""

    asked: tuple[Answered, ...]
    tokens: Int[np.ndarray, "K"]  # first tokens of the answers that compete
    f: Int[np.ndarray, "n"]
    half: Bool[np.ndarray, "n"]
    left_out: Counter[str]

    @property
    def subjects(self) -> list[str]:
        return [one.fact[0] for one in self.asked]

    def table(self, groups: Sequence[str] | None = None) -> Table:
        """Without groups nothing is known but the relation's answers; with them, such as regions, each group's."""
        numbers = np.zeros(len(self.f), int) if groups is None else numbered(groups)[0]
        return Table(self.f, numbers, len(self.tokens))


def telling(model: LanguageModel, rows: Sequence[Row]) -> Telling:
    """Of the facts of one relation. Answers that begin alike, or are in the subject's name, or begin as a word of it
    does, say nothing of what weights hold."""
    first = {answer: model.tokeniser.first(answer) for answer in {a for _, _, a in rows}}
    kept, left = list[Answered](), Counter({AMBIGUOUS: 0, CONTAINED: 0, ALIKE: 0})
    for subject, relation, answer in sorted(rows, key=lambda row: by_hash(row[0])):
        reason = reason_left_out((subject, relation, answer), rows, lambda name: _first(model, first, name))
        if reason := reason or (ALIKE if alike(subject, answer) else ""):
            left[reason] += 1
        else:
            kept.append(Answered((subject, relation, answer), first[answer]))
    tokens = np.array(sorted({one.answer for one in kept}), int)
    f = np.searchsorted(tokens, [one.answer for one in kept]).astype(int)
    return Telling(tuple(kept), tokens, f, np.array([held(one.fact[0]) for one in kept], bool), left)


def _first(model: LanguageModel, known: dict[str, int], name: str) -> int:
    return known[name] if name in known else known.setdefault(name, model.tokeniser.first(name))


def scores(
    model: LanguageModel, asked: Telling, rows: Sequence[Row], *, shots: int, templates: int, seed: int = 0
) -> Float[np.ndarray, "n K"]:
    """ln p of each answer's first token among those of the relation, a mean over the first so many wordings."""
    found = np.zeros((len(asked.f), len(asked.tokens)))
    for template in range(templates):
        texts = [
            prompt(r, s, template=template, shots=draw_shots(rows, (s, r, a), shots, seed))
            for s, r, a in (one.fact for one in asked.asked)
        ]
        for places, batch in batches([model.encode(text) for text in texts]):
            found[places] += np.asarray(jax.nn.log_softmax(model.run(batch).logits[:, asked.tokens]))
    return found / templates


def coded(table: Table, z: Float[np.ndarray, "n K"], half: Bool[np.ndarray, "n"]) -> dict[str, list[float] | float]:
    """Bits of each fact: without scores, with them as they are, with them fitted on the other half, and by the best
    answer alone, with what is right by it; and what the whole method says is saved of answers that were shuffled."""
    recall, other = recall_bits(table, z), table.shuffled()
    return {
        "base": table.assignment.tolist(), "plain": plain_bits(table, z).tolist(),
        "fitted": fitted_bits(table, z, half).tolist(), "recall": recall.shares.tolist(),
        "right": recall.right.astype(float).tolist(),
        "shuffled": float((other.assignment - fitted_bits(other, z, half)).sum()),
    }  # fmt: skip


def by_layer(model: LanguageModel, asked: Telling, table: Table) -> dict[str, list[list[float]]]:
    """Bits of each fact that the W_OV of each layer saves as an associative memory (`lm.matrices`): by a fit on the
    other half, and by one on the same half, to choose a layer by; the same of random directions, as a control."""
    problem = probed(model, asked.asked, asked.tokens)
    base, found = table.assignment, {"judging": list[list[float]](), "choosing": [], "random": []}
    for layer in range(model.config.L):
        W = model.ov(layer)
        random = scrambled(jax.numpy.linalg.svd(W, compute_uv=False), key=jax.random.key(SEED + layer))
        z, control = (np.asarray(problem.keys @ M.T @ problem.outputs.T, np.float64) for M in (W, random))
        found["judging"].append((base - fitted_bits(table, z, asked.half)).tolist())
        found["choosing"].append((base - fitted_bits(table, z, asked.half, own=True)).tolist())
        found["random"].append((base - fitted_bits(table, control, asked.half)).tolist())
    return found
