// A matrix that remembers, filled until it breaks: section 3 of the paper, one association after another.

import { loop, still } from "facthold/loop";
import { lawOf, METHODS, mostOf, namedAssociations, Store } from "facthold/store";
import { histogram, map, recalls } from "facthold/store_pictures";

const MOST = 700; // associations at most, for any method and d
const PACE = 6; // associations a second at first
const DRAWS_PER_SECOND = 6;

export default {
  id: "store",
  title: "Store until it breaks",
  summary: "One matrix W of d × d numbers remembers associations, such as “France, capital: Paris”. Each input and each " +
    "output is a random direction in d dimensions, and W is right if the right output has the highest score. Add more, " +
    "and see where it breaks, and whether theory knew.",
  mount,
};

function mount(root, ctx) {
  const { ui } = ctx, { h } = ui, named = namedAssociations(ctx.table, MOST), f = Int32Array.from(named, (_, i) => i);
  const chosen = { method: "outer", d: 24, N: 12, seed: 1, steps: 300, picture: "scores" };
  let store, law, most, filling = false, due = 0, sinceDrawn = 0;

  const about = h("p", { class: "answer", id: "store-now" }), news = ui.live(), theory = h("p", { class: "soft" });
  const controls = {
    method: ui.select("How W is made", Object.entries(METHODS), chosen.method, (method) => change({ method })),
    d: ui.slider("Dimensions, d", 4, 40, 1, chosen.d, (d) => change({ d }), { format: (d) => `${d} (${d * d} numbers)` }),
    N: ui.slider("Associations, N", 2, 100, 1, chosen.N, (N) => change({ N }, false)),
    steps: ui.slider("Steps of training", 10, 2000, 10, chosen.steps, (steps) => change({ steps })),
    pace: ui.slider("Speed", 1, 60, 1, PACE, () => {}, { format: (n) => `${n} associations a second` }),
    picture: ui.choice("Picture", [["scores", "scores of all outputs"], ["W", "the matrix W"]], chosen.picture, (picture) => {
      chosen.picture = picture;
      draw();
    }),
  };
  const play = ui.button("Fill it", () => { if (filling) stop(); else fill(); });
  const row = (n) => ui.button(`Add ${n === 1 ? "one" : n}`, () => change({ N: chosen.N + n }, false));
  const empty = ui.button("Empty it", () => change({ N: 2 }));
  const other = ui.button("Other directions", () => change({ seed: chosen.seed + 1 }));
  const picture = map(ctx), margins = histogram(ctx), curve = recalls(ctx);
  const list = ui.table("Some of what it was told, and what it says", ["input", "it says", "", { text: "margin", number: true }], []);
  root.append(
    h("section", { class: "card", "aria-label": "Fill the memory" },
      h("div", { class: "row" }, play, row(1), row(10), empty, other), about, news, theory,
      h("div", { class: "sliders" }, controls.method, controls.d, controls.N, controls.steps, controls.pace)),
    ui.card("Recall", "Each dot is this memory with so many associations; the thin line is where theory says that it breaks.", curve),
    ui.card("Margins", "A score is u · W e. The margin of an input is the score of its right output less the best other one: " +
      "as W fills up, noise from all other associations pushes margins below 0.", margins),
    ui.card("What it says", "The last that were stored, and what was forgotten.", list),
    ui.card("Inside", null, controls.picture, picture),
  );

  const frames = loop(frame, (running) => {
    if (!running) filling = false;
    play.textContent = filling ? "Pause" : "Fill it";
    if (!running) draw();
  });

  /** Other settings. `anew`: also another matrix, where it would else go on from this one. */
  function change(what, anew = true) {
    Object.assign(chosen, what);
    if (what.N !== undefined) filling = false;
    most = Math.min(MOST, mostOf(chosen.method, chosen.d));
    chosen.N = Math.max(2, Math.min(chosen.N, most));
    if (anew) {
      law = lawOf(chosen.method, chosen.d);
      store = new Store(f, chosen);
    } else store.fill(chosen.N);
    store.fillIn();
    controls.N.range(2, most);
    controls.N.set(chosen.N);
    controls.steps.hidden = !["sgd", "adam"].includes(chosen.method);
    if (store.done) frames.stop();
    else frames.start();
    draw();
  }

  function fill() {
    if (chosen.N >= most) change({ N: 2 });
    filling = true;
    due = 0;
    play.textContent = "Pause";
    frames.start();
  }

  function stop() {
    filling = false;
    play.textContent = "Fill it";
    if (store.done) frames.stop();
  }

  function frame(seconds, until) {
    while (!store.done && performance.now() < until) store.step();
    if (filling && store.done) {
      due = Math.min(2, due + seconds * Number(controls.pace.querySelector("input").value));
      store.look();
      for (; due >= 1 && store.done && chosen.N < most; due -= 1) store.fill((chosen.N += 1));
      if (chosen.N >= most && store.done) filling = false;
    }
    if ((sinceDrawn += seconds) > 1 / DRAWS_PER_SECOND) draw();
    return filling || !store.done;
  }

  function draw() {
    sinceDrawn = 0;
    store.look();
    controls.N.set(chosen.N);
    const { N, d, method, recall } = store, right = Math.round(recall * N), lost = N - right;
    about.textContent = `${N} associations in ${d * d} numbers: ${lost === 0 ? "it recalls all of them" : `it recalls ${right} of ${N}, and has lost ${lost}`}` +
      `${progress()}.`;
    const said = `${method} ${lost === 0} ${store.done}`;
    if (!frames.running && news.dataset.said !== `${said} ${N}`) {
      news.dataset.said = `${said} ${N}`;
      news.set(h("span", { class: "hidden" }, about.textContent));
    }
    const expected = law.recall ? `of ${N} it expects ${(law.recall(N) * N).toFixed(1)} to be recalled; ` : "";
    theory.textContent = `Theory, for d = ${d}: ${expected}${law.where}, N = ${Math.round(law.N)}.`;
    curve.show(store, law, most);
    margins.show(store);
    picture.show(store, named, chosen.picture);
    list.set(examples());
  }

  function progress() {
    const { solver, trainer } = store;
    if (trainer) return store.done ? ` after ${trainer.steps} steps` : `, at step ${trainer.steps} of at most ${chosen.steps}`;
    if (!solver) return "";
    return {
      separated: ", each with a positive margin", "not decided": ", and whether any matrix could is not decided",
      inseparable: "; no matrix recalls all of them, and this is proved by a certificate",
    }[solver.status] ?? `, after ${solver.steps} steps of Newton’s method`;
  }

  /** Some that were lost, and the last that were stored. */
  function examples() {
    const { N, margins: m, said } = store, all = [...Array(N).keys()];
    const lost = all.filter((x) => m[x] <= 0).slice(0, 5), last = all.slice(-4).filter((x) => !lost.includes(x));
    return [...lost, ...last].map((x) => [named[x].input, named[said[x]].output,
      m[x] > 0 ? "✓ right" : `✗ forgotten: ${named[x].output}`, ui.number(m[x], 2)]);
  }

  change({});
  if (!still()) fill();
  return { hidden: () => { filling = false; frames.stop(); } };
}
