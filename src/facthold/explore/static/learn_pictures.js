// The pictures of `view_learn`: the loss with its levels and its prediction, the answers, and p-hat of one question.

const POINTS = 160; // of a curve: more are not seen
const TOP = 7; // answers of one question that are shown as bars
const WORDS = {
  known: "✓ known", hallucinated: "≈ hallucinated: it fits the relation", "by chance": "? right by chance",
  anything: "… anything",
};

/** The loss so far, dashed levels, and the prediction over all of it. */
export function curves(ctx) {
  const { charts } = ctx;
  const chart = charts.lines("The loss of the right answer, step by step", { label: "steps", low: 0 },
    { label: "cross entropy in nats", low: 0 });
  const about = ctx.ui.h("p", { class: "small soft" });
  chart.querySelector("details").before(about);
  chart.show = (run, seen, at, law, expected) => {
    const last = seen[seen.length - 1].step, end = Math.max(expected, last, 1), { start, relation, subject } = run.levels;
    const first = run.table.S ** 2 >= run.table.A * run.table.R ? relation : Math.max(relation, subject);
    const points = (name) => charts.thinned(seen, POINTS).map((look) => [look.step, look[name]]);
    const level = (y) => [[0, y], [end, y]];
    const series = [ // in the colours of figure 5
      { name: "measured: the right answer", points: points("loss"), dash: "", colour: 2 },
      { name: "measured: any answer of the relation", points: points("relation_loss"), dash: "7 3", colour: 0 },
    ];
    if (law) {
      const steps = Array.from({ length: POINTS + 1 }, (_, i) => (end * i) / POINTS);
      series.push({ name: law.of, points: steps.map((n) => [n, law.loss(n)]), dash: "2 3", colour: 4 });
    }
    series.push(
      { name: `knows nothing: ln ${run.table.A} = ${start.toFixed(2)}`, points: level(start), dash: "1 4", colour: 3 },
      { name: `guesses by the ${first === relation ? "relation" : "subject"}: ${first.toFixed(2)}`, points: level(first), dash: "12 4", colour: 5 },
    );
    about.textContent = law ? "The prediction is made from S, R, D and α alone; it has no free constant." : "No prediction here: the " +
      "equations are for facts in which every answer is as frequent as any other (Settings, Facts: made up, even).";
    chart.set(series, at < seen.length - 1 || last ? [{ x: seen[at].step, text: "" }] : []);
  };
  return chart;
}

/** What it says to a few questions. */
export function questions(ctx) {
  const root = ctx.ui.table("Its answers at this step", ["question", "its answer", "which is", { text: "p(right)", number: true }], []);
  root.show = (run, asked, rows) => {
    const { names, subjects, relations } = run.table;
    root.set(asked.map((row, i) => {
      const { said, verdict, p, right } = rows[i];
      return [`${names.subjects[subjects[row]]}, ${names.relations[relations[row]]}?`, names.answers[said], WORDS[verdict], ctx.ui.percent(p[right], 1)];
    }));
  };
  return root;
}

/** The probability of each answer to one question: the likeliest as bars, and all of them as cells in order. */
export function distribution(ctx) {
  const { charts, ui } = ctx;
  let p = [], run = null, right = -1, ofRelation = [];
  const bars = charts.bars("The likeliest answers to this question", ["answer", "probability", ""], [], { hideCaption: true });
  const cells = charts.cells("The probability of every answer", {
    describe: (a) => `${run.table.names.answers[a]}: ${ui.percent(p[a], 1)}${ofRelation[a] ? ", an answer of this relation" : ""}` +
      `${a === right ? ", the right one" : ""}`,
    paint: (a, context, x, y, width, height) => {
      context.fillStyle = charts.colour("--soften");
      context.fillRect(x, y, width, height);
      context.fillStyle = charts.colour("--fill");
      const filled = height * Math.sqrt(p[a]); // roots, so that a share of an eighth is seen too
      context.fillRect(x, y + height - filled, width, filled);
      context.fillStyle = charts.colour("--text");
      if (ofRelation[a]) context.fillRect(x, y + height - 2, width, 2);
      if (a !== right) return;
      context.strokeStyle = charts.colour("--text");
      context.lineWidth = 1.5;
      context.strokeRect(x + 0.75, y + 0.75, width - 1.5, height - 1.5);
    },
  });
  const root = ui.h("div", {}, bars, ui.h("p", { class: "small soft" }, "All answers side by side: the higher the column, the " +
    "likelier (by its root). Underlined: the answers of this relation. Framed: the right one."), cells);
  root.show = (now, look, row) => {
    run = now;
    ({ p, right } = run.says(look, row));
    ofRelation = run.table.sets.relation[run.table.relations[row]];
    const { A, names } = run.table, order = [...Array(A).keys()].sort((a, b) => p[b] - p[a]).slice(0, TOP);
    bars.set(order.map((a) => ({ label: `${names.answers[a]}${a === right ? " ✓" : ""}`, value: p[a], text: ui.percent(p[a], 1), kind: a === right ? "good" : "" })));
    const room = Math.max(240, Math.min(900, (root.clientWidth || 640) - 8)), columns = Math.min(A, Math.max(16, Math.floor(room / 8)));
    cells.set({ n: A, columns, width: Math.min(26, Math.floor(room / columns)), height: 44 });
  };
  return root;
}
