"""Faults that claims have to see: in stages, laws and bounds, in plans, and in the rows of claims that take long."""

from mutants.harness import AnyMutant, Mutant, RowsMutant

FLOW = "dynamics/test_flow.py::test_"
POPULATION = "dynamics/test_population.py::test_"
STAGES = (
    Mutant(
        "flow: attention moves at nine tenths of its speed",
        "dynamics/flow.py",
        "return W_KQ * G, (W_OV * G).sum(axis=0)",
        "return W_KQ * G, 0.9 * (W_OV * G).sum(axis=0)",
        claims=("flow-conserves",),
        tests=(f"{FLOW}lemma_4_keeps_what_it_says",),
    ),
    Mutant(
        "flow: the model predicts half as surely",
        "dynamics/population.py",
        "dtype=logits.dtype) - jax.nn.softmax(logits)",
        "dtype=logits.dtype) - 0.5 * jax.nn.softmax(logits)",
        claims=(
            "flow-conserves",
            "loss-vanishes",
            "marginal-first@quick",
        ),
        tests=(f"{POPULATION}the_pull_is_the_gradient_in_Theta",),
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
        claims=("adam-learns-both@quick",),
        tests=("dynamics/test_stages.py::test_a_curve_that_passes_without_resting",),
    ),
    Mutant(
        "stages: the relation's level is that of the subject",
        "dynamics/stages.py",
        'for kind in ("nothing", "relation", "subject")',
        'for kind in ("nothing", "subject", "relation")',
        claims=("hallucination@quick", "hallucination-softmax@quick"),
        tests=("dynamics/test_stages.py::test_levels_by_hand",),
    ),
    Mutant(
        "reduced equations: relations and subjects swapped",
        "theory/reduced.py",
        "return Growth(1 / self.R, self.R, self.D, self.log_invariant)",
        "return Growth(1 / self.S, self.R, self.D, self.log_invariant)",
        claims=("plateau-length@quick", "loss-vanishes"),
        stored=("loss-curve",),
        tests=("theory/test_reduced.py::test_the_flow_of_a_balanced_table_is_the_reduced_one",),
    ),
    Mutant(
        "reduced equations: the slowing down left out",
        "theory/reduced.py",
        "return (float(self._escaping(np.array([gap]))[0]) + slowed) / self.rate",
        "return float(self._escaping(np.array([gap]))[0]) / self.rate",
        claims=("loss-vanishes",),
        tests=("theory/test_reduced.py::test_the_time_of_a_gap_solves_the_equations",),
    ),
)

LAWS = (
    Mutant(
        "exact recall: a quarter of the signs",
        "theory/noise.py",
        "shares.append(((1 - lost) ** d).mean())",
        "shares.append(((1 - lost) ** (d // 4)).mean())",
        claims=("exact-recall@quick",),
        stored=("capacity",),
    ),
    Mutant(
        "weighted memories: terms that share nothing left out",
        "theory/weighted.py",
        "return sharing / d + (squares.sum() - sharing - squares) / d**2",
        "return sharing / d",
        claims=("weighted-memory", "gradient-memory@quick"),
    ),
    Mutant(
        "two inputs: the second left out",
        "memory/associations.py",
        "Problem((first[pairs[:, 0]] + second[pairs[:, 1]]) / jnp.sqrt(2.0), U, f)",
        "Problem((first[pairs[:, 0]] + 0 * second[pairs[:, 1]]) / jnp.sqrt(2.0), U, f)",
        claims=("two-inputs@quick",),
        tests=("memory/test_associations.py::test_sum_problem_adds_two_inputs",),
    ),
    Mutant(
        "noise of rounded weights: four times its variance",
        "theory/noise.py",
        "self.target + step**2 / 12",
        "self.target + step**2 / 3",
        claims=("rounding@quick",),
        stored=("rounding",),
    ),
    Mutant(
        "two outputs: the share of twice as many",
        "theory/bounds.py",
        "return float(ndtr(math.sqrt(d / (N - 1))))",
        "return float(ndtr(math.sqrt(d / (2 * N - 1))))",
        claims=("two-outputs-outer-product@quick",),
        stored=("two-outputs",),
    ),
    Mutant(
        "noise law: the kernel left out",
        "theory/noise.py",
        "return self.kernel + self.neurons",
        "return self.neurons",
        claims=("outer-product-growth@quick",),
        stored=("capacity",),
    ),
    Mutant(
        "noise of neurons: half of it",
        "theory/noise.py",
        "return pair / c**2, float(",
        "return 0.5 * pair / c**2, 0.5 * float(",
        claims=("mlp-memory-growth@quick",),
        stored=("kernel-capacity",),
    ),
    Mutant(
        "lemma 3: noise of other facts halved",
        "theory/lemma3.py",
        "neither = Variance(by.neither / m, s_other",
        "neither = Variance(0.5 * by.neither / m, s_other",
        claims=("mlp-growth@quick", "part-of-table@quick"),
        stored=("mlp-width",),
    ),
    Mutant(
        "lemma 3: the facts of an answer left out",
        "theory/lemma3.py",
        "target=bystanders.plus(relation, table.C - 1).plus(",
        "target=bystanders.plus(",
        claims=("mlp-answers@quick",),
        stored=("mlp-width",),
    ),
)

LIMITS = (
    Mutant(
        "theorem 7: learners write a fiftieth of their bits",
        "theory/limits.py",
        "return p, bits, B / bits if bits and p.N * bits > B else None",
        "return p, bits, 0.02 * B / bits if bits and p.N * bits > B else None",
        claims=("nothing-below-theorem-7@quick",),
        stored=("memory-loss", "zipf-facts"),
        tests=("theory/test_limits.py::test_least_loss_is_the_linear_program",),
    ),
    Mutant(
        "losses under a power law: what is not stored costs nothing",
        "studies/zipf/losses.py",
        "bits, law.tail(k)) for q, _, k in rounded]",
        "bits, 0.0) for q, _, k in rounded]",
        claims=("memories-scaling-law@quick",),
    ),
    Mutant(
        "losses under a power law: the tail's root",
        "studies/zipf/losses.py",
        "bits, law.tail(k)) for q, _, k in rounded]",
        "bits, law.tail(k) ** 0.5) for q, _, k in rounded]",
        claims=("memories-scaling-law@quick",),
    ),
    Mutant(
        "theorem 8: its lower order left out",
        "theory/limits_facts.py",
        "lower_order = 2 * R * D * (math.log2(V) + D + R * D) / V + eta * R * D + R",
        "lower_order = 0.0",
        claims=("theorem-8",),
        tests=("theory/test_limits.py::test_theorem_8_is_below_what_zero_loss_needs",),
    ),
    Mutant(
        "theorem 8: tables that several sets could have made count once",
        "theory/limits_facts.py",
        "    could -= R * (distinct @ gammaln(D - np.arange(D + 1) + 1.0))\n",
        "",
        claims=("theorem-8",),
    ),
    Mutant(
        "theorem 7: ten times the least loss",
        "theory/limits.py",
        "return bits * ((1 - part) * p.tail(k) + part * p.tail(k + 1))",
        "return 10 * bits * ((1 - part) * p.tail(k) + part * p.tail(k + 1))",
        claims=("nothing-below-theorem-7@quick",),
        stored=("memory-loss", "zipf-facts"),
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
        tests=("plan/test_plan.py::test_intervals_cover_a_new_table_as_often_as_they_say",),
    ),
)

ROWS = (
    RowsMutant("built models four times as large", "built-against-trained@quick", "larger"),
    RowsMutant("built models at no size that was searched", "built-against-trained@quick", "beyond"),
    RowsMutant("figure 4: the same facts at every size", "facts-growth@quick", "flat"),
    RowsMutant("figure 4: facts as another power of the parameters", "facts-growth@quick", "steep"),
    *(
        RowsMutant(f"{claim}: {words}", f"{claim}@quick", change)
        for claim in ("linear-trained-growth", "mlp-trained-growth", "fixed-outputs-growth")
        for words, change in (
            ("half the capacities", "half"),
            ("twice the capacities", "twice"),
            ("the same capacity at every size", "flat"),
            ("a ceiling is no capacity", "beyond"),
        )
    ),
    RowsMutant("figure 4: half the facts per parameter", "facts-per-parameter@quick", "half"),
    RowsMutant("figure 4: twice the facts per parameter", "facts-per-parameter@quick", "twice"),
    *(
        RowsMutant(f"{claim}: {words}", f"{claim}@quick", change)
        for claim in ("facts-heads", "facts-own-answers", "facts-few-relations")
        for words, change in (("the same facts at every size", "flat"), ("another power of the parameters", "steep"))
    ),
    RowsMutant("the authors' rule: a third of the facts", "authors-rule@quick", "fewer_by_their_rule"),
    RowsMutant("the authors' rule: three times the facts", "authors-rule@quick", "more_by_their_rule"),
    *(
        RowsMutant(f"{claim}: {words}", f"{claim}@quick", change)
        for claim in ("mlp-growth", "mlp-answers", "part-of-table")
        for words, change in (("four times the width", "larger"), ("the same width for every table", "constant"))
    ),
    RowsMutant("attention-growth: the same size for every table", "attention-growth@quick", "constant"),
    RowsMutant("attention-dimension: the same d for every table", "attention-dimension@quick", "one_d"),
    RowsMutant("attention-dimension: d as the square of R", "attention-dimension@quick", "steep_d"),
    RowsMutant("plan: a quarter is enough too", "plan-sizes@quick", "lossless"),
    RowsMutant("lemma 6: a hundredth later", "relations-learnt@quick", "late"),
    RowsMutant("one-bit memories store four fifths", "efficiency@quick", "dearer"),
    RowsMutant("outer products store half as much again", "efficiency@quick", "richer"),
    RowsMutant("layerwise: a fact more is wrong", "layerwise@quick", "one_wrong"),
    RowsMutant("mlp-degrees: four times the width", "mlp-degrees@quick", "larger"),
    RowsMutant("mlp-degrees: degree 1 is enough", "mlp-degrees@quick", "enough"),
    RowsMutant("mlp-exact-growth: the same width for every table", "mlp-exact-growth@quick", "constant"),
    RowsMutant("mlp-exact-growth: every search ends at its ceiling", "mlp-exact-growth@quick", "unfound"),
    RowsMutant("separability: a third of the capacity at 100%", "separability@quick", "fewer_where_all"),
    RowsMutant("separability: closed forms hold more at 100%", "separability@quick", "more_where_all"),
    RowsMutant("heat map: the same width for every attention", "attention-for-mlp@quick", "constant"),
    RowsMutant("heat map: no width was enough", "attention-for-mlp@quick", "beyond"),
    RowsMutant("heat map: little attention is enough", "attention-floor@quick", "lossless"),
    RowsMutant("heat map: little attention is nearly enough", "attention-floor@quick", "nearly"),
    RowsMutant("heat map: many heads fall short too", "attention-floor@quick", "forgetful"),
)

MUTANTS: tuple[AnyMutant, ...] = (*STAGES, *LAWS, *LIMITS, *PLAN, *ROWS)
