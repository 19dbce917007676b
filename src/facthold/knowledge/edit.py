"""Edit what a model knows: another answer, a new fact, a fact forgotten. Each is solved for, without training.

It is a change of rank one in the last linear map if no other fact is lost by that, or if it is to be ``in_place``. Else
the fact gets a neuron of its own (or four), if one can be on at this fact alone. The table changes with the
weights. Each change is judged on the model as it will be saved, in float32, with prompts that it was not made from.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Int
from scipy.linalg import cho_factor, cho_solve

from facthold.construct.neuron import bump, winning, with_bump
from facthold.construct.solve import ridged
from facthold.facts.problem import FactualRecall
from facthold.knowledge import tables
from facthold.knowledge.model import FRESH, Model
from facthold.knowledge.rank_one import FEATURES, STABLE, Seen, rank_one, readout, see
from facthold.knowledge.report import NOTHING, PROBES, Report, named, said_again
from facthold.memory.activations import ReLU
from facthold.models.forward import Forward, prompts, table_prompts
from facthold.models.judge import NONE, Verdicts, judge, judge_table, right_answers
from facthold.models.transformer import Transformer

DRAWS, ROWS = 8, 1 << 12
"""Prompts of each fact that a change is made from, and of all facts together, where two of each are not more: a trained
model's features depend a little on the noise."""
OWN_DRAWS = 24  # more prompts of the edited fact: its answer has to be said in all others too
TWINS = 1e-6  # of the median distance of a fact from the others: below it is rounding, and the model sees one fact
NAMED = 3  # facts that a report names of those that a change has cost
SAMPLED = 1 << 13  # facts by which embeddings of a new subject are compared


def changed(
    known: Model, after: FactualRecall, row: int, wins: int, kind: str, meant: tuple[int, ...], in_place: bool
) -> Model:
    """Let the output ``wins`` be said at a row of ``after``'s table, and report; ``meant`` are the answers."""
    table, start, n = after.table, Model(known.model, after), len(after.table)
    kinds = (("subject", table.S > known.table.S), ("answer", table.A > known.table.A))
    new = tuple(what for what, more in kinds if more)
    forward, others = start.forward, np.delete(np.arange(len(known.table)), [row] if row < len(known.table) else [])
    # two draws of each fact at least, unless their features would be more than are held: then one
    draws = int(np.clip(ROWS // n, 2 if 2 * n * len(forward.last_map[1]) <= FEATURES else 1, DRAWS))
    seen, pairs = _contested(forward, after, row, wins, draws)
    before = judge_table(known.model, after, seed=FRESH)
    told = known.told.of(others)  # a new name is a new rival to all answers: what was right is judged without it
    asked = start if kind == "add" else known  # before, a new fact has no row, and a new answer is not said
    said = _mostly(asked, _probed(asked, row))
    had = known.table.right(row) if kind == "edit" else ()
    earlier = Model(known.model, replace(known.problem, forgotten=after.forgotten))
    was_gone = ~said_again(earlier)
    alike = tuple(known.names[2].alike(start.names[2][meant[0]])) if "answer" in new else ()
    replaced = tuple(known.names[2][a] for a in had if a not in table.right(row)) if len(had) > 1 else ()

    def tried(model: Transformer, matrix: str, size: float, neurons: int = 0) -> Model:
        """Judged as it is kept: by the weights in float32, and by the table without what was forgotten."""
        now = Model(model, after)
        probes, everything = _probed(now, row), known.prompts_of_all.told(now)
        then = everything.of(others)
        kept, unchanged = told.kept(then)
        lost, weaker = told.fallen(then)
        gone = others[lost]
        subjects, relations, answers = now.names
        report = Report(
            kind, subjects[table.subjects[row]], relations[table.relations[row]], tuple(answers[a] for a in meant),
            said, _mostly(now, probes), float(_holds(probes, table.right(row), kind).mean()), matrix, size,
            int(size > 0), len(others), kept, unchanged, model.n_params - known.n_params, new, neurons,
            tuple((subjects[table.subjects[i]], relations[table.relations[i]]) for i in gone[:NAMED]), alike, replaced,
            len(gone), kind == "forget" and int((table.relations == table.relations[row]).sum()) == 1,
            named(earlier, was_gone & said_again(now)), len(told.right), weaker,
        )  # fmt: skip
        if kind != "edit":
            return Model(model, tables.without(after, row) if kind == "forget" else after, report)
        changed = Model(model, after, report)
        vars(changed).update(prompts_of_all=known.prompts_of_all, told=everything)  # the next edit begins with these
        return changed

    if _holds(_probed(start, row), table.right(row), kind).all():
        return tried(known.model, NOTHING, 0.0)
    change = rank_one(seen, wins, *pairs, draws=draws)
    M = jnp.asarray(seen.M + np.outer(change.k, change.delta), jnp.float32)
    shape = known.model.W_O.shape if known.model.mlp is None else M.shape
    model = eqx.tree_at(lambda t: t.W_O if t.mlp is None else t.mlp.V, known.model, M.reshape(shape))
    first = tried(model, forward.last_map[0], change.size(seen.M))
    if in_place or (first.report.done and first.report.specificity == 1.0 and not first.report.came_back):
        return first
    if (own := _own_neuron(known.model, seen, wins, before)) is None:
        return first
    second = tried(*own)
    return max((first, second), key=lambda e: (e.report.done, -len(e.report.came_back), e.report.specificity))


def _own_neuron(
    model: Transformer, seen: Seen, wins: int, before: Verdicts
) -> tuple[Transformer, str, float, int] | None:
    """The model with neurons for the edited prompts, their name, size and number; None where none can be."""
    if model.mlp is not None and not isinstance(model.mlp.sigma, ReLU):
        return None  # no other activation is silent
    others = np.setdiff1d(np.arange(len(seen.x)), seen.edited)
    gaps = np.linalg.norm(seen.x[others] - seen.x[seen.edited].mean(axis=0), axis=1)
    # Subjects with the same answers may be one to the model. Then their facts change together, and no others need to.
    apart = others[gaps > TWINS * np.median(gaps)] if len(others) else others
    own = bump(seen.x, seen.edited, others) or (bump(seen.x, seen.edited, apart) if len(apart) < len(others) else None)
    if own is None:
        return None
    margins = before.margin[before.recalled & np.isfinite(before.margin)]
    v = winning(seen.F[seen.edited], seen.U, wins, float(np.median(margins)) if len(margins) else 1.0)
    k, idle = len(own.b), np.flatnonzero(seen.silent)
    place = None if model.mlp is None or len(idle) < k else idle[:k]
    size = float(np.linalg.norm(np.outer(own.signs, v))) / max(float(np.linalg.norm(seen.M)), 1e-300)
    name = f"{'new' if place is None else 'idle'} neuron" + ("" if k == 1 else "s")
    return with_bump(model, own, v, place), name, size, k


def _probed(known: Model, row: int) -> Verdicts:
    """A fact in fresh prompts."""
    rows = np.full(PROBES, row)
    fresh = table_prompts(known.problem, rows[:1], draws=PROBES, seed=FRESH)[:, 0]
    return judge(known.forward, fresh, rows)


def _holds(probes: Verdicts, right: Sequence[int], kind: str) -> Bool[np.ndarray, " n"]:
    """In which prompts a change is as it should be: the answer is said, or none of those that are forgotten."""
    return ~np.isin(probes.said, right) if kind == "forget" else probes.recalled


def _mostly(known: Model, verdicts: Verdicts) -> str:
    """What is said most often."""
    return known.output_name(int(np.bincount(verdicts.said).argmax()))


def _contested(forward: Forward, problem: FactualRecall, row: int, wins: int, draws: int) -> tuple[Seen, tuple]:
    """All facts in some draws: the model there, and all right pairs (prompt, answer). What was forgotten stands among
    them with what the model says now, so that a change leaves it at that, and takes no neuron that holds it down."""
    tokens = np.concatenate(table_prompts(problem, draws=draws))
    own = table_prompts(problem, np.array([row]), draws=OWN_DRAWS, seed=draws)[:, 0]
    rows = np.append(np.tile(np.arange(len(problem.table)), draws), np.full(OWN_DRAWS, row))
    asked, answers = right_answers(problem.table, rows)
    edited = np.flatnonzero(rows == row)
    keep = rows[asked] != row
    pairs = np.append(asked[keep], edited), np.append(answers[keep], np.full(len(edited), wins))
    gone, said = _guarded(forward, problem, draws)
    first = len(tokens) + len(own)
    pairs = np.append(pairs[0], first + np.arange(len(gone))), np.append(pairs[1], said)
    return see(forward, np.concatenate([tokens, own, gone]), edited), pairs


def _guarded(
    forward: Forward, problem: FactualRecall, draws: int
) -> tuple[Int[np.ndarray, "n T"], Int[np.ndarray, " n"]]:
    """Prompts that ask for what was forgotten, and what is said in them, where that is not the forgotten answer."""
    s, r = np.unique(problem.forgotten[:, :2], axis=0).T
    none = np.zeros((0, problem.T), np.int64), np.zeros(0, np.int64)
    if not len(s):
        return none
    tokens = np.concatenate([prompts(problem, s, r, seed=seed) for seed in range(draws)])
    said = judge(forward, tokens, np.full(len(tokens), NONE)).said
    answers = {(s, r): {a for *q, a in problem.forgotten.tolist() if q == [s, r]} for s, r, _ in problem.forgotten}
    kept = [y not in answers[q] for y, q in zip(said, list(zip(s, r, strict=True)) * draws, strict=True)]
    return tokens[kept], said[kept]


def distinct(known: Model, r: int) -> Callable[[FactualRecall], float]:
    """How well the last subject of a problem is told from the facts that are known: h^T C^-1 h, one over what a change
    there does to them. C is the same for every embedding that is tried, and of a large table some facts are enough."""
    tokens = table_prompts(known.problem)[0]
    features = readout(known.forward, tokens[:: -(-len(tokens) // SAMPLED)]).features
    factor = cho_factor(ridged(features.T @ features, STABLE))

    def told_apart(tried: FactualRecall) -> float:
        own = prompts(tried, np.array([tried.table.S - 1]), np.array([r]))
        h = Forward.of(known.model, tried).states(own).features[0]
        return float(h @ cho_solve(factor, h))

    return told_apart
