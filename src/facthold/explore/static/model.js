// The forward pass of the transformer: the same function as facthold's forward.py, in float64 on float32 weights.
// F_TF = F_MHSA + MLP(F_MHSA) at the last token (equations 4 to 6); logits are products with U.

import { Table } from "facthold/table";

/** sigma by its name: "relu", or "hermite:c_0,c_1,..." (orthonormal Hermite polynomials h_k). */
export function activation(name) {
  if (name === "relu") return (x) => Math.max(x, 0);
  const c = name.slice("hermite:".length).split(",").map(Number);
  return (x) => {
    let before = 0, now = 1, sum = c[0];
    for (let j = 0; j + 1 < c.length; j++) {
      [before, now] = [now, (x * now - Math.sqrt(j) * before) / Math.sqrt(j + 1)];
      sum += c[j + 1] * now;
    }
    return sum;
  };
}

/** out (n x q) += A (n x p) B^T, B of shape q x p: in tiles of 4 x 2, so that what is read is used several times. */
export function addProduct(out, A, B, n, p, q) {
  const rows = n - (n % 4), columns = q - (q % 2);
  for (let i = 0; i < rows; i += 4) {
    const a0 = i * p, a1 = a0 + p, a2 = a1 + p, a3 = a2 + p, o0 = i * q, o1 = o0 + q, o2 = o1 + q, o3 = o2 + q;
    for (let j = 0; j < columns; j += 2) {
      let s00 = 0, s10 = 0, s20 = 0, s30 = 0, s01 = 0, s11 = 0, s21 = 0, s31 = 0;
      for (let k = 0, b0 = j * p, b1 = b0 + p; k < p; k++) {
        const v = B[b0 + k], w = B[b1 + k], x0 = A[a0 + k], x1 = A[a1 + k], x2 = A[a2 + k], x3 = A[a3 + k];
        s00 += x0 * v; s10 += x1 * v; s20 += x2 * v; s30 += x3 * v;
        s01 += x0 * w; s11 += x1 * w; s21 += x2 * w; s31 += x3 * w;
      }
      out[o0 + j] += s00; out[o1 + j] += s10; out[o2 + j] += s20; out[o3 + j] += s30;
      out[o0 + j + 1] += s01; out[o1 + j + 1] += s11; out[o2 + j + 1] += s21; out[o3 + j + 1] += s31;
    }
    addPart(out, A, B, p, q, i, i + 4, columns, q);
  }
  addPart(out, A, B, p, q, rows, n, 0, q);
  return out;
}

/** What is left over beside the tiles. Each sum runs in the same order, so that equal rows have equal products. */
function addPart(out, A, B, p, q, fromRow, toRow, fromColumn, toColumn) {
  for (let i = fromRow; i < toRow; i++) {
    for (let j = fromColumn; j < toColumn; j++) {
      let s = 0;
      for (let k = 0; k < p; k++) s += A[i * p + k] * B[j * p + k];
      out[i * q + j] += s;
    }
  }
}

export function transposed(A, n, m) {
  const out = new Float64Array(n * m);
  for (let i = 0; i < n; i++) for (let j = 0; j < m; j++) out[j * n + i] = A[i * m + j];
  return out;
}

const WEIGHTS = ["W_K", "W_Q", "W_V", "W_O", "mlp.W", "mlp.V", "mlp.b"];

export class Model {
  /** `weights` are the float32 arrays by their names; `task` is what no change of weights changes. */
  constructor(weights, task) {
    Object.assign(this, { weights, task });
    const { H, d_h, d, m, phi, nTokens, EOS, scaled } = task;
    Object.assign(this, { H, d_h, d, m, EOS, M: task.M, sigma: task.sigma });
    const wide = (name) => Float64Array.from(weights[name] ?? []);
    this.W_V = wide("W_V"); this.W_O = wide("W_O"); this.W = wide("mlp.W"); this.V = wide("mlp.V");
    this.b = weights["mlp.b"] ? wide("mlp.b") : new Float64Array(m);
    this.W_OT = transposed(this.W_O, H * d_h, d); // rows are what products run over
    this.VT = transposed(this.V, m, d);
    this.U = task.U;
    const W_K = wide("W_K"), W_Q = wide("W_Q"), query = phi.subarray(EOS * d, (EOS + 1) * d), scale = scaled ? d_h ** -0.5 : 1;
    this.keys = new Float64Array(H * d); // W_K^T W_Q phi(EOS): a token's score is its product with phi(z)
    for (let h = 0; h < H; h++) {
      for (let i = 0; i < d_h; i++) {
        const at = (h * d_h + i) * d;
        let q = 0;
        for (let k = 0; k < d; k++) q += W_Q[at + k] * query[k];
        for (let k = 0; k < d; k++) this.keys[h * d + k] += W_K[at + k] * q;
      }
    }
    for (let k = 0; k < H * d; k++) this.keys[k] *= scale;
    // A score and a value depend on the token alone: two tables over all tokens, made once.
    this.scores = addProduct(new Float64Array(nTokens * H), phi, this.keys, nTokens, d, H);
    this.values = addProduct(new Float64Array(nTokens * H * d_h), phi, this.W_V, nTokens, d, H * d_h);
  }

  /** The model of a file, and its facts. */
  static of({ arrays, about, text }) {
    const of = (name) => arrays[`model.${name}`]?.data;
    const weights = Object.fromEntries(WEIGHTS.filter(of).map((name) => [name, of(name)]));
    const [H, d_h, d] = arrays["model.W_K"].shape, m = arrays["model.mlp.W"]?.shape[0] ?? 0;
    const { S, R, A, T, outputs, labels } = about.problem;
    const phi = Float64Array.from(arrays["problem.phi"].data), V = phi.length / d, nTokens = V - A;
    // what can be said: the answers first, then (over the whole vocabulary) all tokens of prompts
    const answers = phi.subarray(nTokens * d), U = new Float64Array(outputs === "answers" ? A * d : V * d);
    U.set(answers);
    if (outputs !== "answers") U.set(phi.subarray(0, nTokens * d), A * d);
    const columns = Object.fromEntries(["subjects", "relations", "answers"].map((name) => [name, arrays[`problem.${name}`].data]));
    const table = new Table({ S, R, A, columns, also: Array.from(arrays["problem.also"]?.data ?? []), labels });
    const task = {
      H, d_h, d, m, S, R, A, T, outputs, phi, nTokens, EOS: nTokens - 1, nNoise: nTokens - S - R - 1, U, M: U.length / d,
      scaled: about.settings.scaled, sigma: about.settings["mlp.sigma"] ?? "relu", file: { arrays, about, text },
    };
    task.sigmaName = task.sigma;
    task.sigma = activation(task.sigma);
    return { model: new Model(weights, task), table };
  }

  /** The same model with some arrays of weights in the place of its own. */
  with(weights) {
    return new Model({ ...this.weights, ...weights }, this.task);
  }

  get parameters() {
    return 4 * this.H * this.d * this.d_h + 2 * this.m * this.d;
  }

  /** All that is computed for one prompt: attention (T x H), heads, what each writes (H x d), x, hidden, F, logits. */
  ask(tokens) {
    const { H, d_h, d, m } = this, T = tokens.length;
    const attention = this.attention(tokens), heads = new Float64Array(H * d_h);
    for (let t = 0; t < T; t++) {
      const value = tokens[t] * H * d_h;
      for (let h = 0; h < H; h++) for (let i = 0; i < d_h; i++) heads[h * d_h + i] += attention[t * H + h] * this.values[value + h * d_h + i];
    }
    const written = new Float64Array(H * d), x = new Float64Array(d);
    for (let h = 0; h < H; h++) {
      for (let i = 0; i < d_h; i++) for (let k = 0; k < d; k++) written[h * d + k] += heads[h * d_h + i] * this.W_O[(h * d_h + i) * d + k];
    }
    addProduct(x, heads, this.W_OT, 1, H * d_h, d);
    const hidden = this.hidden(x, 1), F = x.slice();
    addProduct(F, hidden, this.VT, 1, m, d);
    return { attention, heads, written, x, hidden, F, logits: this.logits(F) };
  }

  /** How much each head attends to each position: softmax over the prompt. */
  attention(tokens) {
    const { H } = this, T = tokens.length, weights = new Float64Array(T * H);
    for (let h = 0; h < H; h++) {
      let top = -Infinity, sum = 0;
      for (let t = 0; t < T; t++) top = Math.max(top, this.scores[tokens[t] * H + h]);
      for (let t = 0; t < T; t++) sum += weights[t * H + h] = Math.exp(this.scores[tokens[t] * H + h] - top);
      for (let t = 0; t < T; t++) weights[t * H + h] /= sum;
    }
    return weights;
  }

  /** sigma(W x + b) of n rows x. */
  hidden(x, n) {
    const { m, d, b, sigma } = this, out = new Float64Array(n * m);
    for (let i = 0; i < n; i++) out.set(b, i * m);
    addProduct(out, x, this.W, n, d, m);
    for (let i = 0; i < out.length; i++) out[i] = sigma(out[i]);
    return out;
  }

  logits(F) {
    return addProduct(new Float64Array(this.M), F, this.U, 1, this.d, this.M);
  }

  /** What an output is called: an answer by its name, another token with its kind. */
  outputName(output, table) {
    if (output < 0) return "nothing";
    if (output < this.task.A) return table.names.answers[output];
    const name = this.tokenName(output - this.task.A, table);
    return table.names.answers.includes(name) ? `token ${name}` : name;
  }

  /** What a token of a prompt is called. */
  tokenName(token, table) {
    const { S, R, EOS } = this.task;
    if (token < S) return `subject ${table.names.subjects[token]}`;
    if (token < S + R) return `relation ${table.names.relations[token - S]}`;
    return token === EOS ? "EOS" : `noise ${token - S - R}`;
  }
}

/** One question, judged as facthold's judge.py does: a right answer has to be strictly above all others. */
export function verdict(logits, right) {
  let own = -Infinity, answer = -1, rival = -1, against = -Infinity, next = -Infinity, second = -1;
  const isRight = new Set(right);
  for (const a of right) if (logits[a] > own) [own, answer] = [logits[a], a];
  for (let y = 0; y < logits.length; y++) {
    if (isRight.has(y)) continue;
    if (logits[y] > against) { next = against; second = rival; against = logits[y]; rival = y; }
    else if (logits[y] > next) { next = logits[y]; second = y; }
  }
  // what is not in the table is judged by what is said over the runner-up
  if (answer < 0) return { said: rival, answer, rival: second, margin: against - next, right: null };
  return { said: against > own ? rival : answer, answer, rival, margin: rival < 0 ? Infinity : own - against, right: own > against };
}
