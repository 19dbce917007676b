// The reduced equations under steps without size, sign descent and Muon (`facthold.theory.even_steps`): time is the
// length of a step times their number, x and y are by how much relations and subjects raise their own answers.

import { joint } from "facthold/fact_tables";
import { singularValues } from "facthold/polar";
import { Growth, interpolate } from "facthold/reduced";

const STEPS = 4000, FAR = 700;

/** The loss at a time under sign descent: x = y = 2 t^2. */
export function signLoss(R, D, time) {
  const gap = 2 * time * time;
  return new Growth(1, R, 1, -Infinity).loss(gap) + new Growth(1, D, 1, -Infinity).loss(gap);
}

/** By how much a step of Muon moves the row of a token along e_z, the unit vector along p*(. | z) - p_0: a mean. */
export function polarSpeed(table, kind) {
  const { p, rows } = joint(table, kind), { A } = table, e = new Float64Array(rows * A);
  for (let z = 0; z < rows; z++) {
    const row = p.subarray(z * A, (z + 1) * A), mean = row.reduce((sum, x) => sum + x, 0) / A;
    const length = Math.sqrt(row.reduce((sum, x) => sum + (x - mean) ** 2, 0));
    row.forEach((x, a) => (e[z * A + a] = (x - mean) / length));
  }
  return singularValues(e, rows, A).reduce((sum, s) => sum + s, 0) / rows;
}

/** Muon's equations for a balanced table up to a time: a function from times to losses. */
export function muonLoss(table, D, end) {
  const { S, R } = table;
  const kinds = [new Growth(1 / R, R, D, -Infinity), new Growth(1 / S, D, R, -Infinity)];
  const number = [R, S], speed = [polarSpeed(table, "relation"), polarSpeed(table, "subject")];
  const times = new Float64Array(STEPS + 1), losses = new Float64Array(STEPS + 1), dt = end / STEPS;
  const gap = (k, t, i) => (k[i] * speed[i] * t) / kinds[i].scale;
  const turned = (k, t) => {
    const pull = kinds.map(({ rate, n }, i) => {
      return (rate * speed[i] * t * n) / (Math.exp(Math.min(gap(k, t, i), FAR)) + n - 1);
    });
    const length = Math.sqrt(pull.reduce((sum, x, i) => sum + number[i] * x * x, 0));
    return pull.map((x) => x / length);
  };
  let k = [0, 0];
  losses[0] = kinds[0].loss(0) + kinds[1].loss(0);
  for (let i = 0; i < STEPS; i++) {
    const t = i * dt, half = turned(k, t + dt / 2).map((x, j) => k[j] + (dt / 2) * x);
    k = turned(half, t + dt / 2).map((x, j) => k[j] + dt * x);
    times[i + 1] = t + dt;
    losses[i + 1] = kinds[0].loss(gap(k, t + dt, 0)) + kinds[1].loss(gap(k, t + dt, 1));
  }
  return (time) => interpolate(time, times, losses);
}
