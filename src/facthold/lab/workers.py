"""Local worker processes, one lane each. One that dies loses the cell that it was computing, and no other."""

import contextlib
import os
import pickle
import signal
import threading
import time
import traceback
from collections import Counter, deque
from collections.abc import Generator
from multiprocessing import connection, get_context, parent_process, resource_tracker

from facthold._util.errors import FactholdError, check_positive
from facthold._util.memory import check_memory
from facthold.lab.cells import Cell
from facthold.lab.places import RETRIES, WAIT, Finished, Line, Moment, Parcel, Place, Running, given_up

IDLE = 2.5e8  # bytes of a worker before it computes anything


class Workers(Place):
    """So many spawned processes, each with one lane. They end with the driver, whatever ends it."""

    def __init__(self, workers: int) -> None:
        check_positive(workers=workers)
        check_memory("so many processes", {f"workers={workers}": workers * IDLE})
        self.n = workers
        self.label = f"{workers} worker process" + ("es" if workers > 1 else "")

    @property
    def lanes(self) -> int:
        return self.n

    def compute(self, line: Line) -> Generator[Moment, None, None]:
        self._line, self._again = line, deque[Cell]()
        self._lost, self._tries = list[Cell](), Counter[str]()
        self._why = ""  # how the last worker ended that was not asked to
        self._error: Exception | None = None  # what a cell raised
        self._failed_starts = 0
        self._workers = [_Worker() for _ in range(min(self.n, len(line)))]
        try:
            while self._line or self._again or any(worker.running for worker in self._workers):
                yield self._listen()
                if self._error is not None:
                    raise self._error
            if self._lost:
                raise given_up(self._lost, f"its worker process ended ({self._why})")
        finally:
            for worker in self._workers:
                worker.end()

    def _listen(self) -> Moment:
        """Wait for a word of any worker, then give work to those that are free."""
        heard = connection.wait([worker.pipe for worker in self._workers], timeout=WAIT)
        finished = []
        for i, worker in enumerate(self._workers):
            if worker.pipe not in heard:
                continue
            try:
                message = worker.pipe.recv()
            except (EOFError, OSError):
                self._bury(worker)
                self._workers[i] = _Worker()
                continue
            running, worker.running, worker.free = worker.running, None, True
            if isinstance(message, Exception):
                self._error = message
            elif running is not None:
                finished.append(Finished(running.cell, *message))
            else:  # it has started
                self._failed_starts = 0
        idle = [worker for worker in self._workers if worker.free]
        cells = deque(self._line.take(len(idle)))
        for worker in idle:
            if cells or self._again:
                worker.give((cells or self._again).popleft())
        return Moment(finished, [worker.running for worker in self._workers if worker.running])

    def _bury(self, worker: "_Worker") -> None:
        """A worker has died. Its cell goes to the end of the line: memory that was short may be free by then."""
        worker.process.join(timeout=1.0)
        self._why = worker.end()
        if worker.running is not None:
            cell = worker.running.cell
            self._tries[cell.key] += 1
            (self._again if self._tries[cell.key] <= RETRIES else self._lost).append(cell)
            return
        self._failed_starts += 1
        if self._failed_starts > RETRIES:
            raise FactholdError(
                f"worker processes end while they start ({self._why}); free some memory, or take fewer workers; "
                "a script must start them below if __name__ == '__main__'"
            )


class _Worker:
    """One process, the pipe to it, and what it is doing."""

    def __init__(self) -> None:
        context = get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs,), name="facthold-worker", daemon=True)
        self.running: Running | None = None
        self.free = False
        # A signal that is blocked here is blocked there: Ctrl-C is for the driver, which ends its workers.
        resource_tracker.ensure_running()  # the first start would start it too, and unblock the signal meanwhile
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            self.process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        theirs.close()  # so that the pipe ends when the worker does

    def give(self, cell: Cell) -> None:
        self.free, self.running = False, Running(cell, time.time())
        with contextlib.suppress(OSError):  # it died while it was idle: the next look at its pipe says so
            self.pipe.send(Parcel.of(cell))

    def end(self) -> str:
        """End the process at once, nothing of it is worth waiting for; says how it ended."""
        self.process.kill()
        self.process.join()
        self.pipe.close()
        code = self.process.exitcode or 0
        return signal.Signals(-code).name if code < 0 else f"exit code {code}"


def _serve(pipe: connection.Connection) -> None:
    """What a worker does: run the cells that come through the pipe, one by one."""
    threading.Thread(target=_end_with_driver, daemon=True).start()
    with contextlib.suppress(EOFError, OSError):  # the driver is gone
        pipe.send("ready")
        while True:
            pipe.send(_outcome(pipe.recv()))


def _end_with_driver() -> None:
    """Even in the middle of a cell, and even if the driver was killed."""
    driver = parent_process()
    assert driver is not None
    driver.join()
    os._exit(1)


def _outcome(parcel: Parcel) -> object:
    """Result and provenance, or what the cell raised, in a form that the driver can read."""
    try:
        return parcel.run()
    except Exception as error:
        error.add_note(traceback.format_exc())
        try:
            return pickle.loads(pickle.dumps(error))
        except Exception:
            return RuntimeError(f"{type(error).__name__}: {error}")
