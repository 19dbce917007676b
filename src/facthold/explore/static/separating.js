// The best linear memory there is: does any W recall all of these associations? Newton's method on the sum over all
// pairs (x, y) of max(0, 1 - margin)^2, which is convex and 0 somewhere if there is such a W. Where it is stationary and
// not 0, no W has a least margin above |sum lambda a| / sum lambda |a| of its length, lambda being the violations: a
// certificate. `facthold.construct.separate` is the same at larger sizes.

import { dot, inverse, ridged, times, timesTransposed, transposedTimes } from "facthold/matrices";
import { outerProduct, targetsOf } from "facthold/memories";

const START = 5, STEPS = 40, PRODUCTS = 1500, AT_ONCE = 400, NO_MARGIN = 1e-7;

export class Separator {
  constructor(problem) {
    this.problem = problem;
    this.targets = targetsOf(problem);
    this.W = outerProduct(problem).map((w) => START * w);
    this.pairs = this.pairsOf(this.W);
    Object.assign(this, { steps: 0, products: 0, bound: 1, status: null });
    this.decide();
  }

  /** All pairs of an input and a rival whose margin is below 1, and by how much. */
  pairsOf(W) {
    const { N, M, d, f, E, U } = this.problem, x = [], y = [], violation = [];
    const Z = timesTransposed(E, W, N, d, d), scores = timesTransposed(Z, U, N, d, M);
    let least = Infinity, loss = 0;
    for (let i = 0; i < N; i++) {
      const own = scores[i * M + f[i]];
      for (let j = 0; j < M; j++) {
        if (j === f[i]) continue;
        const margin = own - scores[i * M + j];
        least = Math.min(least, margin);
        if (margin < 1) {
          x.push(i);
          y.push(j);
          violation.push(1 - margin);
          loss += (1 - margin) ** 2;
        }
      }
    }
    return { x, y, violation, least, loss };
  }

  /** sum over the pairs of lambda (u_f(x) - u_y) e_x^T. */
  combined({ x, y }, lambda) {
    const { N, d, U, E } = this.problem, { targets } = this, rows = new Float64Array(N * d);
    for (let k = 0; k < x.length; k++) {
      const to = x[k] * d, from = y[k] * d, l = lambda[k];
      for (let i = 0; i < d; i++) rows[to + i] += l * (targets[to + i] - U[from + i]);
    }
    return transposedTimes(rows, E, N, d, d);
  }

  /** The Hessian's product with V. */
  hessian(pairs, V) {
    const { N, d, U, E } = this.problem, { targets } = this, Z = timesTransposed(E, V, N, d, d);
    const along = pairs.x.map((x, k) => {
      const at = x * d, other = pairs.y[k] * d;
      let sum = 0;
      for (let i = 0; i < d; i++) sum += Z[at + i] * (targets[at + i] - U[other + i]);
      return sum;
    });
    return this.combined(pairs, along);
  }

  /** Inverses of the two covariances that the Hessian would be the product of, if inputs and outputs of the pairs were
   * independent. */
  conditioner({ x, y }) {
    const { d, U, E } = this.problem, { targets } = this;
    const ofOutputs = new Float64Array(d * d), ofInputs = new Float64Array(d * d), a = new Float64Array(d);
    for (let k = 0; k < x.length; k++) {
      for (let i = 0; i < d; i++) a[i] = targets[x[k] * d + i] - U[y[k] * d + i];
      const e = E.subarray(x[k] * d, (x[k] + 1) * d);
      for (let i = 0; i < d; i++) {
        for (let j = 0; j < d; j++) {
          ofOutputs[i * d + j] += a[i] * a[j];
          ofInputs[i * d + j] += e[i] * e[j];
        }
      }
    }
    const [left, right] = [ofOutputs, ofInputs].map((A) => inverse(ridged(A, d, 1e-3), d));
    return (G) => times(times(left, G, d, d, d), right, d, d, d);
  }

  /** P with H P close to G, by conjugate gradients. */
  direction(pairs, G, accuracy, most) {
    const size = Math.sqrt(dot(G, G)), rest = G.slice(), P = new Float64Array(G.length), better = this.conditioner(pairs);
    let along = better(rest), before = dot(rest, along);
    for (let n = 0; n < most && Math.sqrt(dot(rest, rest)) > accuracy * size; n++) {
      const product = this.hessian(pairs, along), curvature = dot(along, product);
      this.products += 1;
      if (!(curvature > 0)) break;
      for (let i = 0; i < P.length; i++) {
        P[i] += (before / curvature) * along[i];
        rest[i] -= (before / curvature) * product[i];
      }
      const conditioned = better(rest), now = dot(rest, conditioned), share = now / before;
      for (let i = 0; i < P.length; i++) along[i] = conditioned[i] + share * along[i];
      before = now;
    }
    return P;
  }

  /** Whether it is known by now: 'separated', 'inseparable' or 'not decided'; null goes on. */
  decide() {
    const { pairs, problem: { d, U, E }, targets } = this, rounding = 4 * (d + 2) * 2 ** -52;
    if (pairs.least > rounding * Math.sqrt(dot(this.W, this.W))) return (this.status = "separated");
    this.G = this.combined(pairs, pairs.violation);
    let lengths = 0;
    for (let k = 0; k < pairs.x.length; k++) {
      let a = 0, e = 0;
      for (let i = 0; i < d; i++) {
        a += (targets[pairs.x[k] * d + i] - U[pairs.y[k] * d + i]) ** 2;
        e += E[pairs.x[k] * d + i] ** 2;
      }
      lengths += pairs.violation[k] * Math.sqrt(a * e);
    }
    this.bound = Math.min(this.bound, Math.sqrt(dot(this.G, this.G)) / lengths);
    if (this.bound <= NO_MARGIN) return (this.status = "inseparable");
    return (this.status = this.steps >= STEPS || this.products >= PRODUCTS ? "not decided" : null);
  }

  /** One step of Newton's method, shortened until the loss has fallen enough. */
  step() {
    if (this.status) return;
    const { pairs, G } = this, most = Math.min(AT_ONCE, PRODUCTS - this.products);
    const P = this.direction(pairs, G, Math.min(0.1, Math.sqrt(this.bound)), most), along = dot(G, P);
    for (let length = 1; ; ) {
      const W = this.W.map((w, i) => w + length * P[i]), there = this.pairsOf(W), slope = -2 * along * length;
      if (there.loss <= pairs.loss + 1e-4 * slope || length < 1e-8) {
        Object.assign(this, { W, pairs: there });
        break;
      }
      length *= Math.min(0.5, Math.max(0.1, -slope / (2 * (there.loss - pairs.loss - slope))));
    }
    this.steps += 1;
    this.decide();
  }
}
