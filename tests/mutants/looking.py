"""One look, in a process of its own: claims or tests by whichever facthold PYTHONPATH names, answered as JSON."""

import json
import sys
from pathlib import Path
from typing import Any


def judged(name: str, store: str, change: str) -> str:
    """The verdict on a claim, by rows that were changed where a change is named."""
    from facthold.lab.api import verify
    from facthold.lab.registry import claim
    from facthold.lab.store import Store

    id, _, preset = name.partition("@")
    preset = preset or "smoke"
    try:
        (word,) = [one.verdict for one in verify(id, preset=preset, store=store)]
        if not change:
            return word
        sys.path.insert(0, str(Path(__file__).parent))
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
        failed: list[str] = []
        passed: list[str] = []

        def pytest_runtest_logreport(self, report: Any) -> None:
            if report.failed:
                self.failed.append(report.nodeid)
            elif report.when == "call" and report.passed:
                self.passed.append(report.nodeid)

        def pytest_collectreport(self, report: Any) -> None:
            if report.failed:
                self.failed.append(report.nodeid)

    seen = Outcomes()
    paths = [f"tests/{name}" for name in names]
    pytest.main(["-q", "-x" if len(names) == 1 else "-q", "-p", "no:cacheprovider", *paths], plugins=[seen])

    def outcome(path: str) -> str:
        of = lambda ids: any(id == path or id.startswith((f"{path}[", f"{path}::")) for id in ids)  # noqa: E731
        file = path.partition("::")[0]
        return "failed" if of(seen.failed) or file in seen.failed else "passed" if of(seen.passed) else "error"

    return {name: outcome(path) for name, path in zip(names, paths, strict=True)}


def main() -> None:
    asked, answer = json.loads(sys.argv[1]), Path(sys.argv[2])
    if asked["kind"] == "tests":
        seen = tested(asked["names"])
    else:
        import facthold

        assert facthold.__file__ is not None
        seen = {name: judged(name, asked["store"], asked["change"]) for name in asked["names"]}
    answer.write_text(json.dumps(seen))


if __name__ == "__main__":
    main()
