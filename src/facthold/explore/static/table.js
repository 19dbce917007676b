// The facts: which answers are right for which subject and relation, and what all of them are called.

export class Table {
  /** `columns` are {subjects, relations, answers}, one number a fact; `also` are pairs (row, further right answer). */
  constructor({ S, R, A, columns, also = [], labels = null }) {
    Object.assign(this, { S, R, A, also, n: columns.subjects.length, ...columns });
    const numbers = (n) => Array.from({ length: n }, (_, i) => String(i));
    this.labels = labels;
    this.names = { subjects: labels?.subjects ?? numbers(S), relations: labels?.relations ?? numbers(R), answers: labels?.answers ?? numbers(A) };
    this.rows = new Map();
    for (let i = 0; i < this.n; i++) this.rows.set(this.subjects[i] * R + this.relations[i], i);
    this.more = new Map();
    for (let i = 0; i + 1 < also.length; i += 2) this.more.set(also[i], [...(this.more.get(also[i]) ?? []), also[i + 1]]);
  }

  /** The row of (s, r); -1 where the table does not have it. */
  row(s, r) {
    return this.rows.get(s * this.R + r) ?? -1;
  }

  /** All right answers of a row, the first of them first. */
  right(row) {
    return row < 0 ? [] : [this.answers[row], ...(this.more.get(row) ?? [])];
  }

  /** What a row asks: "France, capital". */
  question(row) {
    return `${this.names.subjects[this.subjects[row]]}, ${this.names.relations[this.relations[row]]}`;
  }

  /** The table in which a row has this answer, and no other. */
  replaced(row, a) {
    const columns = { subjects: this.subjects, relations: this.relations, answers: this.answers.slice() };
    columns.answers[row] = a;
    const also = [];
    for (let i = 0; i + 1 < this.also.length; i += 2) if (this.also[i] !== row) also.push(this.also[i], this.also[i + 1]);
    return new Table({ S: this.S, R: this.R, A: this.A, columns, also, labels: this.labels });
  }
}
