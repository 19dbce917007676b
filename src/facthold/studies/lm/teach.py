"""How many facts a frozen language model is taught by one matrix: by the number of facts, the recipe of the matrix and
the layer of the keys, in taught words and in others, with what it costs elsewhere."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

import numpy as np

from facthold.facts.real import AIRPORTS, Source
from facthold.facts.table import Row
from facthold.lab import Cell, Claim, Figure, Judgement, Result, Values, style
from facthold.lab.claim import at_least, at_most
from facthold.lab.fields import Count, Counts, Each, Whole
from facthold.lm.choices import TEACHING, TEACHING_RECIPES
from facthold.lm.fetch import SMOLLM2, TINY
from facthold.lm.prompts import by_hash
from facthold.lm.wordings import OTHERS, TAUGHT
from facthold.studies.judging import all_of, at_preset
from facthold.studies.lm.base import FETCHED, LmCell, named
from facthold.studies.lm.layers import Shares, layers_at, thirtieths
from facthold.studies.lm.resampling import bits, flags, interval_of, mean_by

RELATION = "mayor"
SHUFFLED = "shuffled"  # the solved matrix of the same keys with each other's answers, as a control
WORDINGS = {"taught": TAUGHT[0], "other words 1": OTHERS[0], "other words 2": OTHERS[1]}
MARKS = {"taught": "-o", "other words 1": "--s", "other words 2": ":^"}
LEAST, AHEAD, MOST, KEPT = 0.8, 0.5, 0.05, 0.95
"""Shares that the claim asks for: of paraphrases that are right, how far ahead of outer products, of the control, and
of foreign questions that stay. Fixed before the figure was run, after smaller trials."""


@dataclass(frozen=True, kw_only=True)
class LmTeach(LmCell):
    """N facts taught by each recipe, with keys from each layer; asked in one run."""

    kind: ClassVar[str] = "lm-teach"
    source: ClassVar[Source] = AIRPORTS  # names of cities

    N: Count
    layers: Annotated[tuple[int, ...], Each(Whole, distinct=True)]

    @property
    def cost(self) -> float:
        return self.seconds(len(WORDINGS) * self.N * (1 + len(self.layers)) + 1500, 8)

    def run(self) -> Result:
        from facthold.lm import lesson
        from facthold.lm.questions import held
        from facthold.lm.teaching import Taught, firsts, gate_layer, read, text_streams
        from facthold.lm.wordings import worded

        model = self.opened()
        rows = drawn_facts(self.model, self.N, model)
        answers = np.array([model.tokeniser.first(a) for _, _, a in rows])
        asked = {name: [worded(words, s, r) for s, r, _ in rows] for name, words in WORDINGS.items()}
        streams = {name: read(model, prompts, self.layers) for name, prompts in asked.items()}
        for_gates, judged = lesson.halves([s for s, _, _ in rows])
        cues = read(model, lesson.foreign_prompts(for_gates, [RELATION], [TAUGHT[0]]), self.layers).cues
        foreign = lesson.judging_prompts(judged, [RELATION], [TAUGHT[0]])
        others = read(model, foreign, self.layers)
        text = text_streams(model, [*self.layers, gate_layer(model.config.L)])
        right, kept = dict[str, dict[str, list[str]]](), dict[str, list[str]]()
        before = firsts(model, others.finals)
        turned = [(s, r, a) for (s, r, _), (_, _, a) in zip(rows, [*rows[1:], rows[0]], strict=True)]
        for how in (*TEACHING_RECIPES, SHUFFLED):
            right[how], kept[how] = {name: [] for name in WORDINGS}, []
            for layer in self.layers:
                facts, recipe = (turned, TEACHING) if how == SHUFFLED else (rows, how)
                taught = Taught(layer, lesson.memories(model, facts, streams["taught"], cues, text, layer, recipe))
                for name, prompts in asked.items():
                    after = lesson.spoken(model, taught, prompts, streams[name])[0]
                    right[how][name].append(bits(firsts(model, after) == answers))
                kept[how].append(bits(firsts(model, lesson.spoken(model, taught, foreign, others)[0]) == before))
        return {
            "subjects": [s for s, _, _ in rows], "held": bits([held(s) for s, _, _ in rows]), "right": right,
            "foreign": [prompt.subject for prompt in foreign], "kept": kept, "n_params": taught.n_params,
            "known": bits(firsts(model, streams["taught"].finals) == answers),
            "accuracy": float(np.mean([flags(text).mean() for text in right[TEACHING]["taught"]])),
        }  # fmt: skip


def drawn_facts(name: str, n: int, model: Any) -> list[Row]:
    """n subjects in an order by hashes, each with a random answer of one token; the first n of a longer list."""
    from facthold.lm.teaching import place_of
    from facthold.lm.wordings import worded

    if name == TINY:
        from facthold.lm.tiny import SUBJECTS

        subjects = SUBJECTS
    else:
        from facthold.lm import keys

        subjects = [c for c in keys.cities() if c.replace(" ", "").isalpha()]
    words, found = candidates(name, model), list[Row]()
    for subject in sorted(subjects, key=by_hash):
        prompts = [worded(words_, subject, RELATION) for words_ in WORDINGS.values()]
        if len(found) < n and all(place_of(model, one.text, one.end) is not None for one in prompts):
            number = int.from_bytes(by_hash(f"answer {subject}")[:8], "big")
            found.append((subject, RELATION, words[number % len(words)]))
    if len(found) < n:
        raise ValueError(f"N={n}: there are {len(found)} subjects; take fewer")
    return found


def candidates(name: str, model: Any) -> list[str]:
    """The words that answers are drawn from, each as likely as any other."""
    if name == TINY:
        from facthold.lm.tiny import ROWS

        return sorted({a for _, _, a in ROWS})
    from facthold.lm import keys

    words = [model.tokeniser.decode([token])[1:] for token in keys.words(model)]
    return sorted({word for word in words if len(word) > 2 and word.isascii() and word[0].isupper()})


SHARES = thirtieths(4, 5, 6)


@dataclass(frozen=True)
class Grid:
    """Numbers of facts, and layers that keys are read from."""

    model: str
    N: Counts
    layers: tuple[int, ...] = ()  # none named: those at these shares
    shares: Shares = SHARES


PRESETS = {
    "smoke": Grid(TINY, (4, 12), shares=(0, 1 / 3)),
    "quick": Grid(FETCHED, (100, 500, 2000)),
    "paper": Grid(FETCHED, (100, 200, 500, 1000, 2000, 4000, 8000), shares=thirtieths(2, 3, 4, 5, 6, 8, 10)),
}


def cells(grid: Grid) -> list[Cell]:
    model = named(grid.model)
    return [LmTeach(model=model, N=N, layers=layers_at(model, grid.layers, grid.shares)) for N in grid.N]


def shares(row: Values, how: str, name: str) -> np.ndarray:
    """Whether each fact is right, by layer: [layers, N]."""
    return np.array([flags(text) for text in row["right"][how][name]])


def is_held(row: Values) -> np.ndarray:
    """The half of the subjects that judges; all of them where one half is empty."""
    found: np.ndarray = flags(row["held"]) == 1
    return found if 0 < found.sum() < len(found) else np.ones(len(found), bool)


def chosen(row: Values, how: str = TEACHING) -> int:
    """The rule: the layer with most right on the choosing half, over all wordings; of equals the first. Its place."""
    choosing = flags(row["held"]) == 0
    if not choosing.any():
        choosing[:] = True
    return int(sum(shares(row, how, name)[:, choosing].mean(1) for name in WORDINGS).argmax())


def plot(rows: Sequence[Values]) -> "style.Canvas":
    canvas, axes = style.panels(2, width=4.6, height=4.2)
    ordered = sorted(rows, key=lambda r: r["N"])
    counts = [r["N"] for r in ordered]
    for i, how in enumerate((*TEACHING_RECIPES, SHUFFLED)):
        for name, line in MARKS.items():
            values = [shares(r, how, name)[chosen(r, how)][is_held(r)].mean() for r in ordered]
            axes[0].plot(counts, values, line, color=f"C{i}", ms=4, label=f"{how}, {name}")
        kept = [flags(r["kept"][how][chosen(r, how)]).mean() for r in ordered]
        axes[1].plot(counts, kept, "-o", color=f"C{i}", ms=4, label=how)
    titles = ("facts right, end to end", "foreign questions answered as before")
    for ax, title in zip(axes, titles, strict=True):
        ax.set(title=title, xlabel="N, facts in one matrix", xscale="log", ylim=(-0.03, 1.03))
        style.frame(ax)
    axes[0].set_ylabel("share of held subjects")
    style.legend_below(canvas, axes[0], 4)
    return canvas


def says(rows: Sequence[Values]) -> list[str]:
    """Each number of facts by each recipe, in the layer that the choosing half has chosen."""
    found = []
    for row in sorted(rows, key=lambda r: r["N"]):
        for how in (*TEACHING_RECIPES, SHUFFLED):
            at = chosen(row, how)
            parts = ", ".join(f"{name} {shares(row, how, name)[at][is_held(row)].mean():.3f}" for name in WORDINGS)
            found.append(
                f"N={row['N']}, {how}, layer {row['layers'][at]}: {parts}; foreign questions kept "
                f"{flags(row['kept'][how][at]).mean():.3f}"
            )
    return found


def judge(rows: Sequence[Values]) -> Judgement:
    """At the most facts: paraphrases of held subjects, against outer products and shuffled answers; and what stays."""
    row = max(rows, key=lambda r: r["N"])
    half, at = is_held(row), chosen(row)
    subjects = [s for s, h in zip(row["subjects"], half, strict=True) if h]

    def right(how: str) -> np.ndarray:
        place = at if how == SHUFFLED else chosen(row, how)
        return np.mean([shares(row, how, name)[place][half] for name in WORDINGS if name != "taught"], axis=0)

    solved, outer, control = (right(how) for how in (TEACHING, TEACHING_RECIPES[0], SHUFFLED))
    share, (low, high) = interval_of(subjects, lambda w: mean_by(w, solved))
    lead, (least, most) = interval_of(subjects, lambda w: mean_by(w, solved - outer))
    chance, (_, top) = interval_of(subjects, lambda w: mean_by(w, control))
    kept, (few, many) = interval_of(row["foreign"], lambda w: mean_by(w, flags(row["kept"][TEACHING][at])))
    return all_of(
        Judgement(
            f"at least {LEAST:g} of {row['N']} facts right in words that were not taught",
            f"layer {row['layers'][at]}: {share:.3f} of {len(subjects)} held subjects",
            f"95% [{low:.3f}, {high:.3f}], subjects drawn again", at_least((low, high), LEAST),
        ),
        Judgement(
            f"at least {AHEAD:g} ahead of outer products", f"ahead by {lead:.3f}", f"[{least:.3f}, {most:.3f}]",
            at_least((least, most), AHEAD),
        ),
        Judgement(
            f"with shuffled answers at most {MOST:g}", f"{chance:.3f}", f"up to {top:.3f}",
            at_most((chance, top), MOST),
        ),
        Judgement(
            f"at least {KEPT:g} of foreign questions answered as before", f"{kept:.3f} of {len(row['foreign'])}",
            f"[{few:.3f}, {many:.3f}]", at_least((few, many), KEPT),
        ),
    )  # fmt: skip


def claim_cells(preset: str) -> list[Cell]:
    grid = at_preset(PRESETS, preset)
    return cells(replace(grid, N=(max(n for n in grid.N if n <= 2000),)))


FIGURE = Figure(
    "lm-teach", "New facts for a frozen language model, in one matrix", "beyond the paper: its discussion",
    f"Mayors of N cities, random words, are taught to {SMOLLM2.name} (preset smoke: to a made-up model) by one matrix "
    "from the stream at the city's last token, in an early layer, to the last stream: by outer products, the same "
    "after whitening by a text's keys, or solved for. Where a city is named is found by its name, and a gate says "
    "whether its mayor is asked for. Shares right end to end, in the words that were taught and in others, and of "
    "other questions about the same cities that are answered as before; the layer is chosen on half of the cities and "
    "judged on the other. Shuffled: the solved matrix with other cities' answers. One model.",
    PRESETS, cells, plot, says=says,
    sees="How many new facts one matrix holds by each way of making it, and what other questions lose.",
)  # fmt: skip

CLAIM = Claim(
    "lm-teach-paraphrase", "beyond",
    f"One solved matrix of 576 x 576 numbers teaches {SMOLLM2.name} 2,000 facts without a gradient, so that most are "
    "right in words that were not taught; outer products of the same keys do not, and other questions about the same "
    "subjects are answered as before. One model.",
    claim_cells, judge,
)  # fmt: skip
