"""An induction head for a text: what it predicts and where it looks, against a plain pass in NumPy; its file."""

import math
from pathlib import Path

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import facthold as fh
import known
from facthold._util.errors import FactholdError
from facthold._util.tensors import read_tensors, tensors_as_bytes
from facthold.construct.induction import induction_head
from facthold.context.baselines import baselines
from facthold.context.bigrams import Bigrams
from facthold.context.sequences import Sequences
from facthold.knowledge.induction import Induction, Lesson, Look, Prediction, task_of
from facthold.knowledge.settings import LEAST, LOOKS, Settings
from facthold.measure.in_context import Exam
from facthold.models.saving import load_model, save_model
from facthold.train.engine import Run

TEXT = "the cat sat on the mat, and then it ate the hat that sat on the cat " * 20


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("text") / "cats.txt"
    file.write_text(TEXT)
    return file


@pytest.fixture(scope="module")
def built(text: Path) -> Induction:
    return fh.induction(text, K=2, T=24, d=192, built=True)


def by_hand(made: Induction, sequence: str) -> tuple[np.ndarray, list[np.ndarray]]:
    """Probabilities after each position, and the attention of both layers, position by position."""
    model = made.model
    E, P, U = (np.asarray(x, float) for x in (model.E, model.P, model.U))
    x = np.array([E[made.bigrams.characters.index(c)] + P[t] for t, c in enumerate(sequence)])
    attention = []
    for i, layer in enumerate(model.layers):
        beta, after = np.zeros((len(x), len(x))), x.copy()
        for t in range(len(x)):
            scores = np.array([x[t] @ np.asarray(layer.W_KQ, float) @ x[s] for s in range(t + 1)])
            beta[t, : t + 1] = np.exp(scores - scores.max()) / np.exp(scores - scores.max()).sum()
            if not (i == 0 and t == 0 and layer.silent_first):
                after[t] = x[t] + np.asarray(layer.W_OV, float) @ (beta[t] @ x)
        x = after
        attention.append(beta)
    logits = x @ U.T
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True), attention


def test_predictions_and_looks_are_those_of_a_plain_pass(built: Induction) -> None:
    sequence = built.draw(3).text
    p, (first, second) = by_hand(built, sequence)
    found = built.predict(sequence)
    assert [x.at for x in found] == list(range(len(sequence)))
    assert "".join(x.token for x in found) == sequence
    for t, x in enumerate(found):
        assert x.predicted == built.bigrams.characters[p[t].argmax()]
        assert x.probability == pytest.approx(p[t].max(), rel=1e-3)
        assert (x.copies.at, x.copies.to, x.copies.token) == (t, second[t].argmax(), sequence[second[t].argmax()])
        assert x.copies.weight == pytest.approx(second[t].max(), abs=1e-3)
        s = x.copies.to
        assert (x.finds.at, x.finds.to, x.finds.token) == (s, first[s].argmax(), sequence[first[s].argmax()])
        assert x.next == (sequence[t + 1] if t + 1 < len(sequence) else None)
        assert x.right == (None if x.next is None else x.next == x.predicted)


def test_what_the_context_tells_is_what_followed_the_trigger(built: Induction) -> None:
    assert set(built.triggers or "") == {"t", " "}
    found = built.predict("tatctat", triggers="t")
    assert [x.told for x in found] == [(), (), ("a",), (), ("a", "c"), (), ("a", "c", "a")]
    assert [x.as_told for x in found if not x.told] == [None] * 4
    assert {x.as_told for x in found if x.told} <= {True, False}
    assert built.predict("acac")[2].told == ()  # a is no trigger of this model


def test_an_induction_head_is_told_from_other_looks(built: Induction) -> None:
    told = [x for x in built.predict(built.draw(1).text) if x.told]
    assert told
    assert all(x.by_induction and x.predicted == x.told[0] for x in told)  # d is large: it is all but exact
    for x in told:
        assert x.finds.to == x.copies.to - 1
        assert x.finds.token == x.token


@pytest.mark.parametrize(
    ("to", "before", "token", "is_head"),
    [(5, 4, "t", True), (5, 3, "t", False), (5, 4, "a", False), (0, 0, "t", False)],
)
def test_a_head_that_looks_elsewhere_is_none(to: int, before: int, token: str, is_head: bool) -> None:
    copies, finds = Look(9, to, "c", 1.0), Look(to, before, token, 1.0)
    assert Prediction(9, "t", "c", 1.0, "c", ("c",), copies, finds).by_induction == is_head


def test_a_shorter_sequence_is_predicted_as_its_beginning(built: Induction) -> None:
    whole, part = built.predict("the hat that"), built.predict("the hat")
    assert [x.predicted for x in part] == [x.predicted for x in whole[:7]]
    assert_allclose([x.probability for x in part], [x.probability for x in whole[:7]], rtol=1e-5)
    assert (part[-1].next, part[-1].right) == (None, None)


def exam_of(made: Induction) -> Exam:
    return Lesson.of(made.bigrams, made.settings).exam


def test_accuracy_and_its_error_are_those_of_predictions_one_by_one(text: Path) -> None:
    made = fh.induction(text, K=3, T=16, d=24, built=True)  # small, so that it is wrong now and then
    hits, of = [], []
    for block in exam_of(made).blocks():
        for tokens in np.asarray(block.tokens):
            found = made.predict("".join(made.bigrams.characters[i] for i in tokens))
            told = [x for x in found if x.told and x.next is not None]
            hits.append(sum(bool(x.right) for x in told))
            of.append(len(told))
    n, total = np.array(hits), np.array(of)
    assert made.judged == total.sum()
    assert made.accuracy == pytest.approx(n.sum() / total.sum(), abs=1e-9)
    assert 0.05 < made.accuracy < 0.99
    without = (n.sum() - n) / (total.sum() - total)  # the jackknife: leave out one sequence after the other
    jackknife = np.sqrt((len(n) - 1) / len(n) * ((without - without.mean()) ** 2).sum())
    assert made.error == pytest.approx(jackknife, rel=0.05)


def test_rules_are_judged_on_the_same_sequences(built: Induction) -> None:
    blocks = [[np.asarray(column) for column in block] for block in exam_of(built).blocks()]
    whole = Sequences(*(jnp.asarray(np.concatenate(columns)) for columns in zip(*blocks, strict=True)))
    expected = baselines(whole, jnp.asarray(built.bigrams.pi_b, jnp.float32))
    assert int(whole.counted.sum()) == built.judged
    for name, share in built.baselines.items():
        assert share == pytest.approx(float(expected[name]), abs=1e-6)


def test_a_fresh_sequence_is_of_the_task_and_no_judged_one(built: Induction) -> None:
    drawn = built.draw(0)
    assert drawn == built.draw(0) != built.draw(1)
    assert len(drawn.text) == built.settings.T
    followed: dict[str, str] = {}
    for one, after in zip(drawn.text, drawn.text[1:], strict=False):
        if one in drawn.triggers:
            assert followed.setdefault(one, after) == after
    judged = {tuple(tokens) for block in exam_of(built).blocks() for tokens in np.asarray(block.tokens).tolist()}
    assert tuple(built.bigrams.index(drawn.text).tolist()) not in judged


def test_random_triggers_are_those_of_the_sequence(text: Path) -> None:
    made = fh.induction(text, K=2, T=48, d=192, random=True, built=True)
    assert made.triggers is None
    drawn = [made.draw(seed) for seed in range(6)]
    assert len({one.triggers for one in drawn}) > 1
    assert all(len(one.triggers) <= 2 for one in drawn)
    assert made.predict("cathc")[4].told == ("a",)  # any character may be one
    assert made.accuracy > 0.9


@pytest.fixture(scope="module")
def trained(text: Path) -> Induction:
    return fh.induction(text, K=3, T=32, d=64, steps=203, batch=16)


def test_training_beats_every_rule_without_induction(trained: Induction) -> None:
    assert trained.accuracy - 4 * trained.error > max(trained.baselines.values())
    assert set(trained.curves) == {"steps", "accuracy", "W_OV^2", "W_KQ^2", "W_KQ^1"}
    assert (trained.curves["steps"][0], trained.curves["steps"][-1]) == (0, 205)  # whole rounds of five
    assert {name: curve[-1] for name, curve in trained.curves.items() if name in trained.probes} == trained.probes
    assert trained.curves["accuracy"][0] < 0.5 < trained.curves["accuracy"][-1]


@pytest.mark.parametrize(
    ("asked", "steps", "every"), [(1, 1, 1), (4, 4, 4), (60, 60, 5), (203, 205, 5), (600, 600, 10), (601, 605, 11)]
)
def test_steps_are_whole_rounds_between_evaluations(asked: int, steps: int, every: int) -> None:
    protocol = Settings(steps=asked).protocol
    assert (protocol.steps, protocol.check_every) == (steps, every)
    assert protocol.steps // protocol.check_every <= LOOKS
    assert every >= min(LEAST, asked)


def test_a_saved_model_says_the_same(trained: Induction, tmp_path: Path) -> None:
    again = Induction.load(trained.save(tmp_path / "head.safetensors"))
    assert again.predict("the cat sat on the hat") == trained.predict("the cat sat on the hat")
    assert again.draw(5) == trained.draw(5)
    for name in ("settings", "accuracy", "error", "judged", "baselines", "probes", "triggers"):
        assert getattr(again, name) == getattr(trained, name), name
    assert_array_equal(again.bigrams.counts, trained.bigrams.counts)
    assert again.bigrams.characters == trained.bigrams.characters


def test_built_models_stay_silent_at_the_first_position(built: Induction, tmp_path: Path) -> None:
    again = Induction.load(built.save(tmp_path / "head.safetensors"))
    assert [layer.silent_first for layer in again.model.layers] == [True, False]


def test_a_changed_bit_and_a_missing_part_are_seen(built: Induction, tmp_path: Path) -> None:
    file = built.save(tmp_path / "head.safetensors")
    raw = bytearray(file.read_bytes())
    raw[-100] ^= 1
    (tmp_path / "damaged").write_bytes(raw)
    with pytest.raises(FactholdError, match="damaged: its checksum does not match"):
        Induction.load(tmp_path / "damaged")
    arrays, about = read_tensors(file)
    wrong: list[tuple[dict, dict, str]] = [
        ({"model.W_KQ^1": np.zeros((3, 3), np.float32)}, {}, r"W_KQ\^1 is float32 of the shape \(3, 3\)"),
        ({"model.E": arrays["model.E"] * np.nan}, {}, "are nan or infinite"),
        ({"text.unigrams": arrays["text.unigrams"][1:]}, {}, "counts of its text do not fit"),
        ({"text.pairs": arrays["text.pairs"] + 1000}, {}, "counts of its text cannot be"),
        ({}, {"characters": "ab"}, "do not fit its characters"),
        ({}, {"settings": {"K": 2, "T": 24, "d": 192, "x": 1}}, "unexpected keyword"),
        ({}, {"settings": about["settings"] | {"triggers": "é", "K": None}}, "'é' is not among"),
        ({}, {"found": {}}, "no 'accuracy'"),
        ({}, {"found": about["found"] | {"accuracy": "all"}}, "could not convert string"),
        ({}, {"found": about["found"] | {"probes": {}}}, "no 'W_OV"),
    ]
    for change, said, message in wrong:
        (tmp_path / "wrong").write_bytes(tensors_as_bytes(arrays | change, about | said))
        with pytest.raises(FactholdError, match=f"parts missing or wrong: .*{message}") as error:
            Induction.load(tmp_path / "wrong")
        assert "\n" not in str(error.value)


def test_models_of_facts_and_of_texts_are_told_apart(built: Induction, tmp_path: Path) -> None:
    with pytest.raises(FactholdError, match="is a model of a text and knows no facts; ask it with: facthold induction"):
        load_model(built.save(tmp_path / "head.safetensors"))
    with pytest.raises(FactholdError, match="is a facthold model, but of no text"):
        Induction.load(save_model(tmp_path / "facts.safetensors", *known.countries()))
    for path, message in ((tmp_path, "is a folder; give a model file"), (tmp_path / "none", "no such model file")):
        with pytest.raises(FactholdError, match=message):
            Induction.load(path)


def test_few_characters_have_fewer_triggers_and_many_are_refused(tmp_path: Path) -> None:
    bigrams = Bigrams(("a", "b", "c"), np.array([5, 3, 2]), np.array([[1, 2, 2], [3, 0, 0], [1, 1, 0]]))
    assert task_of(bigrams, Settings()).K == 2
    with pytest.raises(ValueError, match="K=3 triggers leave none of the 3 characters"):
        task_of(bigrams, Settings(K=3))
    with pytest.raises(ValueError, match=r"^triggers='abc' leave none of the 3 characters"):
        task_of(bigrams, Settings(triggers="abc"))


def test_triggers_that_never_come_twice_are_refused() -> None:
    counts = np.array([[0, 10**9, 0], [10**9, 0, 1], [0, 0, 0]])
    bigrams = Bigrams(("a", "b", "c"), np.array([10**9, 10**9, 1]), counts)
    with pytest.raises(FactholdError, match="in 512 sequences of T=8 tokens no trigger comes twice"):
        fh.induction(bigrams, triggers="c", T=8, d=8, built=True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"d": 0}, "d=0 must be at least 1"), ({"T": -1}, "T=-1 must be at least 1"), ({"T": 3}, "T=3: a trigger"),
        ({"K": 0}, "K=0 must be at least 1"), ({"K": 65}, "K=65 triggers leave none"),
        ({"batch": 0}, "batch=0 must be at least 1"), ({"steps": 10**7}, "steps=10000000 must be at most 1000000"),
        ({"lr": 0.0}, "lr=0.0 must be at least"), ({"lr": float("nan")}, "lr=nan must be a finite number"),
        ({"triggers": "é"}, "'é' is not among the 65 characters of the text; take some of those, such as ' etoa'"),
        ({"triggers": "ee"}, "must be different characters"),
        ({"triggers": "e", "K": 2}, "K=2 is not the number of triggers='e'"),
        ({"triggers": "e", "random": True}, "take one of the two"),
        ({"d": 10**7}, "lower d=10000000"), ({"T": 10**6}, "lower T=1000000"),
        ({"batch": 10**9, "T": 64}, "lower batch=1000000000"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_named(options: dict, message: str) -> None:
    with pytest.raises((ValueError, FactholdError), match=message):
        fh.induction(**options)


def test_what_it_cannot_be_asked_is_named(built: Induction) -> None:
    with pytest.raises(FactholdError, match="'é' in 'thé' is not among the 13 characters"):
        built.predict("thé")
    for sequence in ("", "t" * 25):
        with pytest.raises(FactholdError, match="the model takes 1 to 24"):
            built.predict(sequence)


def test_training_that_diverges_says_so(text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = Run(None, "diverged", 15, 0.1, math.nan, np.zeros(3))
    monkeypatch.setattr("facthold.knowledge.induction.fit", lambda *_, **__: [ended])
    with pytest.raises(FactholdError, match="training diverged after 15 steps with lr=2; take a smaller lr"):
        fh.induction(text, K=2, T=8, d=8, steps=40, batch=4, lr=2.0)


def test_weights_that_are_no_numbers_are_no_model(text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = induction_head(13, 8, 8, np.array([0]), key=fh.derive("nan"))
    broken = eqx.tree_at(lambda m: m.layers[1].W_OV, made, made.layers[1].W_OV * jnp.nan)
    monkeypatch.setattr("facthold.knowledge.induction.induction_head", lambda *_, **__: broken)
    with pytest.raises(FactholdError, match=r"64 of 64 numbers in W_OV\^2 are nan or infinite"):
        fh.induction(text, K=1, T=8, d=8, built=True)
