"""A model of your own facts: asked, edited and looked into."""

from facthold._util.lazy import modules_of

__getattr__ = modules_of(__name__)
