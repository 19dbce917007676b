// Ask: the prompt, where each head looks, what heads and neurons put out, and the scores of the answers.

import { partsOf } from "facthold/locate";
import { answered, questionBar, sentence } from "facthold/question";

const TOP = 8, HEADS = 12, NEURONS = 10;

export default {
  id: "ask",
  title: "Ask",
  summary: "Choose a question and follow it through the model: from the words of the prompt over the attention heads and the neurons to the answer.",

  mount(root, ctx) {
    const { ui, charts, state } = ctx, { h, number, percent, card } = ui;
    const answer = ui.live("", "answer");
    const scores = charts.bars("Scores of the best outputs", ["output", "score", "", "what it is"], []);
    const chips = h("div", { class: "chips", role: "group", "aria-label": "Tokens of the prompt" });
    const chipsSaid = ui.live("", "small soft");
    const heads = ui.table("Heads, those that add most first", ["head", "looks most at", { text: "share", number: true }, { text: "adds to the margin", number: true }, "pushes most by itself"], []);
    const looks = h("p", {});
    const neurons = charts.bars("Neurons that fire", ["neuron", "output", "", "pushes most"], []);
    const silent = ui.live("", "small soft");
    let shown = null, order = [];
    const map = charts.cells("How much each head looks at each token", {
      describe: (i) => {
        const T = shown.tokens.length, head = order[Math.floor(i / T)], t = i % T;
        return `head ${head} looks at ${shown.model.tokenName(shown.tokens[t], shown.table)} with ${percent(shown.states.attention[t * shown.model.H + head], 1)} of its attention`;
      },
      paint: (i, context, x, y, w, hgt) => {
        const T = shown.tokens.length, share = shown.states.attention[(i % T) * shown.model.H + order[Math.floor(i / T)]];
        context.globalAlpha = 0.06 + 0.94 * share;
        context.fillStyle = charts.colour("--accent");
        context.fillRect(x, y, w, hgt);
        context.globalAlpha = 1;
      },
    });
    const alternative = ui.more("The same as a table", () => {
      const T = shown.tokens.length;
      const columns = ["head", ...Array.from(shown.tokens, (z) => ({ text: shown.model.tokenName(z, shown.table), number: true }))];
      return ui.table("Attention of each head to each token", columns, order.map((g) => [`head ${g}`, ...Array.from({ length: T }, (_, t) => percent(shown.states.attention[t * shown.model.H + g], 1))]));
    });
    const timed = h("p", { class: "small soft timing" });

    root.append(
      card("Your question", null, questionBar(ctx), answer),
      card("The answer", "A score for everything the model could say. The highest is said; the margin is what the right answer is ahead of its best rival.", scores),
      card("The prompt", "What the model reads: the subject, the relation, words that mean nothing (noise), and a last token, EOS, at which it answers. Click a word to leave it out.", chips, chipsSaid, questionBar2(ctx)),
      card("Where the heads look", "A row for each attention head, a column for each token of the prompt: the darker, the more it looks there. Heads that add most to the answer come first.", looks, map, alternative),
      card("What the heads write", "What each head adds to the margin of the answer, directly and through the neurons, and which output its own vector points to most.", heads),
      card("Which neurons fire", "Neurons of the MLP that are on for this prompt, and the output that each pushes up most.", silent, neurons),
      timed,
    );

    function questionBar2() {
      const bar = questionBar(ctx, { noise: true });
      bar.querySelectorAll(":scope > .combo, :scope > button").forEach((e) => e.remove());
      return bar;
    }

    function drawChips({ all, dropped, model, table }) {
      const last = all.length - 1;
      const focused = [...chips.children].indexOf(document.activeElement);
      chips.replaceChildren(...all.map((z, t) => {
        const kind = t === 0 ? "subject" : t === 1 ? "relation" : t === last ? "eos" : "noise", name = model.tokenName(z, table);
        if (t === last) return h("span", { class: "chip eos" }, name);
        const out = dropped.has(t);
        return h("button", {
          type: "button", class: `chip ${kind}`, "aria-pressed": String(!out), "aria-label": `${name}: ${out ? "left out, click to put it back" : "in the prompt, click to leave it out"}`,
          onclick: () => {
            const now = new Set(dropped);
            if (!now.delete(t)) now.add(t);
            state.set("dropped", [...now].sort((a, b) => a - b).join(","));
          },
        }, name);
      }));
      if (focused >= 0) chips.children[focused]?.focus();
      chipsSaid.set(dropped.size ? `${ui.counted(dropped.size, "token")} left out of ${all.length}` : `${all.length} tokens`);
    }

    function best(direction, model, table) {
      const logits = model.logits(direction);
      let top = 0;
      for (let y = 1; y < logits.length; y++) if (logits[y] > logits[top]) top = y;
      return `${model.outputName(top, table)} (${number(logits[top], 3)})`;
    }

    function draw() {
      if (root.hidden) return;
      const start = performance.now();
      shown = answered(ctx);
      const { states, tokens, model, table, verdict, right } = shown, { H, d, m } = model, T = tokens.length;
      answer.set(...sentence(shown));
      const ranked = Array.from(states.logits.keys()).sort((a, b) => states.logits[b] - states.logits[a]).slice(0, TOP);
      if (verdict.answer >= 0 && !ranked.includes(verdict.answer)) ranked.push(verdict.answer);
      scores.set(ranked.map((y) => ({
        label: model.outputName(y, table), value: states.logits[y], text: number(states.logits[y], 4), kind: right.includes(y) ? "good" : "",
        note: [y === verdict.said ? "said" : "", right.includes(y) ? "✓ right answer" : y === verdict.rival ? "best rival" : ""].filter(Boolean).join(", "),
      })));
      drawChips(shown);
      // how far each head moves the right answer from its rival, directly and through the neurons that are on
      const parts = partsOf(model, states, verdict), adds = (g) => (parts ? parts.direct[g] + parts.through[g] : 0);
      order = Array.from({ length: H }, (_, g) => g).sort((a, b) => Math.abs(adds(b)) - Math.abs(adds(a)));
      looks.textContent = lookedAt(shown);
      const room = Math.max(160, (root.clientWidth || 800) - 110);
      map.set({ n: H * T, columns: T, width: Math.max(8, Math.min(26, Math.floor(room / T))), height: H > 16 ? 9 : 18, left: 62, names: H > 16 ? order.map((g, k) => (k % 2 ? "" : `head ${g}`)) : order.map((g) => `head ${g}`) });
      alternative.again();
      const least = 1e-3 * Math.abs(adds(order[0]));
      heads.set(order.slice(0, HEADS).filter((g) => Math.abs(adds(g)) >= least).map((g) => {
        let top = 0;
        for (let t = 1; t < T; t++) if (states.attention[t * H + g] > states.attention[top * H + g]) top = t;
        const writes = states.written.subarray(g * d, (g + 1) * d);
        return [`head ${g}`, model.tokenName(tokens[top], table), percent(states.attention[top * H + g]), number(adds(g), 3), best(writes, model, table)];
      }));
      const on = Array.from({ length: m }, (_, i) => i).filter((i) => states.hidden[i] !== 0).sort((a, b) => Math.abs(states.hidden[b]) - Math.abs(states.hidden[a]));
      silent.set(m ? `${on.length} of ${ui.counted(m, "neuron")} fire${on.length > NEURONS ? `; the ${NEURONS} that fire most` : ""}.` : "This model has no MLP, and so no neurons: its heads hold all facts.");
      neurons.set(on.slice(0, NEURONS).map((i) => ({ label: `neuron ${i}`, value: states.hidden[i], note: best(model.V.slice(i * d, (i + 1) * d).map((v) => v * states.hidden[i]), model, table) })));
      timed.textContent = `Computed and drawn in ${Math.ceil(performance.now() - start)} ms.`;
    }
    state.subscribe(["subject", "relation", "seed", "noise", "dropped", "changed"], draw);
    addEventListener("resize", () => draw());
    draw();
    return { shown: draw };
  },
};

/** How many heads look mostly at the subject, the relation, the noise and EOS, in words. */
function lookedAt({ model, states, tokens }) {
  const { H } = model, { S, R, EOS } = model.task, T = tokens.length, kinds = { "the subject": 0, "the relation": 0, noise: 0, EOS: 0, "several of these": 0 };
  for (let g = 0; g < H; g++) {
    const share = { "the subject": 0, "the relation": 0, noise: 0, EOS: 0 };
    for (let t = 0; t < T; t++) share[tokens[t] < S ? "the subject" : tokens[t] < S + R ? "the relation" : tokens[t] === EOS ? "EOS" : "noise"] += states.attention[t * H + g];
    kinds[Object.keys(share).find((kind) => share[kind] > 0.5) ?? "several of these"]++;
  }
  const said = Object.entries(kinds).filter(([, n]) => n).map(([kind, n]) => `${n} at ${kind}`);
  return `Of ${H} ${H === 1 ? "head" : "heads"}, by most of their attention: ${said.join(", ")}. A head that looks at EOS says the same whatever is asked.`;
}
