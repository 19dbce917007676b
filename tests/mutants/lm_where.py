"""Faults in where a language model reads facts, and in its matrices as memories; claims that need the fetched one are
tried where it is there."""

from mutants.harness import Mutant

LATER = "lm/test_later.py::test_a_change_leads_to_what_the_whole_model_says"
WHERE = "studies/lm/test_where.py::test_"

MUTANTS = (
    Mutant(
        "later: what a change does at later tokens is not computed",
        "lm/later.py",
        "        return model.unembed(x[self.rows, self.ends])",
        "        return model.unembed(x[self.rows, 0])",
        tests=(f"{LATER}[heads-middle]",),
    ),
    Mutant(
        "ablation: parts are replaced by themselves",
        "lm/later.py",
        "        return (there.sum(0) - there) / (len(there) - 1)",
        "        return there",
        claims=("lm-one-layer",),
        tests=(
            f"{WHERE}ablation_finds_what_was_put_there",
            "lm/test_later.py::test_means_are_those_of_the_other_prompts",
        ),
    ),
    Mutant(
        "where: the layer is chosen by the most that is left",
        "studies/lm/where_claims.py",
        "    return int(facts.right(what)[:, ~facts.held].mean(1).argmin())",
        "    return int(facts.right(what)[:, ~facts.held].mean(1).argmax())",
        claims=("lm-one-layer",),
        tests=(f"{WHERE}one_layer_holds_and_fails",),
    ),
    Mutant(
        "parts: the last norm's gain is left out",
        "lm/parts.py",
        "    read = direction * model.g * scale(run.final, c.eps)[:, None]",
        "    read = direction * scale(run.final, c.eps)[:, None]",
        claims=("lm-contrast@quick",),
        tests=(f"{WHERE}parts_sum_to_the_margin_which_is_that_of_the_logits",),
    ),
    Mutant(
        "parts: the runner-up is the answer",
        "lm/ablation.py",
        "    logits[np.arange(len(own)), own] = -np.inf",
        "    logits[np.arange(len(own)), own] = np.inf",
        claims=("lm-contrast@quick",),
        tests=(f"{WHERE}parts_sum_to_the_margin_which_is_that_of_the_logits",),
    ),
    Mutant(
        "matrices: values without the norm's gain",
        "lm/model.py",
        '        W_V = w["W_V"].reshape(c.G, c.d_h, c.d) * w["g_A"]',
        '        W_V = w["W_V"].reshape(c.G, c.d_h, c.d)',
        tests=("lm/test_model.py::test_one_token_alone_is_read_by_w_ov",),
        why="lm-matrix-capitals does not see it: it holds without these gains too.",
    ),
    Mutant(
        "matrices: transposed",
        "lm/matrices.py",
        "        return np.asarray(right(self.keys @ W.T @ self.outputs.T, self.f))",
        "        return np.asarray(right(self.keys @ W @ self.outputs.T, self.f))",
        claims=("lm-matrix-recalls", "lm-matrix-capitals"),
        tests=("studies/lm/test_memory_matrix.py::test_the_planted_matrix_recalls_what_is_known",),
    ),
    Mutant(
        "memory matrix: the layer that recalls least is chosen",
        "studies/lm/memory_claims.py",
        "    return int(np.nanmean(shares, axis=0).argmax())",
        "    return int(np.nanmean(shares, axis=0).argmin())",
        claims=("lm-matrix-recalls", "lm-matrix-capitals"),
        tests=("studies/lm/test_memory_matrix.py::test_recall_holds_and_fails",),
    ),
    Mutant(
        "truncated: the smallest singular values are kept",
        "measure/truncate.py",
        "(left[:, :r] * s[:r]) @ right[:r]).astype",
        "(left[:, -r:] * s[-r:]) @ right[-r:]).astype",
        claims=("lm-matrix-rank@quick",),
        tests=("lm/test_truncation.py::test_a_rank_is_that_of_the_matrix_and_nothing_is_nearer",),
    ),
    Mutant(
        "truncated: singular values are left out",
        "measure/truncate.py",
        "left, s, right = np.linalg.svd(kept.astype(np.float64), full_matrices=False)",
        "left, s, right = (np.sign(part) for part in np.linalg.svd(kept.astype(np.float64), full_matrices=False))",
        claims=("lm-matrix-rank@quick",),
        tests=("lm/test_truncation.py::test_a_rank_is_that_of_the_matrix_and_nothing_is_nearer",),
    ),
)
