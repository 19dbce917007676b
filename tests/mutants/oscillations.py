"""Faults that the claims on imbalance and small capacity have to see."""

from mutants.harness import Mutant

DESCENT, LAWS = "dynamics/test_imbalance.py::test_", "theory/test_imbalance.py::test_"
STEPS, NOTED = f"{DESCENT}every_step_is_that_of_a_plain_loop", f"{DESCENT}what_is_noted_is_what_the_steps_say"
SHARPNESS = f"{DESCENT}sharpness_at_the_start_is_the_closed_form"
BOUNDS, ONE_STEP = f"{LAWS}margins_stay_between_their_bounds", f"{LAWS}a_step_is_that_of_logistic_regression"
FLOW = f"{LAWS}the_time_of_the_flow_is_the_limit_of_small_steps"
PERCEPTRON = f"{LAWS}a_perceptron_is_the_limit_of_large_steps"
MINIMUM = "theory/test_plane.py::test_the_minimum_is_that_of_another_solver"
CROWD = "studies/scaling/test_oscillations.py::test_a_crowd_starts_from_the_best_memory_and_ends_at_the_minimum"
MUTANTS = (
    Mutant(
        "imbalance: steps are a tenth too long",
        "dynamics/imbalance.py",
        "return W - eta * gradient, t + 1, now",
        "return W - 1.1 * eta * gradient, t + 1, now",
        claims=("logarithmic-margins@quick", "oscillations@quick", "large-steps-sooner@quick"),
        tests=(STEPS,),
    ),
    Mutant(
        "imbalance: all tokens are equally frequent",
        "dynamics/imbalance.py",
        "return p @ each, margins",
        "return each.mean(), margins",
        claims=("logarithmic-margins@quick", "oscillations@quick", "large-steps-sooner@quick", "forgetting@quick"),
        tests=(STEPS,),
    ),
    Mutant(
        "imbalance: the right output is among its rivals",
        "dynamics/imbalance.py",
        "others = jnp.arange(len(U)) != f[:, None]",
        "others = jnp.arange(len(U)) >= 0",
        claims=("logarithmic-margins@quick",),
        tests=(STEPS,),
    ),
    Mutant(
        "imbalance: a loss that falls counts as a rise",
        "dynamics/imbalance.py",
        "now > before * (1 + ROUNDING)",
        "now < before * (1 - ROUNDING)",
        claims=("oscillations@quick",),
        tests=(NOTED,),
    ),
    Mutant(
        "imbalance: the last step at which all is right, not the first",
        "dynamics/imbalance.py",
        "jnp.where(right & (first_right == NONE), t, first_right)",
        "jnp.where(right, t, first_right)",
        claims=("large-steps-sooner@quick",),
        tests=(NOTED,),
    ),
    Mutant(
        "margins: the first step is bounded as if there were an output more",
        "theory/imbalance.py",
        "low, first = of_height(1 + pace * steps, M), pace / M",
        "low, first = of_height(1 + pace * steps, M), pace / (M + 1)",
        claims=("logarithmic-margins@quick",),
        tests=(BOUNDS,),
    ),
    Mutant(
        "margins: the flow from a margin of one",
        "theory/imbalance.py",
        "of_height(1 + pace * steps, M)",
        "of_height(2.72 + M - 1 + pace * steps, M)",
        claims=("logarithmic-margins@quick",),
        tests=(BOUNDS,),
    ),
    Mutant(
        "oscillations: the start is half as sharp",
        "theory/imbalance.py",
        "np.linalg.eigvalsh(root[:, None] * self.G * root)[-1]) / 4",
        "np.linalg.eigvalsh(root[:, None] * self.G * root)[-1]) / 8",
        claims=("oscillations@quick",),
        tests=(SHARPNESS,),
    ),
    Mutant(
        "oscillations: tokens that are alike want the same",
        "theory/imbalance.py",
        "np.array([[1.0, -correlation], [-correlation, 1.0]])",
        "np.array([[1.0, correlation], [correlation, 1.0]])",
        claims=("oscillations@quick", "large-steps-sooner@quick"),
        tests=(ONE_STEP,),
    ),
    Mutant(
        "sooner: a perceptron with half its push",
        "theory/imbalance.py",
        "np.where(m < 0, 1.0, np.where(m == 0, 0.5, 0.0))",
        "np.where(m < 0, 0.5, np.where(m == 0, 0.5, 0.0))",
        claims=("large-steps-sooner@quick",),
        tests=(PERCEPTRON,),
    ),
    Mutant(
        "sooner: the flow's time of the first token that is right",
        "theory/imbalance.py",
        "return float(m.min()) if t > 0 else -1.0",
        "return float(m.max()) if t > 0 else -1.0",
        claims=("large-steps-sooner@quick",),
        tests=(FLOW,),
    ),
    Mutant(
        "forgetting: the minimum without frequencies",
        "theory/plane.py",
        "gradient = -(p * expit(-m)) @ x",
        "gradient = -expit(-m) @ x / len(p)",
        claims=("forgetting@quick",),
        tests=(MINIMUM,),
    ),
    Mutant(
        "forgetting: all tokens have the first output, as far as theory knows",
        "studies/scaling/oscillation_cells.py",
        "signed = [E * (1.0 - 2 * f)[:, None] for E in draws]",
        "signed = [E * (1.0 - 0 * f)[:, None] for E in draws]",
        claims=("forgetting@quick",),
        tests=(CROWD,),
    ),
    Mutant(
        "forgetting: the best memory is the opposite one",
        "studies/scaling/oscillation_cells.py",
        "np.outer(u, self.start * w) / 2",
        "np.outer(u, -self.start * w) / 2",
        tests=(CROWD,),
    ),
)
