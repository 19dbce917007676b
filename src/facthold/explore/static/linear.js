// The linear algebra that breaking and mending need: systems of equations, and singular values by rotations.

/** x with A x = b, for a matrix of n x n, by elimination with pivots. A and b stay as they are. */
export function solve(A, b, n = b.length) {
  const L = Float64Array.from(A), x = Float64Array.from(b);
  for (let k = 0; k < n; k++) {
    let pivot = k;
    for (let i = k + 1; i < n; i++) if (Math.abs(L[i * n + k]) > Math.abs(L[pivot * n + k])) pivot = i;
    if (pivot !== k) {
      for (let j = k; j < n; j++) [L[k * n + j], L[pivot * n + j]] = [L[pivot * n + j], L[k * n + j]];
      [x[k], x[pivot]] = [x[pivot], x[k]];
    }
    for (let i = k + 1; i < n; i++) {
      const factor = L[i * n + k] / L[k * n + k];
      if (factor === 0) continue;
      for (let j = k + 1; j < n; j++) L[i * n + j] -= factor * L[k * n + j];
      x[i] -= factor * x[k];
    }
  }
  for (let k = n - 1; k >= 0; k--) {
    for (let j = k + 1; j < n; j++) x[k] -= L[k * n + j] * x[j];
    x[k] /= L[k * n + k];
  }
  return x;
}

/** A with this share of its mean diagonal added to each entry of it: what no row uses would make it singular. */
export function ridged(A, n, share) {
  const out = Float64Array.from(A);
  let trace = 0;
  for (let i = 0; i < n; i++) trace += A[i * n + i];
  const more = Math.max((share * trace) / n, 1e-300);
  for (let i = 0; i < n; i++) out[i * n + i] += more;
  return out;
}

/** sum_j w_j h_j h_j^T of n rows of q numbers; w: one number a row. */
export function gram(h, n, q, w) {
  const G = new Float64Array(q * q);
  for (let j = 0; j < n; j++) {
    if (w[j] === 0) continue;
    for (let a = 0; a < q; a++) {
      const x = w[j] * h[j * q + a];
      if (x !== 0) for (let b = 0; b <= a; b++) G[a * q + b] += x * h[j * q + b];
    }
  }
  for (let a = 0; a < q; a++) for (let b = 0; b < a; b++) G[b * q + a] = G[a * q + b];
  return G;
}

const SWEEPS = 60, ENOUGH = 1e-15; // rotations end where all columns are orthogonal up to rounding

/**
 * Singular values of A (n x m, n >= m), largest first, by one-sided rotations (Jacobi): columns are turned in pairs
 * until all are orthogonal. {s, B: columns A v_i, V: columns v_i}, so that A = sum_i B_i V_i^T and |B_i| = s_i.
 */
export function singular(A, n, m) {
  const B = Array.from({ length: m }, (_, j) => Float64Array.from({ length: n }, (_, i) => A[i * m + j]));
  const V = Array.from({ length: m }, (_, j) => Float64Array.from({ length: m }, (_, i) => (i === j ? 1 : 0)));
  for (let sweep = 0, turned = true; turned && sweep < SWEEPS; sweep++) {
    turned = false;
    for (let p = 0; p < m; p++) {
      for (let q = p + 1; q < m; q++) {
        let a = 0, b = 0, c = 0;
        for (let i = 0; i < n; i++) { a += B[p][i] ** 2; b += B[q][i] ** 2; c += B[p][i] * B[q][i]; }
        if (Math.abs(c) <= ENOUGH * Math.sqrt(a * b) || c === 0) continue;
        turned = true;
        const zeta = (b - a) / (2 * c), t = (zeta < 0 ? -1 : 1) / (Math.abs(zeta) + Math.sqrt(1 + zeta * zeta));
        const cos = 1 / Math.sqrt(1 + t * t), sin = cos * t;
        rotate(B[p], B[q], cos, sin);
        rotate(V[p], V[q], cos, sin);
      }
    }
  }
  const size = B.map((column) => Math.hypot(...column)), order = size.map((_, j) => j).sort((i, j) => size[j] - size[i]);
  return { s: order.map((j) => size[j]), B: order.map((j) => B[j]), V: order.map((j) => V[j]) };
}

function rotate(x, y, cos, sin) {
  for (let i = 0; i < x.length; i++) [x[i], y[i]] = [cos * x[i] - sin * y[i], sin * x[i] + cos * y[i]];
}

/** The matrix of rank r that is nearest to A (n x m): the r largest singular values of it (Eckart and Young). */
export function bestRank(A, n, m, r) {
  if (r >= Math.min(n, m)) return Float64Array.from(A);
  const wide = n < m;
  const T = wide ? Float64Array.from(A, (_, k) => A[(k % n) * m + Math.floor(k / n)]) : A;
  const { B, V } = singular(T, Math.max(n, m), Math.min(n, m)), out = new Float64Array(n * m);
  for (let k = 0; k < r; k++) {
    for (let i = 0; i < n; i++) {
      const left = wide ? V[k][i] : B[k][i], right = wide ? B[k] : V[k];
      for (let j = 0; j < m; j++) out[i * m + j] += left * right[j];
    }
  }
  return out;
}
