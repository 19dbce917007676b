// All facts at once: every fact asked in a prompt of its own, and judged. It works in slices, so that the page stays
// alive, and keeps what the heads put out, which only other attention weights or other noise change.

import { addProduct } from "facthold/model";
import { everyPrompt } from "facthold/prompts";

export const BLOCK = 32; // facts at a time: their states fit in a cache
const SLICE = 24; // milliseconds of work after which the page may do something else
const kept = new WeakMap(); // model -> {key, heads}

/** The heads' outputs at prompts of T tokens, for facts from..to: n x (H d_h). */
export function headsOf(model, tokens, T, from, to, out) {
  const { H, d_h, scores, values } = model, weights = new Float64Array(T), width = H * d_h;
  for (let n = from; n < to; n++) {
    const first = n * T;
    for (let h = 0; h < H; h++) {
      let top = -Infinity, sum = 0;
      for (let t = 0; t < T; t++) {
        const s = scores[tokens[first + t] * H + h];
        if (s > top) top = s;
      }
      for (let t = 0; t < T; t++) sum += weights[t] = Math.exp(scores[tokens[first + t] * H + h] - top);
      for (let i = 0; i < d_h; i++) {
        let v = 0;
        for (let t = 0; t < T; t++) v += weights[t] * values[tokens[first + t] * width + h * d_h + i];
        out[n * width + h * d_h + i] = v / sum;
      }
    }
  }
}

/** Whether nothing of the model is taken away. */
export const whole = (a) => !a || !(a.heads?.size || a.neurons?.size || a.direct || a.mlp);

/**
 * F of a block of facts, with parts taken away. `ablation`: {heads, neurons: Set, direct, mlp: whether all that heads
 * add directly, or the MLP, is gone, means: {heads, hidden} for what takes their place (none: zero)}.
 */
export function statesOf(model, heads, n, ablation) {
  const { H, d_h, d, m, W_OT, VT } = model, width = H * d_h, a = ablation ?? {}, means = a.means;
  let used = heads;
  if (a.heads?.size) {
    used = heads.slice();
    for (const h of a.heads) for (let i = 0; i < n; i++) for (let j = 0; j < d_h; j++) used[i * width + h * d_h + j] = means ? means.heads[h * d_h + j] : 0;
  }
  const x = addProduct(new Float64Array(n * d), used, W_OT, n, width, d), hidden = model.hidden(x, n);
  const gone = a.mlp ? Array.from({ length: m }, (_, i) => i) : [...(a.neurons ?? [])];
  for (const i of gone) for (let j = 0; j < n; j++) hidden[j * m + i] = means ? means.hidden[i] : 0;
  let F = x.slice();
  if (a.direct) {
    F = new Float64Array(n * d);
    if (means) for (let j = 0; j < n; j++) F.set(means.x, j * d);
  }
  addProduct(F, hidden, VT, n, m, d);
  return { x, hidden, F };
}

/** Best right answer and best rival of n facts whose F is given; writes what is found into `into`, from row `from` on. */
export function judge(model, table, F, n, from, into) {
  const { M, U, d } = model, logits = addProduct(new Float64Array(n * M), F, U, n, d, M);
  for (let j = 0; j < n; j++) {
    const row = from + j, at = j * M, right = table.right(row);
    let own = -Infinity, answer = -1, rival = -1, against = -Infinity;
    for (const a of right) {
      if (logits[at + a] > own) { own = logits[at + a]; answer = a; }
    }
    for (const a of right) logits[at + a] = -Infinity;
    for (let y = 0; y < M; y++) {
      if (logits[at + y] > against) { against = logits[at + y]; rival = y; }
    }
    into.right[row] = answer;
    into.rival[row] = rival;
    into.said[row] = against > own ? rival : answer;
    into.margin[row] = rival < 0 ? Infinity : own - against;
  }
}

/** The heads' outputs of all facts, from what is kept where it fits. */
function allHeads(model, table, seed, k) {
  const key = `${seed},${k},${table.n}`;
  let own = kept.get(model);
  if (own?.key !== key) {
    const T = k + 3;
    own = { key, T, tokens: everyPrompt(model.task, table, seed, k), heads: new Float64Array(table.n * model.H * model.d_h), done: 0 };
    kept.set(model, own);
  }
  return own;
}

/** The means over all facts of what heads and neurons put out, and of x: what takes the place of a part. */
export function meansOf(model, table, seed, k) {
  const own = allHeads(model, table, seed, k), width = model.H * model.d_h, { d, m } = model, n = table.n;
  if (own.means) return own.means;
  if (own.done < n) headsOf(model, own.tokens, own.T, own.done, n, own.heads);
  own.done = n;
  const means = { heads: new Float64Array(width), hidden: new Float64Array(m), x: new Float64Array(d) };
  for (let from = 0; from < n; from += BLOCK) {
    const size = Math.min(BLOCK, n - from), { x, hidden } = statesOf(model, own.heads.subarray(from * width, (from + size) * width), size);
    for (let j = 0; j < size; j++) {
      for (let i = 0; i < m; i++) means.hidden[i] += hidden[j * m + i] / n;
      for (let i = 0; i < d; i++) means.x[i] += x[j * d + i] / n;
      for (let i = 0; i < width; i++) means.heads[i] += own.heads[(from + j) * width + i] / n;
    }
  }
  return (own.means = means);
}

/** The same in one go: for tests, and for what is short. */
export function judgeAll(model, table, { seed = 0, noise = model.task.T - 3, ablation = null } = {}) {
  const steps = everyStep(model, table, { seed, noise, ablation });
  let last = steps.next();
  while (!last.done) last = steps.next();
  return last.value;
}

function* everyStep(model, table, { seed, noise, ablation }) {
  const n = table.n, width = model.H * model.d_h, own = allHeads(model, table, seed, noise);
  const found = { said: new Int32Array(n), right: new Int32Array(n), rival: new Int32Array(n), margin: new Float64Array(n), recall: 0, count: 0 };
  for (let from = 0; from < n; from += BLOCK) {
    const to = Math.min(from + BLOCK, n);
    if (own.done < to) { headsOf(model, own.tokens, own.T, own.done, to, own.heads); own.done = to; }
    const { F } = statesOf(model, own.heads.subarray(from * width, to * width), to - from, whole(ablation) ? null : ablation);
    judge(model, table, F, to - from, from, found);
    yield to / n;
  }
  for (let i = 0; i < n; i++) if (found.margin[i] > 0) found.count++;
  found.recall = found.count / n;
  return found;
}

const later = () => new Promise((done) => setTimeout(done, 0));

/**
 * Every fact of a table asked and judged: {said, right, rival, margin, recall, count, seconds}. `current()` says whether
 * somebody still waits for it: where not, it ends with null. `seconds` is the time of the work alone.
 */
export async function everyFact(model, table, options = {}, current = () => true) {
  const steps = everyStep(model, table, { seed: 0, noise: model.task.T - 3, ablation: null, ...options });
  let spent = 0;
  for (;;) {
    const start = performance.now();
    let step;
    do step = steps.next();
    while (!step.done && performance.now() - start < SLICE);
    spent += performance.now() - start;
    if (step.done) return { ...step.value, seconds: spent / 1000 };
    await later();
    if (!current()) return null;
  }
}
