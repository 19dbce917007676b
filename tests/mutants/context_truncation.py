"""Faults that the claim on truncation and its tests have to see: in what is cut, what is counted, and who is asked."""

from mutants.harness import AnyMutant, Mutant, RowsMutant

CUT, ATTENDING, NOISY = "measure/test_truncate.py", "measure/test_attending.py", "studies/context/test_truncation.py"
MUTANTS: tuple[AnyMutant, ...] = (
    Mutant(
        "truncation: the smallest singular values are kept",
        "measure/truncate.py",
        "(left[:, :r] * s[:r]) @ right[:r]",
        "(left[:, -r:] * s[-r:]) @ right[-r:]",
        tests=(CUT,),
    ),
    Mutant(
        "truncation: one factor is counted",
        "measure/truncate.py",
        "min(r, full) * (rows + cols)",
        "min(r, full) * rows",
        tests=(CUT,),
    ),
    Mutant(
        "truncation: heads are cut on the side that they read",
        "measure/truncate.py",
        "left, s, _ = np.linalg.svd(np.concatenate([out.T @ value for out, value in heads], axis=1)",
        "left, s, _ = np.linalg.svd(np.concatenate([value.T @ out for out, value in heads], axis=1)",
        tests=(CUT,),
    ),
    Mutant(
        "noisy task: the right output is taken for the noise token",
        "measure/attending.py",
        '"p_noise": p[:, noise_token]',
        '"p_noise": p[t, right]',
        tests=(ATTENDING,),
    ),
    Mutant(
        "noisy task: taught without noise",
        "studies/context/noisy.py",
        "return self.task(noise=self.noise)",
        "return self.task()",
        tests=(NOISY,),
    ),
    Mutant(
        "truncation: full minus truncated",
        "studies/context/noisy.py",
        'at(row, cut, share, name) - row["full"][name]',
        'row["full"][name] - at(row, cut, share, name)',
        claims=("truncation@quick",),
        stored=("noisy-head",),
        tests=(NOISY,),
    ),
    Mutant(
        "truncation: attention is dropped in place of the memory",
        "studies/context/truncation.py",
        'LAST = "F^2"',
        'LAST = "W_OV^2"',
        claims=("truncation@quick",),
        stored=("noisy-head",),
    ),
    RowsMutant("rows of truncation: nothing was cut", "truncation@quick", "uncut"),
)
