"""A page with a model inside, which computes in the browser: ``fh.explore("countries.safetensors", "page.html")``."""

from facthold._util.lazy import callable_package

callable_package(__name__, "facthold.explore.page", "explore")
