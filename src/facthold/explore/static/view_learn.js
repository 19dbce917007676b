// A model learns facts before one's eyes: figure 5 of the paper, with the answers that it gives on the way.

import { chooseQuestions, expectedSteps, makeTable, predicted, Run, usualRate } from "facthold/learn";
import { curves, distribution, questions } from "facthold/learn_pictures";
import { loop, still } from "facthold/loop";
import { OPTIMISERS } from "facthold/optimisers";
import { stageWords } from "facthold/stages";

const SECONDS = 15; // for a whole run, where nobody says
const DRAWS_PER_SECOND = 6; // of the pictures; steps go on between
const MOST_SUBJECTS = 128; // of the page's own facts: more would make a step take longer than a frame
const START = { kind: "balanced", S: 16, R: 4, D: 8, log_alpha: -5, optimiser: "sgd", seed: 1 }; // figure 5
const REAL = { S: 64, R: 4, log_alpha: -3 }; // as `facthold watch countries` starts

export default {
  id: "learn",
  title: "Watch it learn",
  summary: "A small model learns facts, here and now: linear attention, as in section 5 of the paper. It first says " +
    "anything, then some answer that fits what is asked (it hallucinates), then the fact.",
  mount,
};

function mount(root, ctx) {
  const { ui } = ctx, { h } = ui, whole = (n) => n.toLocaleString("en");
  const source = ctx.table, real = source.R > 1 && source.labels !== null;
  const chosen = { ...START, ...(real ? { kind: "facts", ...REAL } : {}) };
  let run, law, expected, shown = 0, asked = [], due = 0, sinceDrawn = 0, said = "", before = 0, pace = null;

  const about = h("p", { class: "answer", id: "learn-now" }), stage = ui.live(), count = h("p", { class: "soft" }), slow = h("p", { class: "soft small" });
  const kinds = [["balanced", "made up, even (figure 5)"], ["random", "made up, random"]];
  const controls = {
    kind: ui.select("Facts", real ? [["facts", "some facts of this page"], ...kinds] : kinds, chosen.kind, (kind) => {
      Object.assign(chosen, kind === "facts" ? REAL : { S: START.S, R: START.R, D: START.D, log_alpha: START.log_alpha }, { kind });
      begin(true);
    }),
    optimiser: ui.select("Optimiser", Object.entries(OPTIMISERS), chosen.optimiser, (optimiser) => change({ optimiser }, true)),
    S: ui.slider("Subjects, S", 2, 64, 1, chosen.S, (S) => change({ S }, true)),
    R: ui.slider("Relations, R", 2, 8, 1, chosen.R, (R) => change({ R }, true)),
    D: ui.slider("Answers of each relation, D", 2, 16, 1, chosen.D, (D) => change({ D }, true)),
    alpha: ui.slider("Every weight at the start, α", -8, -0.5, 0.5, chosen.log_alpha, (log_alpha) => change({ log_alpha }), {
      format: (x) => ui.number(10 ** x, 2), help: "Smaller: a longer plateau under gradient descent.",
    }),
    lr: ui.slider("Length of a step", -4, 1, 0.05, 0, (x) => change({ lr: 10 ** x }), { format: (x) => ui.number(10 ** x, 2) }),
    speed: ui.slider("Speed", 0, 5, 0.1, 2.6, () => {}, { format: (x) => `${whole(Math.round(10 ** x))} steps a second` }),
    back: ui.slider("Look back", 0, 1, 1, 0, (i) => look(i), { format: () => said, help: "The arrow keys go back and forth through what was seen." }),
  };
  const play = ui.button("Play", () => (frames.running ? frames.stop() : start()), { kind: "wide" });
  const one = ui.button("One step", () => forward(1));
  const many = ui.button("", () => forward(run.every));
  const again = ui.button("Start again", () => begin(false));
  const other = ui.button("Other facts", () => change({ seed: chosen.seed + 1 }));
  const curve = curves(ctx), table = questions(ctx), picture = distribution(ctx);
  const question = ui.select("Question", [["0", "-"]], "0", (row) => { asked[0] = Number(row); draw(); });

  root.append(
    h("section", { class: "card", "aria-label": "What it says now" },
      h("div", { class: "row" }, play, one, many, again, other), about, stage, count,
      controls.back, controls.speed, slow),
    ui.card("The loss", "It rests where a model guesses from a part of the question alone: that is the plateau.", curve),
    ui.card("What it answers", "An answer is the one with most of the probability; where none has more than half, it is drawn.",
      table, question, picture),
    ui.card("Settings", "A change starts the run again.",
      h("div", { class: "sliders" }, controls.kind, controls.optimiser, controls.S, controls.R, controls.D, controls.alpha, controls.lr)),
  );

  const frames = loop(frame, (running) => {
    play.textContent = running ? "Pause" : "Play";
    if (!running) look(run.seen.length - 1);
  });

  function change(news, usual = false) {
    Object.assign(chosen, news);
    begin(usual);
  }

  /** From the first step. `usual`: with the length of a step that goes with these facts and this optimiser. */
  function begin(usual) {
    const facts = chosen.kind === "facts", going = run === undefined ? !still() : frames.running;
    if (facts) {
      chosen.S = Math.min(chosen.S, source.S, MOST_SUBJECTS);
      chosen.R = Math.min(chosen.R, source.R);
    } else if (chosen.kind === "balanced") chosen.S = Math.max(1, Math.round(chosen.S / chosen.D)) * chosen.D;
    controls.S.range(facts ? 2 : chosen.kind === "balanced" ? chosen.D : 2, facts ? Math.min(source.S, MOST_SUBJECTS) : 64);
    controls.R.range(2, facts ? Math.min(source.R, 8) : 8);
    controls.D.hidden = facts;
    controls.S.querySelector("input").step = chosen.kind === "balanced" ? chosen.D : 1;
    for (const name of ["kind", "optimiser", "S", "R", "D"]) controls[name].set(chosen[name]);
    controls.alpha.set(chosen.log_alpha);
    const made = makeTable(chosen.kind, { ...chosen, source });
    if (usual || !chosen.lr) chosen.lr = usualRate(chosen.kind, made, chosen.optimiser);
    controls.lr.set(Math.log10(chosen.lr));
    const settings = { alpha: 10 ** chosen.log_alpha, optimiser: chosen.optimiser, lr: chosen.lr };
    const choices = facts ? Math.max(2, Math.round(made.A / made.R)) : chosen.D;
    expected = expectedSteps(chosen.kind, made, choices, settings);
    law = predicted(chosen.kind, made, chosen.D, { ...settings, steps: 2 * expected });
    run = new Run(made, settings, expected);
    if (usual) controls.speed.set(Math.min(5, Math.max(0, Math.log10(expected / SECONDS))));
    [shown, due, said, before, pace] = [0, 0, "", 0, null];
    asked = chooseQuestions(made);
    const { names, subjects, relations } = made;
    question.fill(Array.from({ length: made.n }, (_, i) => [String(i), `${names.subjects[subjects[i]]}, ${names.relations[relations[i]]}`]));
    question.set(String(asked[0]));
    stage.set("");
    frames.stop();
    draw();
    if (going) frames.start();
  }

  function start() {
    if (run.finished) return begin(false), frames.start();
    shown = run.seen.length - 1;
    frames.start();
  }

  function frame(seconds, until) {
    due += seconds * 10 ** Number(controls.speed.querySelector("input").value);
    while (due >= 1 && !run.finished && performance.now() < until) {
      run.step();
      due -= 1;
    }
    due = Math.min(due, 1); // what was too much is not owed
    if ((sinceDrawn += seconds) > 1 / DRAWS_PER_SECOND) {
      pace = (run.learner.steps - before) / sinceDrawn;
      before = run.learner.steps;
      draw();
    }
    return !run.finished;
  }

  function forward(steps) {
    frames.stop();
    for (let i = 0; i < steps; i++) run.step();
    look(run.seen.length - 1);
  }

  function look(i) {
    frames.stop();
    shown = i;
    draw();
  }

  function draw() {
    sinceDrawn = 0;
    // while it runs, what is kept anyway; a look costs as much as a step
    const seen = frames.running ? run.looks : run.seen, at = frames.running ? seen.length - 1 : Math.min(shown, seen.length - 1), now = seen[at];
    const found = run.stageAt(seen, at), words = stageWords(found), rows = asked.map((row) => run.says(now, row));
    shown = at;
    about.textContent = `Step ${whole(now.step)}: ${words}.`;
    // a screen reader hears of stages, and not of every step
    const news = frames.running ? `${found.stage}` : `${found.stage} ${now.step}`;
    if (news !== stage.dataset.news) {
      stage.dataset.news = news;
      stage.set(h("span", { class: "hidden" }, about.textContent));
    }
    const n = run.table.n, right = Math.round(now.accuracy * n);
    count.textContent = `It recalls ${whole(right)} of ${whole(n)} facts. The loss is ${now.loss.toFixed(3)} nats; of guessing ` +
      `by the relation it would be ${run.levels.relation.toFixed(3)}, of knowing nothing ${run.levels.start.toFixed(3)}.`;
    const wanted = 10 ** Number(controls.speed.querySelector("input").value);
    slow.textContent = frames.running && pace !== null && pace < 0.7 * wanted ? `As fast as it goes here: ${whole(Math.round(pace))} steps a second.` : "";
    said = `step ${whole(now.step)} of ${whole(seen[seen.length - 1].step)}`;
    controls.back.range(0, Math.max(1, seen.length - 1));
    controls.back.set(at);
    many.textContent = run.every > 1 ? `${whole(run.every)} steps` : "Next look";
    many.hidden = run.every === 1;
    curve.show(run, seen, at, law, expected);
    table.show(run, asked, rows);
    picture.show(run, now, asked[0]);
  }

  begin(true);
  return { hidden: () => frames.stop() };
}
