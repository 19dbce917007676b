"""A Ray cluster: cells are Ray tasks, and Ray itself tries them again when a worker or a node dies."""

import contextlib
import logging
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Iterator
from typing import Any

from facthold._util.errors import FactholdError, optional
from facthold.lab import probe
from facthold.lab.cells import Cell
from facthold.lab.places import RETRIES, WAIT, Finished, Line, Moment, Parcel, Place, Running, given_up

COUNT_EVERY = 5.0  # seconds after which the cores of the cluster are counted again: nodes come and go
PATIENCE = 20.0  # seconds without a head after which the run ends. Ray itself would abort this process after 60.


@contextlib.contextmanager
def _sigterm_as_before() -> Iterator[None]:
    """Ray takes SIGTERM for itself when it connects, and leaves it to the system when it goes: the process would end
    without a word, in the middle of a file. Outside the main thread it does neither."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):
            signal.signal(signal.SIGTERM, before)


class RayCluster(Place):
    """The cluster whose head is at ``address`` ('host:port', or 'auto' for the one on this machine)."""

    label = "a Ray cluster"

    def __init__(self, address: str) -> None:
        found = re.fullmatch(r"([\w.-]+|\[[0-9a-fA-F:.]+\]):(\d{1,5})", address)  # only what Ray's own driver takes
        if address != "auto" and not (found and 0 < int(found[2]) < 2**16):
            raise FactholdError(
                f"ray={address} is no address; give host:port as `ray start --head` prints it, such as 10.0.0.1:6379, "
                "or auto"
            )
        (self._ray,) = optional("a Ray cluster needs Ray: pip install 'facthold[cluster]'", "ray")
        self.address = address
        self._ours = False
        self._lanes, self._counted, self._answered = 0, 0.0, 0.0

    @property
    def lanes(self) -> int:
        """Cores of the nodes that are alive."""
        return max(self._lanes, 1)

    def __enter__(self) -> "RayCluster":
        if not self._ray.is_initialized():  # else the caller has connected, and stays so
            _probe(self.address)
            with _sigterm_as_before():
                self._ray.init(address=self.address, log_to_driver=False, logging_level=logging.CRITICAL)
            self._ours = True
        self._count()
        if not self._lanes:
            self.__exit__()
            raise FactholdError(f"the Ray cluster at {self.address} has no cores; add a node with ray start")
        return self

    def __exit__(self, *_: object) -> None:
        if self._ours:
            self._ours = False
            with _sigterm_as_before():
                self._ray.shutdown()

    def compute(self, line: Line) -> Generator[Moment, None, None]:
        task = self._ray.remote(num_cpus=1, max_retries=RETRIES)(Parcel.run)
        lost, why = list[Cell](), ""
        running: dict[Any, Running] = {}  # by the reference of its task
        try:
            while line or running:
                self._count()
                for cell in line.take(self.lanes + 1 - len(running)):  # one waits, so that no core does
                    running[task.remote(Parcel.of(cell))] = Running(cell, time.time())
                done: list[Any] = []
                if running:
                    done, _ = self._ray.wait(list(running), timeout=WAIT)
                else:
                    time.sleep(WAIT)
                finished: list[Finished] = []
                error: BaseException | None = None
                for ref in done:
                    cell = running.pop(ref).cell
                    try:
                        finished.append(Finished(cell, *self._ray.get(ref)))
                    except self._ray.exceptions.RayTaskError as raised:
                        error = raised.cause or raised
                    except self._ray.exceptions.RayError as raised:
                        lost.append(cell)
                        why = " ".join(str(raised).split())[:200]
                yield Moment(finished, list(running.values()))
                if error is not None:
                    raise error
            if lost:
                raise given_up(lost, why)
        finally:
            for ref in running:
                self._ray.cancel(ref, force=True)

    def _count(self) -> None:
        """Count the cores again, now and then. Asks nothing of Ray while its head is silent: it would not return."""
        if self._counted and time.monotonic() - self._counted < COUNT_EVERY:
            return
        head = self._ray.get_runtime_context().gcs_address
        if probe.listens(head, timeout=COUNT_EVERY) is None:
            self._lanes = int(self._ray.cluster_resources().get("CPU", 0))
            self._answered = time.monotonic()
        elif time.monotonic() - self._answered > PATIENCE:
            raise FactholdError(
                "the head of the Ray cluster has stopped answering; start it again, and the same command goes on: "
                "finished cells are stored"
            )
        self._counted = time.monotonic()


def _probe(address: str) -> None:
    """Refuse an address where no cluster answers, in one line and in time."""
    path = os.pathsep.join(folder for folder in sys.path if folder)
    command = [sys.executable, "-P", "-m", probe.__name__, address]
    try:
        done = subprocess.run(
            command, env=os.environ | {"PYTHONPATH": path}, timeout=probe.SECONDS, text=True, errors="replace",
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        said = f"nothing answered as Ray does within {probe.SECONDS:.0f} s"
    else:
        if done.returncode == 0:
            return
        said = next(reversed(done.stdout.strip().splitlines()), "Ray gave up")
    raise FactholdError(
        f"cannot reach a Ray cluster at {address} ({said}); check that its head runs and that this machine is one of "
        "its nodes (ray start --address=...)"
    )
