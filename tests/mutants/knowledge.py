"""Faults in what a person meets: building, asking, editing, locating, saving."""

from mutants.harness import Mutant

EYE = "test_eye.py::test_"
BUILD = (
    Mutant(
        "build: judged on the prompts of its search",
        "knowledge/build.py",
        "judge_table(made.model, made.problem, draws=_draws(table), seed=seed + FRESH)",
        "judge_table(made.model, made.problem, draws=_draws(table))",
        tests=(
            "knowledge/test_build.py::test_a_model_is_judged_in_prompts_that_its_search_has_not_seen",
            f"{EYE}a_built_model_does_what_its_report_says[values]",
        ),
    ),
    Mutant(
        "build: recall is that of the search",
        "knowledge/build.py",
        "recall, margin = float(verdicts.recalled.mean()), float(verdicts.margin.min())",
        "recall, margin = accuracy, float(verdicts.margin.min())",
        tests=("knowledge/test_build.py::test_a_model_is_judged_in_prompts_that_its_search_has_not_seen",),
    ),
    Mutant(
        "build: auto takes the larger model",
        "knowledge/build.py",
        "key=lambda one: one[1].model.n_params)",
        "key=lambda one: -one[1].model.n_params)",
        tests=("knowledge/test_build.py::test_auto_takes_the_smaller_model",),
    ),
    Mutant(
        "build: a size that is not enough",
        "knowledge/build.py",
        "for units, share in sorted(search.probes) if share >= wish.accuracy",
        "for units, share in sorted(search.probes)",
        tests=("knowledge/test_build.py::test_a_sparse_table_is_recalled_in_any_noise[values]",),
    ),
    Mutant(
        "build: max_params is not kept to",
        "knowledge/build.py",
        "> wish.max_params:\n            raise",
        "> 10 * wish.max_params:\n            raise",
        tests=("knowledge/test_build.py::test_too_few_parameters_is_said_with_the_number_needed",),
    ),
)

EDIT = (
    Mutant(
        "edit: specificity judged on the old model",
        "knowledge/edit.py",
        "_probed(now, row), known.prompts_of_all.told(now)",
        "_probed(now, row), known.prompts_of_all.told(start)",
        tests=(
            f"{EYE}what_an_edit_costs_the_others_is_what_the_eye_sees",
            "knowledge/test_edit.py::test_what_an_edit_costs_is_judged_on_the_model_after_it",
        ),
    ),
    Mutant(
        "edit: efficacy judged on the old model",
        "knowledge/edit.py",
        "probes, everything = _probed(now, row),",
        "probes, everything = _probed(start, row),",
        tests=(f"{EYE}an_edit_does_what_its_report_says",),
    ),
    Mutant(
        "edit: the edited fact counts among the others",
        "knowledge/edit.py",
        "np.delete(np.arange(len(known.table)), [row] if row < len(known.table) else [])",
        "np.arange(len(known.table))",
        tests=(f"{EYE}an_edit_does_what_its_report_says",),
    ),
    Mutant(
        "edit: what was wrong before counts as lost",
        "knowledge/report.py",
        "_mean(now.right[self.right])",
        "_mean(now.right)",
        tests=(f"{EYE}what_an_edit_costs_the_others_is_what_the_eye_sees",),
    ),
    Mutant(
        "edit: judged in the prompts that it was made from",
        "knowledge/edit.py",
        "draws=PROBES, seed=FRESH)[:, 0]",
        "draws=PROBES, seed=0)[:, 0]",
        tests=("knowledge/test_edit.py::test_an_edit_is_judged_in_prompts_that_it_was_not_made_from",),
    ),
    Mutant(
        "edit: the others are asked in one prompt each",
        "knowledge/report.py",
        "return int(np.clip(OTHERS // max(facts, 1), 1, PROBES))",
        "return 1",
        tests=("knowledge/test_edit.py::test_a_fact_that_falls_is_counted_in_whichever_prompts_it_was_right",),
    ),
    Mutant(
        "edit: the change has the wrong sign",
        "knowledge/edit.py",
        "seen.M + np.outer(change.k, change.delta)",
        "seen.M - np.outer(change.k, change.delta)",
        tests=("knowledge/test_edit.py::test_an_edit_is_said_and_the_others_stay",),
    ),
    Mutant(
        "edit: forgotten means still said",
        "knowledge/edit.py",
        "return ~np.isin(probes.said, right)",
        "return np.isin(probes.said, right)",
        tests=("knowledge/test_edit.py::test_what_is_forgotten_is_not_said",),
    ),
    Mutant(
        "edit: what is forgotten stays in the table",
        "knowledge/edit.py",
        'tables.without(after, row) if kind == "forget" else after, report)',
        "after, report)",
        tests=("knowledge/test_edit.py::test_what_is_forgotten_is_not_said",),
    ),
    Mutant(
        "edit: a later change is not looked at",
        "knowledge/report.py",
        "return [(report, held.get((report.subject, report.relation), report.done)) for report in last]",
        "return [(report, report.done) for report in last]",
        tests=("knowledge/test_edit.py::test_forgetting_a_relation_is_judged_by_what_is_left_of_it",),
    ),
    Mutant(
        "edit: specificity over a hundred edits of the first model twice",
        "knowledge/report.py",
        "Asked.of(before, rows).told(before), Asked.of(after, there[rows]).told(after)",
        "Asked.of(before, rows).told(before), Asked.of(before, rows).told(before)",
        tests=("knowledge/test_edit.py::test_what_an_edit_costs_is_judged_on_the_model_after_it",),
    ),
    Mutant(
        "edit: a new subject takes the place of another",
        "knowledge/tables.py",
        "np.insert(problem.phi, table.S, row, axis=0)",
        "np.insert(problem.phi, 0, row, axis=0)",
        tests=("knowledge/test_edit.py::test_a_fact_is_added_for_a_known_and_for_a_new_subject",),
    ),
    Mutant(
        "edit: the neuron of a fact is on at others",
        "construct/neuron.py",
        "threshold = (lowest + highest) / 2",
        "threshold = highest - (lowest - highest)",
        tests=("construct/test_neuron.py::test_a_point_is_parted_from_random_others_by_one_neuron",),
    ),
    Mutant(
        "edit: k leaks to the other facts",
        "knowledge/rank_one.py",
        "c = np.linalg.solve(self.G, h)",
        "c = h.copy()",
        tests=("knowledge/test_edit.py::test_the_start_wins_by_mu_and_leaks_least",),
    ),
)

LOCATE = (
    Mutant(
        "locate: gates closed where they are open",
        "knowledge/locate.py",
        "open_gates = by_neuron * (states.hidden > 0)",
        "open_gates = by_neuron * (states.hidden <= 0)",
        tests=(f"{EYE}locate_takes_apart_what_the_eye_sees[several answers]",),
    ),
    Mutant(
        "locate: the MLP and the direct path swapped",
        "knowledge/locate.py",
        "        yield states.F - states.x\n        yield states.x\n",
        "        yield states.x\n        yield states.F - states.x\n",
        tests=(f"{EYE}locate_takes_apart_what_the_eye_sees[several answers]",),
    ),
    Mutant(
        "locate: without a head the MLP stays as it was",
        "knowledge/locate.py",
        "yield x + forward.hidden(x) @ forward.V",
        "yield states.F - written[:, h]",
        tests=(f"{EYE}locate_takes_apart_what_the_eye_sees[several answers]",),
    ),
    Mutant(
        "locate: ablation against the old rival",
        "knowledge/locate.py",
        "(verdicts.said != whole.said) | _tied",
        "(verdicts.right != whole.right) | _tied",
        tests=(f"{EYE}locate_takes_apart_what_the_eye_sees[several answers]",),
    ),
    Mutant(
        "locate: the bias left out",
        "knowledge/locate.py",
        "bias = open_gates @ forward.b",
        "bias = 0 * (open_gates @ forward.b)",
        tests=(f"{EYE}locate_takes_apart_what_the_eye_sees[bias and scaled scores]",),
    ),
    Mutant(
        "locate: neurons of another rival",
        "knowledge/locate.py",
        "- known.forward.U[found.rival[0]]\n",
        "+ known.forward.U[found.rival[0]]\n",
        tests=(f"{EYE}a_neuron_is_what_the_margin_lacks_without_it",),
    ),
)

ASK = (
    Mutant(
        "a model's recall in the prompts that it was made from",
        "knowledge/model.py",
        "judge_table(self.model, self.problem, seed=FRESH).recalled.mean()",
        "judge_table(self.model, self.problem, seed=0).recalled.mean()",
        tests=("knowledge/test_ask.py::test_recall_is_of_prompts_that_nothing_was_made_from",),
    ),
    Mutant(
        "ask: right where the runner-up is",
        "knowledge/model.py",
        "bool(margin > 0) if right else None",
        "bool(margin != 0) if right else None",
        tests=("knowledge/test_ask.py::test_a_model_that_is_wrong_is_said_to_be",),
    ),
    Mutant(
        "judge: ties count as right",
        "models/judge.py",
        "(self.right != NONE) & (self.margin > 0)",
        "(self.right != NONE) & (self.margin >= 0)",
        tests=("models/test_forward.py::test_a_tie_is_not_recall_and_one_output_has_no_rival",),
    ),
    Mutant(
        "judge: right answers are rivals too",
        "models/judge.py",
        "        scores[asked[here], answers[here] - first] = -np.inf\n",
        "        scores[asked[here][:1], answers[here][:1] - first] = -np.inf\n",
        tests=(f"{EYE}margins_and_answers_are_those_of_the_eye[several answers]",),
    ),
    Mutant(
        "forward: scores are never scaled",
        "models/forward.py",
        "(model.d_h**-0.5 if model.scaled else 1.0)",
        "1.0",
        tests=(f"{EYE}margins_and_answers_are_those_of_the_eye[bias and scaled scores]",),
    ),
    Mutant(
        "forward: no residual stream",
        "models/forward.py",
        "return States(heads, x, hidden, x + hidden @ self.V)",
        "return States(heads, x, hidden, hidden @ self.V)",
        tests=(f"{EYE}margins_and_answers_are_those_of_the_eye[several answers]",),
    ),
    Mutant(
        "forward: prompts without noise",
        "models/forward.py",
        "tokens[:, 2:-1] = table.S + table.R + noise_tokens",
        "tokens[:, 2:-1] = problem.EOS",
        tests=("models/test_forward.py::test_noise_is_uniform_over_the_noise_tokens",),
    ),
    Mutant(
        "transformer: no residual stream",
        "models/transformer.py",
        "x if self.mlp is None else x + self.mlp(x)",
        "x if self.mlp is None else self.mlp(x)",
        tests=(f"{EYE}the_compiled_forward_pass_is_that_of_the_eye",),
    ),
    Mutant(
        "transformer: EOS does not attend to itself",
        "models/transformer.py",
        "return self.after_heads(attend_counts(counts, scores,",
        "return self.after_heads(attend_counts(counts.at[:, -1].set(0), scores,",
        tests=(f"{EYE}the_compiled_forward_pass_is_that_of_the_eye",),
    ),
    Mutant(
        "saving: values and outputs swapped",
        "models/saving.py",
        'arrays = {f"model.{n}": a for n, a in to_numpy(model).items()}',
        'swapped = {"W_V": "W_O", "W_O": "W_V"}\n'
        '    arrays = {f"model.{swapped.get(n, n)}": a for n, a in to_numpy(model).items()}',
        tests=(
            f"{EYE}margins_and_answers_are_those_of_the_eye[several answers]",
            "models/test_saving.py::test_a_loaded_transformer_recalls_the_same_facts",
        ),
    ),
)

MUTANTS = (*BUILD, *EDIT, *LOCATE, *ASK)
