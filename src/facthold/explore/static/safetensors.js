// The model as facthold saves it: a safetensors file, which is a JSON header and the numbers in little-endian order.
// What it says about itself ("about") is JSON in the metadata.

import { sha256 } from "facthold/sha256";

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
    arrays[name] = { shape, data, dtype, raw: bytes.slice(8 + length + from, 8 + length + to) };
  }
  return { arrays, about: JSON.parse(metadata.about), text: metadata.about };
}

const CODES = { F32: "<f4", F64: "<f8", I32: "<i4", I64: "<i8", U8: "|u1" };

/** A file with these arrays in the place of its own; all else is as it was, and the checksums are new. */
export function write({ arrays, text }, changes = {}) {
  const encoder = new TextEncoder(), sums = { about: digest(encoder.encode(text)) }, header = {}, parts = [];
  let at = 0;
  for (const [name, { dtype, shape, raw }] of Object.entries(arrays)) {
    const data = changes[name] ? encoded(changes[name], dtype) : raw;
    // as Python writes it in JSON: a space after each comma
    const kind = encoder.encode(`["${CODES[dtype]}", [${(changes[name]?.shape ?? shape).join(", ")}]]`), whole = new Uint8Array(kind.length + data.length);
    whole.set(kind);
    whole.set(data, kind.length);
    sums[name] = digest(whole);
    header[name] = { dtype, shape: changes[name]?.shape ?? shape, data_offsets: [at, (at += data.length)] };
    parts.push(data);
  }
  let head = JSON.stringify({ __metadata__: { about: text, checksums: JSON.stringify(sums) }, ...header });
  let bytes = encoder.encode(head);
  head += " ".repeat((8 - (bytes.length % 8)) % 8); // tensors begin at a multiple of 8
  bytes = encoder.encode(head);
  const out = new Uint8Array(8 + bytes.length + at);
  new DataView(out.buffer).setBigUint64(0, BigInt(bytes.length), true);
  out.set(bytes, 8);
  let place = 8 + bytes.length;
  for (const part of parts) { out.set(part, place); place += part.length; }
  return out;
}

function encoded({ data }, dtype) {
  const own = dtype === "I64" ? BigInt64Array.from(data, BigInt) : KINDS[dtype].from(data);
  return new Uint8Array(own.buffer);
}

const digest = (bytes) => sha256(bytes).slice(0, 16);
