"""The program itself: which module makes which command, and what each has to load."""

import importlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import typer

import known
from facthold import __version__
from facthold._util.errors import FactholdError
from facthold.cli.app import COMMANDS, SECTIONS, _command, _load, app, in_options
from facthold.cli.ending import STOPS, interrupted, listen
from facthold.models.saving import save_model
from odd_cells import IMPORTED, PATIENCE

HEAVY = {"jax", "jaxlib", "equinox", "optax", "diffrax", "matplotlib", "ray", "pyarrow", "pandas", "scipy.stats"}
"""Each takes a second or so to import."""


def python(script: str, *arguments: str) -> str:
    done = subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    return done.stdout


def loaded(*arguments: str) -> set[str]:
    """The heavy modules that the program has loaded when it has answered."""
    script = (
        "import sys, facthold.cli.app as app\n"
        "app.ending.leave = lambda code: print('\\nLOADED', code, *sys.modules)\n"
        "app.main(sys.argv[1:])"
    )
    code, *modules = python(script, *arguments).splitlines()[-1].removeprefix("LOADED ").split()
    assert code == "0"
    return HEAVY & set(modules)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["--version"],
        ["list"],
        ["list", "--json"],
        ["plan", "--subjects", "1000", "--relations", "8", "--answers", "16"],
    ],
    ids=" ".join,
)
def test_what_only_describes_loads_nothing_heavy(arguments: list[str]) -> None:
    assert not loaded(*arguments)


def test_the_help_says_what_every_command_is_for_in_a_line() -> None:
    text = python("import sys; from facthold.cli import main; main(['--help'])")
    for section, commands in SECTIONS.items():
        assert section in text
        for name, (_, outline) in commands.items():
            assert any(line.split(None, 1) == [name, outline] for line in text.splitlines()), name
    assert max(map(len, text.splitlines())) <= 80


def test_every_command_is_in_the_module_that_is_said() -> None:
    """Each module makes the commands that `SECTIONS` says of it, and no others."""
    script = (
        "import importlib; from facthold.cli.app import COMMANDS, app\n"
        "groups = lambda: {g.typer_instance.info.name for g in app.registered_groups}\n"
        "made = lambda: {c.name or c.callback.__name__ for c in app.registered_commands} | groups()\n"
        "for module in sorted(set(COMMANDS.values())):\n"
        "    before = made()\n"
        "    importlib.import_module(f'facthold.cli.{module}')\n"
        "    print(module, *sorted(made() - before))\n"
    )
    lines = [line.split() for line in python(script).splitlines()]
    assert {(module, name) for module, *names in lines for name in names} == {(m, c) for c, m in COMMANDS.items()}


def test_no_help_page_loads_what_computes_and_all_fit_80_columns() -> None:
    script = (
        "import sys; from facthold.cli import app\n"
        "def leave(code): raise SystemExit(code)\n"
        "app.ending.leave = leave\n"
        "for name in app.COMMANDS:\n"
        "    try: app.main([name, '--help'])\n"
        "    except SystemExit: pass\n"
        "print('LOADED', *sys.modules)\n"
    )
    *pages, modules = python(script).splitlines()
    assert max(map(len, pages)) <= 80
    assert sum(line.startswith("Usage:") for line in pages) == len(COMMANDS)
    assert not HEAVY & set(modules.split())
    text = "\n".join(pages)
    for old in ("--goal", "--save", "--out ", "--method"):
        assert old not in text


def test_asking_loads_nothing_that_trains_or_draws(tmp_path: Path) -> None:
    save_model(tmp_path / "m.safetensors", *known.countries())
    arguments = ("ask", str(tmp_path / "m.safetensors"), "France", "capital")
    assert loaded(*arguments) <= {"jax", "jaxlib", "equinox"}


@pytest.mark.parametrize(
    ("message", "says"),
    [
        ("accuracy=1.2 must be above 0", "--accuracy 1.2 must be above 0"),
        ("goal=1.2 must be above 0", "--accuracy 1.2 must be above 0"),
        ("d_h=0 and d=4: H d_h = alpha d", "--d-h 0 and -d 4: H d_h = alpha d"),
        ("H=3 is too large; or fewer n_noise", "--heads 3 is too large; or fewer --noise-tokens"),
        ("unknown recipe 'x'; take recipe='selected'", "unknown recipe 'x'; take --recipe selected"),
        ("(method='a b', m=3), m.d=7", "(--recipe a b, -m 3), m.d=7"),
        ("give another output, or another seed of the table", "give another --output, or another --seed of the table"),
        ("a table of facts; store it", "a table of facts; store it"),
    ],
)  # fmt: skip
def test_arguments_in_errors_become_options(message: str, says: str) -> None:
    importlib.import_module("facthold.cli.make")
    assert in_options(message, typer.main.get_command(app).commands["make"].params) == says  # type: ignore[attr-defined]


def test_the_command_is_the_first_word_that_is_no_option() -> None:
    assert _command(["ask", "m", "France", "capital"]) == "ask"
    assert _command(["--debug", "edit", "--help"]) == "edit"
    assert _command(["--version"]) is None


def test_a_misspelt_command_is_told_the_nearest() -> None:
    with pytest.raises((ValueError, FactholdError), match="did you mean 'verify'"):
        _load(["verfy"])


def test_version_help_and_a_command_that_is_none(run: Callable[..., tuple[int, str, str]]) -> None:
    assert run("--version")[1].strip() == f"facthold {__version__}"
    assert run()[1] == run("--help")[1]
    assert run("nonsense")[2].startswith("facthold: unknown command 'nonsense'")


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (("induction", ""), "TEXT"), (("induction", "--model", ""), "--model"), (("watch", ""), "FILE|NAME"),
        (("build", "", "-o", "x"), "FILE"), (("build", "x.csv", "-o", ""), "--output"), (("ask", ""), "MODEL"),
        (("results", "--store="), "--store"), (("figure", "fig6", "-o", ""), "--output"),
    ],
)  # fmt: skip
def test_an_empty_name_of_a_file_is_not_taken_for_the_folder_that_one_is_in(
    arguments: tuple[str, ...], name: str, refuses: Callable[..., str]
) -> None:
    assert refuses(*arguments) == f"facthold: {name} is empty; give a name"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("build t.csv -o --json", "--output --json is an option, and no name; write ./--json if a file is meant"),
        ("results --csv -o --kind", "--output --kind is an option, and no name; write ./--kind if a file is meant"),
        ("figure fig6 --store -o", "--store -o is an option, and no name; write ./-o if a file is meant"),
        ("build -o --recipe=gated t.csv", "--output --recipe=gated is an option, and no name; write ./--recipe=gated"),
        ("edit m -o --store-embeddings", "--output --store-embeddings is an option, and no name"),
        ("facts countries -o --help", "--output --help is an option, and no name"),
        ("ask m --prompt --json", "--prompt --json is an option, and no name; write ./"),
        ("build t.csv --recipe -o m", "--recipe -o is an option, and no name; write ./"),
    ],
)  # fmt: skip
def test_an_option_is_not_taken_for_the_value_of_the_one_before_it(
    arguments: str, says: str, folder: Path, refuses: Callable[..., str]
) -> None:
    (folder / "t.csv").write_text("subject,relation,answer\nPeru,capital,Lima\n")
    assert refuses(*arguments.split()).startswith(f"facthold: {says}")
    assert [path.name for path in folder.iterdir()] == ["t.csv"]


def test_a_file_may_have_the_name_of_an_option_and_help_is_given_beside_anything(
    folder: Path, run: Callable[..., tuple[int, str, str]]
) -> None:
    assert run("facts", "elements", "-o", "./--json.csv")[0] == 0
    assert run("make", "-N", "4", "-d", "4", "-o", "./--json")[0] == 0
    assert {path.name for path in folder.iterdir()} == {"--json.csv", "--json"}
    assert "Usage" in run("build", "--help", "-o", "--json")[1]


def test_debug_shows_the_traceback(run: Callable[..., tuple[int, str, str]]) -> None:
    with pytest.raises(FactholdError, match="-N 0 must be at least 1") as error:
        app(["make", "-N", "0"], standalone_mode=False)
    assert isinstance(error.value.__cause__, ValueError)
    done = subprocess.run(
        [sys.executable, "-m", "facthold", "make", "-N", "0", "--debug"],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode != 0
    assert "Traceback" in done.stderr


STOPPED = """
import importlib.machinery, os, sys, time
from facthold._util.files import MODEL, TEXT, writing
from facthold.cli.app import app, main

def wait():
    print("now", flush=True)
    time.sleep(60)

@app.command()
def nothing():
    with writing("half.txt", TEXT) as stream:
        stream.write(b"half of it")
        stream.flush()
        wait()

@app.command()
def file():
    with writing("whole.txt", TEXT) as stream:
        stream.write(b"all of it")
    nothing()

@app.command()
def kept():
    with writing(".m.kept", TEXT) as stream:
        stream.write(b"tries")
    nothing()

@app.command()
def noted():
    try:
        wait()
    except KeyboardInterrupt as stop:
        stop.add_note("3 of 4 cells stored")
        raise

@app.command()
def lost():
    class Deaf:
        def __del__(self):
            wait()
    Deaf()
    time.sleep(60)

@app.command()
def imported():
    class Native:
        def find_spec(self, name, path=None, target=None):
            return importlib.machinery.ModuleSpec(name, self) if name == "native" else None

        def create_module(self, spec):
            return None

        def exec_module(self, module):
            try:
                print("now", flush=True)
                time.sleep(0.5)
            except BaseException:
                os.abort()

    sys.meta_path.insert(0, Native())
    import native
    time.sleep(60)

@app.command()
def changed():
    try:
        wait()
    except KeyboardInterrupt:
        raise RuntimeError("a library makes something else of it")

if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize(
    ("command", "says", "files"),
    [
        ("nothing", "no file was written", []),
        ("file", "written before that: whole.txt", ["whole.txt"]),
        ("kept", "what was tried is kept in .m.kept, and the same command goes on after it", [".m.kept"]),
        ("noted", "3 of 4 cells stored", []),
        ("lost", "no file was written", []),
        ("imported", "no file was written", []),
        ("changed", "no file was written", []),
    ],
)
def test_every_signal_that_asks_to_end_is_told_in_one_true_line_and_leaves_nothing_half_written(
    command: str, says: str, files: list[str], tmp_path: Path
) -> None:
    for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)):
        running = subprocess.Popen(
            [sys.executable, "-c", STOPPED, command], cwd=tmp_path, env=os.environ | {"PYTHONPATH": IMPORTED},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert running.stdout is not None
        assert running.stdout.readline() == "now\n"
        running.send_signal(number)
        _, said = running.communicate(timeout=PATIENCE)
        assert (running.returncode, said) == (code, f"facthold: interrupted; {says}\n")
        assert sorted(path.name for path in tmp_path.iterdir()) == files


LEAVING = """
import sys, time
from facthold.cli.app import app, main

@app.command()
def quick():
    pass

class Slow:
    encoding = "utf-8"

    def write(self, text):
        return sys.__stdout__.write(text)

    def flush(self):
        sys.__stdout__.write("now" + chr(10))
        sys.__stdout__.flush()
        time.sleep(1)

if __name__ == "__main__":
    sys.stdout = Slow()
    main(["quick"])
"""


@pytest.mark.parametrize("number", STOPS)
def test_a_signal_to_a_command_that_has_done_its_work_changes_nothing(number: int, tmp_path: Path) -> None:
    running = subprocess.Popen(
        [sys.executable, "-c", LEAVING], cwd=tmp_path, env=os.environ | {"PYTHONPATH": IMPORTED},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert running.stdout is not None
    assert running.stdout.readline() == "now\n"
    running.send_signal(number)
    _, said = running.communicate(timeout=PATIENCE)
    assert (running.returncode, said) == (0, "")


def test_a_signal_that_is_to_be_ignored_stays_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """As nohup asks for it."""
    before = {number: signal.getsignal(number) for number in STOPS}
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)
    try:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        listen()
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
        assert signal.getsignal(signal.SIGTERM) == interrupted.hear
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
