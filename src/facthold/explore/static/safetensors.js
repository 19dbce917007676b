// The model as facthold saves it: a safetensors file, which is a JSON header and the numbers in little-endian order.
// What it says about itself ("about") is JSON in the metadata.

const KINDS = { F32: Float32Array, F64: Float64Array, I32: Int32Array, I64: BigInt64Array, U8: Uint8Array };

export function bytesOf(base64) {
  const text = atob(base64), bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return bytes;
}

/** The arrays of a file by name, each {shape, data, dtype}, and what is said about them. */
export function read(bytes) {
  const length = Number(new DataView(bytes.buffer, bytes.byteOffset).getBigUint64(0, true));
  const header = JSON.parse(new TextDecoder().decode(bytes.subarray(8, 8 + length)));
  const { __metadata__: metadata, ...entries } = header;
  const arrays = {};
  for (const [name, { dtype, shape, data_offsets: [from, to] }] of Object.entries(entries)) {
    // a copy: a typed array has to begin at a multiple of its size
    const own = bytes.slice(8 + length + from, 8 + length + to).buffer;
    let data = new KINDS[dtype](own);
    if (dtype === "I64") data = Int32Array.from(data, Number);
    arrays[name] = { shape, data, dtype };
  }
  return { arrays, about: JSON.parse(metadata.about), text: metadata.about };
}
