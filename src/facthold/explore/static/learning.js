// Linear attention learns a table of facts (section 5): the logit of a is the sum over tokens z of C(z) W_OV(a, z)
// W_KQ(z), and the loss is that of all prompts at once. All noise tokens have the same weights, so that one stands for
// them and nothing is drawn: the loss is exact at any prompt length T. Weights are rows of tokens: subjects, relations,
// one noise token, EOS.

import { directionOf } from "facthold/optimisers";

export const T = 8, NOISE_TOKENS = 32; // as `facthold watch` has them; neither enters the loss of a balanced table
const LEAST = 1e-200; // a sum of products of exponentials below it may have lost its terms to underflow
const TIE = 1e-6; // log probabilities nearer than this are the same: rounding must not choose an answer

export class Learner {
  /** Every weight starts at alpha, as in figure 5. */
  constructor(table, { alpha = 1e-3, optimiser = "sgd", lr = 0.1, T: length = T, noise = NOISE_TOKENS } = {}) {
    const tokens = table.S + table.R + 2;
    Object.assign(this, { table, tokens, lr, T: length, noise, steps: 0 });
    this.W_OV = new Float64Array(tokens * table.A).fill(alpha);
    this.W_KQ = new Float64Array(tokens).fill(alpha);
    this.G = new Float64Array(tokens * table.A); // the pull of lemma 4, E[C(z) (1(a = a*) - p-hat(a))]
    this.exps = new Float64Array((table.S + table.R) * table.A);
    this.tops = new Float64Array(table.S + table.R); // what was taken out of each row before the exponential
    this.copies = new Float64Array(tokens).fill(1); // how many tokens of the vocabulary a row stands for
    this.copies[tokens - 2] = noise;
    this.direction = directionOf(optimiser, this);
  }

  /** What token z adds to the logit of each answer. */
  theta() {
    return thetaOf(this.W_OV, this.W_KQ, this.table.A);
  }

  /** One step; the loss before it. */
  step() {
    const { table: { A }, tokens, W_OV, W_KQ, G, lr } = this, loss = this.pull();
    const gradient = { W_OV: new Float64Array(tokens * A), W_KQ: new Float64Array(tokens) };
    for (let z = 0; z < tokens; z++) {
      let along = 0;
      for (let a = z * A; a < (z + 1) * A; a++) {
        gradient.W_OV[a] = -W_KQ[z] * G[a];
        along += W_OV[a] * G[a];
      }
      gradient.W_KQ[z] = -along;
    }
    const move = this.direction(gradient);
    for (let i = 0; i < W_OV.length; i++) W_OV[i] -= lr * move.W_OV[i];
    for (let z = 0; z < tokens; z++) W_KQ[z] -= lr * move.W_KQ[z];
    this.steps += 1;
    return loss;
  }

  /** Fill G, and return the loss.
   *
   * exp(x + y) is exp(x) exp(y): with a table of exponentials for each subject and each relation, a prompt costs
   * products alone. Where these underflow, logits are added up first. */
  pull() {
    const { table, exps, tops, G, tokens } = this, { S, R, A, n, subjects, relations, answers } = table;
    const Theta = this.theta(), rows = rowsOf(Theta, this);
    for (let z = 0; z < S + R; z++) {
      let top = -Infinity;
      for (let a = z * A; a < (z + 1) * A; a++) if (rows[a] > top) top = rows[a];
      tops[z] = top;
      for (let a = z * A; a < (z + 1) * A; a++) exps[a] = Math.exp(rows[a] - top);
    }
    G.fill(0);
    let loss = 0;
    for (let i = 0; i < n; i++) {
      const s = subjects[i] * A, r = (S + relations[i]) * A, right = answers[i];
      let Z = 0;
      for (let a = 0; a < A; a++) Z += exps[s + a] * exps[r + a];
      if (!(Z > LEAST)) return this.pullDirectly(rows);
      loss += Math.log(Z) - (rows[s + right] - tops[subjects[i]]) - (rows[r + right] - tops[S + relations[i]]);
      const share = 1 / (n * Z);
      for (let a = 0; a < A; a++) {
        G[s + a] -= share * exps[r + a];
        G[r + a] -= share * exps[s + a];
      }
    }
    for (let a = 0; a < (S + R) * A; a++) G[a] *= exps[a];
    this.addRight();
    return loss / n;
  }

  pullDirectly(rows) {
    const { table, G } = this, { S, A, n, subjects, relations, answers } = table;
    G.fill(0);
    let loss = 0;
    for (let i = 0; i < n; i++) {
      const s = subjects[i] * A, r = (S + relations[i]) * A;
      const log_p = logSoftmax(Float64Array.from({ length: A }, (_, a) => rows[s + a] + rows[r + a]));
      loss -= log_p[answers[i]];
      for (let a = 0; a < A; a++) {
        const p = Math.exp(log_p[a]) / n;
        G[s + a] -= p;
        G[r + a] -= p;
      }
    }
    this.addRight();
    return loss / n;
  }

  /** The right answers, and the rows of noise and EOS, which stand in every prompt. */
  addRight() {
    const { table, G, T: length, noise } = this, { S, R, A, n, subjects, relations, answers } = table;
    for (let i = 0; i < n; i++) {
      G[subjects[i] * A + answers[i]] += 1 / n;
      G[(S + relations[i]) * A + answers[i]] += 1 / n;
    }
    const drawn = (S + R) * A, last = drawn + A;
    for (let r = S; r < S + R; r++) for (let a = 0; a < A; a++) G[last + a] += G[r * A + a];
    for (let a = 0; a < A; a++) G[drawn + a] = ((length - 3) / noise) * G[last + a];
  }
}

export function thetaOf(W_OV, W_KQ, A) {
  const Theta = new Float64Array(W_OV.length);
  for (let z = 0; z < W_KQ.length; z++) for (let a = z * A; a < (z + 1) * A; a++) Theta[a] = W_OV[a] * W_KQ[z];
  return Theta;
}

/** What subjects and relations add, with noise and EOS taken into relations: a prompt is the sum of two rows. */
function rowsOf(Theta, { table: { S, R, A }, T: length }) {
  const rows = Theta.slice(0, (S + R) * A), noise = (S + R) * A;
  for (let r = S; r < S + R; r++) {
    for (let a = 0; a < A; a++) rows[r * A + a] += (length - 3) * Theta[noise + a] + Theta[noise + A + a];
  }
  return rows;
}

export function logSoftmax(logits) {
  let top = -Infinity, sum = 0;
  for (const x of logits) if (x > top) top = x;
  for (const x of logits) sum += Math.exp(x - top);
  const all = top + Math.log(sum);
  return logits.map((x) => x - all);
}

/** log p-hat for the question in row i of the table. */
export function answer(table, Theta, i, length = T) {
  const { S, R, A } = table, s = table.subjects[i] * A, r = (S + table.relations[i]) * A, noise = (S + R) * A;
  const logits = new Float64Array(A);
  for (let a = 0; a < A; a++) {
    logits[a] = Theta[s + a] + Theta[r + a] + (length - 3) * Theta[noise + a] + Theta[noise + A + a];
  }
  return logSoftmax(logits);
}

/** Means over all facts: -log of the mass on the right answer, on the relation's and on the subject's; recall. A tie is
 * no hit. */
export function observe(table, Theta, length = T) {
  const seen = { loss: 0, relation_loss: 0, subject_loss: 0, accuracy: 0 };
  for (let i = 0; i < table.n; i++) {
    const log_p = answer(table, Theta, i, length), right = table.answers[i];
    const sets = { relation: table.sets.relation[table.relations[i]], subject: table.sets.subject[table.subjects[i]] };
    const mass = { relation: 0, subject: 0 };
    let rival = -Infinity;
    for (let a = 0; a < table.A; a++) {
      if (sets.relation[a]) mass.relation += Math.exp(log_p[a]);
      if (sets.subject[a]) mass.subject += Math.exp(log_p[a]);
      if (a !== right && log_p[a] > rival) rival = log_p[a];
    }
    seen.loss -= log_p[right] / table.n;
    seen.relation_loss -= Math.log(mass.relation) / table.n;
    seen.subject_loss -= Math.log(mass.subject) / table.n;
    seen.accuracy += (log_p[right] > rival + TIE ? 1 : 0) / table.n;
  }
  return seen;
}
