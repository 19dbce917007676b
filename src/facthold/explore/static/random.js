// Random numbers from a seed: the same on every machine, so that what one sees can be seen again.

/** A stream of numbers in [0, 1): a counter, well mixed (splitmix32). */
export function uniformStream(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x9e3779b9) >>> 0;
    let z = state;
    z = Math.imul(z ^ (z >>> 16), 0x21f0aaad);
    z = Math.imul(z ^ (z >>> 15), 0x735a2d97);
    return ((z ^ (z >>> 15)) >>> 0) / 4294967296;
  };
}

/** One number in [0, 1) for any whole numbers, such as a seed, a step and a question. */
export function uniformOf(...numbers) {
  let seed = 1;
  for (const n of numbers) seed = Math.floor(uniformStream(seed ^ Math.imul(n + 1, 0x85ebca6b))() * 4294967296);
  return uniformStream(seed)();
}

/** Standard normal numbers (Box and Muller). */
export function normalStream(seed) {
  const uniform = uniformStream(seed);
  let kept = null;
  return () => {
    if (kept !== null) {
      const one = kept;
      kept = null;
      return one;
    }
    const length = Math.sqrt(-2 * Math.log(1 - uniform())), angle = 2 * Math.PI * uniform();
    kept = length * Math.sin(angle);
    return length * Math.cos(angle);
  };
}

/** 0, ..., n - 1 in random order (Fisher and Yates). */
export function permutation(n, uniform) {
  const order = Array.from({ length: n }, (_, i) => i);
  for (let i = n - 1; i > 0; i--) {
    const j = Math.floor(uniform() * (i + 1));
    [order[i], order[j]] = [order[j], order[i]];
  }
  return order;
}

/** n points of the unit sphere in d dimensions, row by row. The first rows do not depend on n. */
export function sphere(n, d, seed) {
  const normal = normalStream(seed), rows = new Float64Array(n * d);
  for (let i = 0; i < n; i++) {
    let square = 0;
    for (let k = 0; k < d; k++) {
      const x = normal();
      rows[i * d + k] = x;
      square += x * x;
    }
    const length = Math.sqrt(square);
    for (let k = 0; k < d; k++) rows[i * d + k] /= length;
  }
  return rows;
}
