"""A small disk of its own that can be filled to the last byte: a tmpfs, in a namespace of mounts that nobody else sees.

Root may mount one, and so may others where users may have namespaces of their own. It goes with its last process.
"""

import functools
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

SIZE = 16 << 20  # bytes
BLOCK = 1 << 16
MOUNT = 'mount -t tmpfs -o size="$1" facthold "$0" && echo mounted && exec cat'  # and then waits for its input to end
INSIDE = 'cd "$0" && exec "$@"'
NAMESPACES = {("--mount",): (), ("--mount", "--map-root-user"): ("--user", "--preserve-credentials")}
"""For `unshare`, to make them; and for `nsenter`, beside --mount, to come in."""


class NoDisk(Exception):
    """Why none can be mounted here."""


@dataclass(frozen=True)
class Disk:
    """A disk that is mounted for some processes alone."""

    folder: Path  # as these see it
    seen: Path  # the same, as all others do
    nsenter: tuple[str, ...]

    def inside(self, name: str) -> tuple[str, ...]:
        """What stands before a command that is to run in this folder of the disk."""
        return (*self.nsenter, "sh", "-c", INSIDE, str(self.folder / name))

    def fill(self, left: int) -> None:
        """Leave room for so many bytes, or for a page less."""
        with (self.seen / "filler").open("wb", buffering=0) as filler:
            with suppress(OSError):
                while filler.write(bytes(BLOCK)):
                    pass
            filler.truncate(max(filler.tell() - left, 0))

    def make_room(self) -> None:
        (self.seen / "filler").unlink()


@contextmanager
def small_disk(folder: Path) -> Iterator[Disk]:
    """One that is mounted over this folder, for who comes in."""
    refusals = []
    for options, entering in NAMESPACES.items():
        command = ["unshare", *options, "sh", "-c", MOUNT, str(folder), str(SIZE)]
        try:
            holder = subprocess.Popen(
                command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
            )
        except OSError as error:
            raise NoDisk(f"unshare: {error.strerror}") from error
        assert holder.stdout is not None
        if holder.stdout.readline() != "mounted\n":
            refusals.append(" ".join(holder.communicate()[1].split()))
            continue
        try:
            nsenter = ("nsenter", "--target", str(holder.pid), "--mount", *entering, "--")
            yield Disk(folder, Path(f"/proc/{holder.pid}/root{folder.resolve()}"), nsenter)
        finally:
            holder.communicate()
        return
    raise NoDisk("; ".join(dict.fromkeys(refusals)))


@functools.cache
def no_disk() -> str:
    """Why none can be mounted here; nothing where one can."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            with small_disk(Path(folder)) as disk:
                command = [*disk.inside("."), "true"]
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                return " ".join(done.stderr.split()) if done.returncode else ""
        except NoDisk as reason:
            return f"no disk can be mounted here ({reason})"
