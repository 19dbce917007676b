"""Texts that commands are given, counted; and whether a model of one can be made here."""

from pathlib import Path

from facthold.cli.inputs import foretell
from facthold.cli.printing import working
from facthold.context.bigrams import Bigrams
from facthold.knowledge.settings import Settings

SHIPPED = "tiny Shakespeare"
JUDGED = 1024  # sequences that are asked beside those of training, or more: at evaluations and at the end


def counted(text: Path | None, settings: Settings) -> tuple[Bigrams, str]:
    """The counts of a text, or of the one whose counts are shipped, and its name. Refuses settings with which no model
    of it can be made."""
    name = SHIPPED if text is None else str(text)
    with working(f"counting the characters of {name}"):
        bigrams = Bigrams.shipped() if text is None else Bigrams.of_text(text)
    settings.check_text(bigrams)
    return bigrams, name


def foretell_head(bigrams: Bigrams, settings: Settings, lower: str) -> None:
    """Say before it begins if it takes long; ``lower`` are the options that would make it shorter."""
    foretell("an induction head of this size", settings.products(bigrams.N, JUDGED), lower)
