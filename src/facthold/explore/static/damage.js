// Three ways to break a model: noise on its weights, few bits per weight, and matrices of low rank. Each is what the
// library does (quantise.py, truncate.py), so that the same facts fall.

import { bestRank, singular } from "facthold/linear";

export const MATRICES = { W_OV: "what heads read and write (W_OV)", "mlp.W": "what neurons read (W)", "mlp.V": "what neurons write (V)" };
const single = Math.fround;

/** Uniform numbers from 0 to 1 by a seed: a small generator with a state of 32 bits (mulberry32). */
export function uniform(seed) {
  let state = (seed * 0x9e3779b1 + 0x6d2b79f5) >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

/** Gaussian numbers, by Box and Muller. */
export function gaussian(seed) {
  const draw = uniform(seed);
  return () => Math.sqrt(-2 * Math.log(1 - draw())) * Math.cos(2 * Math.PI * draw());
}

/** Gaussian noise on every array of weights, of this share of the root mean square of that array. */
export function noisy(weights, share, seed) {
  const draw = gaussian(seed), out = {};
  for (const [name, W] of Object.entries(weights)) {
    let squares = 0;
    for (const w of W) squares += w * w;
    const size = share * Math.sqrt(squares / W.length);
    out[name] = Float32Array.from(W, (w) => w + size * draw());
  }
  return out;
}

/** The whole number that is nearest; of two the even one, as NumPy's rint. */
function nearest(x) {
  const low = Math.floor(x), rest = x - low;
  return rest < 0.5 || (rest === 0.5 && low % 2 === 0) ? low : low + 1;
}

/**
 * Every weight at the nearest of L points, equally far apart, from minus to plus the largest weight of its matrix (for
 * each head its own). One bit: the sign alone. All in float32, as the library rounds.
 */
export function rounded(weights, bits, shapes) {
  const L = bits === 1 ? 2 : 2 ** bits - 1, last = (L - 1) / 2, half = L % 2 ? 0 : 0.5, out = {};
  for (const [name, W] of Object.entries(weights)) {
    const length = shapes[name].slice(-2).reduce((a, b) => a * b, 1), to = (out[name] = new Float32Array(W.length));
    for (let from = 0; from < W.length; from += length) {
      let size = 0;
      for (let i = from; i < from + length; i++) size = Math.max(size, Math.abs(W[i]));
      const step = single(size / last);
      for (let i = from; i < from + length; i++) {
        const x = single(last * Math.min(1, Math.max(-1, single(W[i] / (size || 1)))));
        to[i] = step * Math.min(last, Math.max(-last, nearest(single(x - half)) + half));
      }
    }
  }
  return out;
}

/** The largest rank that a matrix can have. */
export function fullRank({ H, d_h, d, m }, name) {
  return name === "W_OV" ? Math.min(d, H * d_h) : Math.min(m, d);
}

/** The weights with one matrix cut to rank r. Of W_OV, what all heads write is projected on r directions. */
export function truncated(model, weights, name, r) {
  const { H, d_h, d, m } = model;
  if (r >= fullRank(model, name)) return weights;
  if (name !== "W_OV") return { ...weights, [name]: Float32Array.from(bestRank(weights[name], m, d, r)) };
  // M = [W_O^1T W_V^1, ...] is d x H d; its left singular vectors are the eigenvectors of M M^T, d x d
  const G = new Float64Array(d * d), W_O = weights.W_O, W_V = weights.W_V;
  for (let h = 0; h < H; h++) {
    for (let i = 0; i < d_h; i++) {
      for (let j = 0; j < d_h; j++) {
        let c = 0;
        for (let k = 0; k < d; k++) c += W_V[(h * d_h + i) * d + k] * W_V[(h * d_h + j) * d + k];
        for (let a = 0; a < d; a++) for (let b = 0; b < d; b++) G[a * d + b] += c * W_O[(h * d_h + i) * d + a] * W_O[(h * d_h + j) * d + b];
      }
    }
  }
  const directions = singular(G, d, d).V.slice(0, r), out = new Float64Array(W_O.length);
  for (let row = 0; row < H * d_h; row++) {
    for (const u of directions) {
      let along = 0;
      for (let k = 0; k < d; k++) along += W_O[row * d + k] * u[k];
      for (let k = 0; k < d; k++) out[row * d + k] += along * u[k];
    }
  }
  return { ...weights, W_O: Float32Array.from(out) };
}
