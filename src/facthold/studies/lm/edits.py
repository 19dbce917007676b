"""Facts of a language model edited in closed form: which keys the edit is told to leave alone, by layer, alone and in
sequence."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from statistics import fmean
from typing import Annotated, Any, ClassVar

from facthold.facts.table import Row
from facthold.lab import Cell, Claim, Figure, Judgement, Result, Values, style
from facthold.lab.claim import at_least
from facthold.lab.fields import Count, Counts, Each, OneOf, Whole
from facthold.lm.choices import GRADIENT, IDENTITY, NEIGHBOURS, TEXT, VALUES
from facthold.lm.fetch import SMOLLM2, TINY
from facthold.lm.prompts import facts_for
from facthold.studies.judging import all_of, around, at_preset, mean_and_error
from facthold.studies.lm.base import FETCHED, LmCell, named
from facthold.studies.lm.layers import Shares, layers_at, thirtieths

Value = Annotated[str, OneOf(VALUES)]
COVARIANCES = {IDENTITY: "identity", TEXT: "a text's keys", NEIGHBOURS: "also neighbours' keys"}
MEASURES = {"efficacy": "the new answer", "paraphrase": "in other words", "specificity": "others unchanged"}
PARAPHRASES = (1, 2)  # templates
LEAST, TOLERANCE = 0.05, 0.1  # a rise of specificity, and a loss of efficacy that is allowed; fixed before measuring
HALVES = (0, 1)


@dataclass(frozen=True, kw_only=True)
class LmEdits(LmCell):
    """Capitals given other answers in W_down of one layer: each alone, and one after another."""

    kind: ClassVar[str] = "lm-edits"

    layer: Whole
    value: Value  # how v is found
    n_edits: Count
    neighbours: Count  # known subjects that are asked after an edit, and whose keys no edit has seen
    keys: Count  # other subjects whose keys are in C
    lengths: Counts  # of sequences

    @property
    def cost(self) -> float:
        steps = 36 if self.value == GRADIENT else 8
        return self.seconds(3 * self.n_edits * (steps + 6) + 3 * self.n_edits * self.neighbours / 2 + self.keys, 9)

    def run(self) -> Result:
        from facthold.lm import editing
        from facthold.lm.from_layer import FromLayer
        from facthold.lm.price import text_perplexity
        from facthold.lm.prompts import prompt

        model = self.opened()
        self.check_known(len(known_capitals(self.model)[0]), "capitals")
        edits, judged, others = drawn(self.model, self.n_edits, self.neighbours, self.keys)
        made = [editing.Edit(prompt("capital", s), s, new) for s, new in edits]
        keys = editing.subject_keys(model, self.layer, made)
        near = editing.plain_keys(model, self.layer, [(prompt("capital", s), s) for s in others])
        C = editing.covariances(editing.text_keys(model, self.layer), near)
        added = editing.values(model, self.layer, made, self.value)
        subjects, answers = [s for s, _ in edits], [a for _, a in edits]

        def question(names: list[str], right: list[str], template: int = 0) -> Any:
            return FromLayer(model, [prompt("capital", s, template=template) for s in names], right, self.layer)

        asked = _Asked(
            question(subjects, answers), [question(subjects, answers, t) for t in PARAPHRASES],
            question([s for s, _ in judged], [a for _, a in judged]),
        )  # fmt: skip
        single, sequence = dict[str, Any](), dict[str, list[dict[str, float]]]()
        for name in COVARIANCES:
            alone = [
                asked.scores(editing.edited(model, self.layer, keys[[i]], added[[i]], C[name]), [i])
                for i in range(len(made))
            ]
            single[name] = {measure: [one[measure] for one in alone] for measure in MEASURES}
            sequence[name] = []
            for n in sorted({min(n, len(made)) for n in self.lengths}):
                after = editing.edited(model, self.layer, keys[:n], added[:n], C[name])
                scores = asked.scores(after, list(range(n)))
                sequence[name].append({"n": n, **scores, "perplexity": text_perplexity(after)})
        whole = asked.scores(model, list(range(len(made))))
        return {
            "edits": [list(one) for one in edits], "single": single, "sequence": sequence,
            "whole": whole | {"perplexity": text_perplexity(model)}, "keys_of_others": len(others),
            "accuracy": fmean(single[NEIGHBOURS]["efficacy"]),
        }  # fmt: skip


@dataclass(frozen=True, eq=False)
class _Asked:
    """The prompts that score an edit, run up to its layer once."""

    own: Any
    paraphrases: list[Any]
    neighbours: Any

    def scores(self, model: Any, which: list[int]) -> dict[str, float]:
        """Of these edits: the share of prompts with the new answer first, and of neighbours that stay as they were."""
        others = [float(q.part(which).first(model).mean()) for q in self.paraphrases]
        return {
            "efficacy": float(self.own.part(which).first(model).mean()), "paraphrase": fmean(others),
            "specificity": float(self.neighbours.first(model).mean()),
        }  # fmt: skip


Pairs = list[tuple[str, str]]


def drawn(model: str, n: int, neighbours: int, keys: int) -> tuple[Pairs, Pairs, list[str]]:
    """The edits as (subject, new answer), known neighbours as (subject, answer), and subjects whose keys are in C: no
    subject is in two of them. Edits are of known facts first; their new answers are the capitals of other facts."""
    known, others = known_capitals(model)
    judged = [(s, a) for s, _, a in known[:neighbours]]
    rest = [*known[neighbours:], *others]
    if len(rest) < n + 1:
        raise ValueError(
            f"n_edits={n}: there are {max(len(rest) - 1, 0)} facts beside {neighbours} neighbours; take fewer"
        )
    answers = [a for _, _, a in known]
    edits = [(s, next(a for a in (*answers[i + 1 :], *answers) if a != old)) for i, (s, _, old) in enumerate(rest[:n])]
    return edits, judged, [s for s, _, _ in rest[n : n + keys]]


@cache
def known_capitals(model: str) -> tuple[list[Row], list[Row]]:
    """Capitals that can be judged: those that the model knows, and the others, each in an order by hashes."""
    from facthold.lm.library import load
    from facthold.lm.questions import questions

    asked = questions(load(model), facts_for(model, ["capital"]))
    known, others = ([q.fact for q in asked if q.known == is_known] for is_known in (True, False))
    return known, others


SHARES = thirtieths(4, 8, 12, 16, 20)
MANY = thirtieths(*range(2, 25, 2))


@dataclass(frozen=True)
class Grid:
    """Layers, with v by a gradient and without."""

    model: str
    layers: tuple[int, ...] = ()  # none named: those at these shares
    shares: Shares = SHARES
    values: Annotated[tuple[str, ...], Each(Value, distinct=True)] = ("gradient", "closed")
    n_edits: Count = 20
    neighbours: Count = 16
    keys: Count = 96
    lengths: Counts = (1, 10, 20)


PRESETS = {
    "smoke": Grid(TINY, shares=(0, 1 / 3), n_edits=4, neighbours=4, keys=6, lengths=(1, 4)),
    "quick": Grid(FETCHED),
    "paper": Grid(
        FETCHED,
        shares=MANY,
        n_edits=100,
        lengths=(1, 10, 100),
        keys=120,
    ),
}


def cells(grid: Grid) -> list[Cell]:
    model = named(grid.model)
    layers = layers_at(model, grid.layers, grid.shares)
    return [LmEdits.of(grid, model=model, layer=layer, value=value) for value in grid.values for layer in layers]


def score(row: Values, C: str, measure: str, half: int | None = None) -> list[float]:
    """Of each edit alone, or of every other one: edits are in an order by hashes."""
    values: list[float] = row["single"][C][measure]
    return values if half is None else values[half::2]


def chosen(rows: Sequence[Values], half: int) -> Values:
    """The rule: of layers with v by gradient the one with the largest sum of the three scores on this half, with C of a
    text; of equals the first."""
    of_gradient = [r for r in rows if r["value"] == GRADIENT] or list(rows)
    return max(of_gradient, key=lambda r: sum(fmean(score(r, TEXT, measure, half)) for measure in MEASURES))


def plot(rows: Sequence[Values]) -> "style.Canvas":
    canvas, axes = style.panels(4, width=4.0, height=3.6)
    for value, line in (("gradient", "-o"), ("closed", "--x")):
        group = sorted((r for r in rows if r["value"] == value), key=lambda r: r["layer"])
        for ax, (measure, words) in zip(axes, MEASURES.items(), strict=False):
            for i, (C, name) in enumerate(COVARIANCES.items() if group else ()):
                ax.plot([r["layer"] for r in group], [fmean(score(r, C, measure)) for r in group], line, color=f"C{i}",
                        ms=4, label=f"{name}, {value}")  # fmt: skip
            ax.set(title=f"{measure}: {words}", xlabel="layer", ylim=(-0.03, 1.03))
            ax.set_xticks(sorted({r["layer"] for r in rows}))
            style.frame(ax)
    row = chosen(rows, 0)
    for i, C in enumerate(COVARIANCES):
        counts = [one["n"] for one in row["sequence"][C]]
        axes[3].plot(counts, [one["specificity"] for one in row["sequence"][C]], "-o", color=f"C{i}", ms=4)
        axes[3].plot(counts, [one["efficacy"] for one in row["sequence"][C]], ":s", color=f"C{i}", ms=4)
    axes[3].set(title=f"layer {row['layer']}, one after another", ylim=(-0.03, 1.03),
                xlabel="edits (lines: specificity; dots: efficacy)")  # fmt: skip
    axes[3].set_xticks(sorted({one["n"] for one in row["sequence"][NEIGHBOURS]}))
    style.frame(axes[3])
    axes[0].set_ylabel("share")
    style.legend(axes[0])
    return canvas


def says(rows: Sequence[Values]) -> list[str]:
    """The layer that is chosen on one half, on the other; sequences of it; and each layer."""
    found = []
    for half in HALVES:
        row = chosen(rows, half)
        for C, words in COVARIANCES.items():
            scores = ", ".join(f"{m} {fmean(score(row, C, m, 1 - half)):.2f}" for m in MEASURES)
            found.append(f"chosen on half {half}: layer {row['layer']}; on the other half, C of {words}: {scores}")
    row = chosen(rows, 0)
    for C, words in COVARIANCES.items():
        for one in row["sequence"][C]:
            scores = ", ".join(f"{m} {one[m]:.2f}" for m in MEASURES)
            found.append(
                f"{one['n']} in sequence, layer {row['layer']}, C of {words}: {scores}, perplexity "
                f"{one['perplexity']:.4g} (before: {row['whole']['perplexity']:.4g})"
            )
    for r in rows:
        scores = ", ".join(f"{m} {fmean(score(r, NEIGHBOURS, m)):.2f}" for m in MEASURES)
        found.append(f"layer {r['layer']}, v by {r['value']}, C of {COVARIANCES[NEIGHBOURS]}: {scores}")
    return found


def judge(rows: Sequence[Values]) -> Judgement:
    """Paired over edits that did not choose the layer: each half of the edits is judged in the layer of the other."""
    gains, losses, levels = list[float](), list[float](), dict[str, list[float]]()
    for half in HALVES:
        row = chosen(rows, half)
        before, after = ({m: score(row, C, m, 1 - half) for m in MEASURES} for C in (TEXT, NEIGHBOURS))
        gains += [b - a for a, b in zip(before["specificity"], after["specificity"], strict=True)]
        losses += [b - a for a, b in zip(before["efficacy"], after["efficacy"], strict=True)]
        for C, words in COVARIANCES.items():
            levels.setdefault(words, []).extend(score(row, C, "specificity", 1 - half))
    gain, loss = (around(*mean_and_error(differences), 2) for differences in (gains, losses))
    layers = ", ".join(str(chosen(rows, half)["layer"]) for half in HALVES)
    words = ", ".join(f"{fmean(values):.2f} with {words}" for words, values in levels.items())
    return all_of(
        Judgement(
            f"neighbours' keys in C raise specificity by at least {LEAST:g}", f"layers {layers}: specificity {words}",
            f"difference 95% [{gain[0]:.3f}, {gain[1]:.3f}], {len(gains)} edits", at_least(gain, LEAST),
        ),
        Judgement(
            f"and cost at most {TOLERANCE:g} of efficacy", f"efficacy {fmean(losses):+.3f}",
            f"[{loss[0]:.3f}, {loss[1]:.3f}]", at_least(loss, -TOLERANCE),
        ),
    )  # fmt: skip


def claim_cells(preset: str) -> list[Cell]:
    return [cell for cell in cells(at_preset(PRESETS, preset)) if getattr(cell, "value", "") == GRADIENT]


FIGURE = Figure(
    "lm-edits", "Facts of a language model edited in closed form", "beyond the paper: its discussion",
    f"Capitals in {SMOLLM2.name} (preset smoke: in a made-up model) are given other answers by a change of rank one in "
    "W_down of a layer, told to leave alone no keys, those of a text, or also those of other subjects. Shares of edits "
    "whose prompt goes on with the new answer, of other words for them, and of other subjects' answers that stay; v by "
    "gradient steps (lines) or along unembeddings (dashes). Right: many edits, one after another. One model.",
    PRESETS, cells, plot, says=says,
    sees="An edit that is told which keys to leave alone should keep more of its neighbours.",
)  # fmt: skip

CLAIM = Claim(
    "lm-edit-neighbours", "beyond",
    f"Keys of other subjects in C keep their answers: in {SMOLLM2.name} they raise the specificity of closed-form "
    "edits above that of a text's keys alone, at no loss of efficacy, in a layer that other edits chose. One model.",
    claim_cells, judge,
)  # fmt: skip
