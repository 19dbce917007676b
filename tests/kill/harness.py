"""Commands that are killed at random moments, and started again: they end as if nothing had happened.

A command runs in a folder of its own, in a process of its own. At a random moment it is killed (SIGKILL), asked to end
(SIGTERM), limited (no file may grow beyond a random size from then on: RLIMIT_FSIZE, which needs no rights), or its
disk is full but for a few bytes (a small tmpfs, where one can be mounted). At that moment every output is absent, old
or complete, and the store holds rows of the undisturbed run alone; `watch`, asked to end, may keep what it has seen.
Started again, with room on the disk, the command leaves the same files as the undisturbed run, no other ones, and the
same values in them.
"""

import importlib.util
import json
import os
import random
import re
import resource
import shutil
import signal
import sqlite3
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image

import facthold
from kill.disk import no_disk, small_disk

SOURCE = str(Path(facthold.__file__).parents[1])
LONGEST = 600.0  # seconds after which a command hangs
LIMITED, FULL = "size limit", "full disk"
NO_ROOM = (2, "facthold: cannot ")
ENDINGS = {"SIGKILL": (-9, ""), "SIGTERM": (143, "facthold: interrupted; "), LIMITED: NO_ROOM, FULL: NO_ROOM}
WAYS = tuple(ENDINGS)  # to be stopped, and what becomes of it: the exit code, and the last line
LOOK = 0.004  # seconds between two looks at a folder
OLD = b"old"  # at the end of an output from before, so that it is told from the new one
STORE = "store.sqlite"
TIME = rb"[\d.]+ (?:ms|s|min|h)\b"
PASSING = re.compile(rb"\d{4}-\d\d-\d\dT[\d:+]+|%b(?: %b)*|\"seconds\": [\d.e-]+" % (TIME, TIME))  # dates and times

GRID = "[fig1]\nlinear_d = [6, 7]\nmlp_sizes = [[6, 6]]\nn_seeds = 1\ntolerance = 0.3\n"
FACTS = [(f"land{s}", r, f"{r}{(s * 7 + 3) % n}") for s in range(12) for r, n in (("capital", 12), ("region", 4))]
EDITS = [(s, r, f"region{(i * 3 + 1) % 4}") for i, (s, r, _) in enumerate(FACTS) if r == "region"][:6]
CHEAP = 'linear_method = "outer-product"\nmlp_method = "hermite-features"\n'  # solved, not trained
INPUTS = {
    "grid.toml": GRID,
    "cheap.toml": GRID + CHEAP,
    "facts.csv": "\n".join(",".join(row) for row in [("subject", "relation", "answer"), *FACTS]) + "\n",
    "edits.csv": "\n".join(",".join(row) for row in [("subject", "relation", "answer"), *EDITS]) + "\n",
    "text.txt": "she sells sea shells by the sea shore; the shells she sells are sea shells, she is sure.\n" * 3,
}
FIGURE = ("fig1", "--preset", "smoke", "--store", STORE, "-o", "out", "--config")


@dataclass(frozen=True)
class Job:
    """A command, and what must be there before it."""

    name: str
    arguments: tuple[str, ...]
    before: tuple[str, ...] = ()  # a command that makes an input
    on_ray: bool = False
    keeps: str = ""  # what it says where it was asked to end and has kept a part of its outputs


WATCH = ("watch", "facts.csv", "--lr", "0.0002", "--steps", "500000", "-o", "watched")
BUILD = ("build", "facts.csv", "-o", "model.safetensors")
INDUCTION = ("induction", "text.txt", "-K", "2", "-T", "24", "-d", "16", "--steps", "60", "-o", "head.safetensors")
JOBS = {
    job.name: job
    for job in (
        Job("reproduce", ("reproduce", *FIGURE, "grid.toml", "--figures-only")),
        Job("figure", ("figure", *FIGURE, "cheap.toml")),
        Job("build", BUILD),
        Job("edit --file", ("edit", "model.safetensors", "--file", "edits.csv", "-o", "edited.safetensors"), BUILD),
        Job("watch -o", WATCH, keeps="kept what was seen up to step "),
        Job("induction -o", INDUCTION),
        Job("figure --ray", ("figure", *FIGURE, "grid.toml"), on_ray=True),
    )
}


def why_not(job: Job, way: str) -> str:
    """Why this cannot be tried here; nothing where it can."""
    if job.on_ray and importlib.util.find_spec("ray") is None:
        return "Ray is not installed"
    if way == FULL:
        return no_disk()
    if way == LIMITED and not hasattr(resource, "prlimit"):
        return "no process can be limited from outside here (resource.prlimit)"
    return ""


@contextmanager
def cluster(job: Job) -> Iterator[tuple[str, ...]]:
    """The options that name a Ray cluster of one node on this machine, for as long as it is needed."""
    if not job.on_ray:
        yield ()
        return
    from ray_nodes import Node

    with tempfile.TemporaryDirectory(prefix="fh", dir="/tmp", ignore_cleanup_errors=True) as folder:
        node, address = Node.head(Path(folder))
        try:
            yield ("--ray", address)
        finally:
            node.kill()


class Running:
    """The program in a process of its own, and the changes of its folder."""

    def __init__(self, arguments: tuple[str, ...], folder: Path, inside: tuple[str, ...] = ()) -> None:
        self.folder, self.began, self.changes = folder, time.monotonic(), 0
        environment = {name: value for name, value in os.environ.items() if name != "FACTHOLD_STORE"}
        environment |= {"PYTHONPATH": SOURCE, "RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}
        self.seen = _listing(folder)
        self.process = subprocess.Popen(
            [*inside, sys.executable, "-m", "facthold", *arguments], cwd=None if inside else folder, env=environment,
            text=True, errors="replace", stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        )  # fmt: skip

    def goes_on(self) -> bool:
        """Look again, a moment later."""
        time.sleep(LOOK)
        if (now := _listing(self.folder)) != self.seen:
            self.seen, self.changes = now, self.changes + 1
        if time.monotonic() - self.began > LONGEST:
            self.process.kill()
            raise AssertionError("it hangs")
        return self.process.poll() is None

    def end(self) -> str:
        """Wait for its end; what it said."""
        try:
            return self.process.communicate(timeout=LONGEST)[1]
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise AssertionError("it hangs") from None


def _listing(folder: Path | str) -> dict[str, tuple[int, int]]:
    found = {}
    for entry in os.scandir(folder):
        with suppress(FileNotFoundError):
            if entry.is_dir():
                found |= _listing(entry.path)
            found[entry.path] = (entry.inode(), entry.stat().st_size)
    return found


@dataclass(frozen=True)
class Undisturbed:
    """What a command needs and leaves, and how long it takes."""

    inputs: Path
    folder: Path
    seconds: float
    changes: int

    @property
    def outputs(self) -> list[str]:
        """The files that it makes, but for the store."""
        return sorted(names(self.folder) - names(self.inputs) - {STORE})


def undisturbed(job: Job, options: tuple[str, ...], at: Path, runs: int = 2) -> Undisturbed:
    """Run it twice: the first time compiles what others find compiled, and both must leave the same."""
    inputs = at / "inputs"
    inputs.mkdir()
    for name, text in INPUTS.items():
        (inputs / name).write_text(text)
    if job.before:
        done = Running(job.before, inputs)
        said = done.end()
        assert done.process.returncode == 0, said
    left = []
    for i in range(runs):
        folder = at / f"undisturbed{i}"
        shutil.copytree(inputs, folder)
        run = Running((*job.arguments, *options), folder)
        while run.goes_on():
            pass
        said = run.end()
        assert run.process.returncode == 0, said
        left.append(Undisturbed(inputs, folder, time.monotonic() - run.began, run.changes))
    assert not (differ := differences(left[0].folder, left[-1].folder)), f"two undisturbed runs: {differ}"
    return left[-1]


@dataclass(frozen=True)
class Trial:
    """How one trial went."""

    cut: bool  # it was stopped in the middle, and not finished before or not yet begun
    part: bool  # and has kept what it had seen
    problems: list[str]


def trial(job: Job, way: str, well: Undisturbed, options: tuple[str, ...], seed: str) -> Trial:
    """Stop a command at a random moment, look, start it again, and look again."""
    draw = random.Random(seed)
    with (
        tempfile.TemporaryDirectory(prefix="kill-") as parent,
        small_disk(Path(parent)) if way == FULL else nullcontext() as disk,
    ):
        folder = (Path(parent) if disk is None else disk.seen) / "folder"
        shutil.copytree(well.inputs, folder)
        old = {}
        if draw.random() < 0.5:  # an older run has left its outputs
            old = {name: (well.folder / name).read_bytes() + OLD for name in well.outputs}
            for name, content in old.items():
                (folder / name).parent.mkdir(exist_ok=True)
                (folder / name).write_bytes(content)
        command = (*job.arguments, *options), folder, () if disk is None else disk.inside("folder")
        run = Running(*command)
        _wait(run, well, draw)
        size = draw.randrange((well.folder / draw.choice(well.outputs)).stat().st_size)  # too small for one of them
        if disk is not None:
            disk.fill(size)
        elif way == LIMITED:
            with suppress(ProcessLookupError):
                resource.prlimit(run.process.pid, resource.RLIMIT_FSIZE, (size, size))
        else:
            run.process.send_signal(getattr(signal, way))
        said = run.end()
        code = run.process.returncode
        if disk is not None:
            disk.make_room()
        part = bool(job.keeps) and way == "SIGTERM" and job.keeps in said
        problems = [*_ending(way, code, said), *_halves(folder, well, old, part=part)]
        if way != "SIGKILL":
            problems += [f"{name} is left behind" for name in names(folder) if name.endswith(".partial")]
        if code != 0:
            again = Running(*command)
            said = again.end()
            if again.process.returncode != 0:
                return Trial(True, part, [*problems, f"started again it says {said.strip()[-500:]}"])
        return Trial(code == ENDINGS[way][0], part, problems + differences(folder, well.folder))


def _wait(run: Running, well: Undisturbed, draw: random.Random) -> None:
    """Until a moment of the whole run, or until so many changes of its folder: most of them are close together."""
    by_time = draw.random() < 0.5
    seconds, changes = draw.uniform(0.0, well.seconds), draw.randint(1, max(well.changes, 1))
    while run.goes_on():
        if time.monotonic() - run.began > seconds if by_time else run.changes >= changes:
            return


def _ending(way: str, code: int, said: str) -> Iterator[str]:
    """What is wrong with how it ended: it says so in one line, with its exit code."""
    last = (said.strip().splitlines() or [""])[-1]
    # it may have finished before; and before Python listens, a process ends by the signal itself
    if code not in (0, -signal.SIGTERM if way == "SIGTERM" else 0):
        wanted, begins = ENDINGS[way]
        if code != wanted or not last.startswith(begins):
            yield f"exit code {code}: {last}"
    if "Traceback" in said:
        yield f"a traceback: {said.strip()[-1000:]}"


def _halves(folder: Path, well: Undisturbed, old: Mapping[str, bytes], *, part: bool) -> Iterator[str]:
    """Outputs that are neither absent nor old nor complete, and rows that are not those of the undisturbed run. Where a
    part was kept, each output is one."""
    for name in well.outputs:
        path = folder / name
        if not path.exists():
            if name in old or part:
                yield f"{'the older ' if name in old else ''}{name} is lost"
        elif part:
            if not is_part(path, well.folder / name):
                yield f"{name} is not the first of what there is to see: {path.stat().st_size} bytes"
        elif path.read_bytes() != old.get(name) and essence(path) != essence(well.folder / name):
            yield f"{name} is half written: {path.stat().st_size} bytes"
    if (folder / STORE).exists():
        rows, all_rows = essence(folder / STORE), essence(well.folder / STORE)
        if rows == "damaged" or any(all_rows.get(key) != result for key, result in rows.items()):
            yield f"the store: {rows}"


def is_part(path: Path, whole: Path) -> bool:
    """Whether a file is what `watch` keeps of a run that was stopped: the first rows of the table, with its header and
    at least one, or a GIF that has all of its pictures."""
    content = path.read_bytes()
    if path.suffix == ".csv":
        return whole.read_bytes().startswith(content) and content.endswith(b"\n") and content.count(b"\n") > 1
    try:
        with Image.open(path) as picture:
            for i in range(picture.n_frames):
                picture.seek(i)
                picture.load()
    except (OSError, SyntaxError, EOFError, struct.error):
        return False
    return content.endswith(b";")  # where a GIF ends


def names(folder: Path) -> set[str]:
    """Of all files, hidden ones too."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def differences(folder: Path, well: Path) -> list[str]:
    """In what a folder is not as it should be."""
    found = [f"{name} is there" for name in names(folder) - names(well)]
    found += [f"{name} is missing" for name in names(well) - names(folder)]
    both = names(folder) & names(well)
    return found + [f"{name} differs" for name in sorted(both) if essence(folder / name) != essence(well / name)]


def essence(path: Path) -> Any:
    """What matters of a file: its bytes, but for dates and times; of a store, the results by key."""
    if path.suffix != ".sqlite":
        return PASSING.sub(b"", path.read_bytes()) if path.suffix in (".html", ".json") else path.read_bytes()
    with tempfile.TemporaryDirectory() as folder:  # a copy: to open it is to mend it
        for file in path.parent.glob(f"{path.name}*"):
            shutil.copyfile(file, Path(folder) / file.name)
        with closing(sqlite3.connect(Path(folder) / path.name)) as db:
            try:
                if db.execute("PRAGMA integrity_check").fetchone() != ("ok",):
                    return "damaged"
                if not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'results'").fetchone():
                    return {}
                rows = db.execute("SELECT key, result FROM results").fetchall()
            except sqlite3.DatabaseError:
                return "damaged"
    return {key: _timeless(json.loads(result)) for key, result in rows}


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _timeless(v) for name, v in value.items() if name != "seconds"}
    return [_timeless(v) for v in value] if isinstance(value, list) else value
