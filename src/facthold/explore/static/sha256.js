// SHA-256 (FIPS 180-4). The browser's own is not there in every page that is opened from a file.

const first = (x) => ((x - Math.floor(x)) * 4294967296) >>> 0; // the first 32 bits of a fraction
const primes = [];
for (let p = 2; primes.length < 64; p++) if (primes.every((q) => p % q)) primes.push(p);
const K = primes.map((p) => first(Math.cbrt(p))), START = primes.slice(0, 8).map((p) => first(Math.sqrt(p)));
const right = (x, n) => (x >>> n) | (x << (32 - n));

/** The digest of some bytes, as text of 64 hexadecimal digits. */
export function sha256(bytes) {
  const length = Math.ceil((bytes.length + 9) / 64) * 64, padded = new Uint8Array(length), view = new DataView(padded.buffer);
  padded.set(bytes);
  padded[bytes.length] = 0x80;
  view.setBigUint64(length - 8, BigInt(bytes.length) * 8n);
  const state = Uint32Array.from(START), w = new Uint32Array(64);
  for (let block = 0; block < length; block += 64) {
    for (let t = 0; t < 16; t++) w[t] = view.getUint32(block + 4 * t);
    for (let t = 16; t < 64; t++) {
      const s0 = right(w[t - 15], 7) ^ right(w[t - 15], 18) ^ (w[t - 15] >>> 3), s1 = right(w[t - 2], 17) ^ right(w[t - 2], 19) ^ (w[t - 2] >>> 10);
      w[t] = w[t - 16] + s0 + w[t - 7] + s1;
    }
    let [a, b, c, d, e, f, g, h] = state;
    for (let t = 0; t < 64; t++) {
      const one = (h + (right(e, 6) ^ right(e, 11) ^ right(e, 25)) + ((e & f) ^ (~e & g)) + K[t] + w[t]) >>> 0;
      const two = ((right(a, 2) ^ right(a, 13) ^ right(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))) >>> 0;
      [h, g, f, e, d, c, b, a] = [g, f, e, (d + one) >>> 0, c, b, a, (one + two) >>> 0];
    }
    [a, b, c, d, e, f, g, h].forEach((x, i) => { state[i] += x; });
  }
  return Array.from(state, (x) => x.toString(16).padStart(8, "0")).join("");
}
