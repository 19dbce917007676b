// All facts as a map: a block for each relation, a cell for each subject, coloured by the margin. What is wrong has a
// cross, so that it is seen without colours. A cell is chosen with the mouse or with the keys.

import { cells, colour } from "facthold/charts";
import { h, live, number } from "facthold/ui";

const SIDE = 12, LARGE = 2000; // pixels of a cell; subjects above which cells are smaller
const SHADES = 4; // of margins that are right: they are told apart more surely than a continuous scale

/** `choose(subject, relation)` is called where a cell is chosen. `set` shows the verdicts on all facts. */
export function factMap(choose) {
  const blocks = h("div"), said = live("Move over the map, or focus a block and use the arrow keys: each cell is a fact.", "small");
  const key = h("p", { class: "small", "aria-hidden": "true" });
  const root = h("div", { class: "factmap" }, key, said, blocks);
  let shown = null, made = [], edges = [];

  function paint(context, margin, x, y, w, hgt) {
    const right = margin > 0;
    if (!right) {
      context.fillStyle = colour("--badfill");
      context.fillRect(x, y, w, hgt);
      context.strokeStyle = colour("--page");
      context.lineWidth = 1.5;
      context.beginPath();
      context.moveTo(x + 2, y + 2); context.lineTo(x + w - 2, y + hgt - 2);
      context.moveTo(x + w - 2, y + 2); context.lineTo(x + 2, y + hgt - 2);
      context.stroke();
      return;
    }
    context.fillStyle = colour("--accent");
    context.globalAlpha = 0.18 + (0.82 * edges.filter((edge) => margin > edge).length) / SHADES;
    context.fillRect(x, y, w, hgt);
    context.globalAlpha = 1;
  }

  function make(table) {
    made = table.names.relations.map((name, r) => {
      const title = h("h4", {});
      const block = cells(`Facts of ${name}`, {
        said,
        choose: (s) => { if (shown.table.row(s, r) >= 0) choose(s, r); },
        describe: (s) => {
          const { table: t, found, model } = shown, row = t.row(s, r), subject = t.names.subjects[s];
          if (row < 0) return `${subject}, ${name}: not in the table`;
          const says = model.outputName(found.said[row], t), margin = found.margin[row];
          if (margin > 0) return `${subject}, ${name}: ${says}, ✓ right, margin ${number(margin, 3)}`;
          return `${subject}, ${name}: ✗ says ${says}, right is ${t.right(row).map((a) => t.names.answers[a]).join(" or ")}, margin ${number(margin, 3)}`;
        },
        paint: (s, context, x, y, w, hgt) => {
          const row = shown.table.row(s, r);
          if (row >= 0) paint(context, shown.found.margin[row], x, y, w, hgt);
          if (s === shown.subject && r === shown.relation) {
            context.strokeStyle = colour("--text");
            context.lineWidth = 2;
            context.strokeRect(x - 0.5, y - 0.5, w + 1, hgt + 1);
          }
        },
      });
      return { r, title, block, root: h("div", { class: "group" }, title, block) };
    });
    blocks.replaceChildren(...made.map((one) => one.root));
  }

  function legend() {
    const swatch = (style, text) => [h("span", { class: "swatch", style }), text, "\u2003"];
    const shade = (k) => `background:color-mix(in srgb, var(--accent) ${Math.round(18 + (82 * k) / SHADES)}%, var(--card))`;
    const places = [...edges.map((edge) => number(edge, 2)), ""];
    key.replaceChildren("Margin: ", ...swatch("background:var(--badfill)", "✗ 0 or below: wrong"), ...places.map((_, k) => swatch(shade(k), k === 0 ? `up to ${places[0]}` : k < SHADES ? `to ${places[k]}` : "above")).flat());
  }

  /** `found` are the verdicts of `everyFact`; `scale` those by which the shades are chosen, so that they stay. */
  root.set = (model, table, found, { subject, relation, scale = found }) => {
    if (shown?.table.names !== table.names && shown?.table.R !== table.R) make(table);
    shown = { model, table, found, subject, relation };
    const sorted = Float64Array.from(scale.margin).filter((x) => x > 0 && Number.isFinite(x)).sort();
    edges = Array.from({ length: SHADES }, (_, k) => sorted[Math.floor(((k + 1) * sorted.length) / (SHADES + 1))] ?? k + 1);
    legend();
    const right = new Int32Array(table.R), all = new Int32Array(table.R);
    for (let i = 0; i < table.n; i++) { all[table.relations[i]]++; if (found.margin[i] > 0) right[table.relations[i]]++; }
    const room = Math.max(200, root.clientWidth || 800), side = table.S > LARGE ? 6 : SIDE, columns = Math.max(1, Math.min(table.S, Math.floor((room - 8) / side)));
    for (const { r, title, block } of made) {
      title.textContent = `${table.names.relations[r]}: ${right[r]} of ${all[r]} right`;
      block.set({ n: table.S, columns, width: side, height: side });
    }
  };
  return root;
}
