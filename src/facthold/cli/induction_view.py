"""What facthold induction prints: how good a model is, a sequence with its triggers marked, and where heads look."""

import unicodedata
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import typer
from rich.cells import cell_len

from facthold.cli.printing import count, paragraph, show, width

if TYPE_CHECKING:
    from facthold.knowledge.induction import Look, Prediction

SHOWN = 8  # predictions that are shown, where not all are asked for
NAMES = {" ": "␣", "\n": "↵", "\t": "⇥", "\r": "␍"}
UNPRINTABLE = "�"
RULES = {
    "bigram": "the likeliest next character in the text",
    "mode": "the most frequent output so far, whatever its trigger",
    "counts": "the counts of characters so far, without their order",
}
FIRST, RIGHT, WRONG, TRIGGER = "o", "+", "x", "^"


def visible(character: str) -> str:
    """A character as it can be seen in a line, in a column or two."""
    if character in NAMES:
        return NAMES[character]
    if not character.isprintable() or unicodedata.combining(character) or not cell_len(character):
        return UNPRINTABLE
    return character


def named(character: str) -> str:
    """As `visible`; what cannot be seen is its number."""
    shown = visible(character)
    return f"U+{ord(character):04X}" if shown == UNPRINTABLE else shown


def about_prediction(p: "Prediction") -> dict[str, Any]:
    """As JSON."""
    looks = {name: look._asdict() for name, look in (("layer_2", p.copies), ("layer_1", p.finds))}
    plain = {name: value for name, value in asdict(p).items() if name not in ("copies", "finds")}
    return plain | {"right": p.right, "as_told": p.as_told, **looks, "by_induction": p.by_induction}


def say_found(a: dict[str, Any]) -> None:
    """The model, how it was made, and how good it is beside rules without induction."""
    triggers = "other triggers in each sequence"
    if a["triggers"] is not None:
        triggers = "triggers " + " ".join(map(named, a["triggers"]))
    took = f" in {a['seconds']:.0f} s" if "seconds" in a else ""
    how = f"built{took} from the three memories of the slides"
    if not a["built"]:
        how = f"trained{took}, {count(a['steps'], 'step')} of {count(a['batch'], 'sequence')}, lr {a['lr']:g}"
    paragraph(
        f"{a['text']}: {a['characters']:,} characters, {a['N']} different; K={a['K']}, {triggers}\n"
        f"two layers of attention, d={a['d']}, T={a['T']}: {how}\n"
        f"right: {a['accuracy']:.1%} +- {a['accuracy_error']:.1%} of {a['judged']:,} outputs in fresh sequences that "
        "the context tells"
    )
    typer.echo("  without induction:")
    for name, words in RULES.items():
        typer.echo(f"  {a['baselines'][name]:6.1%} by {words}")
    held = ", ".join(f"{name} {share:.2f}" for name, share in a["probes"].items())
    paragraph(f"probes, the share of its associations that a memory holds: {held}")
    if a["built"]:
        paragraph("nothing makes the logits of a built model large, so that its probabilities are low")


def say_sequence(predictions: Sequence["Prediction"], triggers: str | None, *, asked: bool, all: bool) -> None:
    """The sequence with its marks, the predictions that the context tells, and what heads do for them. A text of one's
    own (``asked``) goes on after its end."""
    told = [p for p in predictions if p.told and (asked or p.next is not None)]
    typer.echo()
    paragraph(
        f"{'your text' if asked else 'a fresh sequence'}: {TRIGGER} a trigger; below what follows it: {FIRST} for the "
        f"first time, {RIGHT} the model says what the context tells, {WRONG} it does not"
    )
    for line in _marked(predictions, triggers):
        typer.echo(line)
    typer.echo()
    shown = told if all else _some(told)
    if shown:
        title = f"{len(shown)} of {count(len(told), 'output')} that the context tells"
        show(
            title if len(shown) == len(told) else f"{title} (--all shows the others)",
            {"at": "{at}", "after": "{after}", "it says": "{says}", "p": "{p:.2f}", "as told": "{right}",
             "layer 2 looks at": "{copies}", "layer 1, from there, at": "{finds}"},
            map(_row, shown),
        )  # fmt: skip
        n = sum(p.by_induction for p in told)
        paragraph(
            f"in {n} of {len(told)} layer 2 looks at a character that stands after the same trigger, and layer 1 has "
            f"looked from there at that trigger{', as an induction head does' if n else ''}"
        )
    else:
        paragraph("no trigger occurs a second time, so that the context tells nothing")
    if asked:
        last = predictions[-1]
        why = f"layer 2 looks at {_place(last.copies)}, layer 1 from there at {_place(last.finds)}"
        paragraph(f"after its last character it says {named(last.predicted)} (p = {last.probability:.2f}): {why}")


def _row(p: "Prediction") -> dict[str, Any]:
    right = "yes" if p.as_told else f"no: {' or '.join(map(named, dict.fromkeys(p.told)))}"
    return {
        "at": p.at, "after": named(p.token), "says": named(p.predicted), "p": p.probability, "right": right,
        "copies": _place(p.copies), "finds": _place(p.finds),
    }  # fmt: skip


def _place(look: "Look") -> str:
    return f"{look.to} {named(look.token)} ({look.weight:.2f})"


def _some(told: Sequence["Prediction"]) -> list["Prediction"]:
    """Those that are wrong, up to half; and the first of each trigger, then others, in their order."""
    wrong = [p for p in told if not p.as_told][: SHOWN // 2]
    firsts = list({p.token: p for p in reversed(told)}.values())[::-1]
    chosen = {p.at: p for p in [*wrong, *firsts, *told]}
    return sorted(list(chosen.values())[:SHOWN], key=lambda p: p.at)


def _marked(predictions: Sequence["Prediction"], triggers: str | None) -> list[str]:
    """Lines of characters, each with a line of marks below it. A character that is an output has the output's mark,
    whether it is a trigger too or not."""
    digits = max(3, len(str(len(predictions) - 1)))
    lines, room = list[str](), max(width() - digits - 2, 8)
    characters, marks, start, used = "", "", 0, 0
    for i, p in enumerate(predictions):
        before = predictions[i - 1] if i else None
        shown, mark = visible(p.token), _mark(p, before, triggers)
        if used + cell_len(shown) > room:
            lines += [f"{start:>{digits}}  {characters}", f"{'':{digits}}  {marks}".rstrip()]
            characters, marks, start, used = "", "", p.at, 0
        characters, marks, used = characters + shown, marks + mark.ljust(cell_len(shown)), used + cell_len(shown)
    return [*lines, f"{start:>{digits}}  {characters}", f"{'':{digits}}  {marks}".rstrip()]


def _mark(p: "Prediction", before: "Prediction | None", triggers: str | None) -> str:
    if before is not None and before.told:
        return RIGHT if before.as_told else WRONG
    if before is not None and triggers is not None and before.token in triggers:
        return FIRST
    return TRIGGER if triggers is not None and p.token in triggers else ""
