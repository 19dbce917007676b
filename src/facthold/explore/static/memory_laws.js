// How many associations a linear memory of d dimensions should hold, from theory alone: nothing here is measured.
//
// The outer product (`facthold.theory.noise`): F(e_x) is u_x and Gaussian noise, one vector for all rivals, each of
// which leans towards it by its own part. Any linear memory (`facthold.theory.sharp`): N Delta(N) = d^2, where
// Delta(N) is the mean number of rivals that are active in the projection on {g_1 >= g_2, ..., g_N}.

import { gaussLegendre } from "facthold/reduced";

const INNER = gaussLegendre(48), GUIDE = 1.3; // the guide line of figure 1, left: 1.3 N ln N = d^2

/** [node, weight] for the mean over a standard normal number, by the roots of the Hermite polynomial. */
function gaussHermite(n) {
  const value = (x, k) => {
    let [below, now] = [0, 1]; // h_j / sqrt(j!)
    for (let j = 0; j < k; j++) [below, now] = [now, (x * now - Math.sqrt(j) * below) / Math.sqrt(j + 1)];
    return now;
  };
  const nodes = [], reach = 2 * Math.sqrt(n) + 1, cells = 400 * n + 1;
  for (let i = 0; i < cells; i++) {
    let low = -reach + (2 * reach * i) / cells, high = -reach + (2 * reach * (i + 1)) / cells;
    if (value(low, n) * value(high, n) > 0) continue;
    for (let turn = 0; turn < 80; turn++) {
      const middle = (low + high) / 2;
      if (value(low, n) * value(middle, n) <= 0) high = middle;
      else low = middle;
    }
    nodes.push((low + high) / 2);
  }
  const weights = nodes.map((x) => value(x, n - 1) ** -2), total = weights.reduce((a, b) => a + b);
  return nodes.map((x, i) => [x, weights[i] / total]);
}

const TARGET = gaussHermite(15), LENGTH = gaussHermite(7), RIVAL = gaussHermite(15);

/** The expected share of N associations that the outer product recalls, each with an output of its own. */
export function outerProductRecall(N, d) {
  if (N <= 2) return 1;
  const variance = (N - 2) / d ** 2, spread = Math.sqrt(variance), freedom = d - 1;
  let total = 0;
  for (const [c, ofTarget] of TARGET) {
    const score = 1 + c * spread;
    for (const [q, ofLength] of LENGTH) {
      const chi = Math.max(1 - 2 / (9 * freedom) + q * Math.sqrt(2 / (9 * freedom)), 1e-3) ** 3; // Wilson and Hilferty
      const rest = variance * freedom * chi, length = Math.sqrt(score ** 2 + rest);
      const along = (c * spread * score + rest) / length;
      let below = 0;
      for (const [b, ofRival] of RIVAL) {
        below += ofRival * shareBelow(score / length, ((b / Math.sqrt(d)) * along) / variance, d);
      }
      total += ofTarget * ofLength * below ** (N - 1);
    }
  }
  return total;
}

/** P(t < top) under a density proportional to (1 - t^2)^((d-3)/2) exp(lean t) on [-1, 1]. */
function shareBelow(top, lean, d) {
  const integral = (low, high) => {
    let sum = 0;
    for (const [node, weight] of INNER) {
      const t = low + ((high - low) * (node + 1)) / 2;
      sum += weight * Math.exp(((d - 3) / 2) * Math.log1p(-t * t) + lean * t - Math.abs(lean));
    }
    return sum * (high - low);
  };
  const below = integral(-1, top), above = integral(top, 1);
  return below / (below + above);
}

/** The N of which the outer product recalls this share. */
export function outerProductHolds(d, share) {
  return bisect((N) => outerProductRecall(N, d) - share, 2, 4 * d * d);
}

/** The N of the paper's guide line for trained memories, at 99% recall. */
export function guideLine(d) {
  return bisect((N) => d * d - GUIDE * N * Math.log(N), 1, d * d + 2);
}

/** The N up to which some linear memory recalls all: N Delta(N) = d^2. */
export function separable(d) {
  return bisect((N) => d * d - N * activeRivals(N), 2, 2 * d * d);
}

/** The largest root of a function that falls, between two numbers, to a millionth. */
function bisect(falling, low, high) {
  if (falling(low) <= 0) return low;
  while (high / low > 1 + 1e-6) {
    const middle = Math.sqrt(low * high);
    if (falling(middle) > 0) low = middle;
    else high = middle;
  }
  return Math.sqrt(low * high);
}

const REACH = 14, NODES = 561; // of the trapezoidal rule, which is exact to rounding for such smooth integrands
const TERMS = 48, WIDTH = Math.sqrt(TERMS / Math.SQRT2); // of a series for the complex error function (Weideman, 1994)
const SERIES = Array.from({ length: TERMS }, (_, n) => {
  let sum = 0;
  for (let k = 1 - 2 * TERMS; k < 2 * TERMS; k++) {
    const angle = (k * Math.PI) / (2 * TERMS), t = WIDTH * Math.tan(angle / 2);
    sum += Math.exp(-t * t) * (WIDTH ** 2 + t * t) * Math.cos((n + 1) * angle);
  }
  return sum / (4 * TERMS);
});

/** exp(w^2 / 2) Phi(w) for w = -a + i y with a >= 0, as [real, imaginary]. */
function scaledPhi(a, y) {
  const re = WIDTH - a / Math.SQRT2, im = y / Math.SQRT2; // L + i z for z = -i w / sqrt(2)
  const down = [WIDTH + a / Math.SQRT2, -im], inverse = divided([1, 0], down), ratio = divided([re, im], down);
  let [p, q] = [0, 0];
  for (let n = TERMS - 1; n >= 0; n--) [p, q] = [p * ratio[0] - q * ratio[1] + SERIES[n], p * ratio[1] + q * ratio[0]];
  const once = [2 * p * inverse[0] - 2 * q * inverse[1] + 1 / Math.sqrt(Math.PI), 2 * p * inverse[1] + 2 * q * inverse[0]];
  return [(once[0] * inverse[0] - once[1] * inverse[1]) / 2, (once[0] * inverse[1] + once[1] * inverse[0]) / 2];
}

function divided([a, b], [c, d]) {
  const square = c * c + d * d;
  return [(a * c + b * d) / square, (b * c - a * d) / square];
}

const logPhi = (t) => {
  const tail = Math.exp((-t * t) / 2) * scaledPhi(Math.abs(t), 0)[0];
  return t < 0 ? Math.log(scaledPhi(-t, 0)[0]) - (t * t) / 2 : Math.log1p(-tail);
};
const POINTS = Array.from({ length: NODES }, (_, i) => -REACH + (2 * REACH * i) / (NODES - 1));
const STEP = (2 * REACH) / (NODES - 1);
const LOG_PHI = POINTS.map(logPhi);
const aboveMean = [];

/** q_k: the probability that k of k + 1 independent normal numbers lie above the mean of all. */
function logAboveMean(k) {
  if (k in aboveMean) return aboveMean[k];
  const shift = Math.sqrt(k), terms = POINTS.map((y) => {
    const [p, q] = scaledPhi(shift, y);
    // w^2 / 2 + k ln(exp(w^2 / 2) Phi(w)), and the sum of its real exponentials
    return [(k - y * y) / 2 + (k * Math.log(p * p + q * q)) / 2, -shift * y + k * Math.atan2(q, p)];
  });
  const top = Math.max(...terms.map(([log]) => log));
  const sum = terms.reduce((total, [log, angle]) => total + Math.exp(log - top) * Math.cos(angle), 0);
  return (aboveMean[k] = Math.log(sum * STEP) + top + Math.log((k + 1) / (2 * Math.PI)) / 2);
}

/** Delta(N), the mean number of active rivals: sum_k k binom(N - 1, k) q_k E[Phi(t)^(N-1-k)], t ~ N(0, 1/(k+1)). */
export function activeRivals(N) {
  const most = Math.min(Math.ceil(N) - 1, 30 + Math.ceil(6 * Math.log(N)));
  let mean = 0, choices = 0;
  for (let k = 1; k <= most; k++) {
    choices += Math.log((N - k) / k);
    const logs = POINTS.map((t, i) => (N - 1 - k) * LOG_PHI[i] - ((k + 1) * t * t) / 2), top = Math.max(...logs);
    const log = top + Math.log(logs.reduce((sum, x) => sum + Math.exp(x - top), 0) * STEP);
    mean += k * Math.exp(choices + logAboveMean(k) + log + Math.log((k + 1) / (2 * Math.PI)) / 2);
  }
  return mean;
}
