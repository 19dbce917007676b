"""What stands at the top of the report: what was found, in sentences, and a model that one can ask."""

import base64
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from facthold._util.commands import command, count
from facthold._util.errors import FactholdError
from facthold.lab.figure import Values

MOST = 10  # sentences: more are not read
RUN, PAGE = "watch.gif", ".html"  # beside a model: how such facts are learnt, and the page that `facthold explore` made


@dataclass(frozen=True)
class Finding:
    """One sentence of what was found, with its numbers from stored rows, and no other ones."""

    name: str
    of: str
    """The figure or the claim whose cells it speaks of."""
    says: "Callable[[Sequence[Values]], str | None]"
    """The sentence; None where these rows do not have what it speaks of."""

    def sentence(self, rows: Sequence[Values]) -> str | None:
        """The sentence, as far as there are rows to make it of."""
        try:
            return self.says(rows) if rows else None
        except (IndexError, KeyError, StopIteration, ValueError):
            return None  # a part of the cells, or those of sizes of one's own, need not have what it asks for


@dataclass(frozen=True)
class Shown:
    """A model of facts, asked a question; how such facts are learnt; and the page that opens it."""

    name: str
    facts: int
    right: int
    n_params: int
    question: str
    answer: str
    correct: bool | None
    probability: float
    runners_up: Sequence[tuple[str, float]]
    ask: str  # the command that asks the same
    page: str  # a file beside the report; nothing where there is none
    make_page: str
    moving: str  # the run as a data URI, and its last picture, for who wants nothing to move
    still: str


def show(model: Path, report: Path) -> Shown:
    """The model of this file, asked one question."""
    from facthold.explore.exporting import first_question
    from facthold.knowledge.model import load

    if not model.exists():
        raise FactholdError(f"no such model: {model}; give one that `facthold build` has made")
    known = load(model)
    first, names = first_question(known.table), known.names
    subject, relation = known.table.to_rows()[0][:2]
    if first is not None:
        subject, relation = names[0][first["subject"]], names[1][first["relation"]]
    said, page, run = known.ask(subject, relation), model.with_suffix(PAGE), model.with_name(RUN)
    near = page.exists() and page.resolve().parent == report.resolve().parent and page.resolve() != report.resolve()
    moving, still = pictures_of(run) if run.exists() else ("", "")
    return Shown(
        model.name, len(known.table), round(known.recall * len(known.table)), known.n_params,
        f"{said.subject}, {said.relation}", said.answer, said.right, said.probability,
        [(guess.name, guess.probability) for guess in said.runners_up[:3]],
        command("ask", model, said.subject, said.relation), page.name if near else "",
        command("explore", model, output=page), moving, still,
    )  # fmt: skip


def pictures_of(gif: Path) -> tuple[str, str]:
    """A moving picture and the last of its pictures, as data URIs."""
    from PIL import Image, ImageSequence

    try:
        contents = gif.read_bytes()
        with Image.open(io.BytesIO(contents)) as image:
            *_, last = (frame.copy() for frame in ImageSequence.Iterator(image))
    except OSError as error:
        again = command("watch", output=gif.with_suffix(""))
        raise FactholdError(f"cannot read {gif}: {error}; make it again: {again}") from error
    still = io.BytesIO()
    last.save(still, "PNG", optimize=True)
    return as_uri(contents, "image/gif"), as_uri(still.getvalue(), "image/png")


def as_uri(contents: bytes, kind: str) -> str:
    """A file inside a page."""
    return f"data:{kind};base64,{base64.b64encode(contents).decode()}"


def sentences(findings: Sequence[Finding], rows_of: Callable[[str], Sequence[Values]]) -> list[str]:
    """The first sentences that can be made, by the rows of each figure or claim."""
    made = (finding.sentence(rows_of(finding.of)) for finding in findings)
    return [sentence for sentence in made if sentence][:MOST]


def tally(claims: Sequence[Mapping[str, Any]], order: Sequence[str]) -> str:
    """'Of 8 claims, 5 hold and 3 drift', of those that were run."""
    verbs = {
        "holds": ("holds", "hold"), "drifts": ("drifts", "drift"), "fails": ("fails", "fail"),
        "not decided": ("is not decided", "are not decided"),
        "runs": ("ran at sizes too small for a verdict",) * 2,
    }  # fmt: skip
    found = [claim["verdict"] for claim in claims if claim["verdict"] in verbs]
    parts = [f"{n} {verbs[v][n > 1]}" for v in order if v in verbs and (n := found.count(v))]
    checked = f"{count(len(found), 'claim')} that {'was' if len(found) == 1 else 'were'} checked"
    return f"Of {checked}, {_joined(parts)}." if parts else ""


def _joined(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
