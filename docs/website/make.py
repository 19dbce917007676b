"""Write the site into out/site: `make docs`. The pages are docs/*.md, the README as the landing page, and what is
generated here. A link or an anchor that leads nowhere ends it."""

import argparse
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import reference
import running
import statements

HERE = Path(__file__).resolve().parent
DOCS = HERE.parent
ROOT = DOCS.parent
ROOT_PAGES = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
FILES = {"LICENSE": "LICENSE.txt", "CITATION.cff": "CITATION.cff", "examples/countries.ipynb": "countries.ipynb"}
"""Files of the repository that pages link to, and their names in the site, where everything stands in one folder."""
GENERATED = {"docs/statements.toml": "statements.md", "examples/countries.ipynb": "tutorial-own-facts.md"}
"""Files of which pages are made: links to them lead there."""
LINK = re.compile(r"\]\(([^)#\s]+)(#[^)\s]*)?\)")


def links(text: str, source: Path) -> str:
    """The links of a page of the repository, as they are in the site. A path that is not there is an error."""

    def moved(match: re.Match[str]) -> str:
        to, anchor = match[1], match[2] or ""
        if re.match(r"[a-z]+:", to):
            return match[0]
        path = (source.parent / to).resolve()
        if not path.exists():
            raise SystemExit(f"{source.relative_to(ROOT)} links to {to}, which does not exist")
        name = str(path.relative_to(ROOT))
        return f"]({(ROOT_PAGES | FILES | GENERATED).get(name, name.removeprefix('docs/'))}{anchor})"

    return LINK.sub(moved, text)


def write_pages(into: Path, model: Path | None, run: bool) -> None:
    """Everything that Zensical reads, in one folder."""
    for path in [*DOCS.glob("*.md"), *(ROOT / name for name in ROOT_PAGES)]:
        name = ROOT_PAGES.get(str(path.relative_to(ROOT)), path.name)
        (into / name).write_text(links(path.read_text(), path))
    (into / "commands.md").write_text(reference.commands_page())
    (into / "api.md").write_text(reference.api_page())
    reference.explorer(into / "explorer.html", model)
    (into / "tutorial-own-facts.md").write_text(notebook(ROOT / "examples" / "countries.ipynb"))
    for name, text in statements.pages():
        (into / name).write_text(text)
    for path in into.glob("tutorial-*.md") if run else ():
        path.write_text(running.with_outputs(path.read_text()))
    for name, to in FILES.items():
        shutil.copy(ROOT / name, into / to)
    ours = [path for kind in ("*.css", "*.js", "*.md") for path in HERE.glob(kind)]
    for path in [*ours, *DOCS.glob("*.gif"), DOCS / "results.json"]:
        shutil.copy(path, into)


def notebook(path: Path) -> str:
    """A notebook as Markdown. It is stored without outputs, and a test runs it."""
    cells = [("".join(cell["source"]), cell["cell_type"]) for cell in json.loads(path.read_text())["cells"]]
    parts = [text if kind == "markdown" else f"```python\n{text}\n```" for text, kind in cells]
    return "\n\n".join([*parts, f"This page is a notebook: [{path.name}]({path.name})."]) + "\n"


def config() -> str:
    """What Zensical is told, with a line of the menu for each statement."""
    text = (HERE / "zensical.toml").read_text()
    lines = [f'    {{ "{one["title"]}" = "{one["id"]}.md" }},' for one in statements.statements()]
    text = text.replace("SOURCE", str(ROOT / "src"))
    return text.replace("    # statements: one line for each, by make.py", "\n".join(lines))


def build(output: Path, model: Path | None, run: bool) -> None:
    """The site in ``output``; what it is made from in ``output`` with -pages behind its name."""
    if find_spec("zensical") is None:
        raise SystemExit("the site needs Zensical: pip install 'facthold[docs]'")
    work = output.with_name(f"{output.name}-pages")
    shutil.rmtree(work, ignore_errors=True)
    pages = work / "pages"
    pages.mkdir(parents=True)
    write_pages(pages, model, run)
    (work / "zensical.toml").write_text(config())
    done = subprocess.run([sys.executable, "-m", "zensical", "build", "--strict"], cwd=work, capture_output=True)
    if done.returncode:
        said = (done.stdout + done.stderr).decode().split("Traceback")[0]
        raise SystemExit(f"{said}the site has {said.count('Warning:')} fault(s), named above; pages are in {pages}")
    (work / "html" / "404.html").unlink()  # a server's, whose links lead nowhere from a disk
    shutil.rmtree(output, ignore_errors=True)
    (work / "html").rename(output)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "out" / "site", help="a folder, which is replaced")
    parser.add_argument(
        "--model", type=Path, help="of the page that is shown (default: out/countries.safetensors, or a new one)"
    )
    parser.add_argument("--run", action="store_true", help="run the tutorials, and show what their code prints")
    given = parser.parse_args(arguments)
    output, made = given.output.resolve(), ROOT / "out" / "countries.safetensors"
    build(output, given.model or (made if made.exists() else None), given.run)
    print(f"written: open {output / 'index.html'} in a browser")


if __name__ == "__main__":
    main()
