// The pictures of `view_store`: the scores or the matrix as a map, the margins as a histogram, recall against N.

const LARGEST = 96; // rows of a map: more would be too small to see
const BINS = 24;

/** Cells in two colours and signs: positive ones are filled from below, negative ones from above. */
export function map(ctx) {
  const { charts, ui } = ctx;
  let values = [], n = 0, full = 0, columns = 1, scale = 1, store = null, named = [], what = "scores";
  const at = (i) => values[Math.floor(i / columns) * full + (i % columns)];
  const cells = charts.cells("The map", {
    describe: (i) => {
      const [row, column] = [Math.floor(i / columns), i % columns];
      if (what === "W") return `W, row ${row + 1}, column ${column + 1}: ${ui.number(at(i), 3)}`;
      return `the score of ${named[column].output} for ${named[row].input}: ${ui.number(at(i), 3)}` +
        `${row === column ? ", the right answer" : store.said[row] === column ? ", the answer that wins" : ""}`;
    },
    paint: (i, context, x, y, width, height) => {
      const value = at(i), share = Math.min(1, Math.abs(value) / scale), filled = height * share;
      context.fillStyle = charts.colour(value < 0 ? "--c2" : "--c1");
      context.globalAlpha = width < 7 ? share : 1;
      context.fillRect(x, width < 7 ? y : value < 0 ? y : y + height - filled, width, width < 7 ? height : filled);
      context.globalAlpha = 1;
      const [row, column] = [Math.floor(i / columns), i % columns];
      if (what === "scores" && store.said[row] === column && row !== column) {
        context.strokeStyle = charts.colour("--bad");
        context.strokeRect(x + 0.5, y + 0.5, width - 1, height - 1);
      }
    },
  });
  const about = ui.h("p", { class: "small soft" }), root = ui.h("div", {}, about, cells);
  root.show = (now, names, kind) => {
    [store, named, what] = [now, names, kind];
    values = kind === "W" ? store.W : store.scores;
    full = kind === "W" ? store.d : store.problem.M;
    n = Math.min(full, LARGEST);
    columns = n;
    const largest = values.reduce((most, x) => Math.max(most, Math.abs(x)), 1e-12);
    scale = kind === "W" ? largest : Math.max(1e-12, Math.min(largest, 1.2 * median(store)));
    const room = Math.max(240, Math.min(620, (root.clientWidth || 600) - 8)), size = Math.max(3, Math.min(22, Math.floor(room / n)));
    about.textContent = (kind === "W" ? `All ${store.d} × ${store.d} numbers of W.` : "Rows are inputs, columns are outputs, and the right " +
      `answers lie on the diagonal. Framed: a wrong answer that wins${full > n ? `; the first ${n} of ${full}` : ""}.`) +
      ` Blue from below or strong: positive; orange from above: negative.`;
    cells.set({ n: n * n, columns, width: size, height: size });
  };
  return root;
}

function median({ scores, problem: { N, M, f } }) {
  const own = Array.from({ length: N }, (_, x) => Math.abs(scores[x * M + f[x]])).sort((a, b) => a - b);
  return own[Math.floor(N / 2)] || 1;
}

/** The margins of all inputs. What is below 0 is forgotten: hatched. */
export function histogram(ctx) {
  const { h, number } = ctx.ui, W = 640, H = 190, L = 40, B = 34, T = 16;
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg"), words = h("p", { class: "small soft" });
  svg.setAttribute("viewBox", `0 0 ${W} ${H}`);
  svg.setAttribute("role", "img");
  const part = (tag, properties, text = null) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(properties)) element.setAttribute(name, value);
    if (text !== null) element.textContent = text;
    svg.append(element);
    return element;
  };
  const root = h("figure", {}, h("figcaption", {}, "The margins: by how much the right answer wins"), svg, words);
  root.show = ({ margins, N }) => {
    svg.replaceChildren();
    const pattern = part("pattern", { id: "lost", width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" });
    const stripe = document.createElementNS("http://www.w3.org/2000/svg", "rect");
    for (const [name, value] of Object.entries({ width: 3, height: 6, style: "fill:var(--badfill)" })) stripe.setAttribute(name, value);
    pattern.append(stripe);
    const least = margins.reduce((a, b) => Math.min(a, b), 0), most = margins.reduce((a, b) => Math.max(a, b), 0) || 1;
    const width = (most - least) / BINS || 1, low = Math.floor(least / width) * width; // 0 lies between two bins
    const bins = new Int32Array(Math.ceil((most - low) / width) + 1);
    for (const margin of margins) bins[Math.floor((margin - low) / width + 1e-9)] += 1;
    const high = Math.max(...bins), px = (x) => L + ((W - L - 10) * (x - low)) / (width * bins.length), py = (n) => H - B - ((H - B - T) * n) / high;
    bins.forEach((n, i) => {
      const x = low + i * width, lost = x + width / 2 < 0;
      const style = lost ? "fill:url(#lost);stroke:var(--bad)" : "fill:var(--fill)";
      if (n) part("rect", { x: px(x) + 0.5, y: py(n), width: Math.max(1, px(x + width) - px(x) - 1), height: H - B - py(n), style });
    });
    part("line", { x1: L, x2: W - 10, y1: H - B, y2: H - B, class: "axis" });
    part("line", { x1: px(0), x2: px(0), y1: T - 10, y2: H - B, class: "mark" });
    for (const x of [low, 0, most]) if (x === 0 || Math.abs(px(x) - px(0)) > 50) part("text", { x: px(x), y: H - B + 17, "text-anchor": "middle" }, number(x, 2));
    part("text", { x: L - 6, y: py(high) + 4, "text-anchor": "end" }, high);
    part("text", { x: (L + W) / 2, y: H - 3, "text-anchor": "middle" }, "margin");
    const lost = margins.reduce((n, margin) => n + (margin <= 0), 0), smallest = margins.reduce((a, b) => Math.min(a, b), Infinity);
    words.textContent = lost ? `${lost} of ${N} lie at 0 or below (hatched): another answer wins.` : `None of ${N} is below 0. The smallest is ${number(smallest, 2)}.`;
    svg.setAttribute("aria-label", `Histogram of ${N} margins from ${number(smallest, 2)} to ${number(most, 2)}; ${words.textContent}`);
  };
  return root;
}

/** Recall against the number of associations: measured so far, and what theory says. */
export function recalls(ctx) {
  const chart = ctx.charts.lines("The share that is recalled", { label: "associations, N", low: 0 }, { label: "recall", low: 0, high: 1.02 });
  chart.show = (store, law, most) => {
    const series = [{ name: "recalled here", points: store.curve, dash: "", dots: true }];
    if (law.recall) {
      const Ns = Array.from({ length: 40 }, (_, i) => 2 + ((most - 2) * i) / 39);
      series.push({ name: "expected by theory, no free constant", points: Ns.map((N) => [N, law.recall(N)]), dash: "2 3" });
    } else series.push({ name: "all", points: [[0, 1], [most, 1]], dash: "1 4" });
    chart.set(series, [{ x: law.N, text: `${Math.round(law.N)}` }]);
  };
  return chart;
}
