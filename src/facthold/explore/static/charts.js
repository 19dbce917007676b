// Pictures that follow the colours of the page and that can be read without seeing: bars are tables, a map of cells is
// moved over with the arrow keys, and lines have a table below them.

import { h, newId, number, table } from "facthold/ui";

const COLOURS = ["--c1", "--c2", "--c3", "--c4", "--c5", "--c6"];
const DASHES = ["", "7 3", "2 3", "9 3 2 3", "1 4", "12 4"]; // lines differ by more than colour
const drawn = new Set(); // what is drawn on a canvas, and is drawn again in other colours

export const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** Draw every canvas again: the colours have changed. */
export function redraw() {
  for (const draw of drawn) draw();
}
if (typeof matchMedia === "function") matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);

/**
 * Numbers as bars, in a table. Of a row: `label`, `value`, `text` (what is written for it), `note`, `kind` ("good",
 * "bad", "off"), `action` (a button). Bars go left from zero where a value is negative.
 */
export function bars(caption, columns, rows, { hideCaption = false } = {}) {
  const body = h("tbody");
  const root = h("div", { class: "scroll", role: "region", "aria-label": caption, tabindex: "0" }, h("table", { class: "bars" },
    h("caption", { class: hideCaption ? "hidden" : null }, caption),
    h("thead", {}, h("tr", {}, ...columns.map((c, k) => h("th", { scope: "col", class: k === 1 ? "number" : null }, c)))), body));
  root.set = (list) => {
    const values = list.map((row) => row.value).filter(Number.isFinite);
    const high = Math.max(0, ...values), low = Math.min(0, ...values), span = high - low || 1;
    const zero = (-low / span) * 100;
    body.replaceChildren(...list.map((row) => {
      const value = Number.isFinite(row.value) ? row.value : high;
      const width = (Math.abs(value) / span) * 100, start = value < 0 ? zero - width : zero;
      const bar = h("td", { class: "bar", "aria-hidden": "true" }, h("div", { class: "track" },
        h("div", { class: `fill ${value < 0 ? "negative" : ""} ${row.kind ?? ""}`, style: `left:${start}%;width:${width}%` }),
        h("div", { class: "zero", style: `left:${zero}%` })));
      const cells = [h("th", { scope: "row" }, row.label), h("td", { class: "number" }, row.text ?? number(row.value)), bar];
      if (columns.length > 3) cells.push(h("td", {}, row.note ?? ""));
      if (columns.length > 4) cells.push(h("td", {}, row.action ?? ""));
      return h("tr", { class: row.kind ?? null }, ...cells);
    }));
  };
  root.set(rows);
  return root;
}

/**
 * Many cells on a canvas, in rows of `columns`. `paint(i, context, x, y, width, height)` draws one, `describe(i)` says what it is, and
 * `choose(i)` is called where it is clicked or entered. Arrow keys move over it, and what it is stands below.
 */
export function cells(label, { choose = null, describe, paint, said = null }) {
  const id = newId("cells");
  const canvas = h("canvas", { tabindex: "0", role: "application", "aria-roledescription": "map", "aria-label": `${label}. Move with the arrow keys${choose ? ", choose with Enter" : ""}.`, "aria-describedby": said ? null : id });
  const below = said ?? h("p", { id, class: "small soft said", role: "status", "aria-live": "polite" }, "\u00a0");
  let n = 0, columns = 1, width = 12, height = 12, at = -1, left = 0, names = [];

  function draw() {
    const ratio = globalThis.devicePixelRatio || 1, rows = Math.ceil(n / columns);
    canvas.width = Math.max(1, Math.ceil((left + columns * width) * ratio));
    canvas.height = Math.max(1, Math.ceil(rows * height * ratio));
    canvas.style.width = `${left + columns * width}px`;
    canvas.style.height = `${rows * height}px`;
    const context = canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, left + columns * width, rows * height);
    if (left) {
      context.fillStyle = colour("--text");
      context.font = "12px system-ui, sans-serif";
      context.textBaseline = "middle";
      names.forEach((name, r) => context.fillText(name, 0, (r + 0.5) * height, left - 6));
    }
    for (let i = 0; i < n; i++) paint(i, context, left + (i % columns) * width, Math.floor(i / columns) * height, width - 1, height - 1);
    if (at >= 0 && at < n) {
      context.strokeStyle = colour("--focus");
      context.lineWidth = 2;
      context.strokeRect(left + (at % columns) * width - 0.5, Math.floor(at / columns) * height - 0.5, width, height);
    }
  }
  function look(i, from = null) {
    if (i < 0 || i >= n || (i === at && from === "mouse")) return;
    at = i;
    below.textContent = describe(i);
    draw();
  }
  function under(event) {
    const box = canvas.getBoundingClientRect();
    const x = Math.floor((event.clientX - box.left - left) / width), y = Math.floor((event.clientY - box.top) / height);
    return x < 0 || x >= columns || y < 0 ? -1 : y * columns + x;
  }
  canvas.addEventListener("mousemove", (event) => look(under(event), "mouse"));
  canvas.addEventListener("click", (event) => { const i = under(event); if (i >= 0 && i < n) { look(i); choose?.(i); } });
  canvas.addEventListener("focus", () => { if (at < 0) look(0); else look(at); });
  canvas.addEventListener("keydown", (event) => {
    const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns, Home: -at, End: n - 1 - at };
    if (event.key in steps) { event.preventDefault(); look(Math.min(Math.max(at + steps[event.key], 0), n - 1)); }
    if ((event.key === "Enter" || event.key === " ") && choose && at >= 0) { event.preventDefault(); choose(at); }
  });
  drawn.add(draw);
  const root = h("div", { class: "cells" }, h("div", { class: "sideways" }, canvas), said ? null : below);
  /** How many cells, how many in a row, and how large each is; the names of the rows, and the room for these. */
  root.set = (next) => {
    ({ n = n, columns = columns, width = width, height = height, left = left, names = names } = next);
    if (at >= n) at = -1;
    draw();
  };
  root.draw = draw;
  root.canvas = canvas;
  return root;
}

/** Round steps for an axis from low to high. */
export function ticks(low, high, log, about = 5) {
  if (log) {
    const first = Math.ceil(Math.log10(low) - 1e-9), last = Math.floor(Math.log10(high) + 1e-9), step = Math.max(1, Math.ceil((last - first) / about));
    const powers = [];
    for (let p = first; p <= last; p += step) powers.push(10 ** p);
    return powers.length ? powers : [low, high];
  }
  const raw = (high - low) / about || 1, size = 10 ** Math.floor(Math.log10(raw)), step = [1, 2, 5, 10].map((k) => k * size).find((s) => s >= raw);
  const found = [];
  for (let t = Math.ceil(low / step) * step; t <= high + 1e-9 * step; t += step) found.push(Number(t.toPrecision(12)));
  return found;
}

/**
 * Lines over a common x, as SVG with a legend and a table below. `series`: {name, points: [[x, y], ...], dash, colour}; `x`, `y`:
 * {label, log, low, high}; `marks`: [{x, text}] are thin lines from top to bottom. `set(series, marks)` draws others.
 */
export function lines(caption, x, y, series = [], { height = 260, marks = [] } = {}) {
  const W = 640, H = height, L = 56, R = 12, T = 10, B = 40;
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", `0 0 ${W} ${H}`);
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", caption);
  const legend = h("ul", { class: "legend" }), numbers = h("div");
  const part = (tag, properties, text) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(properties)) element.setAttribute(name, value);
    if (text !== undefined) element.textContent = text;
    svg.append(element);
    return element;
  };
  const root = h("figure", {}, h("figcaption", {}, caption), svg, legend, h("details", {}, h("summary", {}, "The numbers"), numbers));
  const finite = (axis, values) => values.filter((v) => Number.isFinite(v) && (!axis.log || v > 0));
  const range = (axis, values) => {
    const shown = finite(axis, values);
    let low = axis.low ?? (shown.length ? Math.min(...shown) : axis.log ? 1 : 0), high = axis.high ?? (shown.length ? Math.max(...shown) : axis.log ? 10 : 1);
    if (low === high) [low, high] = axis.log ? [low / 2, high * 2] : [low - 0.5, high + 0.5];
    return [low, high];
  };
  root.set = (list, at = []) => {
    svg.replaceChildren();
    const every = list.flatMap((s) => s.points), xs = range(x, every.map((p) => p[0])), ys = range(y, every.map((p) => p[1]));
    const scale = (axis, [low, high], from, to) => (v) => from + (to - from) * (axis.log ? Math.log(v / low) / Math.log(high / low) : (v - low) / (high - low));
    const px = scale(x, xs, L, W - R), py = scale(y, ys, H - B, T);
    for (const t of ticks(...ys, y.log)) {
      part("line", { x1: L, x2: W - R, y1: py(t), y2: py(t), class: "grid" });
      part("text", { x: L - 6, y: py(t) + 4, "text-anchor": "end" }, number(t));
    }
    for (const t of ticks(...xs, x.log, 6)) {
      part("line", { x1: px(t), x2: px(t), y1: H - B, y2: H - B + 5, class: "axis" });
      part("text", { x: px(t), y: H - B + 18, "text-anchor": "middle" }, number(t));
    }
    part("line", { x1: L, x2: W - R, y1: H - B, y2: H - B, class: "axis" });
    part("text", { x: (L + W - R) / 2, y: H - 5, "text-anchor": "middle" }, x.label);
    part("text", { x: 12, y: (T + H - B) / 2, "text-anchor": "middle", transform: `rotate(-90 12 ${(T + H - B) / 2})` }, y.label);
    for (const mark of at) {
      part("line", { x1: px(mark.x), x2: px(mark.x), y1: T, y2: H - B, class: "mark" });
      part("text", { x: px(mark.x) + 4, y: T + 12 }, mark.text);
    }
    legend.replaceChildren();
    list.forEach((s, k) => {
      const shown = s.points.filter((p) => finite(x, [p[0]]).length && finite(y, [p[1]]).length);
      const path = shown.map(([a, b], i) => `${i ? "L" : "M"}${px(a).toFixed(2)},${py(b).toFixed(2)}`).join("");
      const colour = COLOURS[(s.colour ?? k) % COLOURS.length];
      const style = `stroke:var(${colour});stroke-dasharray:${s.dash ?? DASHES[k % DASHES.length]}`;
      part("path", { d: path, class: "line", style });
      if (s.dots) for (const [a, b] of shown) part("circle", { cx: px(a), cy: py(b), r: 3, style: `fill:var(${colour})` });
      const swatch = document.createElementNS("http://www.w3.org/2000/svg", "svg"), stroke = document.createElementNS("http://www.w3.org/2000/svg", "line");
      swatch.setAttribute("viewBox", "0 0 30 8");
      swatch.setAttribute("aria-hidden", "true");
      for (const [name, value] of Object.entries({ x1: 0, x2: 30, y1: 4, y2: 4, class: "line", style })) stroke.setAttribute(name, value);
      swatch.append(stroke);
      legend.append(h("li", {}, swatch, " ", s.name));
    });
    const rows = list.flatMap((s) => thinned(s.points, 40).map(([a, b]) => [s.name, number(a), number(b)]));
    numbers.replaceChildren(table(caption, ["line", { text: x.label, number: true }, { text: y.label, number: true }], rows, { hideCaption: true }));
  };
  root.set(series, marks);
  return root;
}

/** Every k-th of many points, and the last. */
export function thinned(points, most) {
  const step = Math.max(1, Math.ceil(points.length / most));
  return points.filter((_, i) => i % step === 0 || i === points.length - 1);
}
