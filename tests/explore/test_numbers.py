"""The page computes what the library computes: prompts, attention, scores, margins, and where a fact is held."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from explore.models import READ, models, text
from explore.node import needs_node, run
from facthold.knowledge.locate import locate, locate_all
from facthold.knowledge.model import Model
from facthold.models.forward import prompts, table_prompts
from facthold.models.judge import NONE, contest, find_rows, judge, judge_table, right_answers, verdicts

pytestmark = needs_node
EXACT = 1e-9  # relative to the largest number: sums in another order
NAMES = ["attention alone", "gated", "trained", "several answers", "vocabulary", "scaled, with a bias", "no ReLU"]
PROMPTS = 200


def close(found: Any, expected: Any, rtol: float = EXACT) -> None:
    expected = np.asarray(expected, float)
    finite = expected[np.isfinite(expected)]
    largest = float(np.abs(finite).max(initial=1e-300))
    assert_allclose(np.asarray(found, float).reshape(expected.shape), expected, rtol=rtol, atol=rtol * largest)


@pytest.mark.parametrize("name", NAMES)
def test_a_prompt_gives_the_same_numbers(name: str, tmp_path: Path) -> None:
    """Random questions, also such as are not in the table, with noises of several lengths."""
    known, draw = models()[name], np.random.default_rng(0)
    table = known.table
    asked = [
        (int(draw.integers(table.S)), int(draw.integers(table.R)), int(seed), int(draw.integers(12)))
        for seed in draw.integers(-5, 1 << 40, PROMPTS)
    ]
    found = run(
        tmp_path,
        READ + """
        const { prompt } = await import('facthold/prompts');
        return given.asked.map(([s, r, seed, k]) => {
          const tokens = prompt(model.task, s, r, seed, k), states = model.ask(tokens);
          const v = verdict(states.logits, table.right(table.row(s, r)));
          return { tokens, ...states, ...v, margin: Number.isFinite(v.margin) ? v.margin : 'inf' };
        });""",
        model=text(known), asked=asked,
    )  # fmt: skip
    forward, rows = known.forward, []
    for one, (s, r, seed, k) in zip(found, asked, strict=True):
        tokens = prompts(known.problem, np.array([s]), np.array([r]), noise=k, seed=seed)
        assert_array_equal(one["tokens"], tokens[0])
        states = forward.states(tokens)
        close(one["attention"], forward.attention(tokens)[0])
        close(one["heads"], states.heads[0])
        close(one["x"], states.x[0])
        close(one["hidden"], states.hidden[0])
        close(one["F"], states.F[0])
        close(one["logits"], forward.U.astype(np.float64) @ states.F[0])
        rows.append(find_rows(table, np.array([s]), np.array([r])))
        v = judge(forward, tokens, rows[-1])
        size = float(np.abs(one["logits"]).max())
        assert abs(float(one["margin"]) - v.margin[0]) <= EXACT * size or (
            one["margin"] == "inf" and np.isinf(v.margin[0])
        )
        assert (one["said"], one["answer"]) == (v.said[0], v.right[0])
        assert one["rival"] == v.rival[0]


@pytest.mark.parametrize("name", NAMES)
def test_all_facts_are_judged_as_the_library_judges_them(name: str, tmp_path: Path) -> None:
    known = models()[name]
    found = run(
        tmp_path,
        READ + "const { judgeAll } = await import('facthold/many'); return judgeAll(model, table, { seed: 7 });",
        model=text(known),
    )
    expected = judge_table(known.model, known.problem, seed=7)
    close(found["margin"], expected.margin)
    assert_array_equal(found["said"], expected.said)
    assert_array_equal(found["rival"], expected.rival)
    assert found["count"] == expected.recalled.sum()


@pytest.mark.parametrize("name", NAMES)
def test_a_margin_is_taken_apart_as_locate_does(name: str, tmp_path: Path) -> None:
    known = models()[name]
    found = run(
        tmp_path,
        READ + """
        const { prompt } = await import('facthold/prompts');
        const { partsOf, withoutEach } = await import('facthold/locate');
        return Array.from({ length: table.n }, (_, row) => {
          const tokens = prompt(model.task, table.subjects[row], table.relations[row], 3, model.task.T - 3);
          const states = model.ask(tokens), right = table.right(row), v = verdict(states.logits, right);
          return { ...partsOf(model, states, v), each: withoutEach(model, states, right) };
        });""",
        model=text(known),
    )  # fmt: skip
    expected = locate_all(known, seed=3)
    for name_, array in {"direct": expected.direct, "through": expected.through, "bias": expected.bias}.items():
        close([one[name_] for one in found], array)
    close([one["mlp"] for one in found], expected.mlp)
    for one, margin in zip(found, expected.margin, strict=True):
        assert abs(sum(one["direct"]) + sum(one["byNeuron"]) - margin) <= EXACT * max(1.0, abs(margin))
        if one["split"]:
            assert abs(sum(one["direct"]) + sum(one["through"]) + one["bias"] - margin) <= EXACT * max(1.0, abs(margin))
    parts = [[*one["each"]["heads"], *filter(None, (one["each"]["direct"], one["each"]["mlp"]))] for one in found]
    close([[v["margin"] for v in row] for row in parts], expected.ablated)
    assert_array_equal(
        np.argmax(expected.ablated, axis=1), np.argmax([[v["margin"] for v in p] for p in parts], axis=1)
    )
    s, r = known.table.subjects[0], known.table.relations[0]
    named = locate(known, known.names[0][s], known.names[1][r], seed=3).neurons
    close([found[0]["byNeuron"][i] for i, _ in named], [x for _, x in named])


def ablated(
    known: Model, seed: int, *, heads: list[int], neurons: list[int], direct: bool, mlp: bool, mean: bool
) -> Any:
    """Verdicts on all facts without parts, by the library's own arrays."""
    forward = known.forward
    rows = np.arange(len(known.table))
    whole = forward.states(table_prompts(known.problem, seed=seed)[0])
    z, d = whole.heads.copy(), forward.W_O.shape[2]
    z[:, heads] = whole.heads[:, heads].mean(axis=0) if mean else 0
    x = z.reshape(len(z), -1) @ forward.W_O.reshape(-1, d)
    hidden = forward.hidden(x)
    gone = list(range(hidden.shape[1])) if mlp else neurons
    hidden[:, gone] = whole.hidden[:, gone].mean(axis=0) if mean else 0
    x = (whole.x.mean(axis=0) if mean else 0 * x) if direct else x
    return verdicts(contest(forward.U, x + hidden @ forward.V, *right_answers(known.table, rows)))


@pytest.mark.parametrize("mean", [False, True])
@pytest.mark.parametrize(
    "parts",
    [
        {"heads": [0], "neurons": [], "direct": False, "mlp": False},
        {"heads": [1, 2], "neurons": [0, 3], "direct": False, "mlp": False},
        {"heads": [], "neurons": [], "direct": True, "mlp": False},
        {"heads": [0], "neurons": [], "direct": False, "mlp": True},
    ],
)
@pytest.mark.parametrize("name", ["gated", "trained"])
def test_without_parts_all_facts_are_what_they_are_in_the_library(
    name: str, parts: dict[str, Any], mean: bool, tmp_path: Path
) -> None:
    known = models()[name]
    found = run(
        tmp_path,
        READ + """
        const { judgeAll, meansOf } = await import('facthold/many');
        const { heads, neurons, direct, mlp } = given.parts, noise = model.task.T - 3;
        const means = given.mean ? meansOf(model, table, 2, noise) : null;
        return judgeAll(model, table, { seed: 2, ablation: {
          heads: new Set(heads), neurons: new Set(neurons), direct, mlp, means } });""",
        model=text(known), parts=parts, mean=mean,
    )  # fmt: skip
    expected = ablated(known, 2, mean=mean, **parts)
    close(found["margin"], expected.margin)
    assert found["count"] == expected.recalled.sum()
    assert (np.asarray(found["right"]) != NONE).all()


def test_names_of_outputs_and_tokens_are_those_of_the_library(tmp_path: Path) -> None:
    known = models()["gated"]
    found = run(
        tmp_path,
        READ + "return Array.from({ length: model.M }, (_, y) => model.outputName(y, table));",
        model=text(known),
    )
    assert found == [known.output_name(y) for y in range(len(known.problem.U))]


def test_a_word_is_found_without_its_accents(tmp_path: Path) -> None:
    script = "const { fold } = await import('facthold/ui'); return given.words.map(fold);"
    words = ["Côte d’Ivoire", "ÅLAND  Islands", "São Tomé"]
    assert run(tmp_path, script, words=words) == ["cote d'ivoire", "aland islands", "sao tome"]
