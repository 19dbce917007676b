"""How facts are learnt: gradient flow, its reduced equations, and the stages of a loss curve (section 5)."""

STARTS = ("balanced", "equal", "random")  # of learning, see `dynamics.population`; the names load no JAX here
KINDS = ("subject", "relation", "noise", "EOS")  # of tokens
NOISE = ("drawn", "even")  # how noise tokens are in a batch, see `dynamics.descent`
READERS = ("feed-forward", "attention", "attention to all")  # what a memory reads, see `dynamics.global_bigrams`
LEARNERS = ("muon", "sign", "adam", "sgd")  # which directions steps take, see `dynamics.recovery`
RESIDUALS = ("softmax", "threshold")  # what a step still has to learn of an item, there too
