// Which way a step goes, from the gradient of W_OV and W_KQ. Each returns what is multiplied by the learning rate and
// taken from the weights.

import { polarFactor } from "facthold/polar";

export const OPTIMISERS = {
  sgd: "gradient descent", adam: "Adam", sign: "sign descent", muon: "Muon (without momentum)",
};
export const RATES = { sgd: 0.1, adam: 0.01, sign: 0.001, muon: 0.01 }; // those of figure 5 and `figure even-steps`
const BETA_1 = 0.9, BETA_2 = 0.999, EPSILON = 1e-8; // of Adam, its usual ones

const KINDS = {
  sgd: () => (gradient) => gradient,
  sign: () => (gradient) => mapped(gradient, (values) => values.map(Math.sign)),
  adam: adam,
  muon: (learner) => (gradient) => muon(gradient, learner),
};

export function directionOf(name, learner) {
  if (!(name in KINDS)) throw new Error(`optimiser=${name} is none of ${Object.keys(KINDS).join(", ")}`);
  return KINDS[name](learner);
}

function mapped(gradient, change) {
  return Object.fromEntries(Object.entries(gradient).map(([name, values]) => [name, change(values, name)]));
}

function adam() {
  const moments = {};
  let steps = 0;
  return (gradient) => {
    steps += 1;
    const first = 1 - BETA_1 ** steps, second = 1 - BETA_2 ** steps;
    return mapped(gradient, (values, name) => {
      moments[name] ??= { m: new Float64Array(values.length), v: new Float64Array(values.length) };
      const { m, v } = moments[name];
      return values.map((g, i) => {
        m[i] = BETA_1 * m[i] + (1 - BETA_1) * g;
        v[i] = BETA_2 * v[i] + (1 - BETA_2) * g * g;
        return m[i] / first / (Math.sqrt(v[i] / second) + EPSILON);
      });
    });
  };
}

/** The polar factor of W_OV's gradient; W_KQ's, a vector, is divided by its length. The row that stands for n noise
 * tokens counts as n equal rows do: as one that is sqrt(n) as long. */
function muon(gradient, { table: { A }, tokens, copies }) {
  const factors = [-0.5, 0.5].map((power) => copies.map((n) => n ** power));
  const scaled = (values, power) => values.map((x, i) => x * factors[power > 0 ? 1 : 0][Math.floor(i / A)]);
  const turned = polarFactor(scaled(gradient.W_OV, 0.5), tokens, A);
  let square = 0;
  gradient.W_KQ.forEach((g, z) => (square += copies[z] * g * g));
  const length = square > 0 ? Math.sqrt(square) : 1;
  return { W_OV: scaled(turned, -0.5), W_KQ: gradient.W_KQ.map((g) => g / length) };
}
