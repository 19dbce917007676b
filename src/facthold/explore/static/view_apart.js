// Take apart: the margin of one answer as a sum over parts, and what happens to it and to all facts without some of them.

import { factMap } from "facthold/factmap";
import { partsOf, without, withoutEach } from "facthold/locate";
import { meansOf } from "facthold/many";
import { answered, questionBar, sentence } from "facthold/question";

const SHOWN = 12; // parts that have a row; the others are one row, so that the rows add up
const SMALL = 1e-3; // of the largest part: what is smaller has no row of its own

export default {
  id: "apart",
  title: "Take apart",
  summary: "Which parts of the model hold an answer? Its margin is an exact sum over them. Take parts away, and see this answer and all others change.",

  mount(root, ctx) {
    const { ui, charts, state } = ctx, { h, number, card } = ui;
    let by = "heads", how = "zero", whole = null, asking = 0, shown = null;
    const gone = { heads: new Set(), neurons: new Set(), direct: false, mlp: false };
    const answer = ui.live("", "answer");
    const sum = charts.bars("The margin as a sum", ["part", "adds", "", "margin without it", "take away"], []);
    const total = h("p", { class: "small" });
    const now = ui.live("", "answer"), recall = ui.live("", "");
    const timed = h("p", { class: "small soft timing" });
    const map = factMap((s, r) => state.set({ subject: s, relation: r, dropped: "" }));
    const away = h("div", { class: "row", role: "group", "aria-label": "Parts that are taken away" });
    const direct = ui.button("What heads add directly", () => flip("direct"), { pressed: false });
    const mlp = ui.button("The whole MLP", () => flip("mlp"), { pressed: false });
    const everyHead = ui.button("All heads", () => { const all = gone.heads.size < ctx.now().model.H; gone.heads = new Set(all ? Array.from({ length: ctx.now().model.H }, (_, g) => g) : []); changed(); }, { pressed: false });
    const back = ui.button("Put everything back", clear);

    root.append(
      card("The answer", null, questionBar(ctx), answer),
      card("Its margin as a sum", "The margin is how far the right answer is ahead of its best rival. Each part of the model adds to it or takes from it; the rows add up to it exactly.",
        ui.choice("Parts:", [["heads", "each head, with what it adds through the neurons"], ["neurons", "what heads add directly, and each neuron"]], by, (v) => { by = v; draw(); }),
        sum, total),
      card("Take parts away", "What is taken away puts out zero, or its mean over all facts, whatever is asked.",
        h("div", { class: "row" }, everyHead, direct, mlp, back),
        ui.choice("In its place:", [["zero", "zero"], ["mean", "its mean over all facts"]], how, (v) => { how = v; changed(); }),
        away, now, recall),
      card("All facts", "Each cell is a fact, asked in a prompt of its own: the darker, the larger its margin. Choose a cell to look into its fact.", map),
      timed,
    );

    function flip(part) {
      gone[part] = !gone[part];
      changed();
    }
    function clear() {
      gone.heads.clear(); gone.neurons.clear(); gone.direct = gone.mlp = false;
      changed();
    }
    function changed() {
      draw();
      askAll();
    }
    /** What is taken away, as `statesOf` takes it. */
    function ablation() {
      const { model, table } = ctx.now();
      return { ...gone, means: how === "mean" ? meansOf(model, table, state.get("seed"), state.get("noise")) : null };
    }
    const nothing = () => !(gone.heads.size || gone.neurons.size || gone.direct || gone.mlp);

    /** Rows of the sum: [name, number, its verdict without it, what a click takes away]. */
    function rowsOf(parts, each) {
      const { H, m } = shown.model;
      const head = (g) => `head ${g}`;
      if (by === "heads" && parts.split) {
        const rows = Array.from({ length: H }, (_, g) => ({ name: head(g), value: parts.direct[g] + parts.through[g], alone: each.heads[g], set: gone.heads, key: g }));
        return m ? [...rows, { name: "bias of the MLP", value: parts.bias }] : rows;
      }
      if (by === "heads") return [...Array.from({ length: H }, (_, g) => ({ name: `${head(g)}, directly`, value: parts.direct[g], alone: each.heads[g], set: gone.heads, key: g })), { name: "MLP, all heads together", value: parts.mlp, alone: each.mlp, part: "mlp" }];
      const neurons = Array.from({ length: m }, (_, i) => ({ name: `neuron ${i}`, value: parts.byNeuron[i], alone: each.neurons[i], set: gone.neurons, key: i }));
      return [{ name: "what heads add directly", value: parts.direct.reduce((a, b) => a + b, 0), alone: each.direct, part: m ? "direct" : null }, ...neurons];
    }

    function draw() {
      if (root.hidden) return;
      const start = performance.now();
      shown = answered(ctx);
      const { model, table, states, verdict, right } = shown, a = ablation();
      answer.set(...sentence(shown));
      const parts = partsOf(model, states, verdict);
      for (const element of [mlp, direct]) element.disabled = !model.m;
      if (parts) drawSum(parts, withoutEach(model, states, right, a.means));
      everyHead.press(gone.heads.size === model.H);
      direct.press(gone.direct); mlp.press(gone.mlp);
      back.disabled = nothing();
      const named = [...(gone.heads.size === model.H ? [] : [...gone.heads].map((g) => [`head ${g}`, gone.heads, g])), ...[...gone.neurons].map((i) => [`neuron ${i}`, gone.neurons, i])];
      away.replaceChildren(...named.map(([name, set, key]) => ui.button(`${name} ✕`, () => { set.delete(key); changed(); }, { kind: "plain" })));
      const left = without(model, states, right, a);
      now.set(...(nothing() ? ["Nothing is taken away."] : ["Without that: ", ...sentence({ ...shown, verdict: left })]));
      root.dataset.margin = String(left.margin);
      timed.dataset.one = String(Math.ceil(performance.now() - start));
      say();
    }

    function drawSum(parts, each) {
      const focused = document.activeElement?.dataset?.part;
      const all = rowsOf(parts, each).filter((row) => row.value !== 0 || row.set?.has(row.key)).sort((a, b) => Math.abs(b.value) - Math.abs(a.value));
      const least = SMALL * Math.abs(all[0]?.value ?? 0);
      const first = all.filter((row, k) => (k < SHOWN && Math.abs(row.value) >= least) || row.set?.has(row.key)), rest = all.filter((row) => !first.includes(row));
      const left = rest.reduce((t, row) => t + row.value, 0);
      const rows = first.map((row) => {
        const off = row.set ? row.set.has(row.key) : row.part ? gone[row.part] : false;
        const note = row.alone ? [number(row.alone.margin, 3), row.alone.said !== shown.verdict.said ? `, says ${shown.model.outputName(row.alone.said, shown.table)}` : ""].join("") : "";
        const action = row.set || row.part ? ui.button(off ? "put back" : "take away", () => { if (row.part) return flip(row.part); if (!row.set.delete(row.key)) row.set.add(row.key); changed(); }, { pressed: off, kind: "plain" }) : "";
        if (action) { action.dataset.part = row.name; action.setAttribute("aria-label", `${off ? "put back" : "take away"} ${row.name}`); }
        return { label: row.name, value: row.value, note, action, kind: off ? "off" : "" };
      });
      if (rest.length) rows.push({ label: `the rest (${ui.counted(rest.length, "part")})`, value: left });
      sum.set(rows);
      if (focused) [...sum.querySelectorAll("[data-part]")].find((e) => e.dataset.part === focused)?.focus();
      const added = rows.reduce((t, row) => t + row.value, 0);
      total.textContent = `Sum of the rows: ${number(added)}. The margin: ${number(parts.margin)}.`;
      root.dataset.sum = String(added);
    }

    /** Every fact, asked again; what was asked before and is not done is given up. */
    async function askAll() {
      if (root.hidden) return;
      const mine = ++asking, { model, table } = ctx.now(), options = { seed: state.get("seed"), noise: state.get("noise") };
      recall.set("Asking every fact ...");
      const current = () => mine === asking;
      const before = await ctx.everyFact(model, table, options, current);
      const after = before && (nothing() ? before : await ctx.everyFact(model, table, { ...options, ablation: ablation() }, current));
      if (!after) return;
      whole = { before, after, model, table };
      const lost = before.count - after.count;
      recall.set(`The model recalls ${after.count.toLocaleString("en")} of its ${ui.counted(table.n, "fact")} (${ui.percent(after.recall, 1)})${nothing() ? "." : `, ${lost >= 0 ? `${lost.toLocaleString("en")} fewer` : `${-lost} more`} than before.`}`);
      root.dataset.recalled = String(after.count);
      timed.dataset.all = String(Math.ceil(1000 * after.seconds));
      say();
      drawMap();
    }
    function drawMap() {
      if (whole && !root.hidden) map.set(whole.model, whole.table, whole.after, { subject: state.get("subject"), relation: state.get("relation"), scale: whole.before });
    }
    function say() {
      timed.textContent = [timed.dataset.one && `This answer: ${timed.dataset.one} ms.`, timed.dataset.all && `All facts: ${timed.dataset.all} ms.`].filter(Boolean).join(" ");
    }
    state.subscribe(["subject", "relation", "dropped"], () => { draw(); drawMap(); });
    state.subscribe(["seed", "noise", "changed"], changed);
    addEventListener("resize", drawMap);
    return { shown: changed };
  },
};
