"""Numbers that no option can mean, and configs of any kind: one clear line each, whichever command they are given to.

Commands and options are found by looking, so that new ones are asked the same.
"""

import functools
import json
import math
import re
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from every_option import Number, commands, numbers, run
from facthold.lab import registry
from facthold.recipes import recipes

NONSENSE = ("nan", "inf", "-inf", "", "words", "1e400", "-1e30", str(10**40), str(-(10**30)), "0x10", "1,5", "½", "1 2")
ODD = ("-1", "0", "1.5", "1e-300", "1e30")  # some options can mean some of them
MANY = 1000  # examples, of which some may be slow
SHARES = re.compile(r"recall|share|share_right|accuracy|(mean_)?probability|efficacy|specificity|unchanged|best|final")
SIZES = re.compile(r"n_\w+|facts|\w+_bytes|seconds|questions|bits\w*|[NMSRDTHdm]|d_h|steps|always_recalled|\w+_per_\w+")


def refused(*arguments: str) -> str:
    """The one line by which it is refused, and nothing is printed or written."""
    code, out, err = run(*arguments)
    lines = [line for line in err.splitlines() if line.startswith("facthold: ")]
    assert (code, out, len(lines)) == (2, "", 1), (arguments, code, out, err)
    assert "Traceback" not in err
    assert "defect" not in err
    assert len(lines[0]) < 600, lines[0]
    return lines[0]


@functools.cache
def in_use() -> list[Number]:
    """The options, each with the ways to call its command that have a use for it."""
    no_use = re.compile(r"does not go with|take one of|takes no m")
    return [n for n in numbers() if n.flag == "--seed" or not no_use.search(run(*n.given("-7"))[2])]


def answered(number: Number, value: str, *, as_json: bool) -> None:
    """One line that names the option or the value, or a result in which every number can be what its name says."""
    arguments = number.given(value)
    as_json &= "--json" in {name for p in commands()[number.command].params for name in p.opts}
    code, out, _ = run(*arguments, *["--json"] * as_json)
    if code == 0:
        sensible(json.loads(out) if as_json else None, arguments)
        assert not re.search(r"\b(nan|inf)\b|\d{40}", out), (arguments, out)
    else:
        line = refused(*arguments)
        assert number.flag in line or value in line or f"{float(value):g}" in line, (arguments, line)


def sensible(found: Any, arguments: list[str], name: str = "") -> None:
    if isinstance(found, dict):
        for key, value in found.items():
            sensible(value, arguments, key)
    elif isinstance(found, list):
        for value in found:
            sensible(value, arguments, name)
    elif isinstance(found, int | float):
        assert math.isfinite(found)
        assert not SHARES.fullmatch(name) or 0 <= found <= 1, (arguments, name, found)
        assert not SIZES.fullmatch(name) or found >= 0, (arguments, name, found)


def test_options_that_take_numbers_are_found() -> None:
    found = {(n.command, n.flag) for n in numbers()}
    assert {("capacity", "--tolerance"), ("build", "-T"), ("watch", "--lr"), ("make", "--zipf")} <= found
    assert {("plan", "--subjects"), ("ask", "--top"), ("verify", "--workers"), ("bits", "--bits")} <= found


def test_every_option_that_takes_a_number_is_tried_where_it_is_used() -> None:
    assert {(n.command, n.flag) for n in numbers()} == {(n.command, n.flag) for n in in_use()}


@pytest.mark.parametrize("value", ODD)
def test_odd_numbers_are_refused_or_answered_by_every_option(value: str) -> None:
    for number in in_use():
        if not number.slow:
            answered(number, value, as_json=True)


@given(st.data())
def test_any_number_is_refused_or_answered_by_every_option(data: st.DataObject) -> None:
    fast, slow = ([n for n in in_use() if n.slow == slow] for slow in (False, True))
    number = data.draw(st.sampled_from(fast if settings().max_examples < MANY else fast * 5 + slow))
    whole = st.integers(-9, 9) | st.sampled_from([-(10**15), 10**15])
    parts = st.floats(-2, 2) | st.floats(allow_nan=False, allow_infinity=False)
    odd = st.sampled_from([*ODD, "-0", "-1e-300", "0.5", "+1", "1e2"])
    value = data.draw(odd | (whole if number.whole else whole | parts).map(str))
    answered(number, value, as_json=data.draw(st.booleans()))


@pytest.mark.parametrize("value", NONSENSE)
def test_nonsense_is_refused_by_every_option_that_takes_a_number(value: str) -> None:
    for number in {(n.command, n.flag): n for n in numbers()}.values():
        refused(*number.given(value))


@given(st.data())
def test_nonsense_is_refused_with_every_recipe(data: st.DataObject) -> None:
    number = data.draw(st.sampled_from([n for n in numbers() if n.command in ("make", "capacity")]))
    recipe = data.draw(st.sampled_from(sorted(recipes())))
    odd = st.floats().filter(lambda x: not abs(x) < 1e18).map(repr) | st.integers().map(lambda n: str(n + 10**18))
    value = data.draw(st.sampled_from(NONSENSE) | odd | st.text("abc-.", max_size=4))
    refused(number.command, "--recipe", recipe, number.flag, *[value] * number.times)


@pytest.mark.parametrize(
    "arguments",
    [
        "capacity --tolerance inf", "capacity --tolerance nan", "capacity --tolerance 1e9", "capacity --tolerance 1.5",
        "capacity --seeds 1000000000", "capacity -d 1000000", "capacity --recipe train -d 1000000",
        "capacity --recipe train -d 8 --beta 1e12", "capacity --recipe train -T 1000000",
        "make -N 1000000000", "make -d 1000000", "make --recipe train -d 1000000", "make --recipe train -T 1000000",
        "make --recipe train:mlp-code -m 1000000000000", "make --recipe values -d 10000000",
        "build facts.csv -o m.safetensors -T 1000000", "build facts.csv -o m.safetensors --noise-tokens 1000000000",
        "watch facts.csv --steps 9007199254740992", "bench --seconds 1e30", "bench --seconds 0",
        "watch facts.csv --steps 8 --lr 1e-300", "make --recipe train --alpha 1e30", "make --recipe train --beta 1e30",
        "make --recipe attention -d 8 --d-h 2 -S 2 -R 2 --draws 100000", "make -N 100000000 -d 1",
        "verify gradient-step --preset smoke --workers 1000000", "induction text.txt -T 10000000",
        "induction text.txt -d 10000000", "induction text.txt --batch 10000000000",
        "induction text.txt --steps 1000000000", "induction text.txt --lr 1e30",
        "induction text.txt --steps 1000000 --batch 1000000", "watch --induction text.txt --steps 1000000000",
        "watch --induction text.txt -T 10000000", "watch --induction text.txt -d 10000000",
    ],
)  # fmt: skip
def test_sizes_and_times_that_cannot_be_are_refused_at_once(arguments: str) -> None:
    refused(*arguments.split())


@pytest.mark.parametrize("lower", ["--noise-tokens 1000000000000", "-D 1000000000000", "-d 10000000"])
def test_what_does_not_fit_in_memory_says_what_to_lower(lower: str) -> None:
    line = refused("make", "--recipe", "train", "-d", "8", "-S", "2", "-R", "2", "-D", "2", *lower.split())
    assert "GiB of memory" in line
    assert line.endswith(f"; lower {lower}")


VALUES = st.recursive(
    st.sampled_from(["[]", "{}", "''", "nan", "inf", "-1", "0", "1.5", "1e400", "true", "1979-05-27", "'x'", "[[]]"])
    | st.integers(-(10**30), 10**30).map(str)
    | st.integers(5, 14).map(lambda k: f"{'[' * 2**k}{']' * 2**k}"),
    lambda inner: st.lists(inner, max_size=3).map(lambda some: f"[{', '.join(some)}]"),
    max_leaves=4,
)


@given(st.data())
def test_any_config_is_cells_or_a_line(data: st.DataObject) -> None:
    figure = data.draw(st.sampled_from(list(registry.figures().values())))
    known = list(vars(next(iter(figure.presets.values()))))
    keys = data.draw(st.lists(st.sampled_from([*known, "nothing", "x.y"]), min_size=1, max_size=2, unique=True))
    name = data.draw(st.sampled_from([figure.name] * 8 + ["fig99", f"{figure.name}.{known[0]}"]))
    lines = [f"[{name}]", *(f"{key} = {data.draw(VALUES)}" for key in keys)]
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "config.toml"
        config.write_text("\n".join(lines))
        code, out, err = run("figure", figure.name, "--preset", "smoke", "--config", str(config), "--dry-run")
    assert code in (0, 2), (lines, err)
    if code:
        assert out == ""
        assert err.startswith("facthold: ")
        assert err.count("\n") == 1
        assert "defect" not in err
        assert len(err) < 1000


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[fig1]\nmlp_sizes = []\n", "fig1.mlp_sizes is empty; give one or more"),
        ("[fig1]\nlinear_d = [[]]\n", "must be a whole number, not []"),
        ("[fig1]\ntolerance = nan\n", "must be a finite number"),
        ("[fig1]\ntolerance = 1e9\n", "must be at least 0 and at most 1"),
        (f"[fig1]\nn_seeds = {10**30}\n", "is too large"),
        ("[fig1]\nn_seeds = 1000000000\n", "must be at least 1 and at most 1000"),
        ("[fig4]\nd = [1000000000]\n", "of memory, and there is"),
        ("[fig1]\nlinear_d = [100000]\n", "to use; lower d=100000"),  # and not the N that its search would start from
        ("[fig1]\nmlp_sizes = [[8, 100000000]]\n", "to use; lower m=100000000"),
        ("[fig1]\nlinear_d = " + "[" * 5000, "is nested too deeply"),
        ("[fig1]\nlinear_d = " + "[" * 300 + "]" * 300, "in the config must be a whole number, not [[["),
        ("[fig1]\nlinear_d = " + "{a = " * 5000, "is nested too deeply"),
        ("[fig1]\n" + ".".join(["n_seeds"] * 5000) + " = 1", "must be a whole number, not a very long dict"),
        ("fig1 = [" + "1, " * 5000 + "]", "write [fig1] and keys below it, not fig1 = [1, 1, 1"),
        ("[fig1]\nn_seeds = " + "9" * 5000, "is not TOML"),
        ("[fig1]\nn_seeds = 0x" + "f" * 5000, "fig1.n_seeds=a very long int is too large"),
        ("[fig1]\n" + "x" * 5000 + " = 1", "unknown key in the config of fig1 'xxx"),
        (
            "[fig1]\nmlp_sizes = [[6]]",
            "must be a list of 2 whole numbers, not [6]",
        ),
        ("[fig1]\nmlp_sizes = [6, 6]", "each of fig1.mlp_sizes in the config must be a list of 2 whole numbers, not 6"),
        ("[fig1]\nmlp_sizes = [[0, 6]]", "in the config of fig1, mlp_sizes=0 must be at least 1"),
        ("[fig1]\nmlp_sizes = 6", "fig1.mlp_sizes in the config must be a list, not 6"),
        ("[fig1]\nn_seeds = 0", "in the config of fig1, n_seeds=0 must be at least 1"),
        ("[fig1]\ntolerance = -1", "in the config of fig1, tolerance=-1 must be at least 0"),
        ("[fig1]\nmlp_sizes = [[6, 'x']]", "must be a whole number, not 'x'"),
    ],
)
def test_a_bad_config_is_one_line_and_makes_no_store(text: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(text)
    figure = "fig4" if "fig4" in text else "fig1"
    code, _, err = run("figure", figure, "--preset", "smoke", "--config", str(tmp_path / "config.toml"), "-o", ".")
    assert code == 2
    assert says in err
    assert "config.toml" in err or "of memory" in err, err  # the file that is to be mended
    assert err.count("\n") == 1
    assert len(err) < 600
