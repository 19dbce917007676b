// A linear memory that is filled one association at a time, by one method, and what it recalls. No page in here.

import { FAMILIAR } from "facthold/fact_tables";
import { judge, leastSquares, outerProduct, problemOf, scoresOf, steadyRate, Trainer } from "facthold/memories";
import { guideLine, outerProductHolds, outerProductRecall, separable } from "facthold/memory_laws";
import { Separator } from "facthold/separating";

export const METHODS = {
  outer: "outer product, W = Σ u eᵀ", least: "least squares", sgd: "trained by gradient descent",
  adam: "trained by Adam", best: "the best matrix there is (solved for)",
};
const ADAM_RATE = 10; // ours, chosen by trying: it stores as much in 300 steps as the paper’s 1000 does in thousands
const ENOUGH = 1e-3; // mean cross entropy at which training rests: all margins are large

/** What a memory holds by theory; `where` is what is to be said of it. */
export function lawOf(method, d) {
  if (method === "outer") {
    return { N: outerProductHolds(d, 0.5), where: "half are recalled at", recall: (N) => outerProductRecall(N, d) };
  }
  if (method === "best") return { N: separable(d), where: "the best matrix recalls all up to N Δ(N) = d²," };
  if (method === "least") return { N: separable(d), where: "no matrix recalls all beyond N Δ(N) = d²," };
  return { N: guideLine(d), where: "the paper’s guide line for 99% is 1.3 N ln N = d²," };
}

/** The largest N that is worth a look. */
export function mostOf(method, d) {
  const { N } = lawOf(method, d);
  return Math.max(12, Math.ceil((method === "outer" ? 3 : method === "least" ? 1.2 : 1.6) * N));
}

export class Store {
  /** `f` names the output of each input that there may be. */
  constructor(f, { method, d, seed, N, steps }) {
    Object.assign(this, { f, method, d, seed, steps, recalls: new Map() });
    this.fill(N);
  }

  /** Store the first N. A trained matrix goes on from where it is. */
  fill(N) {
    this.N = Math.min(N, this.f.length);
    const problem = (this.problem = problemOf(this.f.slice(0, this.N), this.d, this.seed));
    const { method } = this;
    if (method === "outer") this.W = outerProduct(problem);
    else if (method === "least") this.W = leastSquares(problem);
    else if (method === "best") this.solver = new Separator(problem);
    else {
      const lr = method === "sgd" ? steadyRate(problem) : ADAM_RATE;
      this.trainer = new Trainer(problem, { optimiser: method, lr, W: this.trainer?.W });
      this.loss = Infinity;
    }
    this.look();
  }

  /** Whether there is nothing more to do for these N. */
  get done() {
    if (this.method === "best") return this.solver.status !== null;
    return !this.trainer || this.trainer.steps >= this.steps || this.loss < ENOUGH;
  }

  /** One step of training or of solving. */
  step() {
    if (this.done) return;
    if (this.method === "best") this.solver.step();
    else this.loss = this.trainer.step();
  }

  /** What is recalled now. */
  look() {
    if (this.solver) this.W = this.solver.W;
    if (this.trainer) this.W = this.trainer.W;
    this.scores = scoresOf(this.problem, this.W);
    Object.assign(this, judge(this.problem, this.scores));
    if (this.done) this.recalls.set(this.N, this.recall);
  }

  /** Recall at fewer N, for the curve: at once where the matrix has a closed form. */
  fillIn(points = 24) {
    if (this.method !== "outer" && this.method !== "least") return;
    for (let i = 1; i < points; i++) {
      const N = Math.round((this.N * i) / points);
      if (N < 2 || this.recalls.has(N)) continue;
      const problem = problemOf(this.f.slice(0, N), this.d, this.seed);
      const W = this.method === "outer" ? outerProduct(problem) : leastSquares(problem);
      this.recalls.set(N, judge(problem, scoresOf(problem, W)).recall);
    }
  }

  get curve() {
    return [...this.recalls].sort((a, b) => a[0] - b[0]);
  }
}

/** Which facts of a table are stored, by name, each with an answer of its own; numbers after them. */
export function namedAssociations(table, most) {
  const named = [], taken = new Set();
  const place = (name) => (FAMILIAR.indexOf(name) + 1 || FAMILIAR.length + 1) - 1;
  // relation by relation, so that all capitals come first, and the best known of them before the others
  const rank = (i) => (table.relations[i] * (FAMILIAR.length + 1) + place(table.names.subjects[table.subjects[i]])) * table.n + i;
  for (const i of [...Array(table.labels === null ? 0 : table.n).keys()].sort((a, b) => rank(a) - rank(b))) {
    const answer = table.names.answers[table.answers[i]];
    if (taken.has(answer)) continue;
    taken.add(answer);
    named.push({ input: table.question(i), output: answer });
  }
  for (let i = named.length; i < most; i++) named.push({ input: `input ${i + 1}`, output: `output ${i + 1}` });
  return named.slice(0, most);
}
