// What is chosen, in one place: views read it, write it, and hear when it changes.

export class State {
  #values;
  #heard = new Set();
  #waiting = null;

  constructor(values) {
    this.#values = { ...values };
  }

  get(name) {
    if (!(name in this.#values)) throw new Error(`no state called ${name}`);
    return this.#values[name];
  }

  /** Change one value or more: set("seed", 3) or set({seed: 3, subject: 0}). Who listens hears of all of them at once. */
  set(name, value) {
    const news = typeof name === "string" ? { [name]: value } : name;
    const changed = Object.keys(news).filter((key) => this.get(key) !== news[key]);
    Object.assign(this.#values, news);
    if (!changed.length) return;
    if (this.#waiting) return changed.forEach((key) => this.#waiting.add(key));
    this.#waiting = new Set(changed);
    // after the event that is being handled: many changes in it are drawn once
    queueMicrotask(() => {
      const all = this.#waiting;
      this.#waiting = null;
      for (const [names, listener] of this.#heard) if (names.some((key) => all.has(key))) listener(all);
    });
  }

  /** `listener` is called whenever one of these values has changed. Returns a function that ends it. */
  subscribe(names, listener) {
    const entry = [[names].flat(), listener];
    this.#heard.add(entry);
    return () => this.#heard.delete(entry);
  }
}
