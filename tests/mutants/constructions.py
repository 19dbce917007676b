"""Faults in the constructions and recipes: section 3's memories, the transformers of section 4, and beyond them."""

from mutants.harness import Mutant

LINEAR = (
    Mutant(
        "outer product: the wrong row of E", "construct/linear.py",
        "LinearMemory(jnp.asarray(targets.T @ E))", "LinearMemory(jnp.asarray(targets.T @ np.roll(E, 1, axis=0)))",
        claims=("gradient-step", "outer-product-growth@quick"),
        tests=("construct/test_linear.py::test_outer_product_is_a_sum_of_outer_products",),
        recipes=("outer-product", "quantised"),
    ),
    Mutant(
        "outer product: sign", "construct/linear.py",
        "LinearMemory(jnp.asarray(targets.T @ E))", "LinearMemory(jnp.asarray(-targets.T @ E))",
        claims=("gradient-step",),
        tests=("construct/test_linear.py::test_outer_product_is_one_step_on_the_correlation_loss",),
        recipes=("outer-product",),
    ),
    Mutant(
        "low rank: factor", "construct/linear.py", "outer_product(problem).W.T / m", "outer_product(problem).W.T / (m + 1)",
        claims=("gradient-step",), tests=("construct/test_linear.py::test_low_rank_is_one_step_on_one_factor",),
        recipes=("low-rank",),
    ),
    Mutant(
        "low rank: not transposed", "construct/linear.py", "outer_product(problem).W.T / m", "outer_product(problem).W / m",
        claims=("gradient-step", "low-rank-growth@quick"),
        tests=("construct/test_linear.py::test_low_rank_is_the_outer_product_on_average",), recipes=("low-rank",),
    ),
    Mutant(
        "low rank: directions of one sign", "construct/linear.py",
        "W_2 = normal(key, (m, problem.d), problem.E.dtype)", "W_2 = jnp.abs(normal(key, (m, problem.d), problem.E.dtype))",
        claims=("low-rank-growth@quick",), recipes=("low-rank",),
    ),
    Mutant(
        "rounding: down instead of to the nearest", "construct/linear.py", "multiples = np.rint(", "multiples = np.floor(",
        tests=("construct/test_linear.py::test_corollary_2_bounds_the_change_of_every_score",), recipes=("quantised",),
    ),
    Mutant(
        "rounding: a step sixteen times as long", "construct/linear.py", "np.float32(1 / (8 * problem.d))",
        "np.float32(16 / (8 * problem.d))",
        tests=("construct/test_linear.py::test_quantised_bits",), recipes=("quantised",),
    ),
    Mutant(
        "gradient memory: the mean is not taken away", "construct/linear.py",
        "eta * (p - p.mean(axis=1, keepdims=True))", "eta * p",
        tests=("construct/test_linear.py::test_gradients_as_memories",),
    ),
    Mutant(
        "weighted memory: inputs and outputs swapped", "construct/linear.py", "LinearMemory(U.T @ (alpha.T @ E))",
        "LinearMemory(E.T @ (alpha @ U))",
        tests=("construct/test_linear.py::test_weights_are_the_scores_for_orthogonal_embeddings",),
    ),
)  # fmt: skip

LAYERWISE = "construct/test_readout.py::test_layerwise_stores_all_where_its_start_does_not_and_neither_do_free_flips"
MLP = (
    Mutant(
        "Hermite features: wrong degree", "construct/mlp.py", "hermite(k, E @ np.asarray(W).T).T @ targets / m",
        "hermite(k + 1, E @ np.asarray(W).T).T @ targets / m",
        tests=("construct/test_mlp.py::test_hermite_features_hold_a_power_of_the_overlap",),
        recipes=("hermite-features",),
    ),
    Mutant(
        "Hermite features: the coefficient left out", "construct/mlp.py", "return MLPMemory(W, V / c_k, sigma=sigma)",
        "return MLPMemory(W, V, sigma=sigma)",
        tests=("construct/test_mlp.py::test_hermite_features_hold_a_power_of_the_overlap",),
        recipes=("hermite-features",),
    ),
    Mutant(
        "tangent kernel: pairs of the same sign", "construct/mlp.py", "jnp.concatenate([v, -v])", "jnp.concatenate([v, v])",
        tests=("construct/test_mlp.py::test_pairs_converge_to_the_tangent_at_second_order",),
        recipes=("tangent-kernel", "tangent-convex"),
    ),
    Mutant(
        "tangent kernel: c_{k+1} without its root", "construct/mlp.py",
        "return math.sqrt(k + 1) * sigma.coefficient(k + 1)", "return sigma.coefficient(k + 1)",
        tests=("construct/test_mlp.py::test_tangent_kernel_holds_a_power_of_the_overlap",), recipes=("tangent-kernel",),
    ),
    Mutant(
        "tangent kernel: the wrong input", "construct/mlp.py", "weights.T @ E / (len(W) *", "weights[::-1].T @ E / (len(W) *",
        tests=("construct/test_mlp.py::test_tangent_directions_are_their_formula",), recipes=("tangent-kernel",),
    ),
    Mutant(
        "convex tangent: gates that are always open", "construct/mlp.py", "rows = E, sigma.derivative(E @ np.asarray(W).T)",
        "rows = E, np.ones((len(E), len(W)))",
        tests=("construct/test_mlp.py::test_convex_tangent_meets_its_margin",), recipes=("tangent-convex",),
    ),
    Mutant(
        "ridge readout: outputs are not decorrelated", "construct/readout.py", " @ np.linalg.pinv(U.T @ U)", "",
        tests=("construct/test_readout.py::test_ridge_is_least_squares_of_the_scores",),
        recipes=("ridge-readout", "values-ridge", "selected-ridge"),
    ),
    Mutant(
        "ridge readout: the ridge a million times as large", "construct/readout.py", "RIDGE = 1e-6", "RIDGE = 1.0",
        tests=("construct/test_readout.py::test_the_ridge_of_the_recipe_is_small",),
        recipes=("ridge-readout", "selected-ridge"),
    ),
    Mutant(
        "convex readout: whitening is not undone", "construct/readout.py", "return unwhiten_H @ A @ unwhiten_U.T",
        "return unwhiten_H @ A @ np.linalg.pinv(unwhiten_U)",
        tests=("construct/test_readout.py::test_convex_stores_what_is_separable_with_the_margin_it_promises",),
        recipes=("convex-readout", "selected-convex", "layerwise"),
    ),
    Mutant(
        "convex readout: ends after two steps", "construct/readout.py", "FIRST_ITERATIONS, ITERATIONS = 40, 300",
        "FIRST_ITERATIONS, ITERATIONS = 40, 2", claims=("layerwise",),
        tests=(LAYERWISE,), recipes=("convex-readout", "layerwise", "selected"),
    ),
    Mutant(
        "layerwise: W is left at its start", "construct/readout.py", "W = first @ unwhiten.T", "W = W + 0 * first @ unwhiten.T",
        claims=("layerwise@quick",), tests=(LAYERWISE,), recipes=("layerwise", "selected"),
    ),
    Mutant(
        "layerwise: flips are free", "construct/readout.py", "FLIP_PRICE = 0.3", "FLIP_PRICE = 0.0",
        tests=(LAYERWISE,), recipes=("layerwise",),
    ),
    Mutant(
        "cross entropy: padding is offered", "construct/solve.py",
        "offered = jnp.where(answers.offered, logits, -jnp.inf)", "offered = logits",
        tests=("construct/test_mlp.py::test_convex_tangent_finds_the_minimum_of_what_it_cannot_store",),
        recipes=("tangent-convex", "convex-readout"),
    ),
    Mutant(
        "one bit: fields are not reinforced", "construct/signs.py", "h = np.clip(field + (1 - math.exp(-t / patience)) * h,",
        "h = np.clip(field + 0 * h,",
        claims=("efficiency",),
        tests=("construct/test_signs.py::test_one_bit_weights_recall_more_signs_than_the_outer_product",),
        recipes=("one-bit",),
    ),
    Mutant(
        "one bit: the wrong signs", "construct/signs.py", "Y = np.where(targets < 0, -1.0, 1.0)",
        "Y = np.where(targets < 0, 1.0, -1.0)", claims=("efficiency",),
        tests=("construct/test_signs.py::test_one_bit_weights_recall_more_signs_than_the_outer_product",),
        recipes=("one-bit",),
    ),
)  # fmt: skip

FACTS = "construct/test_facts.py::test_every_fact_is_recalled_in_any_noise"
ATTENTION = (
    Mutant(
        "lemma 1: EOS left out of the key", "construct/attention.py", ".sum(axis=0) + phi[problem.EOS] / 2 for tokens",
        ".sum(axis=0) for tokens", tests=("construct/test_lemmas.py::test_lemma_1_order_of_the_scores",),
        recipes=("attention", "attention-full", "attention-mlp"),
    ),
    Mutant(
        "lemma 1: EOS twice in the key", "construct/attention.py", "phi[problem.EOS] / 2 for tokens",
        "phi[problem.EOS] * 2 for tokens", claims=("all-facts",),
        tests=("construct/test_facts.py::test_keys_and_queries_are_the_sum_of_the_proof",),
        recipes=("attention", "attention-full", "attention-mlp"),
    ),
    Mutant(
        "keys: beta a hundredth", "construct/attention.py", "wanted = math.log((T - 1) / LEAK)",
        "wanted = 0.01 * math.log((T - 1) / LEAK)", claims=("all-facts",),
        tests=("construct/test_facts.py::test_attention_is_a_selection",),
        recipes=("attention", "attention-mlp", "values", "selected"),
    ),
    Mutant(
        "theorem 10: values not orthogonal to EOS", "construct/attention.py",
        "w -= (w @ EOS)[..., None] * EOS / (EOS @ EOS)", "pass",
        tests=("construct/test_lemmas.py::test_lemma_2_moments",), recipes=("attention", "attention-full"),
    ),
    Mutant(
        "theorem 10: the answers of relations left out", "construct/attention.py",
        "    among[table.S + table.relations, table.answers] = 1\n", "", claims=("all-facts",),
        tests=(FACTS,), recipes=("attention", "attention-full"),
    ),
    Mutant(
        "theorem 10: sign of the memory", "construct/attention.py", "return problem.d / len(w) * (w @",
        "return -problem.d / len(w) * (w @", claims=("all-facts",), tests=(FACTS,),
        recipes=("attention", "attention-full"),
    ),
    Mutant(
        "separating keys: noise tokens left out", "construct/attention.py", "    signs[:, problem.EOS] = 0.0\n",
        "    signs[:, problem.table.S + problem.table.R :] = 0.0\n",
        tests=("construct/test_lemmas.py::test_separating_keys_do_lemma_1_at_a_far_smaller_d",),
        recipes=("values", "values-ridge", "selected", "selected-convex", "selected-ridge"),
    ),
    Mutant(
        "theorem 11: subjects are not projected", "construct/attention_mlp.py", "phi[: table.S] @ P.T @ P, p)",
        "phi[: table.S], p)", tests=("construct/test_lemmas.py::test_lemma_3_mean_over_neurons",),
        recipes=("attention-mlp",),
    ),
    Mutant(
        "theorem 11: wrong degree for relations", "construct/attention_mlp.py", "@ Q.T @ Q, k)", "@ Q.T @ Q, k + 1)",
        claims=("all-facts",), tests=("construct/test_lemmas.py::test_lemma_3_mean_over_neurons", FACTS),
        recipes=("attention-mlp",),
    ),
    Mutant(
        "theorem 11: relations read by P", "construct/attention_mlp.py",
        "[P_h] * n_subjects + [Q_h] * (len(subsets) - n_subjects)",
        "[P_h] * n_subjects + [P_h] * (len(subsets) - n_subjects)", claims=("all-facts",),
        tests=("construct/test_facts.py::test_heads_of_a_subset_project",), recipes=("attention-mlp",),
    ),
    Mutant(
        "theorem 11: scores of the answer below those in the residual stream", "construct/attention_mlp.py",
        "SCALE = 100.0", "SCALE = 0.1", claims=("all-facts",), tests=(FACTS,), recipes=("attention-mlp",),
    ),
    Mutant(
        "lemma 16: without its factor", "construct/attention_mlp.py", "math.sqrt(math.factorial(degree)) * hermite(",
        "hermite(", tests=("construct/test_lemmas.py::test_lemma_16_contraction",),
        why="the degrees of the proof are above 1; at 1 the factor is 1", recipes=("attention-mlp",),
    ),
)  # fmt: skip

BEYOND = (
    Mutant(
        "selected: codes are not made small in the residual stream", "construct/attention.py", "RESIDUAL = 1e-3",
        "RESIDUAL = 10.0", tests=(FACTS,), recipes=("selected", "selected-convex", "selected-ridge", "gated"),
    ),
    Mutant(
        "selected: the code of r left out", "construct/selected.py", "E = x[table.subjects] + x[table.S + table.relations]",
        "E = x[table.subjects]", tests=(FACTS,), recipes=("selected", "selected-convex", "selected-ridge"),
    ),
    Mutant(
        "selected: the worse of two solves is kept", "construct/selected.py",
        "return other if _right(other, associations) > right else memory",
        "return other if _right(other, associations) < right else memory",
        tests=("construct/test_facts.py::test_facts_that_nothing_additive_holds",), recipes=("selected",),
    ),
    Mutant(
        "reading: EOS is read too", "construct/attention.py", "wanted = np.concatenate([code, np.zeros((1, code.shape[1]))])",
        "wanted = np.concatenate([code, np.ones((1, code.shape[1]))])", tests=(FACTS,),
        recipes=("values", "values-ridge", "selected", "selected-ridge", "selected-convex"),
    ),
    Mutant(
        "values: those of relations left out of the loss", "construct/selected.py", "cross_entropy((u[s] + u[r]) @ U.T, answers)",
        "cross_entropy((u[s] + 0 * u[r]) @ U.T, answers)", tests=(FACTS,), recipes=("values",),
    ),
    Mutant(
        "values: ridge without relations", "construct/selected.py",
        "X[np.arange(len(s)), s] = X[np.arange(len(s)), r] = 1", "X[np.arange(len(s)), s] = 1",
        tests=("construct/test_facts.py::test_ridge_values_are_the_additive_least_squares",), recipes=("values-ridge",),
    ),
    Mutant(
        "gates: noise tokens left out of the conditions", "construct/gates.py", "below = phi[[*noise, *few, EOS]]",
        "below = phi[[*few, EOS]]", tests=("construct/test_gates.py::test_noise_takes_no_more_than_its_leak",),
        recipes=("gated",),
    ),
    Mutant(
        "gates: noise above EOS", "construct/gates.py", "np.append(np.full(len(below) - 1, -1.0), 0.0)",
        "np.append(np.full(len(below) - 1, 1.0), 0.0)",
        tests=("construct/test_gates.py::test_the_conditions_on_a_key_hold",), recipes=("gated",),
    ),
    Mutant(
        "groups: neurons hear the marks of others", "train/groups.py", "W[:, others] = -reach / np.array(height)[None, :]",
        "W[:, others] = 0 * reach / np.array(height)[None, :]",
        tests=("train/test_groups.py::test_neurons_are_silent_at_the_marks_of_others",), recipes=("gated",),
    ),
    Mutant(
        "groups: the share of another margin", "train/sampled.py", "return (target[:, 0] - rivals.max(axis=1)) > self.margin",
        "return (target[:, 0] - rivals.max(axis=1)) > 0",
        tests=("train/test_sampled.py::test_accuracy_counts_margins_above_the_margin",), recipes=("gated",),
    ),
    Mutant(
        "sums: a circle is not seen", "construct/sums.py", "    if n == len(both):\n        return None\n    swapped",
        "    return None\n    swapped",
        tests=("construct/test_sums.py::test_with_two_of_a_kind_a_circle_is_exactly_what_stands_against_sums",),
        recipes=("values", "attention"),
    ),
)  # fmt: skip

TRAINING = (
    Mutant(
        "training: the gradient lacks the target", "train/tasks.py", "share * ((weights @ U) / normaliser - targets)",
        "share * ((weights @ U) / normaliser)",
        claims=("two-outputs-trained@quick",),
        tests=("train/test_engine.py::test_the_fused_loss_and_its_gradient_are_those_of_autodiff",),
        recipes=("train", "train:linear-code", "train:mlp-code", "train:mlp-text"),
    ),
    Mutant(
        "training: the worst run of a race counts", "train/race.py", "best = max(range(len(runs)), key=rank)",
        "best = min(range(len(runs)), key=rank)",
        tests=("studies/transformers/test_transformers.py::test_accuracy_of_one_size_is_that_of_its_best_look",),
        recipes=("train",),
    ),
    Mutant(
        "training: every step asks the same prompts", "train/tasks.py", "facts = asked.prompts.draw(self.batch, key=k_facts)",
        "facts = asked.prompts.draw(self.batch, key=jax.random.key(0))",
        tests=("models/test_transformer.py::test_the_loss_is_the_cross_entropy_of_its_batch",), recipes=("train",),
    ),
    Mutant(
        "training: padding counts as recalled", "train/tasks.py", "hits = (right(scores, self.problem.f) & self.counted).sum()",
        "hits = (right(scores, self.problem.f) | ~self.counted).sum()",
        tests=("train/test_engine.py::test_accuracy_of_a_padded_task_is_that_of_the_problem",),
        recipes=("train:linear-code", "train:mlp-code", "train:mlp-text"),
    ),
    Mutant(
        "on a grid: trained off it", "train/tasks.py",
        "return self.task.loss(straight_through(model, self.grid), key=key)", "return self.task.loss(model, key=key)",
        tests=("measure/test_quantise.py::test_a_memory_trained_on_its_grid_keeps_what_rounding_loses",),
        recipes=("on-grid:linear-2", "on-grid:linear-3", "on-grid:mlp-2", "on-grid:mlp-3"),
    ),
    Mutant(
        "on a grid: no gradient through it", "measure/quantise.py",
        "W + jax.lax.stop_gradient(on_grid(W, grid) - W)", "jax.lax.stop_gradient(on_grid(W, grid))",
        tests=("measure/test_quantise.py::test_the_gradient_goes_straight_through",),
        recipes=("on-grid:linear-2", "on-grid:linear-3", "on-grid:mlp-2", "on-grid:mlp-3"),
    ),
    Mutant(
        "by frequency: all alike", "train/tasks.py",
        "return (self.p * optax.softmax_cross_entropy_with_integer_labels(scores, self.problem.f)).sum()",
        "return (self.counted * optax.softmax_cross_entropy_with_integer_labels(scores, self.problem.f)).mean()",
        tests=("studies/zipf/test_zipf.py::test_weights_are_those_of_the_loss",), recipes=("weighted-trained",),
    ),
    Mutant(
        "by frequency: the linear memory of another p", "construct/readout.py", "np.asarray(problem.f), p / p.sum())",
        "np.asarray(problem.f), p**2 / (p**2).sum())",
        tests=("studies/zipf/test_zipf.py::test_the_best_linear_memory_has_no_gradient",), recipes=("weighted-convex",),
    ),
    Mutant(
        "by frequency: ends after three steps", "construct/readout.py", "max_iterations=max_iterations, tolerance=1e-6)",
        "max_iterations=3, tolerance=1e-6)",
        tests=("studies/zipf/test_zipf.py::test_the_best_linear_memory_has_no_gradient",), recipes=("weighted-convex",),
    ),
    Mutant(
        "by frequency: weights in another order", "train/tasks.py", "pad_rows(np.asarray(p, np.float32), len(plain.counted))",
        "pad_rows(np.asarray(p, np.float32)[::-1].copy(), len(plain.counted))",
        tests=("studies/zipf/test_zipf.py::test_weights_are_those_of_the_loss",), recipes=("weighted-trained",),
    ),
)  # fmt: skip

MUTANTS = (*LINEAR, *MLP, *ATTENTION, *BEYOND, *TRAINING)
