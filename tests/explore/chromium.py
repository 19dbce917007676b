"""A page in Chromium, by Playwright: without a network, and with a note of all that goes wrong."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
MISSING = "Chromium" if CHROMIUM is None else "playwright" if find_spec("playwright") is None else None
needs_chromium = pytest.mark.skipif(MISSING is not None, reason=f"{MISSING} is not installed: it opens the page")
ARGUMENTS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip
PHONE, DESK = 390, 1280
LONGEST = 120  # seconds that a test waits for what it has asked for


@dataclass
class Opened:
    """A page that is open, what it has asked the network for, and what its console has said."""

    page: Any
    requests: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def state(self, name: str) -> Any:
        return self.page.evaluate("name => facthold.state.get(name)", name)

    def view(self, name: str) -> Any:
        """Open a view by its tab, and give its panel."""
        self.page.locator(f"#tab-{name}").click()
        return self.page.locator(f"#view-{name}")

    def wait(self, condition: str) -> None:
        """Until an expression is true in the page, which forbids what Playwright's own waiting does in it."""
        for _ in range(LONGEST * 20):
            if self.page.evaluate(condition):
                return
            self.page.wait_for_timeout(50)
        raise AssertionError(f"not within {LONGEST} s: {condition}")


@contextmanager
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS))
        yield chromium
        chromium.close()


@contextmanager
def opened(
    chromium: Any, path: Path, *, width: int = DESK, scheme: str = "light", view: str = "",
    ready: str = "html[data-ready]",
) -> Iterator[Opened]:  # fmt: skip
    """The page, which may ask for nothing but files, and may have no error in the end."""
    context = chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    found = Opened(context.new_page())

    def only_files(route: Any) -> None:
        found.requests.append(route.request.url)
        if route.request.url.startswith(("file:", "data:", "blob:")):
            route.continue_()
        else:
            route.abort()

    context.route("**/*", only_files)
    found.page.on("console", lambda said: found.errors.append(said.text) if said.type in ("error", "warning") else None)
    found.page.on("pageerror", lambda error: found.errors.append(str(error)))
    found.page.goto(f"{path.as_uri()}#{view}")
    found.page.wait_for_selector(ready, timeout=60_000)
    yield found
    assert not found.errors
    assert not [url for url in found.requests if not url.startswith(("file:", "data:", "blob:"))]
    context.close()
