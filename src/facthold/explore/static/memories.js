// A linear memory W of associations x -> f(x) (section 3): W e_x should be nearer to u_f(x) than to any other u_y. The
// embeddings are on the unit sphere, and W is d x d by rows.

import { inverse, ridged, times, timesTransposed, transposedTimes } from "facthold/matrices";
import { directionOf } from "facthold/optimisers";
import { sphere } from "facthold/random";

export const RIDGE = 1e-6; // share of the mean square that is added where inputs do not fill all dimensions

/** What is to be stored. N inputs; f names their outputs, M of them. More of the same seed begin with the same. */
export function problemOf(f, d, seed) {
  const N = f.length, M = f.reduce((most, y) => Math.max(most, y + 1), 0);
  return { N, M, d, f, E: sphere(N, d, 2 * seed), U: sphere(M, d, 2 * seed + 1) };
}

export function targetsOf({ N, d, f, U }) {
  const targets = new Float64Array(N * d);
  for (let x = 0; x < N; x++) targets.set(U.subarray(f[x] * d, (f[x] + 1) * d), x * d);
  return targets;
}

/** W = sum_x u_f(x) e_x^T (theorem 1). */
export function outerProduct(problem) {
  const { N, d, E } = problem;
  return transposedTimes(targetsOf(problem), E, N, d, d);
}

/** The W of least sum_x |W e_x - u_f(x)|^2. */
export function leastSquares(problem, ridge = RIDGE) {
  const { N, d, E } = problem;
  return times(outerProduct(problem), inverse(ridged(transposedTimes(E, E, N, d, d), d, ridge), d), d, d, d);
}

/** u_y^T W e_x, a row for each input. */
export function scoresOf({ N, M, d, E, U }, W) {
  return timesTransposed(timesTransposed(E, W, N, d, d), U, N, d, M);
}

/** By how much the right output wins against the best other one, and what each input's answer is. */
export function judge({ N, M, f }, scores) {
  const margins = new Float64Array(N), said = new Int32Array(N);
  let right = 0;
  for (let x = 0; x < N; x++) {
    let rival = -Infinity, best = f[x];
    for (let y = 0; y < M; y++) {
      const score = scores[x * M + y];
      if (y !== f[x] && score > rival) [rival, best] = [score, y];
    }
    margins[x] = scores[x * M + f[x]] - rival;
    said[x] = margins[x] > 0 ? f[x] : best;
    right += margins[x] > 0;
  }
  return { margins, said, recall: N ? right / N : 1 };
}

/** Steps on the mean cross entropy of all associations. */
export class Trainer {
  constructor(problem, { optimiser = "sgd", lr, W = null }) {
    Object.assign(this, { lr, steps: 0, W: W ?? new Float64Array(problem.d ** 2) });
    this.direction = directionOf(optimiser, this);
    this.store(problem);
  }

  /** Another problem, from the weights that are there. */
  store(problem) {
    this.problem = problem;
    this.targets = targetsOf(problem);
  }

  /** One step; the loss before it. */
  step() {
    const { problem, targets, W, lr } = this, { N, M, d, f, E, U } = problem;
    const scores = scoresOf(problem, W);
    let loss = 0;
    for (let x = 0; x < N; x++) {
      const row = scores.subarray(x * M, (x + 1) * M), right = row[f[x]], top = row.reduce((a, b) => Math.max(a, b));
      let Z = 0;
      for (let y = 0; y < M; y++) Z += row[y] = Math.exp(row[y] - top);
      loss += Math.log(Z) + top - right;
      for (let y = 0; y < M; y++) row[y] /= Z * N;
    }
    const missing = times(scores, U, N, M, d); // p-hat's mean output less the right one
    for (let i = 0; i < missing.length; i++) missing[i] -= targets[i] / N;
    const move = this.direction({ W: transposedTimes(missing, E, N, d, d) }).W;
    for (let i = 0; i < W.length; i++) W[i] -= lr * move[i];
    this.steps += 1;
    return loss / N;
  }
}

/** A step of gradient descent that is safe: 2 over a bound of the curvature, (1/2) the largest eigenvalue of the mean of
 * e_x e_x^T, which is near (1 + sqrt(d / N))^2 / d. */
export function steadyRate({ N, d }) {
  return (4 * d) / (1 + Math.sqrt(d / Math.max(N, 1))) ** 2;
}
