// k and delta of one change, each by least squares in turn: the port of `_Problem` in facthold's rank_one.py.
//
// The sum over prompts j and rivals b of w_j max(0, tau_j - margin_jb)^2, with a ridge. A prompt with features h moves
// by (h . k) delta, so that its margin over b changes by -(h . k) (u_b - u_a) . delta.

import { addProduct } from "facthold/model";
import { gram, ridged, solve } from "facthold/linear";

const ROUNDS = 8, RIVALS = 16, FLOOR = 0.6, URGENT = 5, RIDGE = 1e-4, STABLE = 1e-8, STEPS = [1, 0.5, 0.25, 0.1], SHORT = 1e-6;

const dot = (a, b, from = 0) => {
  let sum = 0;
  for (let i = 0; i < b.length; i++) sum += a[from + i] * b[i];
  return sum;
};

/** A quantile as NumPy has it: linear between the two nearest. */
export function quantile(values, share) {
  const sorted = Float64Array.from(values).sort(), at = share * (sorted.length - 1), low = Math.floor(at);
  return sorted[low] + (at - low) * ((sorted[low + 1] ?? sorted[low]) - sorted[low]);
}

/** Rows (prompt, right answer) with `width` rivals each, and by how much each pair lacks what it should have. */
function pairsOf({ F, n, d, U, M, answer, draws, right, edited }) {
  const k = Math.min(RIVALS, M), width = k + 1, E = edited.length, others = M - 1, each = Math.ceil(others / width), rows = n + E * each;
  const rivals = new Int32Array(rows * width), lacking = new Float64Array(rows * width).fill(-Infinity);
  const best = new Int32Array(rows), promptOf = new Int32Array(rows), w = new Float64Array(rows).fill(1);
  const scores = addProduct(new Float64Array(n * M), F, U, n, d, M), isEdited = new Set(edited);
  const margins = new Float64Array(n * width), least = new Float64Array(n).fill(Infinity);
  for (let j = 0; j < n; j++) {
    const row = scores.subarray(j * M, (j + 1) * M), isRight = new Set(right[j]);
    let own = -Infinity;
    for (const a of right[j]) if (row[a] > own) { own = row[a]; best[j] = a; }
    promptOf[j] = j;
    const top = [];
    for (let y = 0; y < M; y++) {
      if (isRight.has(y)) continue;
      if (top.length === k && row[y] <= row[top[k - 1]]) continue;
      let at = top.length;
      while (at > 0 && row[top[at - 1]] < row[y]) at--;
      top.splice(at, 0, y);
      if (top.length > k) top.pop();
    }
    for (let c = 0; c < width; c++) {
      const y = c < k ? top[c] ?? answer : answer;
      const there = c < k ? c < top.length : !isRight.has(answer); // where the new answer is right too, it is no rival
      rivals[j * width + c] = y;
      margins[j * width + c] = there ? own - row[y] : Infinity;
      if (margins[j * width + c] < least[j]) least[j] = margins[j * width + c];
    }
  }
  const own = Array.from(least).filter((x, j) => !isEdited.has(j) && Number.isFinite(x) && x > 0);
  const [mu, cap] = own.length ? [quantile(own, 0.05), quantile(own, 0.5)] : [1, 1];
  for (let j = 0; j < n; j++) {
    if (isEdited.has(j)) continue; // they come below, with all rivals
    const tau = Math.min(Math.max(least[j], FLOOR * cap), cap);
    for (let c = 0; c < width; c++) lacking[j * width + c] = tau - margins[j * width + c];
  }
  edited.forEach((j, e) => {
    for (let i = 0; i < each * width; i++) {
      const at = (n + e * each) * width + i, y = i < others ? i + (i >= answer ? 1 : 0) : answer;
      rivals[at] = y;
      lacking[at] = y === answer ? -Infinity : mu - (scores[j * M + answer] - scores[j * M + y]);
    }
    for (let i = 0; i < each; i++) {
      promptOf[n + e * each + i] = j;
      best[n + e * each + i] = answer;
      w[n + e * each + i] = (URGENT * draws) / E;
    }
  });
  return { rows, width, rivals, lacking, best, promptOf, w, mu };
}

/** {k, delta}. `problem`: features h (n x q), F (n x d), U (M x d), the right answers of each prompt, the edited prompts. */
export function solved(problem) {
  const { h, n, q, d, U, M, answer, edited } = problem, pairs = pairsOf(problem);
  const { rows, width, rivals, lacking, best, promptOf, w, mu } = pairs, isEdited = new Set(edited);
  const G = ridged(gram(h, n, q, Float64Array.from({ length: n }, (_, j) => (isEdited.has(j) ? 0 : 1))), q, STABLE);
  const moves = (k) => Float64Array.from({ length: n }, (_, j) => dot(h, k, j * q));
  const leak = (k) => {
    let sum = 0;
    for (let a = 0; a < q; a++) sum += k[a] * dot(G, k, a * q);
    return sum;
  };
  const along = (delta) => Float64Array.from({ length: M }, (_, y) => dot(U, delta, y * d));

  /** Calls visit(row, pair, by how much it falls short, D) for each pair that does. */
  function short(change, visit) {
    const c = moves(change.k), u = along(change.delta);
    for (let row = 0; row < rows; row++) {
      const move = c[promptOf[row]], own = u[best[row]];
      for (let at = row * width, end = at + width; at < end; at++) {
        const D = u[rivals[at]] - own, lack = lacking[at] + move * D;
        if (lack > 0) visit(row, at, lack, D, move);
      }
    }
  }
  function loss(change) {
    let sum = 0;
    short(change, (row, _, lack) => { sum += w[row] * lack * lack; });
    return sum + RIDGE * dot(change.delta, change.delta) * leak(change.k);
  }
  function bestK(change) {
    const weight = new Float64Array(n), wanted = new Float64Array(n), side = new Float64Array(q);
    short(change, (row, at, _, D) => {
      weight[promptOf[row]] += w[row] * D * D;
      wanted[promptOf[row]] -= w[row] * D * lacking[at];
    });
    const A = gram(h, n, q, weight), more = RIDGE * dot(change.delta, change.delta);
    for (let i = 0; i < A.length; i++) A[i] += more * G[i];
    for (let j = 0; j < n; j++) for (let i = 0; i < q; i++) side[i] += h[j * q + i] * wanted[j];
    return { k: solve(ridged(A, q, STABLE), side), delta: change.delta };
  }
  function bestDelta(change) {
    const A = new Float64Array(d * d), wanted = new Float64Array(d), X = new Float64Array(d), ridge = RIDGE * leak(change.k);
    for (let i = 0; i < d; i++) A[i * d + i] = ridge;
    short(change, (row, at, _, __, move) => {
      for (let i = 0; i < d; i++) X[i] = -move * (U[rivals[at] * d + i] - U[best[row] * d + i]);
      for (let a = 0; a < d; a++) {
        const x = w[row] * X[a];
        for (let b = 0; b < d; b++) A[a * d + b] += x * X[b];
        wanted[a] += x * lacking[at];
      }
    });
    return { k: change.k, delta: solve(ridged(A, d, STABLE), wanted) };
  }
  /** k = C^-1 h / (h^T C^-1 h), and delta next to the smallest multiple of u_answer with which it wins. */
  function start() {
    const mean = new Float64Array(q), target = U.subarray(answer * d, (answer + 1) * d);
    for (const j of edited) for (let i = 0; i < q; i++) mean[i] += h[j * q + i] / edited.length;
    const c = solve(G, mean), size = Math.max(dot(mean, c), 1e-300), k = c.map((x) => x / size), u = along(target), move = moves(k);
    let reach = 0;
    for (let row = n; row < rows; row++) {
      for (let at = row * width; at < (row + 1) * width; at++) {
        const gain = (u[answer] - u[rivals[at]]) * move[promptOf[row]];
        reach = Math.max(reach, lacking[at] / Math.max(gain, 0.01 * u[answer]));
      }
    }
    return { k, delta: target.map((x) => (1 - SHORT) * reach * x) };
  }
  /** The change made longer, where the edited fact would not win by half of mu: this one has to be held. */
  function enough(change) {
    const c = moves(change.k), u = along(change.delta);
    let longer = 0;
    for (let row = n; row < rows; row++) {
      for (let at = row * width; at < (row + 1) * width; at++) {
        const gain = -c[promptOf[row]] * (u[rivals[at]] - u[best[row]]), need = lacking[at] - mu / 2;
        if (!(need > gain)) continue;
        if (gain <= 0) return change;
        longer = Math.max(longer, need / gain);
      }
    }
    return longer ? { k: change.k, delta: change.delta.map((x) => x * longer) } : change;
  }

  let change = start(), now = loss(change);
  for (let round = 0; round < ROUNDS; round++) {
    const before = now;
    for (const better of [bestK, bestDelta]) {
      const goal = better(change);
      for (const step of STEPS) {
        const between = (a, b) => a.map((x, i) => x + step * (b[i] - x));
        const tried = { k: between(change.k, goal.k), delta: between(change.delta, goal.delta) }, reached = loss(tried);
        if (reached < now) { change = tried; now = reached; break; }
      }
    }
    if (now > (1 - 1e-6) * before) break;
  }
  return enough(change);
}
