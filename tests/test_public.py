"""`import facthold as fh`: its names, what it loads, and facts from all that people have them in."""

import ast
import subprocess
import sys
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import facthold as fh
import known

ROWS = [("France", "capital", "Paris"), ("Peru", "capital", "Lima"), ("Peru", "calling code", "51")]
FRAME = pd.DataFrame(ROWS, columns=["subject", "relation", "answer"])


def test_every_name_is_there_and_says_how_it_is_used() -> None:
    assert set(fh.__all__) <= set(dir(fh))
    for name in fh.__all__:
        assert "fh." in (getattr(fh, name).__doc__ or ""), name
    with pytest.raises(AttributeError, match="no attribute 'biuld'"):
        fh.biuld  # noqa: B018


def test_type_checkers_see_the_same_names() -> None:
    tree = ast.parse(Path(fh.__file__).read_text())
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    seen = {alias.name for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert seen == set(fh.__all__) == {name for names in fh.MODULES.values() for name in names}
    assert Path(fh.__file__).with_name("py.typed").exists()


@pytest.mark.parametrize(
    ("code", "without"),
    [
        ("import facthold", ("jax", "numpy", "matplotlib", "scipy")),
        ("import facthold as fh; fh.FactTable.of({('a', 'r'): 1}).to_rows()", ("jax", "pandas", "pyarrow")),
        ("import facthold as fh; fh.FactualRecall, fh.read_facts, fh.write_facts", ("jax", "pandas", "pyarrow")),
        ("import facthold.models, facthold.facts.real", ("jax", "scipy")),
        ("import facthold as fh; fh.plan(subjects=100, relations=8, answers=16)", ("jax", "matplotlib", "scipy.stats")),
        ("import facthold as fh; fh.recipes(), fh.figures(), fh.claims()", ("jax", "matplotlib", "scipy.stats")),
        (
            "import facthold as fh; [c.key for f in fh.figures().values() for c in f.cells(f.grid('smoke'))]",
            ("jax", "matplotlib", "scipy.stats"),
        ),
    ],
)
def test_a_name_loads_no_more_than_it_needs(code: str, without: tuple[str, ...]) -> None:
    check = f"{code}; import sys; print(*(set({without!r}) & sys.modules.keys()))"
    loaded = subprocess.run([sys.executable, "-c", check], check=True, capture_output=True, text=True).stdout
    assert loaded.split() == []


@pytest.mark.parametrize(
    "facts",
    [
        ROWS, iter(ROWS), [list(row) for row in ROWS], {(s, r): a for s, r, a in ROWS}, FRAME, FRAME.astype("category"),
        FRAME.assign(note=1)[["note", "answer", "relation", "subject"]].set_index("note"), pa.Table.from_pandas(FRAME),
        [(s, r, int(a) if a == "51" else a) for s, r, a in ROWS], [(f" {s} ", r, a) for s, r, a in ROWS],
        fh.FactTable.of(ROWS),
    ],
)  # fmt: skip
def test_facts_from_anywhere_are_one_table(facts: Any, tmp_path: Path) -> None:
    table = fh.FactTable.of(facts)
    assert table.to_rows() == ROWS
    assert fh.FactTable.of(table.to_pandas()).to_rows() == ROWS
    assert fh.FactTable.of(str(fh.write_facts(tmp_path / "facts.jsonl", table))).to_rows() == ROWS


def test_all_right_answers_are_in_the_rows() -> None:
    table = fh.FactTable.of(known.ROWS, on_conflict="all")
    assert sorted(table.to_rows()) == sorted(known.ROWS)
    assert repr(table) == "FactTable(28 facts: 11 subjects, 3 relations, 21 answers)"
    assert fh.random_table(2, 1, 1, key=fh.derive("table", 0)).to_rows() == [("0", "0", "0"), ("1", "0", "0")]


@pytest.mark.parametrize("frame", [FRAME, pa.Table.from_pandas(FRAME)])
def test_p_of_a_frame_is_read(frame: Any) -> None:
    p = [0.5, 0.25, 0.25]
    frame = frame.assign(p=p) if isinstance(frame, pd.DataFrame) else frame.append_column("p", pa.array(p))
    table, weights = fh.read_facts(frame)
    assert table.to_rows() == ROWS
    np.testing.assert_array_equal(weights, p)


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        (FRAME.assign(answer=[1, np.nan, 2]), "facts, row 1: the answer is empty"),
        (FRAME.assign(subject=pd.array(["a", pd.NA, "b"], dtype="string")), "facts, row 1: the subject is empty"),
        (FRAME.assign(relation=[pd.NaT, "r", "r"]), "facts, row 0: the relation is empty"),
        (FRAME.assign(answer=["a", ["b", "c"], "d"]), r"facts, row 1: the answer is nested, \['b', 'c'\]"),
        (FRAME.rename(columns={"answer": "anwser"}), "facts: no column 'answer' .*; rename 'anwser'"),
        (FRAME.assign(p=[0.5, 0.5, -1]), "facts, row 2: p is -1.0; it must be 0 or more"),
        (FRAME.assign(p=[0.5, 0.5, 0.5]), r"facts, column p: .* sums to 1\.5"),
        (FRAME[:0], "facts has no facts in it"),
        ([*ROWS, ("a", "b")], r"facts, row 3 is \('a', 'b'\); write it as \(subject, relation, answer\)"),
        ([("a", "r", None)], "facts, row 0: the answer is empty"),
        ([*ROWS, (object(), "r", "a")], "facts, row 3: the subject is an object; write it as text or a number"),
        ({("a", ("r",)): "b"}, "facts, row 0: the relation is nested"),
        ([("a", "r", 1 + 2j)], "facts, row 0: the answer is a complex; write it as text or a number"),
        (["abc"], "facts, row 0 is 'abc'"),
        ({"France": "Paris"}, r"facts, a key is 'France'; write it as \(subject, relation\)"),
        ([*ROWS, ("Peru", "capital", "Cusco")], r"facts, row 3: .*\('Peru', 'capital'\) has .* on_conflict='first'"),
        ("facts.xlsx", "no such file: facts.xlsx"),
    ],
)
def test_what_is_no_fact_is_named_by_row_and_column(facts: Any, message: str) -> None:
    with pytest.raises(fh.FactholdError, match=message):
        fh.FactTable.of(facts)


def test_what_are_no_facts_at_all_is_refused() -> None:
    with pytest.raises(ValueError, match="facts=5 must be a path, a frame"):
        fh.FactTable.of(5)
    with pytest.raises(ValueError, match="unknown on_conflict 'any'"):
        fh.FactTable.of(ROWS, on_conflict="any")
    with pytest.raises(ValueError, match=r"row 1: a fact is .* as text, not .*nan"):
        fh.FactTable.from_rows([("a", "r", "b"), ("c", "r", float("nan"))])  # type: ignore[list-item]


def test_real_facts_by_name() -> None:
    table = fh.real_facts("countries", relations=["capital", "neighbour"], subjects=12)
    assert (table.R, len(table.to_rows()) > len(table)) == (2, True)
    with pytest.raises(ValueError, match="unknown source of facts 'countrys'; did you mean 'countries'"):
        fh.real_facts("countrys")


@pytest.fixture(scope="module")
def model() -> fh.Model:
    return fh.build(FRAME.assign(p=[0.5, 0.25, 0.25]), recipe="values", n_noise=4, T=6)


def test_a_model_is_built_asked_and_saved(model: fh.Model, tmp_path: Path) -> None:
    assert (model.recall, model.table.to_rows(), model.report.recipe) == (1.0, ROWS, "values")
    np.testing.assert_array_equal(model.problem.p, [0.5, 0.25, 0.25])
    assert repr(model).startswith(f"Model(3 facts of 2 subjects and 2 relations in {model.n_params} parameters (d=")
    again = fh.load(model.save(tmp_path / "model.safetensors"))
    assert (again.report, again.n_params) == (None, model.n_params)
    assert again.ask("peru", "capital") == model.ask("Peru", "capital")
    assert again.ask_prompt("the capital of Peru").answer == "Lima"


def test_all_at_once_are_those_asked_one_by_one(model: fh.Model) -> None:
    answers = model.ask_all()
    assert [(a.subject, a.relation, a.answer) for a in answers] == ROWS
    questions = [("France", "calling code"), ("Peru", "capital")]
    for question, together in zip(questions, model.ask_all(questions, seed=3, noise=2), strict=True):
        alone = model.ask(*question, seed=3, noise=2)
        assert (together.answer, together.right, together.expected) == (alone.answer, alone.right, alone.expected)
        assert together.margin == pytest.approx(alone.margin)
        assert together.n_noise == alone.n_noise == 2
    assert model.ask_all(questions)[0].right is None
    assert len(pd.DataFrame(answers)) == 3


def test_a_change_is_a_new_model_with_a_report(model: fh.Model) -> None:
    edited = model.edit("France", "capital", "Lyon")
    assert (edited.report.kind, edited.report.done, edited.ask("France", "capital").answer) == ("edit", True, "Lyon")
    assert model.ask("France", "capital").answer == "Paris"
    added = edited.add("Chile", "capital", "Santiago")
    assert (added.report.new, len(added.table)) == (("subject", "answer"), 4)
    gone = added.forget("Chile", "capital")
    assert (gone.report.kind, len(gone.table)) == ("forget", 3)
    located = model.locate("France", "capital")
    assert (located.answer, len(pd.DataFrame(located.parts))) == ("Paris", len(located.parts))


def test_numbers_are_names_too() -> None:
    """A table takes them as text, and so do questions."""
    model = fh.build([(1, "code", 33), (2, "code", 44)], recipe="values")
    assert model.ask(1, "code").answer == "33"
    assert model.edit(1, "code", 44).ask(1, "code").answer == "44"
    assert model.locate(2, "code").answer == "44"


def _associations() -> fh.Problem:
    return fh.random_problem(8, 4, key=fh.derive("test", 0))


CALLS: list[tuple[str, Callable[[fh.Model], object]]] = [
    ("accuracy='x' must be a number", lambda model: fh.build(ROWS, accuracy="x")),
    ("accuracy=None must be a number", lambda model: fh.build(ROWS, accuracy=None)),
    ("seed=1.5 must be a whole number", lambda model: fh.build(ROWS, seed=1.5)),
    ("max_params='9' must be a whole number or None", lambda model: fh.build(ROWS, max_params="9")),
    ("recipe=None must be text", lambda model: fh.build(ROWS, recipe=None)),
    ("say=3 must be a function", lambda model: fh.build(ROWS, say=3)),
    ("beside='m' must be a path or None", lambda model: fh.build(ROWS, beside="m")),
    ("on_conflict=3 must be text", lambda model: fh.read_facts(ROWS, on_conflict=3)),
    ("on_conflict=3 must be text", lambda model: fh.FactTable.of(ROWS, on_conflict=3)),
    ("rows=3 must be a list", lambda model: fh.FactTable.from_rows(3)),
    ("facts=None must be a FactTable or a list", lambda model: fh.write_facts("x.csv", None)),
    ("fact 1, 5, must be three names", lambda model: fh.write_facts("x.csv", [5])),
    ("relations='capital' must be a list or None", lambda model: fh.real_facts("countries", relations="capital")),
    ("subjects='3' must be a whole number or None", lambda model: fh.real_facts("countries", subjects="3")),
    ("ids=['a'] must be text; give each by itself, and no list", lambda model: fh.verify(["a"])),
    ("unknown claim 'nothing'", lambda model: fh.verify("nothing")),
    ("names=['fig6'] must be text; give each by itself", lambda model: fh.reproduce(["fig6"], out="x")),
    ("name=None must be text", lambda model: fh.run_figure(None)),
    ("preset=None must be text", lambda model: fh.run_figure("fig6", preset=None)),
    ("changes=3 must be a dictionary or None", lambda model: fh.run_figure("fig6", changes=3)),
    ("place='here' must be a Place or None", lambda model: fh.run_figure("fig6", place="here")),
    ("store=3 must be a Store or text or a path or None", lambda model: fh.results(store=3)),
    ("path=3 must be text or a path", lambda model: fh.Store(3)),
    ("name=None must be text", lambda model: fh.protocol(None)),
    ("K='a' must be a whole number or None", lambda model: fh.induction(K="a")),
    ("seed=None must be a whole number", lambda model: fh.induction(seed=None)),
    ("built='yes' must be True or False", lambda model: fh.induction(built="yes")),
    ("unknown option 'k'; ", lambda model: fh.induction(k=3)),
    ("text=3 must be text or a path or a Bigrams or None", lambda model: fh.induction(3)),
    ("path=None must be text or a path", lambda model: fh.Bigrams.of_text(None)),
    ("problem=None must be a Problem", lambda model: fh.make_memory("layerwise", None, m=4)),
    ("recipe=3 must be a MemoryRecipe or text", lambda model: fh.make_memory(3, model.problem)),
    ("N='a' must be a whole number", lambda model: fh.random_problem("a", 3, key=None)),
    ("D=None must be a whole number", lambda model: fh.random_table(2, 2, None, key=None)),
    ("table=None must be a FactTable", lambda model: fh.factual_recall(None, 3, key=None)),
    ("layerwise has a width to choose: give m, at least 1", lambda model: fh.make_memory("layerwise", _associations())),
    (
        "m=3: outer-product makes a d x d matrix and takes no m",
        lambda model: fh.make_memory("outer-product", _associations(), 3),
    ),
    ("key=0 must be a key, as from fh.derive", lambda model: fh.random_problem(N=8, d=4, key=0)),
    ("key=0 must be a key, as from fh.derive", lambda model: fh.random_table(2, 2, 2, key=0)),
    ("relations=[] names none; give one or more", lambda model: fh.real_facts("countries", relations=[])),
    ("facts=b'ok.csv' must be a path, a frame", lambda model: fh.read_facts(b"ok.csv")),
    ("accuracy='x' must be a number", lambda model: fh.plan(accuracy="x")),
    ("subjects=[] must be a number or text or None", lambda model: fh.plan(subjects=[])),
    ("path=None must be text or a path", lambda model: fh.save_model(None, model.model)),
    ("path=3 must be text or a path", lambda model: fh.load(3)),
    ("text=None must be text", lambda model: model.ask_prompt(None)),
    ("top='a' must be a whole number", lambda model: model.ask("France", "capital", top="a")),
    ("questions=3 must be a list or None", lambda model: model.ask_all(3)),
    ("answer=['x'] must be text or a number", lambda model: model.edit("France", "capital", ["x"])),
    ("answer=None must be text or a number", lambda model: model.edit("France", "capital", None)),
    ("subject=[1] must be text or a number", lambda model: model.ask([1], "capital")),
    ("relation=None must be text or a number", lambda model: model.forget("France", None)),
    ("answer=(1+2j) must be text or a number", lambda model: model.add("Chile", "capital", 1 + 2j)),
    (
        "questions, row 1: subject=None must be text or a number",
        lambda model: model.ask_all([("France", "capital"), (None, "capital")]),
    ),
]


@pytest.mark.parametrize(("says", "call"), CALLS, ids=[says for says, _ in CALLS])
def test_an_argument_of_another_type_is_named_at_the_front_door(
    says: str, call: Callable[[fh.Model], object], model: fh.Model
) -> None:
    with pytest.raises((fh.FactholdError, ValueError)) as error:
        call(model)
    assert str(error.value).startswith(says)


def test_numbers_of_numpy_are_numbers() -> None:
    model = fh.build(ROWS, recipe="values", accuracy=np.float32(1), seed=np.int64(0), T=np.int32(8), n_noise=np.int8(4))
    assert model.recall == 1.0


def test_what_a_table_takes_for_a_name_is_one_in_every_question(tmp_path: Path) -> None:
    """One rule for names: numbers, truth values and dates are the text that they are written as, wherever they are."""
    odd = [True, np.bool_(False), 3, 3.5, np.int64(4), np.float32(0.1), Decimal("1.50"), date(2020, 1, 2), b"bytes"]
    names = ["true", "false", "3", "3.5", "4", "0.1", "1.50", "2020-01-02", "bytes"]
    rows = [(name, "of", f"a{i}") for i, name in enumerate(odd)]
    model = fh.build(rows, recipe="values")
    assert model.table.labels is not None
    assert list(model.table.labels.subjects) == names
    assert [model.ask(name, "of").expected for name in odd] == [(f"a{i}",) for i in range(len(odd))]
    assert [answer.subject for answer in model.ask_all([(name, "of") for name in odd])] == names
    assert model.edit(3, "of", True).ask(3, "of").expected == ("true",)
    assert model.add(date(2021, 1, 1), "of", False).ask("2021-01-01", "of").expected == ("false",)
    assert model.forget(True, "of").ask("true", "of").right is None
    for ending in ("csv", "json"):
        assert fh.FactTable.of(fh.write_facts(tmp_path / f"facts.{ending}", rows)).to_rows() == model.table.to_rows()


def test_what_is_missing_or_too_much_is_said_by_python() -> None:
    with pytest.raises(TypeError, match=r"read_facts\(\) missing 1 required positional argument: 'facts'"):
        fh.read_facts()  # type: ignore[call-arg]
