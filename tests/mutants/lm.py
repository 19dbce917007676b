"""Deliberate faults in what reads and runs a language model."""

from mutants.harness import Mutant

MODEL = "lm/test_model.py::test_"
MUTANTS = (
    Mutant(
        "language model: rotary pairs are halves of a head",
        "lm/forward.py",
        "even, odd = x[..., 0::2], x[..., 1::2]",
        "even, odd = x[..., : d_h // 2], x[..., d_h // 2 :]",
        tests=(f"{MODEL}logits_are_those_of_the_published_architecture",),
    ),
    Mutant(
        "language model: attention looks ahead",
        "lm/forward.py",
        "jnp.where(jnp.tril(jnp.ones((T, T), bool)), scores, -jnp.inf)",
        "scores",
        tests=(f"{MODEL}logits_are_those_of_the_published_architecture",),
    ),
    Mutant(
        "language model: the gate of an MLP is left out",
        "lm/forward.py",
        'jax.nn.silu(y @ w["W_gate"].T) * (y @ w["W_up"].T)',
        'jax.nn.silu(y @ w["W_gate"].T)',
        tests=(f"{MODEL}logits_are_those_of_the_published_architecture",),
    ),
    Mutant(
        "language model: a rank counts from zero",
        "lm/knowing.py",
        "fact, 1 + int((logits > own).sum())",
        "fact, int((logits > own).sum())",
        tests=("studies/lm/test_knows.py::test_the_tiny_model_knows_what_it_was_made_to_know",),
    ),
    Mutant(
        "language model: answers that begin alike are judged",
        "lm/knowing.py",
        'return AMBIGUOUS if first(answer) in {first(a) for a in others} else ""',
        'return ""',
        tests=("studies/lm/test_knows.py::test_facts_that_say_nothing_of_knowledge_are_left_out",),
    ),
)
