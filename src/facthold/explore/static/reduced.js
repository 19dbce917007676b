// The reduced equations of a balanced table: what the loss will be, from S, R, D and alpha alone. Relations and
// subjects do not see each other; the time at which one of them raises its own answers by x is
//
//     t(x) = (1 / lambda) [ asinh(2 s x / C) / 2 + int_0^x (exp(u) - 1) / n  s / sqrt(C^2 + 4 s^2 u^2) du ].
//
// docs/dynamics.md derives it. Here is a curve of it; `facthold.theory.reduced` has more.

const GAPS = 8000, FIRST = 1e-7, LAST = 60; // as finely as Python's: straight lines between them
const NODES = gaussLegendre(8);

/** One kind of token, which tells its n choices apart, each of them `block` answers. */
export class Growth {
  constructor(frequency, n, block, logInvariant) {
    Object.assign(this, { frequency, n, block, logInvariant });
    this.scale = Math.sqrt((1 - 1 / n) * block);
    this.rate = frequency * Math.sqrt((1 - 1 / n) / block);
  }

  loss(gap) {
    return Math.log1p((this.n - 1) * Math.exp(-gap));
  }

  /** The time that leaving the origin takes, in units of 1 / lambda. */
  escaping(gap) {
    const log_y = Math.log(2 * this.scale * gap) - this.logInvariant;
    return (log_y < 30 ? Math.asinh(Math.exp(log_y)) : log_y + Math.LN2) / 2;
  }

  slower(u) {
    const C = this.logInvariant > -700 ? Math.exp(this.logInvariant) : 0;
    return ((Math.expm1(u) / this.n) * this.scale) / Math.hypot(C, 2 * this.scale * u);
  }

  /** Times and losses, close enough together for straight lines between them. */
  get curve() {
    if (this.kept) return this.kept;
    const times = new Float64Array(GAPS + 1), losses = new Float64Array(GAPS + 1);
    const ratio = Math.log(LAST / FIRST) / (GAPS - 1);
    let slowed = this.integral(0, FIRST), before = FIRST;
    losses[0] = this.loss(0);
    for (let i = 0; i < GAPS; i++) {
      const gap = i === GAPS - 1 ? LAST : FIRST * Math.exp(i * ratio);
      if (i) slowed += this.integral(before, gap);
      times[i + 1] = (this.escaping(gap) + slowed) / this.rate;
      losses[i + 1] = this.loss(gap);
      before = gap;
    }
    return (this.kept = { times, losses });
  }

  integral(a, b) {
    let sum = 0;
    for (const [node, weight] of NODES) sum += weight * this.slower((a + b) / 2 + ((b - a) / 2) * node);
    return (sum * (b - a)) / 2;
  }

  lossAt(time) {
    return interpolate(time, this.curve.times, this.curve.losses);
  }

  /** The loss after some steps of gradient descent: a weight that grows at lambda grows by 1 + lr lambda in one of
   * them, and not by exp(lr lambda). */
  lossAfter(steps, lr) {
    return this.lossAt((steps * Math.log1p(lr * this.rate)) / this.rate);
  }
}

/** Relations and subjects of a balanced table whose weights all start at alpha. */
export function reduced(S, R, D, logAlpha) {
  return { relation: new Growth(1 / R, R, D, 2 * logAlpha), subject: new Growth(1 / S, D, R, 2 * logAlpha) };
}

export function interpolate(x, xs, ys) {
  if (x <= xs[0]) return ys[0];
  let low = 0, high = xs.length - 1;
  if (x >= xs[high]) return ys[high];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (xs[middle] <= x) low = middle;
    else high = middle;
  }
  return ys[low] + ((ys[high] - ys[low]) * (x - xs[low])) / (xs[high] - xs[low]);
}

/** [node, weight] on [-1, 1], by Newton's method on the Legendre polynomial. */
export function gaussLegendre(n) {
  return Array.from({ length: n }, (_, i) => {
    let x = Math.cos((Math.PI * (i + 0.75)) / (n + 0.5)), slope = 1;
    for (let turn = 0; turn < 100; turn++) {
      let [below, value] = [1, x];
      for (let k = 2; k <= n; k++) [below, value] = [value, ((2 * k - 1) * x * value - (k - 1) * below) / k];
      slope = (n * (x * value - below)) / (x * x - 1);
      const step = value / slope;
      x -= step;
      if (Math.abs(step) < 1e-16) break;
    }
    return [x, 2 / ((1 - x * x) * slope * slope)];
  });
}
