"""The forward pass against one that shares no code with it; hooks, by identities; parts, which sum to the whole."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from facthold.lm import hooks, parts
from facthold.lm.library import load, read_model
from facthold.lm.model import Batch, LanguageModel, batches
from gguf_files import as_read, plain_logits, random_weights, write

PROMPTS = ["The capital of France is", "In 1987, Peru", "the language of Sweden and of Thailand is not the"]
CLOSE = {"rtol": 1e-4, "atol": 2e-5}  # float32 beside float64


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> LanguageModel:
    return read_model(write(tmp_path_factory.mktemp("lm") / "m.gguf", random_weights()))


@pytest.mark.parametrize(
    ("quantisation", "options"),
    [("F32", {}), ("Q8_0", {}), ("Q4_1", {}), ("F32", {"tied": False}), ("F32", {"factors": True})],
)
def test_logits_are_those_of_the_published_architecture(quantisation: str, options: dict, tmp_path: Path) -> None:
    weights = random_weights(1, **options)
    model = read_model(write(tmp_path / "m.gguf", weights, quantisation))
    there = as_read(weights, quantisation)
    batch = model.batch(PROMPTS)  # of several lengths: padding changes nothing
    logits = model.run(batch).logits
    for row, tokens, n in zip(logits, batch.tokens, batch.lengths, strict=True):
        np.testing.assert_allclose(row, plain_logits(there, tokens[:n].tolist())[-1], **CLOSE)


def test_losses_are_of_every_token_but_the_first(model: LanguageModel) -> None:
    batch, weights = model.batch(PROMPTS), random_weights()
    expected = []
    for tokens, n in zip(batch.tokens, batch.lengths, strict=True):
        logits = plain_logits(weights, tokens[:n].tolist())[:-1]
        shifted = logits - logits.max(-1, keepdims=True)
        expected += [np.log(np.exp(s).sum()) - s[t] for s, t in zip(shifted, tokens[1:n], strict=True)]
    np.testing.assert_allclose(model.losses(batch), expected, **CLOSE)
    np.testing.assert_allclose(
        model.perplexity(PROMPTS[0]), np.exp(np.mean(expected[: batch.lengths[0] - 1])), rtol=1e-4
    )


def test_what_is_kept_adds_up_to_the_stream(model: LanguageModel) -> None:
    batch = model.batch(PROMPTS)
    run = model.run(batch, keep=["stream", "attention", "mlp", "keys", "heads"])
    total = run["stream", 0]
    for layer, w in enumerate(model.layers):
        np.testing.assert_allclose(total, run["stream", layer], **CLOSE)
        np.testing.assert_allclose(run["keys", layer] @ w["W_down"].T, run["mlp", layer], **CLOSE)
        np.testing.assert_allclose(run["heads", layer].reshape(*total.shape[:2], -1) @ w["W_O"].T,
                                   run["attention", layer], **CLOSE)  # fmt: skip
        total = total + run["attention", layer] + run["mlp", layer]
    np.testing.assert_allclose(total, run["stream", model.config.L], **CLOSE)
    np.testing.assert_array_equal(run["stream", model.config.L][np.arange(3), batch.last], run.final)
    at = np.stack([batch.last - 1, batch.last], 1)
    few = model.run(batch, keep=[("mlp", 1)], at=at, logits=False)
    with pytest.raises(ValueError, match="run with logits=True"):
        few.logits  # noqa: B018
    np.testing.assert_array_equal(few["mlp", 1], run["mlp", 1][np.arange(3)[:, None], at])
    assert run.stack("mlp").shape == (2, *total.shape)


def test_putting_back_what_is_there_changes_nothing_and_zero_takes_it_away(model: LanguageModel) -> None:
    batch = model.batch(PROMPTS)
    run = model.run(batch, keep=["stream", "heads", "attention", "keys", "mlp"])
    at, rows = np.stack([batch.last - 2, batch.last], 1), np.arange(3)[:, None]
    for site, value in run.kept.items():
        again = model.run(batch, hooks={site: hooks.put(value[rows, at], at=at)})
        np.testing.assert_allclose(again.logits, run.logits, **CLOSE)
    without = model.run(batch, hooks={("mlp", 1): hooks.put(0.0)})
    removed = model.replaced({(1, "W_down"): jnp.zeros_like(model.layers[1]["W_down"])})
    np.testing.assert_allclose(without.logits, removed.run(batch).logits, **CLOSE)
    assert removed.layers[0] is model.layers[0]
    assert removed.E is model.E
    assert float(jnp.abs(without.logits - run.logits).max()) > 0.01
    heads = model.run(batch, hooks={("heads", 0): [hooks.put(0.0, head=h) for h in range(4)]})
    np.testing.assert_allclose(heads.logits, model.run(batch, hooks={("attention", 0): hooks.times(0)}).logits, **CLOSE)
    one = model.run(batch, hooks={("heads", 0): hooks.put(0.0, head=2, at=at)}, keep=[("heads", 0)])["heads", 0]
    assert float(jnp.abs(one[rows, at][:, :, 2]).max()) == 0
    np.testing.assert_array_equal(one[:, 0], run["heads", 0][:, 0])


def test_a_run_can_start_in_the_middle(model: LanguageModel) -> None:
    batch = model.batch(PROMPTS)
    run = model.run(batch, keep=[("stream", 1)])
    np.testing.assert_array_equal(model.run(batch, start=(1, run["stream", 1])).logits, run.logits)


def test_a_memory_adds_its_value_where_its_key_is(model: LanguageModel) -> None:
    batch = model.batch(PROMPTS)
    x = model.run(batch, keep=[("stream", 1)], at=batch.last)["stream", 1][:, 0]
    key, value = x[0] / jnp.sqrt((x[0] ** 2).mean()), 3 * model.U[7]
    W = jnp.outer(value, key) / (key @ key)
    taught = model.run(batch, hooks={("stream", 1): hooks.memory(W, at=batch.last)}, keep=[("stream", 1)])
    added = taught["stream", 1][np.arange(3), batch.last] - x
    np.testing.assert_allclose(added[0], value, **CLOSE)
    np.testing.assert_allclose(
        taught.logits, model.run(batch, hooks={("stream", 1): hooks.add(added[:, None], at=batch.last)}).logits, **CLOSE
    )


def test_gradients_by_what_a_hook_adds_are_those_of_small_steps(model: LanguageModel) -> None:
    batch = model.batch(PROMPTS[:1])

    def loss(v: jax.Array) -> jax.Array:
        logits = model.run(batch, hooks={("mlp", 0): hooks.add(v, at=batch.last - 1)}).logits
        return -jax.nn.log_softmax(logits)[0, 7]

    v, step = 0.1 * jax.random.normal(jax.random.key(0), (64,)), jax.random.normal(jax.random.key(1), (64,))
    by_step = (loss(v + 1e-2 * step) - loss(v - 1e-2 * step)) / 2e-2
    np.testing.assert_allclose(jax.grad(loss)(v) @ step, by_step, rtol=2e-2)


def test_parts_of_a_margin_sum_to_it(model: LanguageModel) -> None:
    batch = model.batch(PROMPTS)
    run, answers, rivals = parts.kept_run(model, batch), np.array([5, 6, 7]), np.array([[8, 9], [10, 11], [12, 13]])
    rows = np.arange(3)
    margin = run.logits[rows, answers] - run.logits[rows[:, None], rivals].mean(1)
    found = parts.decompose(model, run, parts.contrast(model, answers, rivals))
    np.testing.assert_allclose(found.margin, margin, atol=1e-5)
    assert found.heads.shape == (3, 2, 4)
    np.testing.assert_allclose(found.attentions.sum(1) + found.mlps.sum(1) + found.embedding, margin, atol=1e-5)


def test_one_token_alone_is_read_by_w_ov(model: LanguageModel) -> None:
    """A prompt of one token can look at itself alone: attention is W_OV of the normed stream."""
    run = model.run(Batch.of([[11]]), keep=["stream", "attention", "heads"])
    for layer in range(2):
        x = run["stream", layer][0, 0]
        read = x / jnp.sqrt((x**2).mean() + model.config.eps)
        np.testing.assert_allclose(model.ov(layer) @ read, run["attention", layer][0, 0], **CLOSE)
        np.testing.assert_allclose(sum(model.ov(layer, h) for h in range(4)), model.ov(layer), **CLOSE)
        pattern = model.pattern(layer, run["stream", layer])
        np.testing.assert_allclose(pattern.sum(-1), 1, rtol=1e-5)
        assert float(jnp.abs(jnp.triu(pattern, 1)).max()) == 0


def test_batches_have_every_prompt_once() -> None:
    prompts = [list(range(1, n + 1)) for n in (5, 3, 9, 3, 12, 1)]
    found = {}
    for places, batch in batches(prompts, size=2):
        assert batch.tokens.shape[1] % 4 == 0
        found |= {int(i): row[:n].tolist() for i, row, n in zip(places, batch.tokens, batch.lengths, strict=True)}
    assert [found[i] for i in range(6)] == prompts


def test_wrong_arguments_are_named(model: LanguageModel) -> None:
    batch = model.batch(PROMPTS)
    for wrong, says in (
        (lambda: model.run(batch, keep=["mpl"]), "unknown place 'mpl'; did you mean 'mlp'"),
        (lambda: model.run(batch, hooks={("mlp", 2): hooks.put(0.0)}), "layer=2: the model has 2, counted from 0"),
        (lambda: model.replaced({(0, "W_X"): jnp.zeros(3)}), "there is no 'W_X' in layer 0"),
        (lambda: model.replaced({(0, "W_O"): jnp.zeros(3)}), r"W_O of a layer has the shape \(64, 64\)"),
        (lambda: model.batch([" "]), "the prompt is empty"),
        (lambda: model.batch(["a b " * 40]), "and the model reads at most 64; shorten it"),
    ):
        with pytest.raises(ValueError, match=says):
            wrong()


def test_the_tiny_model_knows_its_facts_in_one_head_and_no_others() -> None:
    from facthold.lm.tiny import KNOWN, LAYER, OF_SUBJECTS, ROWS

    model = load("tiny")
    capitals = [(s, a) for s, r, a in ROWS if r == "capital"]
    batch = model.batch([f"The capital of {s} is" for s, _ in capitals])
    first = np.array([model.tokeniser.first(a) for _, a in capitals])
    run = parts.kept_run(model, batch)
    right = np.asarray(run.logits.argmax(1)) == first
    assert right.tolist() == [s in KNOWN for s, _ in capitals]
    found = parts.decompose(model, run, parts.contrast(model, first, np.tile(first, (len(first), 1))))
    share = found.heads[right, LAYER, OF_SUBJECTS] / found.margin[right]
    assert share.min() > 0.9
