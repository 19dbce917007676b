// The question that is asked, chosen in any view and the same in all: subject, relation, and the noise of the prompt.

import { prompt } from "facthold/prompts";
import { verdict } from "facthold/model";
import { button, combobox, h, live, number, slider } from "facthold/ui";

/** The tokens of the prompt as it stands: those that are dropped are left out. `all` has them too. */
export function asked(ctx) {
  const { state } = ctx, { model } = ctx.now();
  const all = [...prompt(model.task, state.get("subject"), state.get("relation"), state.get("seed"), state.get("noise"))];
  const dropped = new Set(state.get("dropped").split(",").filter(Boolean).map(Number));
  return { all, dropped, tokens: Int32Array.from(all.filter((_, t) => !dropped.has(t))) };
}

/** The answer to it now: everything that the model computes, and the verdict. */
export function answered(ctx) {
  const { model, table } = ctx.now(), { state } = ctx;
  const row = table.row(state.get("subject"), state.get("relation")), right = table.right(row);
  const question = asked(ctx), states = model.ask(question.tokens);
  return { ...question, states, row, right, verdict: verdict(states.logits, right), model, table };
}

/** The answer in words: "The model says Paris, which is right: ..." */
export function sentence({ model, table, verdict: v, right, row }) {
  const said = model.outputName(v.said, table), rival = model.outputName(v.rival, table);
  const strong = h("strong", {}, said);
  if (row < 0) return ["The model says ", strong, `. This question is not in its table, so that no answer is right. The next is ${rival}, ${number(v.margin, 3)} behind.`];
  const names = right.map((a) => table.names.answers[a]).join(" or ");
  if (v.right) return ["The model says ", strong, ", which is ", h("span", { class: "good" }, "✓ right"), `. Its margin is ${number(v.margin, 3)}: by so much its score is above the next, ${rival}.`];
  if (v.margin === 0) return ["The scores of ", strong, ` and ${rival} are equal, and `, h("span", { class: "bad" }, "✗ a tie is no answer"), "."];
  return ["The model says ", strong, ", which is ", h("span", { class: "bad" }, "✗ wrong"), `: right is ${names}. Its score is ${number(-v.margin, 3)} too low.`];
}

/** Fields for the question. With `noise`, also those for the noise of the prompt. */
export function questionBar(ctx, { noise = false } = {}) {
  const { state, table, model } = ctx;
  const choose = (name) => (i) => state.set({ [name]: i, dropped: "" });
  const subject = combobox("Subject", table.names.subjects, state.get("subject"), choose("subject"));
  const relation = combobox("Relation", table.names.relations, state.get("relation"), choose("relation"));
  const root = h("div", { class: "question" }, subject, relation, button("A fact at random", () => {
    const row = Math.floor(Math.random() * table.n);
    state.set({ subject: table.subjects[row], relation: table.relations[row], dropped: "" });
  }));
  state.subscribe(["subject", "relation"], () => { subject.set(state.get("subject")); relation.set(state.get("relation")); });
  if (noise) {
    const most = Math.max(64, 2 * model.task.T);
    const length = slider("Noise words in the prompt", 0, most, 1, state.get("noise"), (k) => state.set({ noise: k, dropped: "" }), { help: `The model was made for prompts of ${model.task.T} tokens: ${model.task.T - 3} noise words.` });
    const said = live(`noise number ${state.get("seed")}`, "small soft");
    const other = button("Draw other noise", () => state.set({ seed: state.get("seed") + 1, dropped: "" }));
    const first = button("The first noise", () => state.set({ seed: 0, dropped: "" }));
    root.append(h("div", { class: "wide" }, length), h("div", { class: "row" }, other, first, said));
    state.subscribe(["noise", "seed"], () => { length.set(state.get("noise")); said.set(`noise number ${state.get("seed")}`); });
  }
  return root;
}
