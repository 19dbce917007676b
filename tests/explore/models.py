"""The models that the page's numbers are compared on, each made once."""

import base64
from functools import cache
from typing import Any

import known
from facthold.explore.exporting import model_as_text
from facthold.facts.table import FactTable
from facthold.knowledge.build import build
from facthold.knowledge.model import Model

READ = """
const { Model, verdict } = await import('facthold/model'), { read, bytesOf } = await import('facthold/safetensors');
const { model, table } = Model.of(read(bytesOf(given.model)));
"""
"""How a script begins that is given a model, as the page has it."""


@cache
def gated() -> Model:
    """A model with gates and neurons of each relation, as `facthold build` makes them."""
    return build(FactTable.from_rows(known.ROWS, on_conflict="all"), recipe="gated")


@cache
def trained() -> Model:
    """A trained model: nothing in it is clean."""
    table = FactTable.from_rows([row for row in known.ROWS if row[1] != "capital"])
    return build(table, recipe="train", accuracy=0.9)


@cache
def models() -> dict[str, Model]:
    """Without an MLP, with gates, trained, and the settings that these do not have."""
    return {
        "attention alone": Model(*known.attention_alone()), "gated": gated(), "trained": trained(),
        "several answers": Model(*known.countries()), "vocabulary": Model(*known.random_model(outputs="vocabulary")),
        "scaled, with a bias": Model(*known.random_model()), "no ReLU": Model(*known.polynomial()),
    }  # fmt: skip


def text(known_model: Model) -> str:
    return model_as_text(known_model)


def contents(given: str) -> bytes:
    return base64.b64decode(given)


def flat(array: Any) -> list[float]:
    return array.ravel().tolist()
