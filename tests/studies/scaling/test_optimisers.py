"""Optimisers as schemes: cells by both trainers, bad input, and each judge on rows that agree and on others."""

import dataclasses
from typing import Any

import numpy as np
import pytest

from facthold._util.errors import FactholdError
from facthold.lab.registry import claim, figure
from facthold.memory.schemes import HeavyTailed
from facthold.studies.scaling import optimiser_claims
from facthold.studies.scaling.optimised import LEAST_SEEN, OPTIMISERS, PER_DIMENSION, Optimised, SchemesBeside
from facthold.studies.scaling.optimisers import mean_errors
from facthold.theory.optimisers import after_seen, mean_scheme, power
from facthold.train import ensembles
from facthold.train.protocols import OPTIMISERS as ENGINE

Row = dict[str, Any]
SMALL: Row = {"N": 12, "M": 3, "d": 24, "n": 64, "seeds": (0, 1), "lrs": (0.2, 2.0), "batch": 4, "looks": (16,)}


def cell(**fields: Any) -> Optimised:
    return Optimised(**SMALL | {"optimiser": "sgd"} | fields)


@pytest.mark.parametrize("norm", [False, True])
def test_the_engine_and_the_ensembles_give_the_same(norm: bool) -> None:
    ours = cell(norm=norm)
    worlds = ours.worlds()
    (errors, raw), (by_engine, memories) = ours._by_ensemble(worlds), ours.by_engine(worlds)
    np.testing.assert_allclose(errors, by_engine, atol=1e-5)
    for i, memory in enumerate(memories):
        w, lr = divmod(i, len(ours.lrs))
        np.testing.assert_allclose(raw[w, lr], worlds.E[w] @ memory.W.T @ worlds.U[w].T, atol=1e-4)
    q = ours._read(worlds, memories, np.isfinite(errors[-1]))
    assert q is not None
    np.testing.assert_allclose(ours._realised(worlds, raw), q, atol=1e-3)


@pytest.mark.parametrize("trained", ["all", "embeddings"])
@pytest.mark.parametrize("optimiser", ["sgd", "adam-0"])
def test_embeddings_can_be_trained_too(trained: str, optimiser: str) -> None:
    found = cell(trained=trained, optimiser=optimiser, n=512, lrs=(0.5,)).run()
    assert set(found) == {"looked", "errors"} | ({"q", "rho", "level"} if trained == "all" else set())
    errors = np.array(found["errors"])[:, :, 0].mean(axis=1)
    assert errors[-1] < errors[0]
    assert errors[-1] < 0.3  # a guess is wrong for two thirds


def test_the_scheme_of_trained_embeddings_is_that_of_a_plain_loop() -> None:
    """SGD on W and both embeddings in NumPy: W - W_0 as a sum of outer products of the embeddings that came out."""
    ours = cell(trained="all", lrs=(0.5,), seeds=(3,), batch=8)
    worlds = ours.worlds()
    E, U, W = (part[0].astype(float) for part in (worlds.E, worlds.U, worlds.W_0))
    for z in worlds.z[0].reshape(-1, 8):
        P = np.exp(E[z] @ W.T @ U.T)
        P /= P.sum(axis=1, keepdims=True)
        P[np.arange(8), worlds.f[z]] -= 1
        P /= 8
        of_W, of_U, of_z = (P @ U).T @ E[z], P.T @ (E[z] @ W.T), P @ U @ W
        W, U = W - 0.5 * of_W, U - 0.5 * of_U
        np.add.at(E, z, -0.5 * of_z)
    alpha = np.linalg.solve(E @ E.T, E @ (W - worlds.W_0[0]).T @ U.T) @ np.linalg.inv(U @ U.T)
    own = alpha[np.arange(12), worlds.f]
    q = own - (alpha.sum(axis=1) - own) / 2
    found = ours.run()
    np.testing.assert_allclose(found["q"][0], q, rtol=2e-3, atol=2e-4 * np.abs(q).max())
    assert np.abs(E - worlds.E[0]).max() > 0.1  # they have moved


@pytest.mark.parametrize("betas", [(0.0, 0.0), (0.9, 0.999)])
def test_adam_of_the_engine_is_that_of_a_plain_loop(betas: tuple[float, float]) -> None:
    """In float64, its epsilon beside the gradient of W itself: some gradients are as small."""
    ours = cell(optimiser="adam" if any(betas) else "adam-0", lrs=(0.5,), seeds=(1,), batch=1, n=12, looks=(12,))
    worlds = ours.worlds()
    E, U, W = (part[0].astype(float) for part in (worlds.E, worlds.U, worlds.W_0))
    moments = np.zeros((2, 24, 24))
    for t, z in enumerate(worlds.z[0]):
        scores = U @ W @ E[z]
        P = np.exp(scores - scores.max())
        delta = P / P.sum() - np.eye(3)[worlds.f[z]]
        gradient = np.outer(U.T @ delta, E[z])
        for i, (beta, part) in enumerate(zip(betas, (gradient, gradient**2), strict=True)):
            moments[i] = beta * moments[i] + (1 - beta) * part
        first, second = (moments[i] / (1 - beta ** (t + 1)) for i, beta in enumerate(betas))
        W -= 0.5 / 24 * first / (np.sqrt(second) + 1e-8)
    _, (memory,) = ours.by_engine(worlds)
    np.testing.assert_allclose(memory.W, W, atol=1e-3 * np.abs(W).max())


def test_what_diverged_with_its_embeddings_has_no_scheme() -> None:
    found = cell(trained="all", lrs=(1e6,), n=256).run()
    assert found["errors"][-1] == [[None]] * 2
    assert found["q"] == [[None] * 12]


def test_usual_adam_and_muon_are_trained_by_the_engine_where_they_must_be() -> None:
    assert not cell(optimiser="adam").closed
    assert not cell(optimiser="muon", norm=True).closed
    more_outputs = cell(optimiser="muon", M=30, d=24)  # than dimensions, and than inputs
    assert not more_outputs.closed
    for ours in (cell(optimiser="adam"), cell(optimiser="muon", norm=True), more_outputs):
        found = ours.run()
        assert found["looked"] == [16, 64]
        assert np.isfinite(np.array(found["errors"])).all()
        assert len(found["q"]) == 2


def test_names_are_those_of_the_trainers() -> None:
    """They stand in the study too, as what trains takes long to load."""
    assert set(OPTIMISERS) <= set(ENGINE)
    assert set(ensembles.RULES) == set(OPTIMISERS) - {"adam"}
    assert PER_DIMENSION == ensembles.PER_DIMENSION
    for optimiser in OPTIMISERS:
        for norm in (False, True):
            for M in (3, 24, 25):
                ours = cell(optimiser=optimiser, norm=norm, M=M)
                assert ours.closed == ensembles.has_closed_form(optimiser, norm, ours.M, ours.d)


def test_one_step_is_the_scheme_of_the_counts() -> None:
    """Up to the start, of which the softmax is nearly even."""
    ours = cell(batch=64, d=400)
    q = np.array(ours.run()["q"])
    counts = np.mean([np.bincount(z, minlength=12) for z in ours.worlds().z], axis=0) / 64
    np.testing.assert_allclose(q, np.outer(ours.lrs, counts), rtol=0.1, atol=1e-6)


def test_with_orthogonal_embeddings_q_follows_the_law() -> None:
    """Token by token, by how often each was seen; W_0 makes rivals differ by a little."""
    ours = cell(batch=1, d=900, embeddings="orthogonal", seeds=tuple(range(8)), n=200)
    q, z = np.array(ours.run()["q"]), ours.worlds().z
    for i, lr in enumerate(ours.lrs):
        law = np.array(after_seen(200, lr, ours.M))
        stated = np.mean([law[np.bincount(one, minlength=12)] for one in z], axis=0)
        np.testing.assert_allclose(q[i], stated, rtol=0.02, atol=1e-6)


def test_samples_that_fill_no_batch_are_left_out() -> None:
    ours = cell(n=70, batch=16, looks=(5, 16, 32))
    assert ours.looked == [16, 32, 64]
    same = dataclasses.replace(ours, n=64)
    assert ours.run()["errors"] == same.run()["errors"]


@pytest.mark.parametrize(("fields", "says"), [
    ({"batch": 65}, "batch=65 is larger than n=64: not one step; take 64 at most"),
    ({"lrs": (0.0, 1.0)}, r"lrs=0\.0 must be above 0"),
    ({"lrs": ()}, "lrs is empty"),
    ({"M": 1}, "M=1 must be at least 2"),
    ({"alpha": -1.0}, r"alpha=-1\.0 must be at least 0"),
    ({"optimiser": "adamw"}, "did you mean 'adam'"),
    ({"later": 0.1, "optimiser": "adam"}, "later=0.1 is for what train.ensembles trains"),
])  # fmt: skip
def test_bad_input_is_one_clear_line(fields: Row, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        cell(**fields)


def test_more_outputs_than_tokens_are_never_right_and_do_no_harm() -> None:
    found = cell(M=20, d=200, batch=1, n=512, lrs=(10.0,), alpha=0.5).run()
    assert np.mean(found["errors"][-1]) < 0.05


def test_alpha_of_one_and_less_is_allowed_as_N_is_finite() -> None:
    assert np.isfinite(np.array(cell(alpha=0.0).run()["errors"])).all()


def test_the_figure_refuses_what_its_cells_cannot_be() -> None:
    wanted = figure("optimisers")
    with pytest.raises(ValueError, match="batch=1024 is larger than n=100"):
        wanted.cells(wanted.grid("smoke", {"n": 100, "batch": [1, 1024]}))
    with pytest.raises((FactholdError, ValueError), match=r"lrs=0\.0 must be above 0"):
        wanted.grid("smoke", {"lrs": [0.0]})
    assert len(wanted.cells(wanted.grid("paper", {"norms": [False], "beside": ["sign"], "trained": ["all"]}))) == 75


def test_the_grid_is_the_one_that_is_stated() -> None:
    wanted = figure("optimisers")
    plain = [c for c in wanted.cells(wanted.grid("paper")) if not c.norm and c.trained == "W"]  # type: ignore[attr-defined]
    main = [c for c in plain if c.optimiser in ("sgd", "adam-0")]  # type: ignore[attr-defined]
    assert sum(len(c.lrs) * len(c.seeds) for c in main) == 7200  # type: ignore[attr-defined]


def test_schemes_beside_are_sums_of_outer_products() -> None:
    ours = SchemesBeside(N=12, M=3, d=6, n=64, seeds=(0,), schemes=("seen", "counts"))
    worlds, data = ours.worlds(), ours.data
    E, U, f = worlds.E[0].astype(float), worlds.U[0].astype(float), worlds.f
    counts = np.bincount(worlds.z[0], minlength=12)
    for name, q in (("seen", counts > 0), ("counts", counts)):
        W = sum(q[z] * np.outer(U[f[z]], E[z]) for z in range(12))
        wrong = [np.argmax(U @ W @ E[z]) != f[z] for z in range(12)]
        assert ours.run()["errors"][name][0] == pytest.approx(data.p @ wrong, abs=1e-9)


def test_a_run_that_diverged_has_no_mean() -> None:
    assert mean_errors({"errors": [[[0.1, None], [0.3, 0.2]]]}) == [pytest.approx(0.2), None]


def rows_of(id: str, change: Any) -> list[Row]:
    """Rows of a claim's cells at preset quick, with results that ``change`` makes up."""
    return [{"kind": c.kind, **c.spec} | change(c) for c in claim(id).cells("quick")]


def schemes_as(q_of: Any, spread: float = 0.01) -> Any:
    """rho and level of a scheme, with some spread over seeds."""

    def made(c: Optimised) -> Row:
        p = HeavyTailed(c.N, c.M, c.alpha).p
        often = c.n * p >= LEAST_SEEN
        noise = spread * np.cos(np.arange(len(c.seeds)))[:, None]
        q = [q_of(c, lr)[often] for lr in c.lrs]
        rho = [float(power(one, p[often])) for one in q]
        level = [float(np.exp(np.log(one).mean())) for one in q]
        return {"rho": (np.array(rho) + noise).tolist(), "level": (np.array(level) * (1 + noise)).tolist()}

    return made


def p_of(c: Optimised) -> np.ndarray:
    return HeavyTailed(c.N, c.M, c.alpha).p


def test_one_large_step_is_p() -> None:
    judge = optimiser_claims.judge_one_step
    holds = schemes_as(lambda c, lr: lr * p_of(c))
    assert judge(rows_of("large-batch-scheme", holds)).verdict in ("holds", "drifts")
    for wrong in (lambda c, lr: lr * p_of(c) ** 0.8, lambda c, lr: 1.3 * lr * p_of(c), lambda c, lr: np.ones(c.N)):
        assert judge(rows_of("large-batch-scheme", schemes_as(wrong))).verdict == "fails"
    assert judge(rows_of("large-batch-scheme", schemes_as(lambda c, lr: lr * p_of(c), 1.0))).verdict == "not decided"


def test_batch_one_is_the_law() -> None:
    judge = optimiser_claims.judge_batch_one
    right = schemes_as(lambda c, lr: mean_scheme(p_of(c), c.n, lr, c.M))
    assert judge(rows_of("batch-one-scheme", right)).verdict in ("holds", "drifts")
    for wrong in (lambda c, lr: lr * p_of(c), lambda c, lr: np.full(c.N, lr)):  # the second is no law of small steps
        assert judge(rows_of("batch-one-scheme", schemes_as(wrong))).verdict == "fails"

    def missing(c: Optimised) -> Row:
        return {"rho": [[None] * len(c.lrs)] * len(c.seeds), "level": [[1.0] * len(c.lrs)] * len(c.seeds)}

    assert judge(rows_of("batch-one-scheme", missing)).verdict == "fails"


def errors_as(error_of: Any) -> Any:
    def made(c: Any) -> Row:
        noise = 1e-3 * np.sin(np.arange(len(c.seeds)))
        if isinstance(c, SchemesBeside):
            return {"errors": {name: (error_of(c, name) + noise * len(name) / 10).tolist() for name in c.schemes}}
        own = np.array([error_of(c, lr) for lr in c.lrs])
        scale = 1 + 0.5 * (c.optimiser == "sgd") + c.norm + c.later
        return {"errors": [(own + scale * noise[:, None]).tolist()], "looked": [c.n]}

    return made


def test_adam_and_norm_help_where_each_does() -> None:
    judge = optimiser_claims.judge_helped
    better = {("sgd", False): 0.1, ("sgd", True): 0.08, ("adam-0", False): 0.05, ("adam-0", True): 0.02}
    rows = rows_of("adam-and-norm", errors_as(lambda c, lr: better[c.optimiser, c.norm]))
    assert judge(rows).verdict == "holds"
    for worse in (("sgd", True), ("adam-0", True)):
        changed = better | {worse: 0.2}
        assert judge(rows_of("adam-and-norm", errors_as(lambda c, lr: changed[c.optimiser, c.norm]))).verdict == "fails"  # noqa: B023
    alike = rows_of("adam-and-norm", errors_as(lambda c, lr: 0.1))
    assert judge(alike).verdict == "not decided"


def test_small_steps_help_late_where_they_do() -> None:
    judge = optimiser_claims.judge_late
    assert judge(rows_of("small-steps-late", errors_as(lambda c, lr: 0.01 if c.later < 1 else 0.02))).verdict == "holds"
    assert judge(rows_of("small-steps-late", errors_as(lambda c, lr: 0.02 if c.later < 1 else 0.01))).verdict == "fails"
    same = [r | {"errors": [[[0.1]] * len(r["seeds"])]} for r in rows_of("small-steps-late", lambda c: {})]
    assert judge(same).verdict == "fails"  # an error that is the same is not smaller


def test_equal_weights_are_best_where_they_are() -> None:
    judge = optimiser_claims.judge_room

    def of(best: str, of_one: float = 0.01) -> Any:
        def error(c: Any, what: Any) -> float:
            if isinstance(c, SchemesBeside):
                return 0.01 if what == best else 0.03
            return of_one if c.batch == 1 else 0.06

        return errors_as(error)

    assert judge(rows_of("equal-weights-best", of("seen"))).verdict == "holds"
    assert judge(rows_of("equal-weights-best", of("counts"))).verdict == "fails"
    assert judge(rows_of("equal-weights-best", of("seen", 0.1))).verdict == "fails"
