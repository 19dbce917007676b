"""Nodes of a Ray cluster on this machine, for tests: each is `ray start --block` with all its processes."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

from odd_cells import IMPORTED, alive, until

# a cluster for tests alone: nothing is reported, and no token of the user is asked for
ENVIRONMENT = os.environ | {
    "PYTHONPATH": IMPORTED, "RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0", "RAY_ADDRESS": "",
}  # fmt: skip
SMALL = ["--num-cpus=1", "--object-store-memory=80000000", "--include-log-monitor=false", "--disable-usage-stats"]
PORTS = ["--min-worker-port=0", "--max-worker-port=0"]  # any free ones


def free_port() -> int:
    """Away from those that Ray gives to its workers."""
    for port in range(20_000 + os.getpid() % 5_000, 30_000):
        with socket.socket() as probe:
            try:
                probe.bind(("", port))
            except OSError:
                continue
            return port
    raise AssertionError("no free port")


class Node:
    """`ray start --block` and all its processes, in a session of their own."""

    def __init__(self, *arguments: str, log: Path) -> None:
        command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", *SMALL, *PORTS, *arguments]
        with log.open("w") as output:
            self.process = subprocess.Popen(
                command, env=ENVIRONMENT, start_new_session=True, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
        until(lambda: "Ray runtime started" in log.read_text() or self.process.poll() is not None)
        assert self.process.poll() is None, log.read_text()

    @classmethod
    def head(cls, folder: Path) -> "tuple[Node, str]":
        """The first node of a cluster, and its address."""
        port = free_port()
        dashboard = "--include-dashboard=false"
        node = cls("--head", f"--port={port}", f"--temp-dir={folder}", dashboard, log=folder / "head.log")
        return node, f"127.0.0.1:{port}"

    def runs(self, pid: int) -> bool:
        return alive(pid) and os.getsid(pid) == self.process.pid

    def kill(self) -> None:
        """All at once, as when a machine loses its power."""
        for pid in [int(path.name) for path in Path("/proc").glob("[0-9]*")]:
            try:
                if os.getsid(pid) == self.process.pid:
                    os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self.process.wait()
