"""How large a model must be for a table of facts, before it is built, by laws that were fitted to measured sizes:
``fh.plan(subjects=1_000_000, relations=20, answers=100, accuracy=0.99)``."""

from facthold._util.lazy import callable_package

callable_package(__name__, "facthold.plan.plan", "plan")
