"""The page's modules in Node: the same files, found by the names that the page gives them."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import facthold

STATIC = Path(facthold.__file__).parent / "explore" / "static"
NODE = shutil.which("node")
needs_node = pytest.mark.skipif(NODE is None, reason="node is not installed: it runs the page's modules without a page")


def plain(value: Any) -> Any:
    """Arrays and their numbers as JSON has them."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise TypeError(f"{type(value)} is not JSON")


def run(tmp_path: Path, script: str, **given: Any) -> Any:
    """What ``script`` returns: the body of an async function that imports from 'facthold/NAME' and has ``given``."""
    assert NODE is not None
    package = tmp_path / "node_modules" / "facthold"
    if not package.exists():
        shutil.copytree(STATIC, package)
        (package / "package.json").write_text('{"type": "module", "exports": {"./*": "./*.js"}}')
    path = tmp_path / "script.mjs"
    path.write_text(
        "import { readFileSync } from 'node:fs';\n"
        "const given = JSON.parse(readFileSync(0, 'utf8'));\n"
        f"const main = async () => {{ {script} }};\n"
        "const plain = (_, value) => ArrayBuffer.isView(value) ? Array.from(value) : value;\n"
        "console.log(JSON.stringify(await main(), plain));\n"
    )
    text = json.dumps(given, default=plain)
    done = subprocess.run([NODE, str(path)], input=text, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
