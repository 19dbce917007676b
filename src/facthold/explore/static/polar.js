// Singular values and the polar factor U V^T of a matrix, by rotations of pairs of rows (Hestenes, Jacobi): small
// singular values come out as exactly as large ones, which a product of the matrix with itself would lose.

const SWEEPS = 60, EPSILON = 2 ** -52;

/** Rows that are orthogonal to each other, and the rotations that made them: `rotations` times the matrix is `rows`. */
function orthogonalised(matrix, n, m) {
  const rows = Float64Array.from(matrix), rotations = new Float64Array(n * n);
  for (let i = 0; i < n; i++) rotations[i * n + i] = 1;
  const squares = () => Array.from({ length: n }, (_, i) => dot(rows, i * m, i * m, m));
  const nothing = (EPSILON * Math.sqrt(Math.max(...squares()))) ** 2; // rows this short are what rounding leaves
  for (let sweep = 0, turned = true; turned && sweep < SWEEPS; sweep++) {
    turned = false;
    const square = squares();
    for (let i = 0; i < n - 1; i++) {
      for (let j = i + 1; j < n; j++) {
        const across = dot(rows, i * m, j * m, m), long = Math.sqrt(square[i] * square[j]);
        if (!(Math.abs(across) > 4 * EPSILON * long) || Math.min(square[i], square[j]) <= nothing) continue;
        turned = true;
        const half = (square[j] - square[i]) / (2 * across);
        const tangent = (half >= 0 ? 1 : -1) / (Math.abs(half) + Math.hypot(1, half));
        const cosine = 1 / Math.hypot(1, tangent), sine = cosine * tangent;
        rotate(rows, i * m, j * m, m, cosine, sine);
        rotate(rotations, i * n, j * n, n, cosine, sine);
        square[i] = dot(rows, i * m, i * m, m);
        square[j] = dot(rows, j * m, j * m, m);
      }
    }
  }
  return { rows, rotations, lengths: squares().map(Math.sqrt) };
}

function dot(x, i, j, m) {
  let sum = 0;
  for (let k = 0; k < m; k++) sum += x[i + k] * x[j + k];
  return sum;
}

function rotate(x, i, j, m, cosine, sine) {
  for (let k = 0; k < m; k++) {
    const a = x[i + k], b = x[j + k];
    x[i + k] = cosine * a - sine * b;
    x[j + k] = sine * a + cosine * b;
  }
}

export function transpose(matrix, n, m) {
  const turned = new Float64Array(n * m);
  for (let i = 0; i < n; i++) for (let k = 0; k < m; k++) turned[k * n + i] = matrix[i * m + k];
  return turned;
}

/** U V^T of G = U S V^T, n rows and m columns. Singular values that rounding may have made stay 0. */
export function polarFactor(matrix, n, m) {
  if (n > m) return transpose(polarFactor(transpose(matrix, n, m), m, n), m, n);
  const { rows, rotations, lengths } = orthogonalised(matrix, n, m), found = new Float64Array(n * m);
  const least = EPSILON * m * Math.max(...lengths);
  for (let i = 0; i < n; i++) {
    if (!(lengths[i] > least)) continue;
    for (let j = 0; j < n; j++) {
      const share = rotations[i * n + j] / lengths[i];
      if (share !== 0) for (let k = 0; k < m; k++) found[j * m + k] += share * rows[i * m + k];
    }
  }
  return found;
}

/** The singular values, in no order. */
export function singularValues(matrix, n, m) {
  return n > m ? singularValues(transpose(matrix, n, m), m, n) : orthogonalised(matrix, n, m).lengths;
}
