// Break and mend: noise, few bits and low rank, and which facts go first; another answer for one fact, solved for here.

import { fullRank, MATRICES, noisy, rounded, truncated } from "facthold/damage";
import { edited, probed } from "facthold/edit";
import { factMap } from "facthold/factmap";
import { answered, questionBar, sentence } from "facthold/question";
import { download } from "facthold/saving";

const SHOWN = 8; // facts that are named
const ALL_BITS = 17; // the end of the slider: the weights as they are, 32 bits each
const PROBES = 20; // fresh prompts in which a changed fact is asked
const NOISE = [0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1]; // of the size of the weights

export default {
  id: "mend",
  title: "Break and mend",
  summary: "How much can the weights bear before facts are lost, and which go first? Then give a single fact another answer, without training, and see what becomes of the others.",

  mount(root, ctx) {
    const { ui, charts, state } = ctx, { h, number, card, counted } = ui;
    const start = { model: ctx.model, table: ctx.table, edits: [] };
    let base = start, mine = null, asking = 0, shown = null, drawSeed = 0, drawn = null;
    const damage = { noise: 0, bits: ALL_BITS, matrix: ctx.model.m ? "mlp.V" : "W_OV", rank: null };
    const answer = ui.live("", "answer"), recall = ui.live("", "answer"), report = ui.live();
    const map = factMap((s, r) => state.set({ subject: s, relation: r, dropped: "" }));
    const first = ui.table("The first to go", ["fact", "the model says", { text: "margin", number: true }, { text: "margin before", number: true }], []);
    const near = ui.table("Facts that the change has moved most", ["fact", "the model says", { text: "margin", number: true }, { text: "margin before", number: true }], []);
    near.hidden = true; // until there is a change
    const timed = h("p", { class: "small soft timing" });
    const names = Object.keys(MATRICES).filter((name) => ctx.model.m || name === "W_OV");
    const full = () => fullRank(ctx.model, damage.matrix);

    const noise = ui.slider("Noise on all weights", 0, NOISE.length - 1, 1, 0, (i) => { damage.noise = NOISE[i]; brk(); }, { format: (i) => `${number(100 * NOISE[i])}% of their size` });
    const bits = ui.slider("Bits per weight", 1, ALL_BITS, 1, ALL_BITS, (b) => { damage.bits = b; brk(); }, { format: (b) => (b === ALL_BITS ? "32, as it is" : String(b)) });
    const rank = ui.slider("Rank of the matrix", 0, full(), 1, full(), (r) => { damage.rank = r; brk(); }, { format: (r) => (r === full() ? `${r}, as it is` : String(r)) });
    const matrix = ui.select("Matrix to cut", names.map((name) => [name, MATRICES[name]]), damage.matrix, (name) => { damage.matrix = name; damage.rank = null; rank.range(0, full()); rank.set(full()); brk(); });
    const another = ui.button("Draw other noise", () => { drawSeed++; brk(); });
    const whole = ui.button("Make it whole", () => { heal(); brk(); });
    const wins = ui.combobox("New answer", ctx.table.names.answers, -1, (a) => { chosen = a; teach.disabled = false; });
    let chosen = -1;
    const teach = ui.button("Give it this answer", () => mend(chosen));
    teach.disabled = true;
    const undo = ui.button("Undo the last change", () => { base = base.before ?? start; report.set("The last change is undone."); near.hidden = true; brk(); });
    const save = ui.button("Download the model", () => { const now = ctx.now(); download(now.model, now.table); report.set("The file edited.safetensors is a model as facthold ask takes it."); });

    root.append(
      card("Break it", "Each fact is asked again whenever you move a slider.", h("div", { class: "sliders" }, noise, bits, matrix, rank), h("div", { class: "row" }, another, whole), recall, first),
      card("All facts", "Each cell is a fact: the darker, the larger its margin; a cross is a fact that is lost. Choose a cell to look into its fact.", map),
      card("Mend it: another answer for one fact", "A small change (of rank one) of the last matrix is solved for, so that this fact gets the answer and the others keep theirs as far as there is room.",
        questionBar(ctx), answer, h("div", { class: "question" }, wins, teach, h("span")), h("div", { class: "row" }, undo, save), report, near),
      timed,
    );

    function heal() {
      Object.assign(damage, { noise: 0, bits: ALL_BITS, rank: null });
      noise.set(0); bits.set(ALL_BITS); rank.set(full());
    }
    const isWhole = () => damage.noise === 0 && damage.bits === ALL_BITS && (damage.rank ?? full()) === full();
    const words = () => [
      ...base.edits, damage.rank !== null && damage.rank < full() ? `${damage.matrix} of rank ${damage.rank}` : "",
      damage.noise ? `${number(100 * damage.noise)}% noise` : "", damage.bits < ALL_BITS ? `${counted(damage.bits, "bit")} per weight` : "",
    ].filter(Boolean).join(", ");

    /** The base with the damage on top of it becomes the model of all views. */
    function brk() {
      const begin = performance.now();
      let weights = base.model.weights;
      if (damage.rank !== null) weights = truncated(base.model, weights, damage.matrix, damage.rank);
      if (damage.noise) weights = noisy(weights, damage.noise, drawSeed);
      if (damage.bits < ALL_BITS) weights = rounded(weights, damage.bits, Object.fromEntries(Object.keys(weights).map((name) => [name, ctx.model.task.file.arrays[`model.${name}`].shape])));
      const model = isWhole() ? base.model : base.model.with(weights);
      mine = isWhole() && base === start ? null : { model, table: base.table, what: words() };
      state.set("changed", mine);
      timed.dataset.broken = String(Math.ceil(performance.now() - begin));
      later();
    }

    /** A row for a fact, as two sets of verdicts have it. */
    const rowOf = (model, table, now, before) => (row) => [table.question(row), `${model.outputName(now.said[row], table)}${now.margin[row] > 0 ? "" : ` ✗, not ${table.right(row).map((a) => table.names.answers[a]).join(" or ")}`}`, number(now.margin[row], 3), number(before.margin[row], 3)];

    async function askAll() {
      if (root.hidden) return;
      const me = ++asking, options = { seed: state.get("seed"), noise: state.get("noise") }, current = () => me === asking, { model, table } = ctx.now();
      recall.set("Asking every fact ...");
      const before = await ctx.everyFact(ctx.model, ctx.table, options, current);
      const now = before && (model === ctx.model ? before : await ctx.everyFact(model, table, options, current));
      if (!now) return;
      shown = { model, table, now, before };
      root.dataset.recalled = String(now.count);
      timed.dataset.all = String(Math.ceil(1000 * now.seconds));
      recall.set(`The model recalls ${now.count.toLocaleString("en")} of its ${counted(table.n, "fact")} (${ui.percent(now.recall, 1)}).${now.count < table.n ? " Those that are furthest off:" : " Nearest to being lost:"}`);
      const order = Array.from(now.margin.keys()).sort((a, b) => now.margin[a] - now.margin[b]).slice(0, SHOWN);
      first.set(order.map(rowOf(model, table, now, before)));
      timed.textContent = `Weights changed in ${timed.dataset.broken ?? 0} ms; all facts: ${timed.dataset.all} ms${timed.dataset.solved ? `; the change was solved for in ${timed.dataset.solved} ms` : ""}.`;
      drawMap();
    }
    function drawMap() {
      if (shown && !root.hidden) map.set(shown.model, shown.table, shown.now, { subject: state.get("subject"), relation: state.get("relation"), scale: shown.before });
    }
    function later() {
      drawAnswer();
      askAll();
    }
    function drawAnswer() {
      if (root.hidden) return;
      drawn = answered(ctx);
      answer.set(...sentence(drawn));
      teach.disabled = chosen < 0 || drawn.row < 0 || (drawn.right.length === 1 && drawn.right[0] === chosen);
      undo.disabled = base === start;
      whole.disabled = isWhole();
      another.disabled = !damage.noise;
      if (drawn.row < 0) report.set("Only a question of the table can be given another answer here.");
    }

    /** Solve for the change, and say what it has cost. */
    async function mend(wins) {
      const row = drawn.row, from = ctx.now(), options = { seed: state.get("seed"), noise: state.get("noise") };
      report.set("Solving ...");
      await new Promise((done) => setTimeout(done, 30));
      const begin = performance.now();
      let after;
      try {
        after = edited(base.model, base.table, row, wins);
      } catch (error) {
        return report.set(error.message);
      }
      timed.dataset.solved = String(Math.ceil(performance.now() - begin));
      const question = base.table.question(row), name = base.table.names.answers[wins];
      const before = await ctx.everyFact(from.model, from.table, options);
      base = { model: after.model, table: after.table, edits: [...base.edits, `${question}: ${name}`], before: base };
      brk();
      const { model, table } = ctx.now(), now = await ctx.everyFact(model, table, options);
      const others = Array.from({ length: table.n }, (_, i) => i).filter((i) => i !== row), held = others.filter((i) => before.margin[i] > 0), kept = held.filter((i) => now.margin[i] > 0);
      const share = probed(model, table, row, PROBES);
      root.dataset.efficacy = String(share);
      root.dataset.kept = String(kept.length);
      const lost = held.filter((i) => !(now.margin[i] > 0)).slice(0, SHOWN).map((i) => table.question(i));
      report.set(`${question}: ${name} is said in ${Math.round(share * PROBES)} of ${PROBES} fresh prompts. Of the ${counted(held.length, "other fact")} that were right, ${kept.length.toLocaleString("en")} still are${lost.length ? `; lost: ${lost.join("; ")}${held.length - kept.length > lost.length ? " and more" : ""}` : ""}.`);
      const moved = others.sort((a, b) => Math.abs(now.margin[b] - before.margin[b]) - Math.abs(now.margin[a] - before.margin[a])).slice(0, SHOWN);
      near.hidden = false;
      near.set(moved.map(rowOf(model, table, now, before)));
    }
    state.subscribe(["subject", "relation", "dropped"], () => { drawAnswer(); drawMap(); });
    state.subscribe(["seed", "noise"], later);
    // undone from outside of this view
    state.subscribe("changed", () => {
      if (state.get("changed") === mine) return;
      base = start;
      mine = null;
      heal();
      near.hidden = true;
      report.set("");
      later();
    });
    addEventListener("resize", drawMap);
    return { shown: later };
  },
};
