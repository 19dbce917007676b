"""All tests run with the lanes of the command line: one XLA device a core."""

from facthold.train.lanes import configure

configure()
