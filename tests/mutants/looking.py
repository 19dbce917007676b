"""A process that looks: claims and tests by whichever facthold a request names. It has imported all but facthold, and
forks for each request, so that a look takes little longer than what it looks at. A request is a line of JSON."""

import json
import os
import sys
from pathlib import Path
from typing import Any

OPTIONS = ("-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:hypothesispytest", "-o")
ADDOPTS = "addopts=--import-mode=importlib --strict-markers"  # no shapes are checked: that doubles the time


def judged(name: str, store: str, change: str) -> str:
    """The verdict on a claim, by rows that were changed where a change is named."""
    from facthold.lab.api import verify
    from facthold.lab.registry import claim
    from facthold.lab.store import Store

    id, _, preset = name.partition("@")
    preset = preset or "smoke"
    try:
        (word,) = [one.judgement for one in verify(id, preset=preset, store=store)]
        if not change:
            return word
        import rows

        with Store(store) as kept:
            found = kept.rows(keys=[cell.key for cell in claim(id).cells(preset)])
        return str(claim(id).judge([getattr(rows, change)(dict(row)) for row in found]).verdict)
    except Exception as error:
        print(f"{name}: {error!r}", file=sys.stderr)
        return "error"


def tested(names: list[str]) -> dict[str, str]:
    """The outcome of each test: of all its cases together."""
    import pytest

    class Outcomes:
        def __init__(self) -> None:
            self.failed: list[str] = []
            self.passed: list[str] = []

        def pytest_runtest_setup(self, item: Any) -> None:
            if item.nodeid.partition("[")[0] in {id.partition("[")[0] for id in self.failed}:
                pytest.skip("another case has failed: that is enough")

        def pytest_runtest_logreport(self, report: Any) -> None:
            if report.failed:
                self.failed.append(report.nodeid)
            elif report.when == "call" and report.passed:
                self.passed.append(report.nodeid)

        def pytest_collectreport(self, report: Any) -> None:
            if report.failed:
                self.failed.append(report.nodeid)

    seen, paths = Outcomes(), [f"tests/{name}" for name in names]
    pytest.main([*OPTIONS, ADDOPTS, *paths], plugins=[seen])

    def outcome(path: str) -> str:
        of = lambda ids: any(id == path or id.startswith((f"{path}[", f"{path}::")) for id in ids)  # noqa: E731
        file = path.partition("::")[0]
        return "failed" if of(seen.failed) or file in seen.failed else "passed" if of(seen.passed) else "error"

    return {name: outcome(path) for name, path in zip(names, paths, strict=True)}


def answer(request: dict[str, Any]) -> dict[str, str]:
    """What is seen with facthold from the folder ``source``, in a process that has not imported it before."""
    sys.path.insert(0, request["source"])
    os.environ["PYTHONPATH"] = request["source"]
    import facthold

    assert str(facthold.__file__).startswith(request["source"])
    seen = {name: judged(name, request["store"], request["change"]) for name in request["claims"]}
    return seen | (tested(request["tests"]) if request["tests"] else {})


def main() -> None:
    import diffrax  # noqa: F401
    import equinox  # noqa: F401
    import hypothesis  # noqa: F401
    import jax  # noqa: F401
    import optax  # noqa: F401
    import pytest  # noqa: F401
    import scipy.optimize  # noqa: F401

    assert "facthold" not in sys.modules
    for line in sys.stdin:
        if (child := os.fork()) == 0:
            nothing = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(nothing, stream)
            request = json.loads(line)
            try:
                Path(request["answer"]).write_text(json.dumps(answer(request)))
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        print("done", flush=True)


if __name__ == "__main__":
    main()
