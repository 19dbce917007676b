"""A page for each statement of docs/statements.toml: statement, our code, claims with what was measured, slips."""

import ast
import html
import json
import re
import textwrap
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parents[1]
SOURCE = DOCS.parent / "src" / "facthold"
SAID = {"predicted": "predicted", "measured": "measured", "error": "how sure", "drift": "off by",
        "changed": "changed after looking"}  # fmt: skip
LONG = 40  # lines of code that are shown at once
MATH = re.compile(r"\$\$(.+?)\$\$|\$(.+?)\$", re.DOTALL)
TIGHT = re.compile(r"<mo[^>]*>(&#x0002A;|&#x022A4;|&#x0007C;)</mo>")  # star, transpose and bars, which are no relations
SIGNS = {char: f"&#{ord(char)};" for char in "_*`|[]~^\\$"}

Statement = Mapping[str, Any]


def statements() -> list[Statement]:
    return tomllib.loads((DOCS / "statements.toml").read_text())["statement"]


def pages() -> Iterator[tuple[str, str]]:
    """Names of files, and their Markdown: one for each statement, and one that lists them."""
    results = json.loads((DOCS / "results.json").read_text())
    found = statements()
    yield "statements.md", overview(found, results)
    for one in found:
        yield f"{one['id']}.md", page(one, results)


def overview(found: list[Statement], results: Mapping[str, Any]) -> str:
    rows = ["| statement | place | claims |", "|---|---|---|"]
    for one in found:
        verdicts = [results["claims"][id]["verdict"] for id in one["claims"] if id in results["claims"]]
        counts = ", ".join(f"{verdicts.count(v)} {v}" for v in dict.fromkeys(verdicts))
        rows.append(f"| [{one['title']}]({one['id']}.md) | {one['place']} | {counts} |")
    intro = (
        "Each has a page: what it says, our code, what was measured with which command, and slips in its text. "
        "[Figures and claims](figures.md#verdicts) says what a verdict means.\n"
    )
    return "\n".join(["# Statements", "", intro, *rows, ""])


def page(one: Statement, results: Mapping[str, Any]) -> str:
    parts = [f"# {one['title']}", f"*{one['place']}*", with_formulas(one["text"].strip())]
    parts += ["## In the code", with_formulas(one["ours"].strip()), *(included(name) for name in one["code"])]
    parts += ["## What was measured", f"At preset `{results['preset']}`; `facthold verify ID` computes it again."]
    parts += [claim(id, results["claims"].get(id)) for id in one["claims"]]
    if one.get("slips"):
        where = ", ".join(f"[{page}]({page})" for page in dict.fromkeys(slip_of(name)[0] for name in one["slips"]))
        parts += ["## Slips in the text", "\n".join(f"- {slip_of(name)[1]}" for name in one["slips"]), f"From {where}."]
    return "\n\n".join(parts) + "\n"


def with_formulas(text: str) -> str:
    """Formulas as MathML, which browsers set without a script."""
    from latex2mathml.converter import convert

    def formula(match: re.Match[str]) -> str:
        block = match[1] is not None
        made = convert(match[1] or match[2], display="block" if block else "inline")
        made = TIGHT.sub(r'<mo stretchy="false" lspace="0" rspace="0">\1</mo>', made)
        made = re.sub(r"<mi>(log|ln)</mi>", r'<mo lspace="0.2em" rspace="0.1em">\1</mo>', made)
        return f'\n\n<div class="formula" tabindex="0">{made}</div>\n\n' if block else f"<span>{made}</span>"

    return "\n\n".join(" ".join(part.split("\n")) for part in MATH.sub(formula, text).split("\n\n"))


def included(name: str) -> str:
    """A function, a class or a module of ours, as it stands in the source."""
    path, node = find(name)
    text = path.read_text().splitlines()
    first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
    code = "\n".join(text[first - 1 : node.end_lineno])
    title = f"`{name.rpartition('.')[2]}` in `{path.relative_to(SOURCE.parents[1])}`, from line {first}"
    block = f"```python\n{code}\n```"
    if code.count("\n") < LONG:
        return f"{title}:\n\n{block}"
    return f'??? quote "{title}"\n\n{textwrap.indent(block, "    ")}'


def find(name: str) -> tuple[Path, ast.FunctionDef | ast.ClassDef]:
    module, _, wanted = name.rpartition(".")
    path = SOURCE.joinpath(*module.split(".")).with_suffix(".py")
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == wanted:
            return path, node
    raise KeyError(f"docs/statements.toml names {name}, which {path} does not define")


def claim(id: str, said: Mapping[str, Any] | None) -> str:
    """What a claim says, and what came out."""
    if said is None:
        return f"### {id}: not measured yet\n\n    facthold verify {id}"
    lines = [f"- **{words}**: {plain(said[key])}" for key, words in SAID.items() if said.get(key)]
    heading, command = f"### {id}: {said['verdict']}", f"    facthold verify {id}"
    return "\n\n".join([heading, plain(said["statement"]), "\n".join(lines), "<!-- the command -->", command])


def plain(text: str) -> str:
    """Text that Markdown would read something into, as it is."""
    return "".join(SIGNS.get(char, char) for char in html.escape(text, quote=False))


def slip_of(name: str) -> tuple[str, str]:
    """The page of a slip and its text there, which begins as the name says."""
    where, _, start = name.partition(": ")
    text = (DOCS / f"{where}.md").read_text()
    entries = re.findall(r"^(?:- |\d+\. )(.*(?:\n(?:  +).*)*)", text, re.MULTILINE)
    found = [entry for entry in entries if entry.replace("**", "").startswith(start)]
    if len(found) != 1:
        raise KeyError(f"docs/statements.toml names the slip {name!r}; {where}.md has {len(found)} of it")
    return f"{where}.md", " ".join(line.strip() for line in found[0].splitlines())
