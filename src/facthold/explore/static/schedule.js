// A step of gradient descent that should be stable, from the table alone (`facthold.dynamics.schedule`): by how much
// the loss bends where relations are known and subjects are not.

import { joint } from "facthold/fact_tables";

const STEP = 1.5, BAND = 0.02;

export function safeStep(table) {
  return STEP / curvature(table);
}

function curvature(table) {
  const { A, n, S } = table, { p, rows } = joint(table, "relation");
  let ofRelation = 0, ofSubject = 0;
  for (let r = 0; r < rows; r++) {
    const row = p.subarray(r * A, (r + 1) * A), p_r = sum(row), given = row.map((x) => x / p_r);
    const log = given.map((x) => Math.log((1 - BAND) * x + BAND / A)), mean = sum(log) / A;
    const theta = log.map((x) => x - mean);
    const size = Math.max(Math.sqrt(sum(theta.map((x) => x * x))), Number.MIN_VALUE);
    const spread = sum(given.map((x, a) => x * theta[a] ** 2)) - sum(given.map((x, a) => x * theta[a])) ** 2;
    ofRelation = Math.max(ofRelation, p_r * (size * largestEigenvalue(given) + spread / size));
  }
  const counts = new Float64Array(S);
  for (const s of table.subjects) counts[s] += 1;
  for (const block of counts.filter((count) => count > 0)) {
    const apart = Math.log((((1 - BAND) / BAND) * A) / block + 1);
    ofSubject = Math.max(ofSubject, ((block / n) * apart * Math.sqrt(block * Math.max(1 - block / A, 0))) / 2);
  }
  return Math.max(ofRelation + ofSubject, 1 / n);
}

const sum = (values) => values.reduce((total, x) => total + x, 0);

/** Of diag(p) - p p^T, by the power method. */
function largestEigenvalue(p) {
  let v = p.map((x, a) => x * Math.sin(1 + a)), size = 0;
  for (let turn = 0; turn < 64; turn++) {
    const along = sum(p.map((x, a) => x * v[a]));
    v = v.map((x, a) => p[a] * (x - along));
    size = Math.sqrt(sum(v.map((x) => x * x)));
    v = v.map((x) => x / Math.max(size, Number.MIN_VALUE));
  }
  return size;
}
