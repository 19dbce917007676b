"""facthold make: memories and transformers, constructed and trained; what it says, saves and refuses."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import jax
import pytest

from facthold._util.errors import FactholdError
from facthold.facts.problem import FactualRecall
from facthold.measure.fact_recall import fact_accuracy
from facthold.models.saving import load_model
from facthold.models.transformer import Transformer

Run = Callable[..., tuple[int, str, str]]
TRAIN = ("make", "--recipe", "train")
SMALL = ("-d", "16", "--heads", "2", "-m", "64", "-T", "8")
CSV = "subject,relation,answer,p\nFrance,capital,Paris,0.5\nItaly,capital,Rome,0.25\nVatican,seat,Rome,0.25\n"
SPARSE = "subject,relation,answer\na,r,1\nb,r,2\na,r,3\nc,q,1\nb,q,3\n"


@pytest.fixture
def files(folder: Path) -> Path:
    texts = {"good": CSV, "half": CSV.replace("0.5", "0.4"), "two": CSV + "Italy,capital,Milan,0\n", "sparse": SPARSE}
    for name, text in texts.items():
        (folder / f"{name}.csv").write_text(text)
    (folder / "text.txt").write_text("a file")
    return folder


def test_a_memory_as_json_and_saved(folder: Path, run: Run) -> None:
    arguments = ("make", "-N", "60", "-d", "16", "-m", "20", "--recipe", "layerwise", "-o", "m.safetensors")
    answer = json.loads(run(*arguments, "--json")[1])
    assert answer["recall"] == 1.0
    assert answer["smallest_margin"] > 0
    assert answer["n_params"] == 2 * 20 * 16
    assert (folder / "m.safetensors").is_file()
    out = run("make", "-N", "60", "-d", "16", "--outputs", "4", "--map", "mod")[1]
    assert out.startswith("outer-product (theorem 1): ")
    assert "of 60 associations recalled" in out


def test_values_that_are_not_finite_are_null(folder: Path, run: Run) -> None:
    """One association has no rival: its margin is infinite, and the JSON still is JSON."""
    assert json.loads(run("make", "-N", "1", "-d", "4", "--json")[1])["smallest_margin"] is None


def test_a_transformer_is_trained_saved_and_asked_again(folder: Path, run: Run) -> None:
    arguments = (*TRAIN, "-S", "6", "-R", "3", "-D", "2", "--table", "balanced", *SMALL, "--zipf", "0.5", "0")
    code, out, err = run(*arguments, "--accuracy", "1", "-o", "t.safetensors", "--json")
    assert code == 0, err
    assert re.search(r"^  \d+% of the steps, [\d.]+% right, .* left or less$", err, re.MULTILINE)  # and how far it is
    about = json.loads(out)
    assert (about["facts"], about["A"], about["D"], about["max_C"], about["assumption_1"]) == (18, 6, 2, 3, True)
    assert (about["d_h"], about["m"], about["T"], about["n_noise"]) == (8, 64, 8, 9)
    assert about["n_params"] == 4 * 2 * 8 * 16 + 2 * 64 * 16
    assert about["facts_per_param"] == about["always_recalled"] / about["n_params"]
    assert about["status"] == "reached"
    assert about["best"] == about["final"] == 1.0
    assert about["lr"] in (1e-3, 3e-3, 1e-2)
    assert about["steps"] % 64 == 0
    model, problem = load_model(folder / about["file"])
    assert isinstance(model, Transformer)
    assert isinstance(problem, FactualRecall)
    assert (model.scaled, problem.outputs) == (True, "answers")
    assert problem.p is not None
    assert fact_accuracy(model, problem, key=jax.random.key(0)) > 0.8  # fresh noise, 18 facts


def test_facts_of_a_file_in_words(files: Path, run: Run) -> None:
    arguments = (*TRAIN, "--facts", "good.csv", *SMALL, "--noise-tokens", "3", "--variant", "text")
    code, out, err = run(*arguments, "--accuracy", "0.6", "-o", "t.safetensors")
    assert code == 0, err
    assert "of 3 facts right in all of 10 prompts" in " ".join(out.split())
    assert "steps at learning rate" in out
    assert "S=3, R=2, 2 answers, D=2, max C(a)=2" in out
    assert "assumption 1 does not hold" in out
    assert "model: t.safetensors" in out
    model, problem = load_model(files / "t.safetensors")
    assert isinstance(problem, FactualRecall)
    assert (model.scaled, problem.outputs, problem.n_noise) == (False, "vocabulary", 3)
    assert problem.table.labels is not None
    assert problem.table.labels.answers == ("Paris", "Rome")
    assert problem.p is not None
    assert problem.p.tolist() == [0.5, 0.25, 0.25]


def test_facts_are_put_into_weights_saved_and_asked_again(files: Path, run: Run) -> None:
    sizes = ("-S", "8", "-R", "6", "-D", "4", "-d", "16", "-m", "40")
    about = json.loads(run("make", "--recipe", "selected", *sizes, "--draws", "3", "-o", "built", "--json")[1])
    assert (about["recall"], about["always_recalled"], about["facts"]) == (1.0, 48, 48)
    assert about["smallest_margin"] > 0
    model, problem = load_model(files / "built")
    assert isinstance(problem, FactualRecall)
    assert fact_accuracy(model, problem, key=jax.random.key(7)) == 1.0
    out = run("make", "--facts", "good.csv", "--recipe", "values", "-d", "12")[1]
    assert "3 of 3 facts right in all of 10 prompts" in " ".join(out.split())
    few = json.loads(run("make", "--recipe", "values", *sizes[:6], "-d", "24", "--share", "0.5", "--json")[1])
    assert few["facts"] == 24


def test_gates_have_prompts_of_their_own(folder: Path, run: Run) -> None:
    about = json.loads(
        run("make", "--recipe", "gated", "-S", "6", "-R", "2", "-D", "2", "-d", "64", "-m", "24", "--json")[1]
    )
    assert (about["recall"], about["facts"], about["d"]) == (1.0, 12, 64)


@pytest.mark.parametrize("recipe", [("values",), ("train", "--heads", "2", "-m", "32")])
def test_a_sparse_file_with_shared_answers_goes_into_weights(
    recipe: tuple[str, ...], files: Path, run: Run, refuses: Callable[..., str]
) -> None:
    arguments = ["make", "--facts", "sparse.csv", "-d", "16", "-T", "8", "-o", "m.safetensors", "--json", "--recipe"]
    line = refuses(*arguments, *recipe)
    assert "line 4: " in line
    assert "'3', and '1' in line 2;" in line
    assert "--on-conflict first" in line
    about = json.loads(run(*arguments, *recipe, "--on-conflict", "all")[1])
    assert (about["facts"], about["several_answers"], about["assumption_1"]) == (4, 1, False)
    assert about["recall"] == 1.0
    _, problem = load_model(files / "m.safetensors")
    assert isinstance(problem, FactualRecall)
    assert problem.table.right(0) == (0, 2)
    if recipe[0] == "values":
        assert json.loads(run(*arguments, *recipe, "--on-conflict", "first")[1])["several_answers"] == 0


def test_why_not_all_is_recalled_is_said_where_no_size_would_do(tmp_path: Path, run: Run) -> None:
    path = tmp_path / "xor.csv"
    path.write_text("subject,relation,answer\ns,r,a\ns,q,b\nt,r,b\nt,q,a\n")
    arguments = ("make", "--recipe", "values", "--facts", str(path), "-d", "16", "-T", "8")
    code, out, _ = run(*arguments)
    assert code == 0
    assert "no sum of a part for s and a part for r holds these 4 facts" in " ".join(out.split())
    about = json.loads(run(*arguments, "--json")[1])
    assert about["recall"] < 1
    assert about["never"].startswith("no sum of a part")


MEMORY = [
    ("-N 0", "-N 0 must be at least 1"),
    ("-N -5", "-N -5"),
    ("-d 0", "-d 0 must be at least 1"),
    ("-N 999999999999", "of memory, and there is"),
    ("--recipe train:mlp-code -m 8 -N 500000", "of memory, and there is"),
    ("--recipe magic", "unknown recipe 'magic'"),
    ("--recipe layerwise", "layerwise has a width to choose: give -m, at least 1"),
    ("--recipe weighted-convex", "--recipe weighted-convex needs how often each association is asked"),
    ("--embeddings orthogonal -N 100 -d 8", "do not fit in -d 8"),
    ("--map modulo", "unknown map 'modulo'; did you mean 'mod'"),
    ("-N 8 -o text.txt/m.safetensors", "there is no folder text.txt"),
    ("-N many", "integer"),
    ("-S 8", "-S 8 does not go with --recipe outer-product"),
    ("--alpha 1", "--alpha 1.0 does not go with --recipe outer-product"),
]
TRAINED = [
    ("-T 2", "-T 2 leaves no room"),
    ("--noise-tokens 0", "--noise-tokens 0 must be at least 1"),
    ("--noise-tokens 100000", "--noise-tokens 100000 is above 65536"),
    ("-S 0", "-S 0 must be at least 1"),
    ("-R -3", "-R -3 must be at least 1"),
    ("-D 0", "-D 0 must be at least 1"),
    ("-d 0", "-d 0 must be at least 1"),
    ("--heads 0", "--heads 0 must be at least 1"),
    ("--alpha 0.1 -d 16", "--alpha 0.1 with -d 16 and --heads 4 makes heads of"),
    ("--alpha nan", "--alpha nan must be a finite number"),
    ("--alpha inf", "--alpha inf must be a finite number"),
    ("--beta -1", "--beta -1.0 must be at least 0 and at most 1e+06"),
    ("-m -1", "-m -1 must not be negative"),
    ("--alpha 1 --d-h 4", "take one of --alpha 1 and --d-h 4"),
    ("--beta 1 -m 4", "take one of --beta 1 and -m 4"),
    ("--d-h 0", "--d-h 0 must be at least 1"),
    ("--variant txt", "did you mean 'text'"),
    ("--protocol transformer", "unknown protocol 'transformer'"),
    ("--rule last", "unknown success rule 'last'"),
    ("--accuracy 2", "--accuracy 2.0 must be above 0 and at most 1"),
    ("--table even", "unknown table 'even'"),
    ("--table balanced -S 10 -D 4", "-D 4 does not divide -S 10"),
    ("--zipf nan 0", "--zipf nan must be a finite number"),
    ("--zipf 0 400", "--zipf 0 400: take exponents"),
    ("-S 50000 -R 50000", "give --noise-tokens"),
    ("-S 5000000 -R 50000 --noise-tokens 5", "of memory, and there is"),
    ("-d 9999999", "of memory, and there is"),
    ("-T 300000000", "-T 300000000 is more than 65536, the longest prompt"),
    ("-T 1000000", "-T 1000000 is more than 65536"),
    ("-o .", "--output . is a folder"),
    ("--facts none.csv", "no such file: none.csv"),
    ("--facts half.csv", "half.csv, column p: p(s, r) must sum to 1"),
    ("--facts two.csv", "two.csv, line 5: the fact ('Italy', 'capital')"),
    ("--facts good.csv -S 3", "-S 3 does not go with --facts good.csv"),
    ("--facts good.csv --zipf 1 0", "take one of --zipf and the column p"),
    ("--facts good.csv --share 0.5", "take one of --share and the column p"),
    ("--on-conflict all", "--on-conflict all is about a file with facts; give it with --facts"),
    ("--per-head 2", "--per-head 2 does not go with --recipe train"),
    ("-N 8", "-N 8 does not go with --recipe train"),
]
CONSTRUCTED = [
    ("--recipe valeus", "did you mean 'values'"),
    ("--recipe selected", "give its width -m, 128 to start with"),
    ("--recipe attention", "give their dimension --d-h, 32 to start with"),
    ("--recipe values -m 4", "--recipe values has no MLP, and -m is 4"),
    ("--recipe selected -m -4", "-m -4 must be at least 1"),
    ("--recipe selected -m 8 -d 2", "-d 2 has no room"),
    ("--recipe selected -m 8 -T 2", "-T 2"),
    ("--recipe selected -m 8 --share 0", "--share 0"),
    ("--recipe selected -m 8 --share 1e-9", "--share 1e-09 leaves nothing of 16 facts of a relation; take 0.031"),
    ("--recipe selected -m 8 --draws 0", "--draws 0 must be at least 1"),
    ("--recipe selected -m 8 --per-head 2", "--per-head 2 is for attention and attention-mlp"),
    ("--recipe selected -m 8 --protocol x", "--protocol x does not go with --recipe selected"),
    ("--recipe gated -T 8", "-T 8 does not go with --recipe gated"),
    ("--recipe attention --d-h 4 --facts two.csv", "has the answer 'Milan', and 'Rome' in line 3"),
    ("--recipe values --on-conflict all", "--on-conflict all is about a file with facts"),
]
BAD = [*MEMORY, *((f"--recipe train {arguments}", says) for arguments, says in TRAINED), *CONSTRUCTED]


@pytest.mark.parametrize(("arguments", "says"), BAD, ids=[arguments for arguments, _ in BAD])
def test_bad_input_is_refused_before_anything_is_computed(
    arguments: str, says: str, files: Path, refuses: Callable[..., str]
) -> None:
    before = set(files.iterdir())
    assert says in refuses("make", *arguments.split())
    assert set(files.iterdir()) == before


def test_parameters_are_counted_for_what_is_recalled(folder: Path, run: Run) -> None:
    """Far beyond its capacity a memory recalls few: those that it does not are no associations that it holds."""
    about = json.loads(run("make", "--recipe", "outer-product", "-N", "400", "-d", "8", "--json")[1])
    assert 0 < about["recall"] < 0.9
    assert about["params_per_fact"] == pytest.approx(about["n_params"] / (400 * about["recall"]))


def test_nothing_recalled_has_no_parameters_per_association(folder: Path, run: Run) -> None:
    code, out, _ = run("make", "-d", "8", "-N", "8", "--outputs", "100000")
    assert code == 0
    assert " 0.00% of 8 associations recalled" in out
    assert "64 parameters, and nothing is recalled;" in out


@pytest.mark.parametrize("arguments", ["-N 3000 -d 4", "--recipe attention --d-h 2 -d 8 -S 100 -R 100 --draws 100"])
def test_how_long_it_takes_is_said_before_and_what_nobody_waits_for_is_refused(
    arguments: str, monkeypatch: pytest.MonkeyPatch, folder: Path, run: Run, refuses: Callable[..., str]
) -> None:
    """On machines on which it would take minutes, and years."""

    def begun(*_: object, **__: object) -> None:
        raise FactholdError("it has begun")

    monkeypatch.setattr("facthold.cli.inputs.AT_ONCE", 0)
    monkeypatch.setattr("facthold.cli.make.working", begun)
    for gflops, said in ((1e3, ""), (1e-3, r"asking for .* takes about \d+ (min|h|d) .* here, or more\n")):
        monkeypatch.setattr("facthold.cli.inputs.product_rate", lambda gflops=gflops: gflops)
        code, _, err = run("make", *arguments.split())
        assert (code, re.fullmatch(f"{said}facthold: it has begun\n", err) is not None) == (2, True), err
    monkeypatch.setattr("facthold.cli.inputs.product_rate", lambda: 1e-9)
    assert re.search(r"takes \S+ days here, or more; lower -", refuses("make", *arguments.split()))
