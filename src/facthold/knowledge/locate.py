"""Where a model holds a fact: its margin as an exact sum over heads and the MLP, and what is left without each.

The margin (u_a - u_b) . F, with b the best rival, is linear in F, and F is what the heads write plus what the MLP makes
of it. A ReLU is linear once it is settled which neurons are on: with these gates as they are, the MLP's part is a sum
over the heads too, and one term for its bias. So each head has a *direct* part and a part *through the MLP*.

A sum does not say what would happen without a part, as gates and the best rival change with it. Ablation does: each
component is set to zero in turn, and the model is asked again.
"""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from facthold._util.commands import count
from facthold._util.errors import FactholdError
from facthold._util.memory import bytes_of, check_memory
from facthold.knowledge.model import Model, Name
from facthold.memory.activations import ReLU
from facthold.models.forward import Forward, States, Vectors, table_prompts
from facthold.models.judge import NONE, Verdicts, joined, judge_outputs

DIRECT, MLP = "direct path", "MLP"
TIE = "nothing: outputs are equal"
NEURONS = 5  # neurons that are named
NAMED = 3  # heads that a sentence names

PerHead = Float[np.ndarray, "n H"]
PerComponent = Float[np.ndarray, "n C"]


@dataclass(frozen=True, eq=False)
class Located:
    """n facts, taken apart: margin = direct.sum + mlp, and for a ReLU mlp = through.sum + bias."""

    components: tuple[str, ...]  # 'head 0', ..., and where there is an MLP, all that heads add directly and the MLP
    right: Int[np.ndarray, " n"]
    rival: Int[np.ndarray, " n"]
    margin: Float[np.ndarray, " n"]
    direct: PerHead
    through: PerHead  # by frozen gates; zero without an MLP, and where its activation is no ReLU
    bias: Float[np.ndarray, " n"]  # what the MLP's bias adds, through the gates
    mlp: Float[np.ndarray, " n"]  # the MLP's part of the margin
    contributions: PerComponent  # of each component to the margin: for a head both of its parts
    ablated: PerComponent  # the margin without it, over the best rival that there is then
    changed: Bool[np.ndarray, "n C"]  # whether the model says something else without it

    @cached_property
    def order(self) -> Int[np.ndarray, "n C"]:
        """The components of each fact: first those without which its margin falls most.

        Not by what they add: through the MLP one head may add more than the whole margin, which others take back, and
        one that adds nothing may still hold the gates that the rest goes through.
        """
        return np.lexsort((-np.abs(self.contributions), self.ablated), axis=1)

    def changed_by_rank(self) -> Float[np.ndarray, " C"]:
        """How often the answer changes without the component that is named first, second, ..."""
        return np.take_along_axis(self.changed, self.order, axis=1).mean(axis=0)

    def as_json(self) -> dict[str, Any]:
        """All facts together."""
        first = np.bincount(self.order[:, 0], minlength=len(self.components))
        by_rank = self.changed_by_rank()
        return {
            "facts": len(self.margin), "median_margin": float(np.median(self.margin)),
            "share_of_the_MLP": float(np.median(self.mlp / self.margin)) if len(self.margin) else None,
            "changed_without_the_first": float(by_rank[0]), "changed_by_rank": by_rank.tolist(),
            "components": [
                {
                    "component": name, "mean_contribution": float(self.contributions[:, c].mean()),
                    "named_first": float(first[c] / len(self.margin)), "changed": float(self.changed[:, c].mean()),
                    "median_margin_without": float(np.median(self.ablated[:, c])),
                }
                for c, name in enumerate(self.components)
            ],
        }  # fmt: skip


@dataclass(frozen=True)
class Part:
    """A component of one fact, in words and numbers."""

    name: str
    contribution: float
    direct: float | None
    through: float | None  # only heads have these two
    attends: str  # what a head looks at most, and how much
    ablated: float
    says: str  # what the model says without it
    changed: bool


@dataclass(frozen=True)
class Location:
    """One fact, taken apart: its components in the order of how far the margin falls without them."""

    subject: str
    relation: str
    answer: str
    rival: str
    margin: float
    direct: float  # all that heads add directly
    mlp: float  # the MLP's part; with ``direct`` it is the margin
    bias: float  # what the MLP's bias adds to its part
    parts: tuple[Part, ...]
    neurons: tuple[tuple[int, float], ...]  # the neurons with the largest parts of the margin

    @property
    def heads(self) -> tuple[Part, ...]:
        """The parts whose contributions, with the bias, add up to the margin."""
        return tuple(part for part in self.parts if part.direct is not None)

    @property
    def unsplit(self) -> tuple[str, float]:
        """What is in no head's part, with its name: the MLP's bias; all of an MLP whose activation is no ReLU."""
        if self.mlp and not self.bias and not any(part.through for part in self.heads):
            return "MLP, all heads together", self.mlp
        return "bias of the MLP", self.bias

    @property
    def sentence(self) -> str:
        """Where the fact is held, in words."""
        needed = [part.name for part in self.heads if part.changed]
        more = f" and {len(needed) - NAMED} more" if len(needed) > NAMED else ""
        named = ("any one of " if len(needed) > 1 else "") + ", ".join(needed[:NAMED]) + more
        without = f"without {named} the answer is another" if needed else "no head alone is needed for the answer"
        if self.margin <= 0:
            return f"It is not held: {self.rival} is ahead of the answer; {without}."
        if len(self.heads) == len(self.parts):
            return f"The heads hold it, as there is no MLP; {without}."
        first, other = ("MLP holds", "heads directly") if self.mlp >= self.direct else ("heads directly hold", "MLP")
        most, least = max(self.mlp, self.direct), min(self.mlp, self.direct)
        against = f"against {-least:.4g} by the {other}" if least < 0 else f"the {other} {least / self.margin:.0%}"
        share = f"{most:.4g}" if least < 0 else f"{most / self.margin:.0%} of the margin"
        return f"The {first} {share}, {against}; {without}."

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"sentence": self.sentence}


def locate_all(known: Model, *, seed: int = 0, say: Callable[[str], None] = lambda news: None) -> Located:
    """Every fact of the table, each in one prompt. ``say`` hears how far it is."""
    n, parts = len(known.table), []
    heads = bytes_of(scores=float(n) * (known.model.H + known.model.m))
    check_memory(f"what each head and neuron adds to {count(n, 'fact')}", heads, "ask for single facts")
    for at, states in known.forward.blocks(table_prompts(known.problem, seed=seed)[0]):
        parts.append(_locate(known.forward, states, np.arange(n)[at])[0])
        say(f"{at.stop} of {count(n, 'fact')}")
    return joined(parts)


def locate(known: Model, subject: Name, relation: Name, *, seed: int = 0) -> Location:
    """One fact of the table, in words."""
    subjects, relations, answers = known.names
    rows = np.array([known.find_row(subject, relation, ", so no weights hold it; add it first")])
    s, r = known.table.subjects[rows], known.table.relations[rows]
    tokens = table_prompts(known.problem, rows, seed=seed)[0]
    states = known.forward.states(tokens)
    found, whole, without = _locate(known.forward, states, rows)
    g = known.forward.U[found.right[0]].astype(np.float64) - known.forward.U[found.rival[0]]
    by_neuron = states.hidden[0] * (known.forward.V @ g)
    top = np.argsort(-np.abs(by_neuron))[:NEURONS]
    looks = _attends(known.forward.attention(tokens)[0])
    H = found.direct.shape[1]
    parts = [
        Part(
            name=found.components[c],
            contribution=float(found.contributions[0, c]),
            direct=float(found.direct[0, c]) if c < H else None,
            through=float(found.through[0, c]) if c < H else None,
            attends=looks[c] if c < H else "",
            ablated=float(found.ablated[0, c]),
            says=TIE if _tied(whole, without[c])[0] else known.output_name(int(without[c].said[0])),
            changed=bool(found.changed[0, c]),
        )
        for c in found.order[0]
    ]
    return Location(
        subjects[s[0]], relations[r[0]], answers[found.right[0]], known.output_name(int(found.rival[0])),
        margin=float(found.margin[0]), direct=float(found.direct[0].sum()), mlp=float(found.mlp[0]),
        bias=float(found.bias[0]), parts=tuple(parts), neurons=tuple((int(i), float(by_neuron[i])) for i in top),
    )  # fmt: skip


def _locate(forward: Forward, states: States, rows: Int[np.ndarray, " n"]) -> tuple[Located, Verdicts, list[Verdicts]]:
    whole = judge_outputs(forward, states.F, rows)
    if (whole.rival == NONE).any():
        raise FactholdError("the model has no output but the right answers, so that there is no margin to take apart")
    U = forward.U.astype(np.float64)
    g = U[whole.right] - U[whole.rival]
    written = np.einsum("nhi,hid->nhd", states.heads, forward.W_O)
    direct = np.einsum("nhd,nd->nh", written, g)
    by_neuron = g @ forward.V.T
    through, bias = np.zeros_like(direct), np.zeros(len(g))
    if isinstance(forward.sigma, ReLU):
        open_gates = by_neuron * (states.hidden > 0)
        through = np.einsum("nhd,nd->nh", written, open_gates @ forward.W)
        bias = open_gates @ forward.b
        mlp = through.sum(axis=1) + bias
    else:
        mlp = (states.hidden * by_neuron).sum(axis=1)
    paths = [direct.sum(axis=1), mlp]
    H, has_mlp = direct.shape[1], len(forward.W) > 0
    without = [judge_outputs(forward, F, rows) for F in _ablated(forward, states, written)]
    names = [f"head {h}" for h in range(H)] + ([DIRECT, MLP] if has_mlp else [])
    found = Located(
        components=tuple(names), right=whole.right, rival=whole.rival, margin=whole.margin, direct=direct,
        through=through, bias=bias, mlp=mlp,
        contributions=np.stack([*(direct + through).T, *(paths if has_mlp else [])], axis=1),
        ablated=np.stack([verdicts.margin for verdicts in without], axis=1),
        changed=np.stack([(verdicts.said != whole.said) | _tied(whole, verdicts) for verdicts in without], axis=1),
    )  # fmt: skip
    return found, whole, without


def _tied(whole: Verdicts, without: Verdicts) -> Bool[np.ndarray, " n"]:
    """Facts that the whole model says and that no longer are above all others, though none is above them: where nothing
    is left all scores are zero, and a tie is no answer."""
    return whole.recalled & (without.said == whole.said) & ~without.recalled


def _ablated(forward: Forward, states: States, written: Float[np.ndarray, "n H d"]) -> Iterator[Vectors]:
    """F without each head, then without the direct path, then without the MLP."""
    for h in range(written.shape[1]):
        x = states.x - written[:, h]
        yield x + forward.hidden(x) @ forward.V
    if len(forward.W):
        yield states.F - states.x
        yield states.x


def _attends(attention: Float[np.ndarray, "T H"]) -> list[str]:
    """What each head of one prompt looks at most: its subject, its relation, the noise or EOS."""
    shares = [attention[0], attention[1], attention[2:-1].sum(axis=0), attention[-1]]
    kinds = ("subject", "relation", "noise", "EOS")
    best = np.argmax(shares, axis=0)
    return [f"{kinds[k]} {shares[k][h]:.0%}" for h, k in enumerate(best)]
