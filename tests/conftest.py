"""All tests run as the command line does: `import facthold` settles threads and keeps compiled programs."""

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

import facthold
from facthold._util.runtime import drop_programs

assert facthold.__version__

# No deadlines: how long an example takes says more about what else the machine does. `make test` draws the same few
# examples each time, `make fuzz` thousands of new ones.
settings.register_profile("test", max_examples=40, deadline=None, derandomize=True, database=None)
settings.register_profile("fuzz", max_examples=3000, deadline=None, database=None, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "test"))


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown() -> None:
    """A process that runs hundreds of tests compiles more programs than Linux has memory maps for, and would die.

    After every test: a figure takes up to 6,000 maps, so that after every sixteenth would be too late.
    """
    drop_programs()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The slow ones first, so that no worker is alone with one of them at the end."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


@pytest.fixture(autouse=True)
def signals() -> Iterator[None]:
    """Signals do what they do by default, and again after each test: processes that tests start would inherit that one
    is ignored, from a command that was stopped in this process or from a shell that had put the tests aside."""
    numbers = (signal.SIGTERM, signal.SIGHUP) if threading.current_thread() is threading.main_thread() else ()
    before = {number: signal.getsignal(number) for number in numbers}
    for number, handler in before.items():
        if handler == signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    yield
    for number in numbers:
        signal.signal(number, signal.SIG_DFL)


@pytest.fixture(scope="session")
def smoke_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One store of smoke cells for all tests and workers: figures and claims share cells, and compute them once."""
    base = tmp_path_factory.getbasetemp()
    return (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "smoke.sqlite"
