"""Small models with real names, for the tests of `facthold.knowledge`. Each is made once."""

from functools import cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from facthold.construct.selected import selecting_attention, solved_values
from facthold.facts.problem import FactualRecall, factual_recall
from facthold.facts.table import FactTable, random_table
from facthold.memory.activations import Polynomial
from facthold.models.transformer import Transformer

Known = tuple[Transformer, FactualRecall]

ROWS = [
    ("France", "capital", "Paris"), ("Italy", "capital", "Rome"), ("Peru", "capital", "Lima"),
    ("Ghana", "capital", "Accra"), ("Côte d'Ivoire", "capital", "Yamoussoukro"), ("Singapore", "capital", "Singapore"),
    ("South Africa", "capital", "Pretoria"), ("South Africa", "capital", "Cape Town"), ("Niger", "capital", "Niamey"),
    ("Nigeria", "capital", "Abuja"), ("South Sudan", "capital", "Juba"), ("Sudan", "capital", "Khartoum"),
    ("France", "continent", "Europe"), ("Italy", "continent", "Europe"), ("Peru", "continent", "South America"),
    ("Ghana", "continent", "Africa"), ("Côte d'Ivoire", "continent", "Africa"), ("Singapore", "continent", "Asia"),
    ("South Africa", "continent", "Africa"), ("Niger", "continent", "Africa"), ("Nigeria", "continent", "Africa"),
    ("France", "official_language", "French"), ("Italy", "official_language", "Italian"),
    ("Peru", "official_language", "Spanish"), ("Ghana", "official_language", "English"),
    ("Côte d'Ivoire", "official_language", "French"), ("Singapore", "official_language", "Malay"),
    ("Niger", "official_language", "French"), ("Nigeria", "official_language", "English"),
]  # fmt: skip


@cache
def countries(outputs: str = "answers") -> Known:
    """A built model that knows all of ROWS; South Africa has two capitals, and two subjects lack a language."""
    table = FactTable.from_rows(ROWS, on_conflict="all")
    problem = factual_recall(table, 24, key=jax.random.key(1), T=12, outputs=outputs)
    return selecting_attention(problem, 48, key=jax.random.key(2), how="ridge"), problem


@cache
def numbers() -> Known:
    """A built model without names: 20 subjects, 4 relations, 32 answers."""
    problem = factual_recall(
        random_table(20, 4, 8, key=jax.random.key(3)), 32, key=jax.random.key(4), outputs="answers"
    )
    return selecting_attention(problem, 64, key=jax.random.key(5), how="convex"), problem


@cache
def attention_alone() -> Known:
    """A built model without an MLP."""
    table = FactTable.from_rows([row for row in ROWS if row[1] != "capital"])
    problem = factual_recall(table, 24, key=jax.random.key(6), T=10)
    return solved_values(problem, how="convex"), problem


@cache
def random_model(*, m: int = 40, bias: bool = True, scaled: bool = True, outputs: str = "answers") -> Known:
    """A model as training leaves it: nothing is selected cleanly, and its features depend on the noise."""
    table = random_table(12, 3, 5, key=jax.random.key(7))
    problem = factual_recall(table, 16, key=jax.random.key(8), embeddings="gaussian", outputs=outputs, T=9)
    model = Transformer.init(16, 4, 4, m, key=jax.random.key(9), bias=bias and m > 0, scaled=scaled)
    if model.mlp is not None and model.mlp.b is not None:
        b = jnp.asarray(np.random.default_rng(0).normal(size=m), jnp.float32)
        model = eqx.tree_at(lambda t: t.mlp.b, model, b)
    return model, problem


@cache
def polynomial() -> Known:
    """As `random_model`, with an activation that is not linear once gates are settled."""
    model = Transformer.init(16, 4, 4, 8, key=jax.random.key(0), sigma=Polynomial((1.0,) * 3))
    return model, random_model()[1]


@cache
def crowded() -> Known:
    """A built model with far too few neurons for its facts: an edit in place takes others with it, or does not take."""
    rows = [(f"s{i}", f"r{j}", f"a{j}{(i * (j + 2) + i // 3) % 4}") for i in range(10) for j in range(3)]
    problem = factual_recall(FactTable.from_rows(rows), 14, key=jax.random.key(1), T=8, outputs="answers")
    return selecting_attention(problem, 6, key=jax.random.key(2), how="ridge"), problem
