"""Edit what a model knows: another answer, a new fact, a fact forgotten. One rank-one change each, and no training.

The change is made in the last linear map if no other fact is lost by it. A model at its smallest size has no room for
that, and the fact then gets a neuron of its own (or four), of rank one too and off at all other facts.

The table changes with the weights, so that the model can be asked and edited again. Each change is judged on the model
as it will be saved, in float32, with prompts that the change was not made from.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.linalg import cho_factor, cho_solve

from facthold._util.errors import FactholdError, check_positive
from facthold.construct.neuron import bump, winning, with_bump
from facthold.facts.names import Names
from facthold.facts.problem import FactualRecall
from facthold.knowledge import tables
from facthold.knowledge.model import FRESH, Model
from facthold.knowledge.rank_one import FEATURES, Change, Seen, rank_one, readout, see
from facthold.memory.activations import ReLU
from facthold.models.forward import Forward, Tokens, prompts, table_prompts
from facthold.models.judge import NONE, Verdicts, contest, find_rows, judge, judge_table, right_answers
from facthold.models.transformer import Transformer

DRAWS, ROWS = 8, 1 << 12
"""Prompts of each fact that a change is made from, and of all facts together, where two of each are not more: a trained
model's features depend a little on the noise."""
OWN_DRAWS = 24  # more prompts of the edited fact: its answer has to be said in all others too
PROBES = 10  # fresh prompts in which the edited fact is asked
SAMPLED = 1 << 13  # facts by which embeddings of a new subject are compared


@dataclass(frozen=True)
class Report:
    """What one change did."""

    kind: str  # 'edit', 'add' or 'forget'
    subject: str
    relation: str
    answers: tuple[str, ...]  # the new answer; all that are forgotten
    before: str  # what the model said
    said: str  # what it says now, in most of the prompts
    efficacy: float  # share of fresh prompts that say the new answer; for 'forget', that do not say the old one
    matrix: str  # what was changed: the last linear map, or a neuron of its own
    size: float  # frobenius norm of the change over that of the last linear map
    rank: int  # of the change: 1, or 0 where nothing had to change
    others: int  # other facts of the table
    specificity: float  # share of the others that were right and still are
    unchanged: float  # share of all others with the same answer as before
    more_params: int = 0  # parameters that the model has more than before: those of a new neuron
    new: tuple[str, ...] = ()  # which names the table did not have: 'subject', 'answer'

    @property
    def answer(self) -> str:
        return " or ".join(self.answers)

    @property
    def done(self) -> bool:
        return self.efficacy == 1.0

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"answer": self.answer, "done": self.done}


def edit(
    model: Transformer, problem: FactualRecall, subject: str, relation: str, answer: str, *, in_place: bool = False
) -> Model:
    """Give a fact of the table another answer. The answer may be new: it then gets an embedding of its own."""
    known = Model(model, problem)
    row = known.find_row(subject, relation, "; take add for a new fact")
    problem, a = tables.with_answer(problem, answer, _outputs(known))
    return _changed(known, tables.replaced(problem, row, a), row, a, "edit", (a,), in_place)


def add(
    model: Transformer, problem: FactualRecall, subject: str, relation: str, answer: str, *, in_place: bool = False
) -> Model:
    """Put a fact into the table and the model. Subject and answer may be new; a new relation needs a new model."""
    known = Model(model, problem)
    subjects, relations, _ = known.names
    r = relations.get(relation)
    if r is None:
        raise FactholdError(
            f"unknown relation {relation!r}: no head attends to a new one, so build the model again with it; "
            f"did you mean {', '.join(map(repr, relations.near(relation))) or 'another'}?"
        )
    s = subjects.exact(subject)  # any other name is a new one
    if s is not None and find_rows(problem.table, np.array([s]), np.array([r]))[0] != NONE:
        raise FactholdError(f"({subject}, {relation}) is in the table; take edit to change its answer")
    problem, a = tables.with_answer(problem, answer, _outputs(known))
    if s is None:
        problem, s = tables.with_subject(problem, subject, _distinct(known, r))
    after = tables.added(problem, s, r, a)
    return _changed(known, after, len(after.table) - 1, a, "add", (a,), in_place)


def forget(model: Transformer, problem: FactualRecall, subject: str, relation: str, *, in_place: bool = False) -> Model:
    """Take a fact out of the table, and let the model say something else: the output that comes next to it.

    An arg max always says something, so that forgetting can only mean that the answer is not said.
    """
    known = Model(model, problem)
    row = known.find_row(subject, relation, "; there is nothing to forget")
    if len(problem.table) == 1:
        raise FactholdError("this is the only fact of the table, and a model without facts is none; delete its file")
    asked, answers = right_answers(problem.table, np.array([row]))
    F = known.forward.states(prompts_of(problem, row, 1, seed=0)).F
    rival = contest(known.forward.U, F, asked, answers).rivals[0, 0]
    return _changed(known, problem, row, int(rival), "forget", tuple(answers.tolist()), in_place)


def _changed(
    known: Model, after: FactualRecall, row: int, wins: int, kind: str, named: tuple[int, ...], in_place: bool
) -> Model:
    """Let the output ``wins`` be said at a row of ``after``'s table, and report; ``named`` are the answers it is about.

    The weights that are there are changed if all other facts stay right; else the fact gets a neuron of its own, unless
    the change is to be ``in_place`` or no neuron can be on at this fact alone.
    """
    table, start = after.table, Model(known.model, after)
    new = tuple(n for n, more in (("subject", table.S > known.table.S), ("answer", table.A > known.table.A)) if more)
    forward, tokens = start.forward, table_prompts(after, seed=FRESH)
    draws = _draws(forward, len(table))
    seen, edited, pairs = _contested(forward, after, row, wins, draws)
    before = judge_table(forward, after, tokens)
    others = np.arange(len(table)) != row
    # a new answer alone may make a tie where there was none: what was right is judged without it
    right = judge_table(known.forward, known.problem, table_prompts(known.problem, seed=FRESH)).recalled
    right = np.pad(right, (0, len(table) - len(right))) & others
    asked = start if kind == "add" else known  # before, a new fact has no row, and a new answer is not said
    said = asked.output_name(_most(_probed(asked, row).said))

    def tried(model: Transformer, matrix: str, size: float) -> Model:
        """Judged as it is kept: by the weights in float32, and by the table without what was forgotten."""
        now = Model(model, after)
        probes, verdicts = _probed(now, row), judge_table(now.forward, after, tokens)
        hits = ~np.isin(probes.said, table.right(row)) if kind == "forget" else probes.recalled
        subjects, relations, answers = now.names
        report = Report(
            kind, subjects[table.subjects[row]], relations[table.relations[row]], tuple(answers[a] for a in named),
            said, now.output_name(_most(probes.said)), float(hits.mean()), matrix, size, int(size > 0),
            int(others.sum()), _mean(verdicts.recalled[right]), _mean((verdicts.said == before.said)[others]),
            model.n_params - known.n_params, new,
        )  # fmt: skip
        return Model(model, tables.without(after, row) if kind == "forget" else after, report)

    if kind == "edit" and _probed(start, row).recalled.all():
        return tried(known.model, "nothing", 0.0)
    change = rank_one(seen, forward.U, edited, wins, *pairs, draws=draws)
    first = tried(_with(known.model, seen, change), seen.part.name, change.size(seen.M))
    if in_place or (first.report.done and first.report.specificity == 1.0):
        return first
    if (own := _own_neuron(known.model, seen, forward.U, edited, wins, before)) is None:
        return first
    second = tried(*own)
    return max((first, second), key=lambda e: (e.report.done, e.report.specificity))


def _own_neuron(
    model: Transformer, seen: Seen, U: Float[np.ndarray, "M d"], edited: Int[np.ndarray, " draws"], wins: int,
    before: Verdicts,
) -> tuple[Transformer, str, float] | None:  # fmt: skip
    """The model with a neuron for the edited prompts, what that is called, and its size; None where there is none."""
    if model.mlp is not None and not isinstance(model.mlp.sigma, ReLU):
        return None  # no other activation is silent
    own = bump(seen.x, edited, np.setdiff1d(np.arange(len(seen.x)), edited))
    if own is None:
        return None
    margins = before.margin[before.recalled & np.isfinite(before.margin)]
    v = winning(seen.F[edited], U, wins, float(np.median(margins)) if len(margins) else 1.0)
    k, idle = len(own.b), np.flatnonzero(seen.silent)
    place = None if model.mlp is None or len(idle) < k else idle[:k]
    size = float(np.linalg.norm(np.outer(own.signs, v))) / max(float(np.linalg.norm(seen.M)), 1e-300)
    name = f"{'new' if place is None else 'idle'} neuron" + ("" if k == 1 else f"s, {k}")
    return with_bump(model, own, v, place), name, size


def _probed(known: Model, row: int) -> Verdicts:
    """A fact in fresh prompts."""
    fresh = prompts_of(known.problem, row, PROBES, seed=FRESH)
    return judge(known.forward, known.table, fresh, np.full(PROBES, row))


def _mean(hits: Bool[np.ndarray, " n"]) -> float:
    """The share of hits, all where there are none to miss."""
    return float(hits.mean()) if len(hits) else 1.0


def specificity(
    before: tuple[Transformer, FactualRecall], after: tuple[Transformer, FactualRecall]
) -> tuple[float, float, int]:
    """Of the facts that both tables have with the same answers: the share of those that were right that still are, the
    share of all that say the same, and how many they are.

    Many changes one after another are judged by it, from the first model to the last.
    """
    (was, now) = before[1].table, after[1].table
    of = _numbers(Names.of(now)[1])
    r = np.array([of.get(name, NONE) for name in Names.of(was)[1].names])[was.relations]
    there = np.where(r == NONE, NONE, find_rows(now, was.subjects, r))  # subjects and answers keep their numbers
    rows = np.array([i for i, j in enumerate(there) if j != NONE and was.right(i) == now.right(int(j))], np.int64)
    said, right = [], []
    for (model, problem), which in ((before, rows), (after, there[rows])):
        known = Model(model, problem)
        verdicts = judge(known.forward, problem.table, table_prompts(problem, seed=FRESH)[0][which], which)
        said.append(np.array([known.output_name(int(output)) for output in verdicts.said]))
        right.append(verdicts.recalled)
    return _mean(right[1][right[0]]), _mean(said[0] == said[1]), len(rows)


def still_held(reports: Sequence[Report], after: tuple[Transformer, FactualRecall]) -> float:
    """Of many changes, the share that hold in the last model: later ones may have undone earlier ones.

    A relation that went with its last fact can no longer be asked for; what was forgotten then is judged as it was.
    """
    known = Model(*after)
    subjects, relations, answers = (_numbers(names) for names in known.names)
    last = {(report.subject, report.relation): report for report in reports}
    held = [report.done for report in last.values() if report.relation not in relations]
    asked = [report for report in last.values() if report.relation in relations]
    s, r = (np.array(numbers, np.int64) for numbers in (
        [subjects[report.subject] for report in asked], [relations[report.relation] for report in asked]
    ))  # fmt: skip
    verdicts = known.ask_many(s, r, seed=FRESH)
    held += [
        int(said) not in [answers[name] for name in report.answers] if report.kind == "forget" else bool(right)
        for report, said, right in zip(asked, verdicts.said, verdicts.recalled, strict=True)
    ]
    return float(np.mean(held))


def _numbers(names: Names) -> dict[str, int]:
    return {name: i for i, name in enumerate(names.names)}


def _contested(
    forward: Forward, problem: FactualRecall, row: int, wins: int, draws: int
) -> tuple[Seen, Int[np.ndarray, " draws"], tuple[np.ndarray, np.ndarray]]:
    """All facts in some draws: the model there, which prompts are the edited fact's, and all right answers."""
    check_positive(draws=draws)
    n = len(problem.table)
    tokens = table_prompts(problem, draws=draws)
    own = prompts_of(problem, row, OWN_DRAWS, seed=draws)
    rows = np.append(np.tile(np.arange(n), draws), np.full(OWN_DRAWS, row))
    asked, answers = right_answers(problem.table, rows)
    edited = np.flatnonzero(rows == row)
    keep = rows[asked] != row
    pairs = np.append(asked[keep], edited), np.append(answers[keep], np.full(len(edited), wins))
    return see(forward, np.concatenate([tokens.reshape(-1, tokens.shape[2]), own]), edited), edited, pairs


def _draws(forward: Forward, facts: int) -> int:
    """Two of each fact at least, unless their features would be more than are held: then one."""
    return int(np.clip(ROWS // facts, 2 if 2 * facts * len(forward.last_map[1]) <= FEATURES else 1, DRAWS))


def _with(model: Transformer, seen: Seen, change: Change) -> Transformer:
    """The model with its last linear map changed, in float32."""
    M = jnp.asarray(seen.M + np.outer(change.k, change.delta), jnp.float32)
    if model.mlp is None:
        return eqx.tree_at(lambda t: t.W_O, model, M.reshape(model.W_O.shape))
    return eqx.tree_at(lambda t: t.mlp.V, model, M)


def prompts_of(problem: FactualRecall, row: int, n: int, *, seed: int) -> Tokens:
    """n prompts for one fact, with noise by the seeds from ``seed`` on."""
    s, r = problem.table.subjects[[row]], problem.table.relations[[row]]
    return np.concatenate([prompts(problem, s, r, seed=seed + i) for i in range(n)])


def _outputs(known: Model) -> Float[np.ndarray, "facts d"]:
    """F at a prompt of every fact."""
    return np.concatenate([states.F for _, states in known.forward.blocks(table_prompts(known.problem)[0])])


def _distinct(known: Model, r: int) -> Callable[[FactualRecall], float]:
    """How well the last subject of a problem is told from the facts that are known: h^T C^-1 h, one over what a change
    there does to them. C is the same for every embedding that is tried, and of a large table some facts are enough."""
    tokens = table_prompts(known.problem)[0]
    features = readout(known.forward, tokens[:: -(-len(tokens) // SAMPLED)]).features
    C = features.T @ features
    factor = cho_factor(C + max(1e-8 * np.trace(C) / len(C), 1e-300) * np.eye(len(C)))

    def told_apart(tried: FactualRecall) -> float:
        own = prompts(tried, np.array([tried.table.S - 1]), np.array([r]))
        h = readout(Forward.of(known.model, tried), own).features[0]
        return float(h @ cho_solve(factor, h))

    return told_apart


def _most(outputs: Int[np.ndarray, " n"]) -> int:
    """The output that is said most often."""
    values, counts = np.unique(outputs, return_counts=True)
    return int(values[counts.argmax()])
