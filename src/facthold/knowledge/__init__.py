"""A model of your own facts: asked, edited and looked into."""

from typing import TYPE_CHECKING

from facthold._util.lazy import modules_of

if TYPE_CHECKING:
    from facthold.knowledge import edit, locate, report  # noqa: F401
else:
    __getattr__ = modules_of(__name__)
