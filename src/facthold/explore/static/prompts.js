// The noise of a prompt, by the same generator as in Python (splitmix64): the same (subject, relation, seed) is the
// same prompt there and here. It needs whole numbers of 64 bits, which are BigInt.

const MASK = (1n << 64n) - 1n;
const GOLDEN = 0x9e3779b97f4a7c15n;

function mix(x) {
  let z = (x + GOLDEN) & MASK; // wraps around, as it should
  z = ((z ^ (z >> 30n)) * 0xbf58476d1ce4e5b9n) & MASK;
  z = ((z ^ (z >> 27n)) * 0x94d049bb133111ebn) & MASK;
  return z ^ (z >> 31n);
}

/** The tokens of a prompt: subject, relation, `k` noise tokens, EOS. The order means nothing to the model. */
export function prompt({ S, R, nNoise, EOS }, s, r, seed = 0, k = 29) {
  const tokens = new Int32Array(k + 3);
  tokens[0] = s;
  tokens[1] = S + r;
  const stream = mix((mix(BigInt(seed) & MASK) + BigInt(s * R + r)) & MASK);
  for (let i = 0; i < k; i++) {
    const word = mix((stream + BigInt(i) * GOLDEN) & MASK);
    tokens[2 + i] = S + R + Number(((word >> 32n) * BigInt(nNoise)) >> 32n);
  }
  tokens[k + 2] = EOS;
  return tokens;
}

/** A prompt for every fact of the table, one after another, in one array of n x (k + 3). */
export function everyPrompt(sizes, table, seed = 0, k = 29) {
  const tokens = new Int32Array(table.n * (k + 3));
  for (let i = 0; i < table.n; i++) tokens.set(prompt(sizes, table.subjects[i], table.relations[i], seed, k), i * (k + 3));
  return tokens;
}
