"""What a language model knows of our facts, and what of that needs no knowledge."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from facthold.lab import Cell, Figure, Result, Values, style
from facthold.lab.fields import Between, Each, Repeats, Whole
from facthold.lm.fetch import SMOLLM2, TINY
from facthold.lm.prompts import TEMPLATES
from facthold.studies.judging import grouped
from facthold.studies.lm.base import FETCHED, LmCell, Relation, named

MOST_SHOTS = 64  # examples: more would not fit into the context
Shots = Annotated[int, Between(least=0, most=MOST_SHOTS)]
TOKENS = {0: 12, 3: 40}  # of a prompt, about, by its examples
MEASURES = {"rank_1": "first of all tokens", "top_5": "among the first five", "best": "first of the relation's answers"}
BASELINES = {"majority": "the most frequent answer", "copying": "the subject's own first token"}


@dataclass(frozen=True, kw_only=True)
class LmKnows(LmCell):
    """All facts of a relation, asked in the words of one template, after so many examples."""

    kind: ClassVar[str] = "lm-knows"

    relation: Relation
    shots: Shots = 0
    template: Whole = 0
    seed: int = 0  # of the examples

    @property
    def cost(self) -> float:
        return self.seconds(250, TOKENS.get(self.shots, 12 * (1 + self.shots)))

    def run(self) -> Result:
        from facthold.lm.knowing import AMBIGUOUS, CONTAINED, TOP, ask_facts, copying, majority

        model, rows = self.opened(), self.facts([self.relation])
        asked = ask_facts(model, rows, rows, shots=self.shots, seed=self.seed, template=self.template)
        judged = [one for one in asked if not one.left_out]
        facts = [one.fact for one in judged]

        def share(hits: Sequence[bool]) -> float | None:
            return sum(hits) / len(hits) if hits else None

        return {
            "facts": len(rows), "judged": len(judged), "rank_1_of_all": sum(one.rank == 1 for one in asked),
            "ambiguous": sum(one.left_out == AMBIGUOUS for one in asked),
            "contained": sum(one.left_out == CONTAINED for one in asked),
            "copied": sum(one.copied for one in asked),
            "accuracy": share([one.rank == 1 for one in judged]), "rank_1": share([one.rank == 1 for one in judged]),
            "top_5": share([one.rank <= TOP for one in judged]), "best": share([one.best for one in judged]),
            "majority": majority(facts), "copying": copying(facts, model.tokeniser),
            "known": [one.fact[0] for one in judged if one.rank == 1],
        }  # fmt: skip


@dataclass(frozen=True)
class Grid:
    """Relations, each with and without examples; without them also in other words."""

    model: str  # 'tiny', the SHA-256 of a file, or its path
    relations: Annotated[tuple[str, ...], Each(Relation, distinct=True)] = tuple(TEMPLATES)
    shots: Shots = 3
    n_seeds: Repeats = 1  # draws of the examples
    templates: Repeats = 1  # words of the prompts without examples: the first so many


PRESETS = {
    "smoke": Grid(model=TINY, templates=2),
    "quick": Grid(model=FETCHED, templates=4),
    "paper": Grid(model=FETCHED, n_seeds=5, templates=4),
}


def cells(grid: Grid) -> list[Cell]:
    model, made = named(grid.model), list[Cell]()
    for r in grid.relations:
        made += [LmKnows(model=model, relation=r, template=t) for t in range(min(grid.templates, len(TEMPLATES[r])))]
        made += [LmKnows(model=model, relation=r, shots=grid.shots, seed=s) for s in range(grid.n_seeds) if grid.shots]
    return made


def plot(rows: Sequence[Values]) -> "style.Canvas":
    canvas, all_axes = style.panels(len(MEASURES), width=4.2, height=3.8, sharey=True)
    relations = list(dict.fromkeys(r["relation"] for r in rows))
    main = grouped([r for r in rows if r["template"] == 0], lambda r: r["shots"])
    width = 0.8 / max(len(main), 1)
    for axes, (measure, words) in zip(all_axes, MEASURES.items(), strict=True):
        for i, (shots, group) in enumerate(main.items()):
            for x, relation in enumerate(relations):
                shares = [r[measure] for r in group if r["relation"] == relation and r[measure] is not None]
                if shares:
                    at = x + (i - (len(main) - 1) / 2) * width
                    axes.bar(at, sum(shares) / len(shares), width, color=f"C{i}",
                             label=_examples(shots) if x == 0 else None)  # fmt: skip
        for x, relation in enumerate(relations):
            other = [r[measure] for r in rows if r["relation"] == relation and r["template"] and r[measure] is not None]
            axes.plot([x] * len(other), other, "k_", label="other words" if x == 0 and other else None)
            for base, line in zip(BASELINES, ("--", ":"), strict=True):
                level = next(r[base] for r in rows if r["relation"] == relation)
                axes.plot([x - 0.45, x + 0.45], [level] * 2, f"k{line}", lw=1, label=base if x == 0 else None)
        axes.set(title=words, ylim=(0, 1))
        axes.set_xticks(range(len(relations)), relations, fontsize=8)
        style.frame(axes, grid="y")
    all_axes[0].set_ylabel("share of the facts that can be judged")
    style.legend(all_axes[0])
    return canvas


def _examples(shots: int) -> str:
    return f"{shots} examples" if shots else "no examples"


def says(rows: Sequence[Values]) -> list[str]:
    """Each relation in numbers, and all facts together."""
    result = []
    for r in (r for r in rows if r["seed"] == 0):
        words = f", template {r['template']}" if r["template"] else ""
        shares = ", ".join(f"{w} {r[m]:.1%}" for m, w in MEASURES.items() if r[m] is not None)
        bases = ", ".join(f"{words} {r[base]:.1%}" for base, words in BASELINES.items())
        result.append(
            f"{r['relation']}, {_examples(r['shots'])}{words}: of {r['judged']} facts {shares or 'none'}; baselines: "
            f"{bases}; left out: {r['ambiguous']} ambiguous, {r['contained']} contained; the subject again: "
            f"{r['copied']}"
        )
    for shots, group in grouped([r for r in rows if r["template"] == 0 and r["seed"] == 0], _shots).items():
        first, facts = sum(r["rank_1_of_all"] for r in group), sum(r["facts"] for r in group)
        result.append(f"{_examples(shots)}: {first} of all {facts} facts at rank 1, those that are left out included")
    return result


def _shots(row: Values) -> Any:
    return row["shots"]


FIGURE = Figure(
    "lm-knows", "What a language model knows", "beyond the paper: its discussion",
    f"Facts about countries as prompts to {SMOLLM2.name} (preset smoke: to a made-up model of three layers). An answer "
    "is judged by its first token. Left out are facts whose first token another answer of the relation has too, and "
    "those in which the answer contains the subject's name or is contained in it. Dashes: the most frequent answer; "
    "dots: an answer that copies the subject.",
    PRESETS, cells, plot, says=says,
    sees="What is above the dashes is knowledge: below them the most frequent answer would do as well.",
)  # fmt: skip
