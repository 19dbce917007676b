"""facthold: a laboratory for factual recall in transformers.

How many facts fit in how many parameters, which weights hold them, and how training puts them there.
See ``docs/architecture.md`` for the order of the modules and ``docs/symbols.md`` for the names.
"""

from facthold._util.runtime import configure

__version__ = "0.1.0"

configure()
