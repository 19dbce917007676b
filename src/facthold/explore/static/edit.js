// Another answer for one fact, solved for and not trained: one change of rank one, M + k delta^T, in the last linear
// map F = base + h M. What facthold's rank_one.py does, step by step (see there for why), for an answer that exists.

import { BLOCK, headsOf, statesOf } from "facthold/many";
import { everyPrompt, prompt } from "facthold/prompts";
import { solved } from "facthold/rank_one";

const DRAWS = 8, ROWS = 1 << 12; // prompts of each fact that a change is made from, and of all facts together
const OWN_DRAWS = 24; // more prompts of the edited fact: its answer has to be said in all others too
const FEATURES = 1 << 24; // features of all prompts together: more are left to the library

/** Every prompt that the change is made from: features h, F, which of them are the edited fact's, right answers. */
function seen(model, table, row, wins) {
  const { H, d_h, d, m } = model, n = table.n, T = model.task.T, width = H * d_h, q = m || width;
  const least = 2 * n * q <= 1 << 26 ? 2 : 1, draws = Math.min(DRAWS, Math.max(least, Math.floor(ROWS / n)));
  const count = draws * n + OWN_DRAWS, tokens = new Int32Array(count * T), rows = new Int32Array(count);
  if (count * q > FEATURES) throw new Error("this model is too large to be edited in the page; take facthold edit");
  for (let i = 0; i < draws; i++) {
    tokens.set(everyPrompt(model.task, table, i, T - 3), i * n * T);
    for (let j = 0; j < n; j++) rows[i * n + j] = j;
  }
  for (let i = 0; i < OWN_DRAWS; i++) {
    tokens.set(prompt(model.task, table.subjects[row], table.relations[row], draws + i, T - 3), (draws * n + i) * T);
    rows[draws * n + i] = row;
  }
  const h = new Float64Array(count * q), F = new Float64Array(count * d), heads = new Float64Array(count * width);
  headsOf(model, tokens, T, 0, count, heads);
  for (let from = 0; from < count; from += BLOCK) {
    const size = Math.min(BLOCK, count - from), block = heads.subarray(from * width, (from + size) * width);
    const states = statesOf(model, block, size);
    F.set(states.F, from * d);
    h.set(m ? states.hidden : block, from * q);
  }
  const right = Array.from(rows, (r) => (r === row ? [wins] : table.right(r)));
  return { h, F, q, d, count, draws, right, edited: Array.from(rows.keys()).filter((j) => rows[j] === row) };
}

/** Prompts and features that hang together with the edited ones: no prompt inside uses a feature outside. */
function connected({ h, q, count, edited }) {
  const used = new Uint8Array(q), inside = new Uint8Array(count);
  for (const j of edited) inside[j] = 1;
  for (let grown = true; grown; ) {
    grown = false;
    for (let j = 0; j < count; j++) {
      let here = inside[j];
      for (let i = 0; !here && i < q; i++) here = used[i] && h[j * q + i] !== 0 ? 1 : 0;
      if (!here) continue;
      inside[j] = 1;
      for (let i = 0; i < q; i++) if (h[j * q + i] !== 0 && !used[i]) { used[i] = 1; grown = true; }
    }
  }
  const which = (marks) => Array.from(marks.keys()).filter((i) => marks[i]);
  return { prompts: which(inside), columns: which(used) };
}

/** The model with `wins` as the answer to a row of the table, and that table. The change alone is {k, delta}. */
export function edited(model, table, row, wins) {
  const after = table.replaced(row, wins), all = seen(model, after, row, wins), { prompts, columns } = connected(all);
  const { q, d } = all, p = columns.length, h = new Float64Array(prompts.length * p), F = new Float64Array(prompts.length * d);
  if (!p) throw new Error("nothing of the model is on at this question, so that no change of the last map is seen there");
  prompts.forEach((j, a) => {
    columns.forEach((i, b) => { h[a * p + b] = all.h[j * q + i]; });
    F.set(all.F.subarray(j * d, (j + 1) * d), a * d);
  });
  const place = new Map(prompts.map((j, a) => [j, a]));
  const problem = { h, F, n: prompts.length, q: p, d, U: model.U, M: model.M, answer: wins, draws: all.draws, right: prompts.map((j) => all.right[j]), edited: all.edited.map((j) => place.get(j)) };
  const change = solved(problem), name = model.m ? "mlp.V" : "W_O", M = Float32Array.from(model.weights[name]);
  columns.forEach((i, b) => { for (let k = 0; k < d; k++) M[i * d + k] = model.weights[name][i * d + k] + change.k[b] * change.delta[k]; });
  return { model: model.with({ [name]: M }), table: after, name, change };
}

/** In how many of so many fresh prompts a fact is right: with noise that no change was made from. */
export function probed(model, table, row, probes = 50, first = 1 << 20) {
  let right = 0;
  for (let i = 0; i < probes; i++) {
    const { logits } = model.ask(prompt(model.task, table.subjects[row], table.relations[row], first + i, model.task.T - 3));
    const own = Math.max(...table.right(row).map((a) => logits[a])), wrong = new Set(table.right(row));
    if (logits.every((x, y) => wrong.has(y) || x < own)) right++;
  }
  return right / probes;
}

