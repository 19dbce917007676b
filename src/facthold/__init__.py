"""facthold: a laboratory for factual recall in transformers.

How many facts fit in how many parameters, which weights hold them, and how training puts them there.

    import facthold as fh

    model = fh.build("countries.csv")                     # or a pandas frame, a list, a dictionary
    model.ask("France", "capital").answer                 # 'Paris'
    model.edit("France", "capital", "Lyon").report        # what else changed
    model.locate("France", "capital").sentence            # which parts of the model hold it
    fh.run_figure("fig4", preset="quick")                 # the paper's experiments, and fh.verify its claims

Every name below is imported when it is first used: `import facthold` alone loads neither JAX nor NumPy. See
``docs/architecture.md`` for the order of the modules and ``docs/symbols.md`` for the names.
"""

from typing import TYPE_CHECKING

from facthold._util.lazy import lazy
from facthold._util.runtime import configure

if TYPE_CHECKING:  # the same names for type checkers and editors; a test compares the lists
    from facthold._util.errors import FactholdError
    from facthold._util.keys import derive
    from facthold.context.bigrams import Bigrams
    from facthold.context.sequences import BigramTask
    from facthold.explore.page import explore
    from facthold.facts.files import read_facts, write_facts
    from facthold.facts.problem import FactualRecall, factual_recall
    from facthold.facts.real import real_facts
    from facthold.facts.table import FactTable, random_table
    from facthold.knowledge.build import build
    from facthold.knowledge.induction import Induction, induction
    from facthold.knowledge.model import Model, load
    from facthold.lab.api import claims, figures, reproduce, results, run_figure, verify
    from facthold.lab.store import Store
    from facthold.memory.associations import Problem, random_problem
    from facthold.models.memory import LinearMemory, LowRankMemory, MLPMemory
    from facthold.models.saving import load_model, save_model
    from facthold.models.transformer import Transformer
    from facthold.plan.plan import plan
    from facthold.recipes import make_memory, recipes
    from facthold.train.engine import fit
    from facthold.train.protocols import Protocol, protocol

__all__ = [
    "BigramTask", "Bigrams", "FactTable", "FactholdError", "FactualRecall", "Induction", "LinearMemory",
    "LowRankMemory", "MLPMemory", "Model", "Problem", "Protocol", "Store", "Transformer", "build", "claims", "derive",
    "explore", "factual_recall", "figures", "fit", "induction", "load", "load_model", "make_memory", "plan", "protocol",
    "random_problem", "random_table", "read_facts", "real_facts", "recipes", "reproduce", "results", "run_figure",
    "save_model", "verify", "write_facts",
]  # fmt: skip
__version__ = "0.1.0"

MODULES = {
    "facthold": ("explore", "plan", "recipes"),
    "facthold._util.errors": ("FactholdError",),
    "facthold._util.keys": ("derive",),
    "facthold.context.bigrams": ("Bigrams",),
    "facthold.context.sequences": ("BigramTask",),
    "facthold.facts.files": ("read_facts", "write_facts"),
    "facthold.facts.problem": ("FactualRecall", "factual_recall"),
    "facthold.facts.real": ("real_facts",),
    "facthold.facts.table": ("FactTable", "random_table"),
    "facthold.knowledge.build": ("build",),
    "facthold.knowledge.induction": ("Induction", "induction"),
    "facthold.knowledge.model": ("Model", "load"),
    "facthold.lab.api": ("claims", "figures", "reproduce", "results", "run_figure", "verify"),
    "facthold.lab.store": ("Store",),
    "facthold.memory.associations": ("Problem", "random_problem"),
    "facthold.models.memory": ("LinearMemory", "LowRankMemory", "MLPMemory"),
    "facthold.models.saving": ("load_model", "save_model"),
    "facthold.models.transformer": ("Transformer",),
    "facthold.recipes": ("make_memory",),
    "facthold.train.engine": ("fit",),
    "facthold.train.protocols": ("Protocol", "protocol"),
}
__getattr__, __dir__ = lazy(__name__, MODULES)

configure()
