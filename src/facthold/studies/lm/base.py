"""Cells about a language model. It is a file outside of the cell, which names it by the SHA-256 of its contents: so
results of two models never mix, and `run` finds the file by it."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from facthold._util.errors import FactholdError
from facthold._util.memory import Parts
from facthold.facts.real import COUNTRIES, Source
from facthold.facts.table import Row
from facthold.lab import Cell
from facthold.lab.fields import OneOf
from facthold.lm.fetch import SMOLLM2, TINY, missing, name_of
from facthold.lm.prompts import TEMPLATES, facts_for

if TYPE_CHECKING:
    from facthold.lm.model import LanguageModel

Relation = Annotated[str, OneOf(TEMPLATES)]
FETCHED = SMOLLM2.sha256  # the model of the presets quick and paper
MEMORY, TINY_MEMORY = 1.5e9, 1e8  # bytes that a model of 135 million weights takes with what runs through it


@dataclass(frozen=True, kw_only=True)
class LmCell(Cell):
    """A cell about one language model and the facts that it is asked for."""

    counts_no_facts: ClassVar[str] = "what a language model knows was not put into it here"
    source: ClassVar[Source] = COUNTRIES  # of the real facts or names that it reads

    model: str = TINY  # 'tiny', or the SHA-256 of a GGUF file

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.model != TINY and not re.fullmatch("[0-9a-f]{64}", self.model):
            raise ValueError(f"model={self.model!r} must be {TINY!r} or the SHA-256 of a file; `named` finds it")

    @property
    def spec(self) -> dict[str, Any]:
        """The fields, and the versions of the packages that real facts are read from."""
        if self.model == TINY:
            return super().spec
        self.source.check_installed()
        return super().spec | {"versions": self.source.versions}

    @property
    def missing(self) -> str:
        from facthold.lm import lacking

        return lacking() or missing(self.model)

    @property
    def needed(self) -> Parts:
        return {f"model={self.model[:8]}": TINY_MEMORY if self.model == TINY else MEMORY}

    @property
    def label(self) -> str:
        return super().label.replace(self.model, SMOLLM2.name if self.model == FETCHED else self.model[:8])

    def opened(self) -> "LanguageModel":
        """The model, read once per process."""
        from facthold.lm.library import load

        return load(self.model)

    def facts(self, relations: Sequence[str] | None = None) -> list[Row]:
        """The facts that this model is asked for."""
        return facts_for(self.model, relations)

    def check_known(self, n: int, what: str, least: int = 2) -> None:
        """A model that knows nothing has nothing to be looked at."""
        if n < least:
            raise FactholdError(
                f"the model {self.model[:8]} knows {n} {what} at rank 1, and at least {least} are needed; take another "
                "model, or other relations by a config"
            )

    def seconds(self, prompts: float, tokens: float = 12) -> float:
        """A guess at how long so many prompts of so many tokens take on one lane, for `cost`."""
        return 1 + 1e-4 * prompts if self.model == TINY else 2 + 3.5e-3 * prompts * tokens


_instead: ContextVar[str | None] = ContextVar("instead", default=None)


@contextmanager
def instead(model: str | None) -> Iterator[None]:
    """Grids that are listed meanwhile, those of claims among them, are about this model; None: about their own."""
    token = _instead.set(model)
    try:
        yield
    finally:
        _instead.reset(token)


def named(model: str) -> str:
    """A grid's model as cells have it: 'tiny', a SHA-256, or the path of a file, as a config may say."""
    return name_of(_instead.get() or model)
