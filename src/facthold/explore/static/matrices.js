// Products and inverses of small dense matrices, as Float64Array by rows.

/** A B, of n x k and k x m. */
export function times(A, B, n, k, m) {
  const C = new Float64Array(n * m);
  for (let i = 0; i < n; i++) {
    for (let l = 0; l < k; l++) {
      const a = A[i * k + l];
      if (a !== 0) for (let j = 0; j < m; j++) C[i * m + j] += a * B[l * m + j];
    }
  }
  return C;
}

/** A B^T, of n x k and m x k. */
export function timesTransposed(A, B, n, k, m) {
  const C = new Float64Array(n * m);
  for (let i = 0; i < n; i++) {
    for (let j = 0; j < m; j++) {
      let sum = 0;
      for (let l = 0; l < k; l++) sum += A[i * k + l] * B[j * k + l];
      C[i * m + j] = sum;
    }
  }
  return C;
}

/** A^T B, of n x k and n x m. */
export function transposedTimes(A, B, n, k, m) {
  const C = new Float64Array(k * m);
  for (let i = 0; i < n; i++) {
    for (let l = 0; l < k; l++) {
      const a = A[i * k + l];
      if (a !== 0) for (let j = 0; j < m; j++) C[l * m + j] += a * B[i * m + j];
    }
  }
  return C;
}

export function dot(x, y) {
  let sum = 0;
  for (let i = 0; i < x.length; i++) sum += x[i] * y[i];
  return sum;
}

/** A with this share of its mean diagonal added to each entry of it: what no row uses would make it singular. */
export function ridged(A, n, share) {
  const B = Float64Array.from(A);
  let trace = 0;
  for (let i = 0; i < n; i++) trace += A[i * n + i];
  for (let i = 0; i < n; i++) B[i * n + i] += Math.max((share * trace) / n, 1e-300);
  return B;
}

/** The inverse of a symmetric positive definite matrix, by Cholesky's factors. */
export function inverse(A, n) {
  const L = new Float64Array(n * n);
  for (let i = 0; i < n; i++) {
    for (let j = 0; j <= i; j++) {
      let sum = A[i * n + j];
      for (let k = 0; k < j; k++) sum -= L[i * n + k] * L[j * n + k];
      L[i * n + j] = i === j ? Math.sqrt(sum) : sum / L[j * n + j];
    }
  }
  const below = new Float64Array(n * n); // L^-1
  for (let c = 0; c < n; c++) {
    for (let i = c; i < n; i++) {
      let sum = i === c ? 1 : 0;
      for (let k = c; k < i; k++) sum -= L[i * n + k] * below[k * n + c];
      below[i * n + c] = sum / L[i * n + i];
    }
  }
  return transposedTimes(below, below, n, n, n);
}
