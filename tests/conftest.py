"""All tests run as the command line does: one thread a product, one lane a core."""

from facthold.train.lanes import configure

configure()
