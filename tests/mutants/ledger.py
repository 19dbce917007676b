"""Faults that the claims on learning and on figures have to see: in gradient flow, its prompts, its stages and laws."""

from mutants.harness import AnyMutant, Mutant, RowsMutant

FLOW = "dynamics/test_flow.py::test_"
POPULATION = "dynamics/test_population.py::test_"
LEARNING = (
    Mutant(
        "flow: attention moves at nine tenths of its speed",
        "dynamics/flow.py",
        "return W_KQ * G, (W_OV * G).sum(axis=0)",
        "return W_KQ * G, 0.9 * (W_OV * G).sum(axis=0)",
        claims=("flow-conserves",),
        tests=(f"{FLOW}lemma_4_keeps_what_it_says",),
    ),
    Mutant(
        "flow: sign of the motion of W_KQ",
        "dynamics/flow.py",
        "return W_KQ * G, (W_OV * G).sum(axis=0)",
        "return W_KQ * G, -(W_OV * G).sum(axis=0)",
        claims=("flow-conserves", "attention-stays", "loss-vanishes"),
        tests=(f"{FLOW}the_flow_is_that_of_scipy",),
    ),
    Mutant(
        "flow: in logarithms, without the term that turns v",
        "dynamics/flow.py",
        "return G - v * along, along",
        "return G, along",
        claims=("sequential-learning",),
        tests=(f"{FLOW}direct_and_log_coordinates_pooled_and_enumerated_noise_are_one_flow",),
    ),
    Mutant(
        "flow: the model predicts half as surely",
        "dynamics/population.py",
        "dtype=logits.dtype) - jax.nn.softmax(logits)",
        "dtype=logits.dtype) - 0.5 * jax.nn.softmax(logits)",
        claims=("flow-conserves", "loss-vanishes"),
        tests=(f"{POPULATION}the_pull_is_the_gradient_in_Theta",),
    ),
    Mutant(
        "prompts of the flow: no noise tokens",
        "dynamics/population.py",
        "counts[:, first:] = T - 3, 1",
        "counts[:, first:] = 0, 1",
        tests=(f"{POPULATION}weights_are_probabilities_and_counts_are_prompts",),
    ),
    Mutant(
        "prompts of the flow: every noise token moves for all",
        "dynamics/population.py",
        "mobility[first] = 1 / n_noise",
        "mobility[first] = 1.0",
        tests=(f"{POPULATION}one_column_is_enough_where_noise_tokens_weigh_the_same",),
    ),
    Mutant(
        "prompts of the flow: EOS left out",
        "dynamics/population.py",
        "counts[:, first:] = T - 3, 1",
        "counts[:, first:] = T - 3, 0",
        claims=("marginal-first",),
        tests=(f"{POPULATION}weights_are_probabilities_and_counts_are_prompts",),
    ),
    Mutant(
        "start: assumption 2 with half of its attention",
        "dynamics/population.py",
        'math.sqrt(A + 1) if self.kind == "balanced" else 1.0',
        '0.5 if self.kind == "balanced" else 1.0',
        claims=("attention-stays",),
        tests=(f"{FLOW}starts_are_what_they_are_called",),
    ),
    Mutant(
        "stages: a curve that passes a level rests there",
        "dynamics/stages.py",
        "self.stayed >= self.drop and self.stayed > 0",
        "self.stayed >= 0.01 * self.drop",
        tests=("dynamics/test_stages.py::test_a_curve_that_passes_without_resting",),
    ),
    Mutant(
        "stages: the relation's level is that of the subject",
        "dynamics/stages.py",
        'for kind in ("nothing", "relation", "subject")',
        'for kind in ("nothing", "subject", "relation")',
        tests=("dynamics/test_stages.py::test_levels_by_hand",),
    ),
    Mutant(
        "reduced equations: relations and subjects swapped",
        "theory/reduced.py",
        "return Growth(1 / self.R, self.R, self.D, self.log_invariant)",
        "return Growth(1 / self.S, self.R, self.D, self.log_invariant)",
        tests=("theory/test_reduced.py::test_the_flow_of_a_balanced_table_is_the_reduced_one",),
    ),
    Mutant(
        "reduced equations: the slowing down left out",
        "theory/reduced.py",
        "return (float(self._escaping(np.array([gap]))[0]) + slowed) / self.rate",
        "return float(self._escaping(np.array([gap]))[0]) / self.rate",
        tests=("theory/test_reduced.py::test_the_time_of_a_gap_solves_the_equations",),
    ),
    Mutant(
        "lemma 7: the bound with the wrong sign",
        "studies/learning/flows.py",
        "jnp.log(A - sign * B * z0 * jnp.expm1(A * times))",
        "jnp.log(A + sign * B * z0 * jnp.expm1(A * times))",
        claims=("comparison",),
    ),
    Mutant(
        "lemma 7: the linear term at half its rate",
        "studies/learning/flows.py",
        "return A + sign * B * jnp.exp(log_z) - sign * h",
        "return 0.5 * A + sign * B * jnp.exp(log_z) - sign * h",
        claims=("comparison",),
    ),
)

LIMITS = (
    Mutant(
        "theorem 7: ten times the least loss",
        "theory/limits.py",
        "return bits * ((1 - part) * p.tail(k) + part * p.tail(k + 1))",
        "return 10 * bits * ((1 - part) * p.tail(k) + part * p.tail(k + 1))",
        claims=("nothing-below-theorem-7",),
        tests=("theory/test_limits.py::test_least_loss_is_the_linear_program",),
    ),
    Mutant(
        "theorem 7: the rarest are stored first",
        "theory/limits.py",
        "tails = np.concatenate([[0.0], np.cumsum(p)])[::-1]",
        "tails = np.concatenate([[0.0], np.cumsum(p[::-1])])[::-1]",
        tests=("theory/test_limits.py::test_least_loss_is_the_linear_program",),
    ),
)

PLAN = (
    Mutant(
        "plan: recommends a fifth of the size",
        "plan/laws.py",
        "for v in (log_y - half, log_y, log_y + half)",
        "for v in (log_y - half, log_y, log_y - 1.6)",
        claims=("plan-sizes",),
        tests=("plan/test_plan.py::test_intervals_cover_a_new_table_as_often_as_they_say",),
    ),
    Mutant(
        "plan: recommends twenty times the size",
        "plan/laws.py",
        "for v in (log_y - half, log_y, log_y + half)",
        "for v in (log_y - half, log_y, log_y + half + 3)",
        claims=("plan-sizes",),
        tests=("plan/test_plan.py::test_intervals_cover_a_new_table_as_often_as_they_say",),
    ),
)

ROWS = (
    RowsMutant("built models four times as large", "built-against-trained", "larger"),
    RowsMutant("built models at no size that was searched", "built-against-trained", "beyond"),
    RowsMutant("figure 4: the same facts at every size", "facts-growth@quick", "flat"),
    RowsMutant("figure 4: facts as another power of the parameters", "facts-growth@quick", "steep"),
    *(
        RowsMutant(f"{claim}: {words}", f"{claim}@quick", change)
        for claim in ("linear-trained-growth", "mlp-trained-growth", "fixed-outputs-growth")
        for words, change in (
            ("capacities a third", "fewer"),
            ("the same capacity at every size", "flat"),
            ("a ceiling is no capacity", "beyond"),
        )
    ),
)

MUTANTS: tuple[AnyMutant, ...] = (*LEARNING, *LIMITS, *PLAN, *ROWS)
