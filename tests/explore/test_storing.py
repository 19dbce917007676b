"""The page stores as the library does: the same matrices, scores and recall, and the laws that it draws."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from numpy.testing import assert_allclose

from explore.node import needs_node, run
from facthold.construct.separate import separate
from facthold.memory.associations import Problem
from facthold.memory.embeddings import embed
from facthold.theory import bounds, noise, sharp
from facthold.train.engine import _optimiser
from facthold.train.protocols import Protocol

pytestmark = needs_node
SIZES = {"small": (12, 6, 8), "wide": (20, 20, 24), "full": (60, 60, 16)}
"""N, M, d."""
STEPS = 30
EXACT = 1e-9
GIVEN = """
    const of = (rows) => Float64Array.from(rows.flat());
    const problem = { ...given, E: of(given.E), U: of(given.U), f: Int32Array.from(given.f) };
"""


def problem(size: str) -> Problem:
    """Outputs in turn, so that some have several inputs."""
    N, M, d = SIZES[size]
    E, U = (embed("sphere", n, d, key=jax.random.key(seed)) for seed, n in ((1, N), (2, M)))
    return Problem(E, U, jnp.arange(N) % M)


def plain(given: Problem) -> dict[str, Any]:
    E, U, _ = given.host(np.float64)
    return {"N": given.N, "M": given.M, "d": given.d, "f": np.asarray(given.f), "E": E, "U": U}


@pytest.mark.parametrize("size", SIZES)
def test_solved_memories_are_those_of_linear_algebra(size: str, tmp_path: Path) -> None:
    here = problem(size)
    E, U, targets = here.host(np.float64)
    script = f"""
        const m = await import("facthold/memories");
        {GIVEN}
        const one = m.outerProduct(problem), least = m.leastSquares(problem, given.ridge);
        const scores = m.scoresOf(problem, least);
        return {{ one, least, scores, judged: m.judge(problem, scores) }};
    """
    found = run(tmp_path, script, ridge=1e-3, **plain(here))
    outer = targets.T @ E
    ridge = 1e-3 * np.trace(E.T @ E) / here.d * np.eye(here.d)
    W = np.linalg.solve(E.T @ E + ridge, outer.T).T
    scores = E @ W.T @ U.T
    own = scores[np.arange(here.N), here.f]
    rivals = np.where(np.arange(here.M) == np.asarray(here.f)[:, None], -np.inf, scores).max(axis=1)
    assert_allclose(found["one"], outer.ravel(), rtol=EXACT, atol=EXACT)
    assert_allclose(found["least"], W.ravel(), rtol=EXACT, atol=EXACT)
    assert_allclose(found["scores"], scores.ravel(), rtol=EXACT, atol=EXACT)
    assert_allclose(found["judged"]["margins"], own - rivals, rtol=EXACT, atol=EXACT)
    assert found["judged"]["recall"] == pytest.approx((own > rivals).mean())
    assert_allclose(found["judged"]["said"], scores.argmax(axis=1))


@pytest.mark.parametrize("optimiser", ["sgd", "adam"])
@pytest.mark.parametrize("size", ["small", "full"])
def test_training_steps_are_those_of_the_library(size: str, optimiser: str, tmp_path: Path) -> None:
    here, lr = problem(size), {"sgd": 20.0, "adam": 0.5}[optimiser]
    script = f"""
        const {{ Trainer }} = await import("facthold/memories");
        {GIVEN}
        const trainer = new Trainer(problem, given), losses = [];
        for (let i = 0; i < given.steps; i++) losses.push(trainer.step());
        return {{ losses, W: trainer.W }};
    """
    found = run(tmp_path, script, optimiser=optimiser, lr=lr, steps=STEPS, **plain(here))
    with jax.enable_x64(True):
        E, U, f = (jnp.asarray(plain(here)[name]) for name in ("E", "U", "f"))
        direction = _optimiser(Protocol("t", "t", optimiser, lr=lr, steps=STEPS, check_every=1))
        W = jnp.zeros((here.d, here.d))
        state = direction.init(W)

        @jax.jit
        def step(W: Any, state: Any) -> Any:
            def loss(W: Any) -> Any:
                return optax.softmax_cross_entropy_with_integer_labels(E @ W.T @ U.T, f).mean()

            value, gradient = jax.value_and_grad(loss)(W)
            update, state = direction.update(gradient, state, W)
            return value, W - lr * update, state

        losses = []
        for _ in range(STEPS):
            value, W, state = step(W, state)
            losses.append(float(value))
    assert_allclose(found["losses"], losses, rtol=EXACT)
    assert_allclose(found["W"], np.ravel(W), rtol=EXACT, atol=EXACT * float(np.abs(W).max()))


@pytest.mark.parametrize(("N", "status"), [(48, "separated"), (110, "inseparable")])
def test_the_best_memory_is_found_or_certified(N: int, status: str, tmp_path: Path) -> None:
    d = 16
    E, U = (embed("sphere", N, d, key=jax.random.key(seed)) for seed in (3, 4))
    here = Problem(E, U, jnp.arange(N))
    script = f"""
        const {{ Separator }} = await import("facthold/separating");
        const {{ judge, scoresOf }} = await import("facthold/memories");
        {GIVEN}
        const solver = new Separator(problem);
        while (!solver.status) solver.step();
        const {{ recall }} = judge(problem, scoresOf(problem, solver.W));
        return {{ status: solver.status, recall, bound: solver.bound, steps: solver.steps }};
    """
    found = run(tmp_path, script, **plain(here))
    theirs = separate(here)
    assert found["status"] == theirs.status == status
    assert found["recall"] == pytest.approx(theirs.recalled, abs=0.05)
    assert (found["recall"] == 1) == (status == "separated")


def test_laws_are_those_of_the_library(tmp_path: Path) -> None:
    ds, Ns = [8, 16, 32, 48], [2, 3, 5, 10, 50, 200.5, 600]
    script = """
        const laws = await import("facthold/memory_laws");
        return {
          rivals: given.Ns.map(laws.activeRivals), separable: given.ds.map(laws.separable),
          guide: given.ds.map(laws.guideLine), half: given.ds.map((d) => laws.outerProductHolds(d, 0.5)),
          recall: [3, 10, 40, 160].map((N) => laws.outerProductRecall(N, 24)),
        };
    """
    found = run(tmp_path, script, ds=ds, Ns=Ns)
    assert_allclose(found["rivals"], [sharp.active_rivals(N) for N in Ns], rtol=1e-9)
    assert_allclose(found["separable"], [sharp.separable(d) for d in ds], rtol=1e-5)
    assert_allclose(found["guide"], [bounds.guide(d * d, bounds.LINEAR_CONSTANT) for d in ds], rtol=1e-5)
    assert_allclose(found["recall"], [noise.recall(N, noise.low_rank(24)) for N in (3, 10, 40, 160)], rtol=1e-9)
    assert_allclose(found["half"], [noise.half_recall(noise.low_rank(d)) for d in ds], rtol=2e-3)


def test_what_the_page_draws_falls_as_predicted(tmp_path: Path) -> None:
    """Its own embeddings, many seeds, within four standard errors of the law, which leaves out a share of 1/d or so."""
    d, Ns, draws = 24, [20, 40, 80], 60
    script = """
        const m = await import("facthold/memories");
        const { outerProductRecall } = await import("facthold/memory_laws");
        const recall = (N, seed) => {
          const problem = m.problemOf(Int32Array.from({ length: N }, (_, i) => i), given.d, seed);
          return m.judge(problem, m.scoresOf(problem, m.outerProduct(problem))).recall;
        };
        return given.Ns.map((N) => ({
          seen: Array.from({ length: given.draws }, (_, seed) => recall(N, seed)),
          law: outerProductRecall(N, given.d),
        }));
    """
    for one in run(tmp_path, script, d=d, Ns=Ns, draws=draws):
        seen = np.array(one["seen"])
        error = seen.std(ddof=1) / draws**0.5
        assert abs(seen.mean() - one["law"]) < 4 * error + 0.2 / d


def test_embeddings_are_nested_and_uniform(tmp_path: Path) -> None:
    script = """
        const { normalStream, permutation, sphere, uniformStream } = await import("facthold/random");
        const normal = normalStream(5);
        return { few: sphere(10, 8, 3), many: sphere(400, 8, 3), normal: Array.from({ length: 4000 }, normal),
          order: permutation(50, uniformStream(1)) };
    """
    found = run(tmp_path, script)
    few, many = (np.reshape(found[name], (-1, 8)) for name in ("few", "many"))
    assert (many[:10] == few).all()
    assert_allclose(np.linalg.norm(many, axis=1), 1)
    off = (many @ many.T)[np.triu_indices(400, 1)]
    assert abs(off.mean()) < 4 * off.std() / off.size**0.5
    assert abs((off**2).mean() - 1 / 8) < 4 * (off**2).std() / off.size**0.5
    drawn = np.array(found["normal"])
    assert abs(drawn.mean()) < 4 / 4000**0.5
    assert abs(drawn.var() - 1) < 4 * 2**0.5 / 4000**0.5
    assert sorted(found["order"]) == list(range(50))
