// One run of learning, and all that was seen on the way, so that one can look back. No page in here.

import { balancedTable, FAMILIAR, fromRows, levelsOf, randomTable } from "facthold/fact_tables";
import { muonLoss, signLoss } from "facthold/even_steps";
import { answer, Learner, observe } from "facthold/learning";
import { RATES } from "facthold/optimisers";
import { uniformOf } from "facthold/random";
import { reduced } from "facthold/reduced";
import { safeStep } from "facthold/schedule";
import { stageOf } from "facthold/stages";

const MEMORY = 8e6, MOST = 400, LEAST = 60; // numbers that are kept of a run, and looks
const SURE = 0.5; // an answer is known if its probability is so far on the way from a mere guess to 1
const CAREFUL = 0.6; // of a step that should be stable: the curve then has no bumps
const FIRST_RELATIONS = ["capital", "currency", "language", "region"];

/** Some of a table's facts: the relations and subjects that are best known first, others evenly from all. */
export function someFacts(source, S, R, seed = 0) {
  const { subjects, relations, answers } = source.names;
  const known = (names, first) => [...first.filter((n) => names.includes(n)), ...names.filter((n) => !first.includes(n))];
  const rows = Array.from({ length: source.n }, (_, i) => {
    return [subjects[source.subjects[i]], relations[source.relations[i]], answers[source.answers[i]]];
  });
  const takenR = known(relations, FIRST_RELATIONS).slice(0, R);
  const others = subjects.filter((name) => !FAMILIAR.includes(name));
  const order = others.map((name, i) => [uniformOf(seed, i), name]).sort((a, b) => a[0] - b[0]).map(([, name]) => name);
  const takenS = new Set([...FAMILIAR.filter((name) => subjects.includes(name)), ...order].slice(0, S));
  const place = (row) => takenR.indexOf(row[1]);
  const rank = (row) => [FAMILIAR.indexOf(row[0])].map((i) => (i < 0 ? FAMILIAR.length : i))[0];
  const taken = rows.filter((row) => takenS.has(row[0]) && place(row) >= 0);
  return fromRows(taken.sort((a, b) => rank(a) - rank(b) || place(a) - place(b)));
}

export function makeTable(kind, { S, R, D, seed = 0, source = null }) {
  if (kind === "facts") return someFacts(source, S, R, seed);
  return kind === "balanced" ? balancedTable(S, R, D, seed) : randomTable(S, R, D, seed);
}

/** How long a step is where nobody says: as in figure 5 for made-up facts, else from the curvature of the loss. */
export function usualRate(kind, table, optimiser) {
  return optimiser === "sgd" && kind === "facts" ? Number((CAREFUL * safeStep(table)).toPrecision(2)) : RATES[optimiser];
}

/** The loss that the reduced equations give after some steps, and what they are of; null where there are none. */
export function predicted(kind, table, D, { alpha, optimiser, lr, steps }) {
  const { S, R } = table;
  if (kind !== "balanced" || R < 2 || D < 2) return null;
  if (optimiser === "sgd") {
    const { relation, subject } = reduced(S, R, D, Math.log(alpha));
    return { of: "predicted by the reduced equations", loss: (n) => relation.lossAfter(n, lr) + subject.lossAfter(n, lr) };
  }
  if (optimiser === "muon") {
    const loss = muonLoss(table, D, Math.max(steps * lr, 1));
    return { of: "predicted by Muon's reduced equations", loss: (n) => loss(n * lr) };
  }
  const of = optimiser === "sign" ? "predicted: x = y = 2 t²" : "predicted for sign descent, which Adam is near";
  return { of, loss: (n) => signLoss(R, D, n * lr) };
}

/** About how many steps a run takes, for the width of its picture. */
export function expectedSteps(kind, table, D, settings) {
  const law = predicted("balanced", table, D, { ...settings, steps: 100 / settings.lr });
  if (!law) return 1000;
  let steps = 64;
  while (law.loss(steps) > 0.03 && steps < 1e7) steps *= 1.1;
  return Math.ceil(steps);
}

/** Questions that tell: of as many relations as there are, not a relation's commonest answer, which a guess would hit. */
export function chooseQuestions(table, most = 4) {
  const counts = new Int32Array(table.A);
  for (const a of table.answers) counts[a] += 1;
  const byRelation = Array.from({ length: table.R }, (_, r) => {
    const rows = [...Array(table.n).keys()].filter((i) => table.relations[i] === r);
    const common = Math.max(...rows.map((i) => counts[table.answers[i]]));
    const telling = rows.filter((i) => counts[table.answers[i]] < common);
    return telling.length ? telling : rows;
  });
  const found = [], of = (row) => table.subjects[row];
  for (let turn = 0; turn < most; turn++) {
    for (const rows of byRelation) {
      const fresh = rows.filter((row) => !found.includes(row));
      // another subject each time, where there is one
      const next = fresh.find((row) => !found.some((other) => of(other) === of(row))) ?? fresh[0];
      if (next !== undefined && found.length < most) found.push(next);
    }
  }
  return found;
}

export class Run {
  constructor(table, settings, expected = 0) {
    Object.assign(this, { table, settings, levels: levelsOf(table), learner: new Learner(table, settings), every: 1 });
    const tokens = table.S + table.R + 2;
    this.most = Math.round(Math.min(MOST, Math.max(LEAST, MEMORY / (tokens * table.A))));
    while (expected > this.every * this.most) this.every *= 2;
    this.looks = [this.look()];
    this.now = this.looks[0];
  }

  look() {
    const theta = this.learner.theta();
    return { step: this.learner.steps, ...observe(this.table, theta), theta: Float32Array.from(theta) };
  }

  /** One step. What is seen is kept from time to time: as soon as there are too many looks, every second one goes. */
  step() {
    this.learner.step();
    this.now = null;
    if (this.learner.steps % this.every) return;
    this.looks.push((this.now = this.look()));
    if (this.looks.length > this.most) {
      this.every *= 2;
      this.looks = this.looks.filter((look) => look.step % this.every === 0);
    }
  }

  /** All looks, and one at the last step. */
  get seen() {
    this.now ??= this.look();
    const last = this.looks[this.looks.length - 1];
    return last.step < this.now.step ? [...this.looks, this.now] : this.looks;
  }

  get finished() {
    const { loss } = this.looks[this.looks.length - 1];
    return loss < 0.003 || !Number.isFinite(loss);
  }

  stageAt(seen, i) {
    const looks = seen.slice(0, i + 1);
    return stageOf(looks.map((look) => look.step), looks, this.levels);
  }

  /** What the model says to a question at a look: the answer that it gives most of its probability; where there is none,
   * one that is drawn from p-hat. */
  says(look, row) {
    const { table } = this, p = answer(table, look.theta, row).map(Math.exp), r = table.relations[row];
    let said = 0, plausible = 0, size = 0;
    for (let a = 0; a < table.A; a++) {
      if (p[a] > p[said]) said = a;
      if (table.sets.relation[r][a]) {
        plausible += p[a];
        size += 1;
      }
    }
    if (p[said] <= SURE) {
      let left = uniformOf(look.step, row, 7);
      said = p.findIndex((x) => (left -= x) < 0);
      if (said < 0) said = table.A - 1;
    }
    const right = table.answers[row], ignorant = size / table.A;
    const known = p[right] > SURE, told = plausible > ignorant + SURE * (1 - ignorant) && table.sets.relation[r][said];
    const verdict = known ? "known" : said === right ? "by chance" : told ? "hallucinated" : "anything";
    return { said, p, right, verdict };
  }
}
