"""facthold capacity: of memories and of trained transformers; what it says, stores and refuses."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., tuple[int, str, str]]


def test_the_capacity_of_a_memory_is_found_and_kept(folder: Path, run: Run) -> None:
    arguments = ("capacity", "-d", "16", "--seeds", "2")
    found = json.loads(run(*arguments, "--json")[1])
    assert found["status"] == "found"
    assert len(found["per_seed"]) == 2
    _, out, err = run(*arguments)
    assert "1 already stored" in err
    assert f"N = {found['N']:.5g} ({found['N_min']} to {found['N_max']} over 2 seeds)" in out
    out = run("capacity", "-d", "8", "--seeds", "1", "--accuracy", "0.5")[1]
    assert re.match(r"N = \d+ \(one seed, no interval\), ", out)
    out = run("capacity", "-d", "8", "--seeds", "1", "--embeddings", "orthogonal")[1]
    tried = json.loads(run("capacity", "-d", "8", "--seeds", "1", "--embeddings", "orthogonal", "--json")[1])
    largest = max(probe["N"] for probe in tried["per_seed"][0]["probes"])
    assert largest == 8  # as many as there are dimensions
    assert (tried["N"], tried["at_least"], tried["can_be_more"]) == (None, 8, False)
    assert "N = 8: at least 0.99 of what was tried is recalled at every size, and there cannot be more" in out
    out = run("capacity", "-d", "4", "--seeds", "1", "--accuracy", "0.001")[1]
    assert "N = 32 or more: at least 0.001 of what was tried is recalled at every size, and the search" in out
    out = run("capacity", "-d", "2", "--seeds", "1", "--accuracy", "0.6")[1]
    each = re.search(r", (\S+) parameters per association recalled", out)
    assert each is not None
    (search,) = json.loads(run("capacity", "-d", "2", "--seeds", "1", "--accuracy", "0.6", "--json")[1])["per_seed"]
    (best,) = [probe for probe in search["probes"] if probe["N"] == search["stored"]]
    assert float(each[1]) == pytest.approx(4 / (best["accuracy"] * best["N"]), rel=1e-3)
    out = run("capacity", "-d", "1", "--seeds", "1")[1]
    assert "no capacity: search floor (not even N = 2 is recalled, the smallest that was tried)" in out


@pytest.mark.slow
def test_the_facts_in_a_transformer_are_found_and_kept(folder: Path, run: Run) -> None:
    sizes = ("-d", "4", "--heads", "1", "-D", "2", "-T", "4", "--tolerance", "0.5")
    code, out, err = run("capacity", "--recipe", "train", *sizes, "--json")
    assert code == 0, err
    found = json.loads(out)
    assert found["status"] == "found"
    assert found["facts"] == found["N"] ** 2
    assert found["n_params"] == 4 * 4 * 4 + 2 * 4 * 4
    _, out, err = run("capacity", "--recipe", "train", *sizes)
    assert "1 already stored" in err
    assert f"{found['facts']:.6g} facts (S = {found['N_min']}, one seed, no interval, S=R)" in out


MEMORY = [
    ("--accuracy 2", "--accuracy 2.0 must be above 0 and at most 1"),
    ("--seeds 0", "--seeds 0 must be at least 1"),
    ("--recipe layerwise", "layerwise has a width to choose: give -m"),
    ("--recipe selected", "--recipe selected has no such search; `facthold plan` says"),
    ("--recipe magic", "unknown recipe 'magic'"),
    ("--tolerance -1", "--tolerance -1"),
    ("-d 99999999", "of memory, and there is"),
    ("--recipe tangent-kernel -m 7", "take -m 8"),
    ("--ray nowhere", "give host:port"),
    ("--alpha 1", "--alpha 1.0 does not go with --recipe outer-product"),
    ("--map modulo", "unknown map 'modulo'; did you mean 'mod'"),
]
TRAINED = [
    ("-T 2", "-T 2 must be at least 3"),
    ("--seeds 0", "--seeds 0 must be at least 1"),
    ("-D 0", "-D 0 must be at least 1"),
    ("-D 4 --distinct", "take one of -D 4 and --distinct"),
    ("-d 4096 --alpha 4 --beta 4 --distinct", "needs about"),
    ("--heads 16", "--heads 16 makes heads of dimension alpha d / H = 0.5"),
    ("--growth R=S", "unknown growth 'R=S'"),
    ("--variant cod", "did you mean 'code'"),
    ("--protocol none", "unknown protocol 'none'"),
    ("--protocol mlp-code", "unknown protocol 'mlp-code'"),
    ("--rule last", "'last'; "),
    ("--tolerance -1", "--tolerance -1"),
    ("--accuracy 0", "--accuracy 0"),
    ("-d 99999999", "of memory, and there is"),
    ("--workers 0", "--workers 0 must be at least 1"),
    ("--map mod", "--map mod does not go with --recipe train"),
]
BAD = [*MEMORY, *((f"--recipe train {arguments}", says) for arguments, says in TRAINED)]


@pytest.mark.parametrize(("arguments", "says"), BAD, ids=[arguments for arguments, _ in BAD])
def test_bad_input_is_refused_before_anything_is_computed(
    arguments: str, says: str, folder: Path, refuses: Callable[..., str]
) -> None:
    assert says in refuses("capacity", *arguments.split())
    assert not list(folder.iterdir())
