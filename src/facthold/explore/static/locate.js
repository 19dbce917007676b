// Where the model holds one fact: its margin as an exact sum, as facthold's locate.py has it, and what is left of the
// margin without each part.
//
// The margin (u_a - u_b) . F, with b the best rival, is linear in F, and F is what the heads write plus what the MLP
// makes of it. So it is a sum over the heads (directly) and the neurons. A ReLU is linear once it is settled which
// neurons are on: with these gates as they are, the neurons' part is a sum over the heads too (through the MLP).

import { statesOf } from "facthold/many";
import { verdict } from "facthold/model";

/**
 * `states` and `v` are what `Model.ask` and `verdict` gave. {direct, through: per head, byNeuron, bias, mlp, margin,
 * split: whether `through` is known}. margin = sum(direct) + mlp, and mlp = sum(byNeuron) = sum(through) + bias.
 */
export function partsOf(model, states, v) {
  const { H, d, m, U, V, W, b } = model, answer = v.answer < 0 ? v.said : v.answer;
  if (v.rival < 0) return null; // no other output: there is no margin to take apart
  const g = new Float64Array(d), gates = new Float64Array(d), byNeuron = new Float64Array(m);
  for (let k = 0; k < d; k++) g[k] = U[answer * d + k] - U[v.rival * d + k];
  const split = model.task.sigmaName === "relu";
  let mlp = 0, bias = 0;
  for (let i = 0; i < m; i++) {
    let along = 0;
    for (let k = 0; k < d; k++) along += V[i * d + k] * g[k];
    byNeuron[i] = states.hidden[i] * along;
    mlp += byNeuron[i];
    if (!split || !(states.hidden[i] > 0)) continue;
    bias += along * b[i];
    for (let k = 0; k < d; k++) gates[k] += along * W[i * d + k];
  }
  const direct = new Float64Array(H), through = new Float64Array(H);
  for (let h = 0; h < H; h++) {
    for (let k = 0; k < d; k++) {
      direct[h] += states.written[h * d + k] * g[k];
      if (split) through[h] += states.written[h * d + k] * gates[k];
    }
  }
  return { direct, through, byNeuron, bias, mlp, margin: v.margin, split };
}

/** The verdict on this prompt with parts taken away, as `statesOf` takes them. */
export function without(model, states, right, ablation) {
  return verdict(model.logits(statesOf(model, states.heads, 1, ablation).F), right);
}

/** The margin without each head and each neuron in turn, and what is said then. */
export function withoutEach(model, states, right, means = null) {
  const one = (ablation) => without(model, states, right, { means, ...ablation });
  return {
    heads: Array.from({ length: model.H }, (_, h) => one({ heads: new Set([h]) })),
    // of neurons that are off nothing is lost, unless a mean takes their place
    neurons: Array.from({ length: model.m }, (_, i) => (states.hidden[i] === 0 && !means ? null : one({ neurons: new Set([i]) }))),
    direct: model.m ? one({ direct: true }) : null,
    mlp: model.m ? one({ mlp: true }) : null,
  };
}
