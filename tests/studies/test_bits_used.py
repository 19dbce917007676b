"""Bits that models really use: one-bit memories, cells on bits, the efficiency figure, and the bound over a store."""

import importlib
import json
import math
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
import pytest

import known
from facthold import studies
from facthold.cli.app import main
from facthold.construct.linear import outer_product
from facthold.construct.signs import one_bit
from facthold.lab.cells import Cell
from facthold.lab.runner import run_cells
from facthold.lab.store import Store, default_store_path
from facthold.measure.quantise import Grid, fewest_bits, quantise
from facthold.measure.recall import accuracy, exact_recall
from facthold.models.saving import save_model, to_numpy
from facthold.recipes.builders import Knobs, build_facts
from facthold.recipes.make import make_memory
from facthold.recipes.methods import METHODS
from facthold.studies.bits.accounts import NOTHING_COUNTED, READERS, SLACK, Account, accounts
from facthold.studies.bits.bits_used import ALL, WRITTEN
from facthold.studies.bits.efficiency import PLAIN, best, ranking
from facthold.studies.bits.fact_bits import FIXED as FIXED_OF_FACTS
from facthold.studies.bits.fact_bits import FactBits
from facthold.studies.bits.memory_bits import FIXED, MemoryBits, sign_problem
from facthold.studies.claims import CLAIMS
from facthold.studies.constructions.built_size import BuiltSize, text_problem
from facthold.studies.constructions.robustness_cell import Robustness
from facthold.studies.figures import figure
from facthold.studies.memories.capacity import Capacity, nested_problem
from facthold.studies.transformers.fact_accuracy import FactAccuracy
from facthold.studies.transformers.fact_capacity import FactCapacity, nested_table

SIGNS = MemoryBits(method="one-bit", d=48, reading="signs", loads=(0.6, 0.8))
OUTER = MemoryBits(method="outer-product", d=24, loads=(0.5, 1.0))
CONVEX = MemoryBits(method="convex-readout", d=6, m=24, loads=(0.6,))
VALUES = FactBits(model="values", S=6, R=6, D=4, guess=16, rooms=(1.0,))
"""Cells that take a second or so each."""
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """The program in this process, with its exit code, output and errors."""

    def leave(code: int) -> None:
        raise SystemExit(code)

    monkeypatch.setattr("facthold.cli.app._leave", leave)

    def run(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as stop:
            main(arguments)
        said = capsys.readouterr()
        return int(stop.value.code or 0), said.out, said.err

    return run


def test_one_bit_weights_recall_more_signs_than_the_outer_product() -> None:
    d, N = 64, 32
    problem = sign_problem(N, 0, d)
    memory = one_bit(problem, key=jax.random.key(0))
    assert set(np.unique(memory.W)) == {-1.0, 1.0}
    assert exact_recall(memory, problem) == 1.0
    assert exact_recall(quantise(outer_product(problem), Grid(2)).model, problem) < 0.5


def test_one_bit_beyond_its_capacity_says_what_it_has() -> None:
    """0.83 d is all that one bit a weight can hold; twice that is not recalled, and nothing breaks."""
    problem = sign_problem(80, 1, 48)
    memory = one_bit(problem, key=jax.random.key(1), tries=1)
    assert np.isfinite(memory.W).all()
    assert exact_recall(memory, problem) < 0.2
    with pytest.raises(ValueError, match="tries=0"):
        one_bit(problem, key=jax.random.key(0), tries=0)


@pytest.mark.parametrize("name", [name for name in METHODS if METHODS[name].protocol is None and name != "quantised"])
def test_weights_said_to_be_fixed_are_those_that_do_not_depend_on_what_is_stored(name: str) -> None:
    d, m = 6, 0 if METHODS[name].family == "linear" else 4
    first = nested_problem(8, 0, d, map="uniform")
    second = replace_map(first)
    one, other = (to_numpy(make_memory(METHODS[name], problem, m, 0)) for problem in (first, second))
    same = {key for key in one if np.array_equal(one[key], other[key])}
    assert same == set(FIXED.get(name, ()))


def replace_map(problem: Any) -> Any:
    """The same embeddings with another map."""
    return eqx.tree_at(lambda p: p.f, problem, (problem.f + 1) % problem.M)


@pytest.mark.parametrize(
    ("name", "d", "size"),
    [
        ("attention-full", 64, Knobs()), ("values", 24, Knobs()), ("values-ridge", 24, Knobs()),
        ("selected", 12, Knobs(m=16)), ("selected-ridge", 12, Knobs(m=16)), ("selected-convex", 12, Knobs(m=16)),
        ("attention-mlp", 65, Knobs(m=32)), ("attention", 128, Knobs(d_h=16)),
    ],
)  # fmt: skip
def test_weights_of_built_transformers_that_do_not_depend_on_the_answers(name: str, d: int, size: Knobs) -> None:
    problem = text_problem(nested_table("random", 4, 4, 3, 0), d, 0)
    other = replace(problem, table=nested_table("random", 4, 4, 3, 1))
    one, two = (to_numpy(build_facts(name, p, size, 0)) for p in (problem, other))
    assert {key for key in one if np.array_equal(one[key], two[key])} == set(FIXED_OF_FACTS[name])


@pytest.fixture(scope="module")
def results() -> dict[str, Any]:
    return {cell.label: cell.run() for cell in (SIGNS, OUTER, CONVEX, VALUES)}


def test_a_cell_on_bits_says_what_it_counts(results: dict[str, Any]) -> None:
    result = results[SIGNS.label]
    row = next(r for r in result["best"] if r["goal"] == 1.0)
    assert row["levels"] == {"W": 2}
    assert row["bits"] == 48 * 48 + 32 + 18
    assert row["bound"] == pytest.approx(row["facts"] * 48)  # all right, one of 2^48 each
    assert row["efficiency"] == pytest.approx(row["bound"] / row["bits"])
    counts = {r["count"] for r in results[CONVEX.label]["best"]}
    assert counts == {ALL, WRITTEN}
    for r in results[CONVEX.label]["best"]:
        assert set(r["levels"]) == ({"V"} if r["count"] == WRITTEN else {"W", "V"})
    written = {r["count"]: r["bits"] for r in results[VALUES.label]["best"] if r["goal"] == 1.0}
    assert written[WRITTEN] < written[ALL]


def test_results_are_json_and_come_back_the_same(results: dict[str, Any]) -> None:
    for result in results.values():
        assert json.loads(json.dumps(result)) == result
    assert OUTER.run() == results[OUTER.label]


def test_recall_at_the_fewest_bits_can_be_had_again(results: dict[str, Any]) -> None:
    """The bits and the recall that a cell keeps are those of a model that anyone can make."""
    point = results[OUTER.label]["points"][0]
    problem = OUTER.problem(point["facts"], 0)
    memory = make_memory(METHODS["outer-product"], problem, 0, 0)
    for used in point["used"]:
        found = fewest_bits(memory, lambda m: accuracy(m, problem), used["goal"])
        assert found.quantised is not None
        assert (found.quantised.bits, found.recall) == (used["bits"], used["recall"])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: MemoryBits(method="nothing", d=8), "nothing"),
        (lambda: MemoryBits(method="outer-product", d=8, m=4), "m=4"),
        (lambda: MemoryBits(method="layerwise", d=8), "m=0"),
        (lambda: MemoryBits(method="layerwise", d=8, m=8, reading="signs"), "layerwise"),
        (lambda: MemoryBits(method="outer-product", d=8, reading="eyes"), "eyes"),
        (lambda: MemoryBits(method="outer-product", d=8, loads=()), "loads"),
        (lambda: MemoryBits(method="outer-product", d=8, goals=(1.2,)), "goals"),
        (lambda: FactBits(model="nothing", S=4, R=4, D=4), "nothing"),
        (lambda: FactBits(model="trained", S=4, R=4, D=4, d=8), "d=8"),
        (lambda: FactBits(model="values", S=4, R=4, D=4, levels=3), "levels=3"),
        (lambda: FactBits(model="values", S=0, R=4, D=4), "S=0"),
        (lambda: FactBits(model="trained", S=4, R=4, D=4, alpha=0.0), "alpha=0.0"),
        (lambda: FactBits(model="trained", S=4, R=4, D=4, levels=10**6), "levels=1000000"),
        (lambda: MemoryBits(method="outer-product", d=1, reading="signs"), "d=1"),
        (lambda: MemoryBits(method="one-bit", d=1100, reading="signs"), "d=1100"),
        (lambda: MemoryBits(method="outer-product", d=8, m=-3), "m=-3"),
        (lambda: MemoryBits(method="tangent-kernel", d=8, m=7), "m=7"),
    ],
)
def test_bad_cells_are_refused(make: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make()


# The counting bound over a store.

CELLS: list[Cell] = [
    SIGNS, OUTER, CONVEX, VALUES,
    Capacity(method="outer-product", d=16, map="uniform", M=8, seeds=(0,), tolerance=0.2),
    Capacity(method="outer-product", d=16, seeds=(0,), tolerance=0.2),
    BuiltSize(builder="values", S=4, R=4, D=3, guess=8, seeds=(0,)),
    FactAccuracy(d=8, H=2, d_h=4, m=8, S=4, R=4, D=2, protocol="transformer-smoke"),
    FactCapacity(alpha=1, beta=1, d=8, H=2, D=2, protocol="transformer-smoke", seeds=(0,)),
    Robustness(builder="values", d=16, S=6, R=6, D=3, disturbance="bits", amounts=(2, 4, 8), seeds=(0,)),
]  # fmt: skip


class Quiet:
    """A listener that says nothing."""

    def begin(self, todo: Sequence[Cell], n_stored: int) -> None: ...

    def waiting(self) -> None: ...

    def finished(self, cell: Cell, result: Any, seconds: float) -> None: ...


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("store") / "results.sqlite"
    with Store(path) as store:
        run_cells(CELLS, store, Quiet())
    return path


def check(path: Path) -> tuple[int, set[str]]:
    """Every result of a store against the bound: how many models were checked, and the reasons for no bound."""
    checked, reasons = 0, set()
    with Store(path, create=False) as store:
        for row in store.rows():
            found = accounts(row.kind, row.spec, row.result)
            if isinstance(found, str):
                assert found.startswith("no bound: ")
                reasons.add(found)
                continue
            for account in found:
                assert account.spare >= 0, (row.kind, row.spec, account)
            checked += len(found)
    return checked, reasons


def test_every_stored_result_on_random_tables_obeys_the_counting_bound(stored: Path) -> None:
    checked, reasons = check(stored)
    assert checked >= 20
    assert any("only one such map" in reason for reason in reasons)  # f*(x) = x


def test_a_user_s_own_store_obeys_it_too() -> None:
    if not default_store_path().is_file():
        pytest.skip("no results are stored here (FACTHOLD_STORE, or facthold-results.sqlite)")
    check(default_store_path())


@pytest.mark.parametrize("kind", ["memory-bits", "fact-bits"])
def test_a_result_that_is_too_good_is_found_out(kind: str, results: dict[str, Any]) -> None:
    cell, result = (SIGNS, results[SIGNS.label]) if kind == "memory-bits" else (VALUES, results[VALUES.label])
    assert not isinstance(accounts(kind, cell.spec, result), str)
    forged = json.loads(json.dumps(result))
    for point in forged["points"]:
        for used in point["used"]:
            used["bits"] = used["bound"] - SLACK - math.log2(forged["tried"]) - 1
    found = accounts(kind, cell.spec, forged)
    assert not isinstance(found, str)
    assert all(account.spare < 0 for account in found)


def test_an_account_by_hand() -> None:
    """8 facts of 4 answers are 16 bits; with one wrong, 1 + 8 * 3 = 25 tables are within reach."""
    assert Account(8, 4, 0, 10.0, 1).bound == pytest.approx(16)
    assert Account(8, 4, 1, 10.0, 1).bound == pytest.approx(16 - math.log2(25))
    assert Account(8, 4, 0, 10.0, 4).spare == pytest.approx(10 + 2 + SLACK - 16)


def test_tables_that_were_not_drawn_have_no_bound() -> None:
    for kind, spec, words in (
        ("fact-capacity", {"table": "balanced"}, "equally often"),
        ("capacity", {"map": "identity"}, "only one"),
        ("table-size", {"source": "countries"}, "given table"),
        ("flow", {}, "losses are counted"),
    ):
        assert words in str(accounts(kind, spec, {}))


def test_every_kind_of_cell_is_read_or_said_to_count_nothing() -> None:
    """A new kind must say which: nothing that counts facts may slip past the bound."""
    for module in pkgutil.walk_packages(studies.__path__, "facthold.studies."):
        importlib.import_module(module.name)
    kinds = {cell.kind for cell in Cell.__subclasses__() if cell.__module__.startswith("facthold.studies.")}
    assert kinds == set(READERS) | set(NOTHING_COUNTED)


def test_results_bound_prints_a_line_a_kind(stored: Path, run: Run) -> None:
    code, out, _ = run("results", "--bound", "--store", str(stored))
    assert code == 0
    assert "memory-bits" in out
    assert "no bound" in out
    lines = json.loads(run("results", "--bound", "--json", "--store", str(stored))[1])
    assert sum(line["models"] for line in lines) == check(stored)[0]
    assert run("results", "--bound", "--csv", "--store", str(stored))[0] == 2


# The figure.


def test_the_figure_covers_five_methods_at_three_sizes_each() -> None:
    cells = figure("efficiency").cells(figure("efficiency").grid("quick"))
    sizes: dict[Any, set[Any]] = {}
    for cell in cells:
        spec = cell.spec
        name = (spec.get("method") or spec.get("model"), spec.get("levels"), spec.get("reading"))
        sizes.setdefault(name, set()).add((spec["d"], spec.get("m"), spec.get("S")))
    assert sum(len(found) >= 3 for found in sizes.values()) >= 5
    methods = {name for name, *_ in sizes}
    assert set(METHODS) - {"train:mlp-code"} <= methods | {"train:mlp-text"}


def test_ranking_reads_the_best_points() -> None:
    def row(method: str, efficiency: float, **more: Any) -> dict[str, Any]:
        point = {"goal": 0.99, "count": ALL, "efficiency": efficiency, "bound": 10.0}
        return {"kind": "memory-bits", "method": method, "reading": "argmax", "best": [point], **more}

    rows = [row("quantised", 0.01), row("one-bit", 0.6), row("one-bit", 0.5), row("ridge-readout", 0.3) | {"best": []}]
    assert ranking(rows) == [("one-bit", 0.6, 2), (PLAIN, 0.01, 1)]
    assert best(rows[3]) is None
    assert "60 times" in figure("efficiency").says(rows)[-1]
    assert figure("efficiency").says([]) == []


def test_the_best_is_ten_times_the_plain_outer_product() -> None:
    """At sizes that a test can afford: one bit read by signs, and the outer product with the bits of corollary 2."""
    plain = MemoryBits(method="quantised", d=32, loads=(0.4, 0.6, 0.8, 1.0)).run()
    ours = SIGNS.run()
    top = [max(r["efficiency"] for r in result["best"] if r["goal"] == 0.99) for result in (ours, plain)]
    assert top[0] >= 10 * top[1]


def test_the_claim_judges_the_best_of_each_method() -> None:
    def row(method: str, reading: str, efficiency: float) -> dict[str, Any]:
        return {"method": method, "reading": reading, "best": [{"goal": 0.99, "count": ALL, "efficiency": efficiency}]}

    judge = CLAIMS["efficiency"].judge
    outer = [row("outer-product", "argmax", 0.08), row("outer-product", "signs", 0.05)]
    assert judge([row("quantised", "argmax", 0.006), *outer, row("one-bit", "signs", 0.6)]).holds
    assert not judge([row("quantised", "argmax", 0.07), *outer, row("one-bit", "signs", 0.6)]).holds
    assert not judge([row("quantised", "argmax", 0.006), *outer, row("one-bit", "signs", 1.2)]).holds  # above the bound
    assert not judge([*outer, row("one-bit", "signs", 0.6)]).holds  # nothing to compare with


def test_lines_of_the_figure_moves_differ_in_one_thing() -> None:
    def row(efficiency: float, **changed: Any) -> dict[str, Any]:
        middle = {"model": "trained", "S": 16, "R": 16, "D": 8, "alpha": 1.0, "beta": 4.0, "levels": 0}
        point = {"goal": 0.99, "count": ALL, "efficiency": efficiency}
        return {"kind": "fact-bits", **middle, **changed, "best": [point]}

    rows = [row(0.04), row(0.01, D=2), row(0.03, S=64, R=4), row(0.02, beta=1.0), row(0.05, levels=7)]
    said = figure("moves").says(rows)
    assert said == [
        "trained, answers D: 2: 1.0%, 8: 4.0%",
        "trained, S : R: 16 : 16: 4.0%, 64 : 4: 3.0%",
        "trained, alpha = Hd_h/d, beta = m/d: 1, 1: 2.0%, 1, 4: 4.0%",
        "trained, levels in training: 7: 5.0%, rounded afterwards: 4.0%",
    ]


# The command.


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    problem = nested_problem(20, 0, 32, map="uniform")
    return save_model(tmp_path_factory.mktemp("model") / "m.safetensors", outer_product(problem), problem)


def test_bits_finds_the_fewest_and_writes_the_model(saved: Path, tmp_path: Path, run: Run) -> None:
    out = tmp_path / "small.safetensors"
    found = json.loads(run("bits", str(saved), "-o", str(out), "--json")[1])
    assert [r["goal"] for r in found["rounded"]] == [0.99, 1.0]
    first = found["rounded"][0]
    again = json.loads(run("bits", str(out), "--accuracy", "0.99", "--json")[1])
    assert again["recall"] == first["recall"]
    assert again["rounded"][0]["bits"] <= first["bits"]
    code, words, _ = run("bits", str(saved), "--bits", "3", "--scales", "row")
    assert code == 0
    assert "bits a weight" in words


def test_bits_of_a_transformer(tmp_path: Path, run: Run) -> None:
    path = save_model(tmp_path / "t.safetensors", *known.countries())
    found = json.loads(run("bits", str(path), "--bits", "8", "--json")[1])
    assert found["facts"] > 0
    assert found["rounded"][0]["n_weights"] > found["facts"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--bits", "0"], "--bits 0"),
        (["--bits", "17"], "--bits 17"),
        (["--bits", "4", "--accuracy", "0.9"], "take one of"),
        (["--accuracy", "1.5"], "--accuracy 1.5"),
        (["--bits", "4", "--scales", "column"], "column"),
        (["--scales", "row"], "goes with --bits"),
        (["-o", "."], "must be a file"),
        (["-o", "facts.csv"], "must be a file"),
    ],
)
def test_bits_refuses_in_a_line(saved: Path, run: Run, options: list[str], words: str) -> None:
    code, _, err = run("bits", str(saved), *options)
    assert code == 2
    assert words in err
    assert len(err.strip().splitlines()) == 1


def test_bits_of_no_model_and_of_one_that_knows_too_little(tmp_path: Path, run: Run) -> None:
    assert "no such model file" in run("bits", "nothing.safetensors")[2]
    problem = nested_problem(200, 0, 8, map="uniform")
    path = save_model(tmp_path / "m.safetensors", outer_product(problem), problem)
    code, out, err = run("bits", str(path))
    assert (code, out) == (2, "")
    assert "ask for less" in err
