// Tables of facts, one answer to each question, and what a guess from a part of the question leaves to the loss.

import { permutation, uniformStream } from "facthold/random";

/** A table from columns of whole numbers; the names are optional. `sets[r]` has the answers of relation r. */
export function tableOf({ S, R, A, subjects, relations, answers, names = null }) {
  const sets = { relation: masks(R, A, relations, answers), subject: masks(S, A, subjects, answers) };
  const [s, r, a] = [subjects, relations, answers].map((column) => Int32Array.from(column));
  return { S, R, A, n: answers.length, subjects: s, relations: r, answers: a, sets, names: names ?? numbers(S, R, A) };
}

function masks(n, A, tokens, answers) {
  const rows = Array.from({ length: n }, () => new Uint8Array(A));
  for (let i = 0; i < answers.length; i++) rows[tokens[i]][answers[i]] = 1;
  return rows;
}

function numbers(S, R, A) {
  const list = (n, word) => Array.from({ length: n }, (_, i) => `${word} ${i + 1}`);
  return { subjects: list(S, "subject"), relations: list(R, "relation"), answers: list(A, "answer") };
}

/** A table from [subject, relation, answer] texts. Answers are numbered relation by relation, so that a picture shows
 * those of a relation side by side. A question that is there twice keeps its first answer. */
export function fromRows(rows) {
  const relations = [...new Set(rows.map((row) => row[1]))], subjects = [...new Set(rows.map((row) => row[0]))];
  const place = (names) => new Map(names.map((name, i) => [name, i]));
  const ofSubject = place(subjects), ofRelation = place(relations), asked = new Set();
  const kept = rows.filter(([s, r]) => {
    const question = `${ofSubject.get(s)} ${ofRelation.get(r)}`;
    return !asked.has(question) && asked.add(question);
  });
  const answers = [...new Set(relations.flatMap((r) => kept.filter((row) => row[1] === r).map((row) => row[2])))];
  const ofAnswer = place(answers);
  return tableOf({
    S: subjects.length, R: relations.length, A: answers.length,
    subjects: kept.map((row) => ofSubject.get(row[0])),
    relations: kept.map((row) => ofRelation.get(row[1])),
    answers: kept.map((row) => ofAnswer.get(row[2])),
    names: { subjects, relations, answers },
  });
}

/** Subjects that most readers know something about: they come first where only some are shown. */
export const FAMILIAR = ["France", "Japan", "Brazil", "Kenya", "Peru", "Italy", "Egypt", "India"];

/** Each relation answers from its own block of D answers, each of them right for S / D subjects (figure 5). */
export function balancedTable(S, R, D, seed) {
  if (S % D) throw new Error(`D=${D} does not divide S=${S}, so the answers cannot be balanced`);
  const uniform = uniformStream(seed);
  return blocks(S, R, D, () => permutation(S, uniform).map((i) => i % D));
}

/** Section 4.4: each answer drawn from its relation's block of D. */
export function randomTable(S, R, D, seed) {
  const uniform = uniformStream(seed);
  return blocks(S, R, D, () => Array.from({ length: S }, () => Math.floor(uniform() * D)));
}

function blocks(S, R, D, draw) {
  const columns = { subjects: [], relations: [], answers: [] };
  const drawn = Array.from({ length: R }, draw);
  for (let s = 0; s < S; s++) {
    for (let r = 0; r < R; r++) {
      columns.subjects.push(s);
      columns.relations.push(r);
      columns.answers.push(r * D + drawn[r][s]);
    }
  }
  return tableOf({ S, R, A: R * D, ...columns });
}

/** p(z, a) for relations or subjects z, row by row; `nothing` is one row. */
export function joint(table, kind) {
  const { n, A, answers } = table;
  const tokens = { relation: table.relations, subject: table.subjects, nothing: new Int32Array(n) }[kind];
  const rows = { relation: table.R, subject: table.S, nothing: 1 }[kind], p = new Float64Array(rows * A);
  for (let i = 0; i < n; i++) p[tokens[i] * A + answers[i]] += 1 / n;
  return { p, rows };
}

/** The mean entropy of p*(a | z) in nats: the loss of the best guess from the relation, the subject, or nothing. */
export function entropyGiven(table, kind) {
  const { p, rows } = joint(table, kind), { A } = table;
  let entropy = 0;
  for (let z = 0; z < rows; z++) {
    const row = p.subarray(z * A, (z + 1) * A), total = row.reduce((sum, x) => sum + x, 0);
    for (const x of row) if (x > 0) entropy -= x * Math.log(x / total);
  }
  return entropy;
}

/** Losses that a curve may rest at. */
export function levelsOf(table) {
  return {
    start: Math.log(table.A), marginal: entropyGiven(table, "nothing"),
    relation: entropyGiven(table, "relation"), subject: entropyGiven(table, "subject"),
  };
}
