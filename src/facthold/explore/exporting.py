"""A model as text that a page can hold: its safetensors file in base64, with all embeddings and no packed weights.

The page so has the very file that `fh.load` opens, and can give it back; nothing of it is rounded.
"""

import base64
from collections.abc import Callable

from facthold._util.errors import FactholdError
from facthold.facts.names import Names
from facthold.facts.real import find_source
from facthold.facts.table import FactTable
from facthold.knowledge.build import build
from facthold.knowledge.model import Model
from facthold.models.saving import model_as_bytes

COUNTRIES = "countries"  # what a page shows where no model is given
FIRST = ("France", "capital")  # what it asks first, where the model has it
LARGEST = 1 << 26  # bytes of a model in a page: a browser reads more than that only slowly, or not at all


def model_as_text(known: Model) -> str:
    """The model's file in base64: little-endian, as safetensors is."""
    contents, *_ = model_as_bytes(known.model, known.problem, redraw=False)
    if len(contents) > LARGEST:
        raise FactholdError(
            f"the model has {len(contents):,} bytes, and a page holds at most {LARGEST:,}; build one of fewer facts"
        )
    return base64.b64encode(contents).decode()


def first_question(table: FactTable) -> dict[str, int] | None:
    """The numbers of what a page asks first; None where the table does not have it."""
    subjects, relations, _ = Names.of(table)
    s, r = subjects.exact(FIRST[0]), relations.exact(FIRST[1])
    return None if s is None or r is None or table.matrix[s, r] < 0 else {"subject": s, "relation": r}


def countries(table: FactTable, say: Callable[[str], None] = lambda news: None) -> Model:
    """What `facthold build` makes of the facts of `facthold facts countries`, or of some of them."""
    return build(table, say=say)


def origin_of_countries() -> str:
    """Where these facts are from, and under which licences, for the foot of the page."""
    source = find_source(COUNTRIES)
    return f"The facts are from {source.versions} ({source.licence})."
