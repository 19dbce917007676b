"""How large a model must be for a table of facts, before it is built: laws that were fitted to measured sizes."""

from facthold._util.lazy import callable_package

callable_package(__name__, "facthold.plan.plan", "plan")
