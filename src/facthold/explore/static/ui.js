// What every view is made of: real labels, real buttons, tables with headers. Each function returns an element; what
// can be changed later has a method `set` on it.

let ids = 0;
export const newId = (what) => `${what}-${++ids}`;

/** An element: h("p", {class: "soft", onclick: f}, "text", other). What is null or false is left out. */
export function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat(Infinity).filter((c) => c !== null && c !== undefined && c !== false));
  return element;
}

/** A card with a heading; `about` is one sentence below it that says what one sees. */
export function card(title, about, ...children) {
  const id = newId("heading");
  return h("section", { class: "card", "aria-labelledby": id }, h("h3", { id }, title), about ? h("p", { class: "soft" }, about) : null, ...children);
}

export function button(label, onClick, { pressed = null, kind = "", describedby = null } = {}) {
  const element = h("button", { type: "button", class: `button ${kind}`.trim(), onclick: onClick, "aria-pressed": pressed === null ? null : String(pressed), "aria-describedby": describedby }, label);
  element.press = (on) => element.setAttribute("aria-pressed", String(on));
  return element;
}

/** A slider with its label and its value in words. `set` moves it without telling `onInput`. */
export function slider(label, min, max, step, value, onInput, { format = String, help = "" } = {}) {
  const id = newId("slider");
  const output = h("output", { for: id }, format(value));
  const input = h("input", { id, type: "range", min, max, step, value, "aria-describedby": help ? `${id}-help` : null });
  const say = () => {
    output.textContent = format(Number(input.value));
    input.setAttribute("aria-valuetext", output.textContent);
  };
  input.addEventListener("input", () => { say(); onInput(Number(input.value)); });
  const root = h("div", { class: "control" }, h("div", { class: "between" }, h("label", { for: id }, label), output), input, help ? h("p", { class: "soft small", id: `${id}-help` }, help) : null);
  root.set = (now) => { input.value = now; say(); };
  root.range = (low, high) => { input.min = low; input.max = high; say(); };
  say();
  return root;
}

/** A list to choose from; `options` are texts or [value, text]. */
export function select(label, options, value, onChange) {
  const id = newId("select");
  const input = h("select", { id, onchange: () => onChange(input.value) });
  const root = h("div", { class: "control" }, h("label", { for: id }, label), input);
  root.fill = (list) => input.replaceChildren(...list.map((o) => (Array.isArray(o) ? h("option", { value: o[0] }, o[1]) : h("option", { value: o }, o))));
  root.set = (now) => { input.value = now; };
  root.fill(options);
  root.set(value);
  return root;
}

/** One of a few, all of them seen: radio buttons. */
export function choice(label, options, value, onChange) {
  const name = newId("choice");
  const inputs = options.map(([v, text]) => {
    const input = h("input", { type: "radio", name, value: v, checked: v === value, onchange: () => onChange(v) });
    return h("label", {}, input, " ", text);
  });
  const root = h("fieldset", { class: "choice" }, h("legend", {}, label), ...inputs);
  root.set = (now) => root.querySelectorAll("input").forEach((i) => { i.checked = i.value === now; });
  return root;
}

/** A text without case and accents, so that "cote d'ivoire" finds "Côte d’Ivoire". */
export const fold = (text) => text.normalize("NFKD").replace(/\p{M}/gu, "").replace(/[’‘]/g, "'").toLowerCase().replace(/\s+/g, " ").trim();

const MOST = 60; // options that are shown at once: more are found by typing

/** A field to type in, with the names that begin with or have in them what is typed (WAI-ARIA's combobox). */
export function combobox(label, names, value, onChoose) {
  const id = newId("combo"), list = h("ul", { role: "listbox", id: `${id}-list`, "aria-label": label, hidden: true });
  const input = h("input", { id, type: "text", role: "combobox", autocomplete: "off", spellcheck: "false", "aria-expanded": "false", "aria-controls": `${id}-list`, "aria-autocomplete": "list" });
  let chosen = value, found = [], at = -1;
  let folded = names.map(fold);

  function search(typed) {
    const wanted = fold(typed);
    const place = folded.map((name, i) => [name.startsWith(wanted) ? 0 : name.includes(wanted) ? 1 : 2, i]);
    return place.filter(([rank]) => rank < 2).sort((a, b) => a[0] - b[0] || a[1] - b[1]).map(([, i]) => i);
  }
  function open(typed) {
    found = search(typed);
    const shown = found.slice(0, MOST);
    list.replaceChildren(...shown.map((i, k) => h("li", { role: "option", id: `${id}-${k}`, "aria-selected": String(i === chosen), onmousedown: (e) => { e.preventDefault(); take(i); } }, names[i])));
    if (!shown.length) list.append(h("li", { role: "option", "aria-disabled": "true", "aria-selected": "false", class: "soft" }, `no ${label.toLowerCase()} is like that`));
    if (found.length > MOST) list.append(h("li", { role: "option", "aria-disabled": "true", "aria-selected": "false", class: "soft" }, `${found.length - MOST} more: type some letters`));
    list.hidden = false;
    input.setAttribute("aria-expanded", "true");
    move(typed && found.length ? 0 : found.indexOf(chosen));
  }
  function close() {
    list.hidden = true;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
    input.value = names[chosen] ?? "";
  }
  function move(to) {
    at = to;
    [...list.children].forEach((li, k) => li.classList.toggle("active", k === at));
    if (at < 0 || at >= Math.min(found.length, MOST)) return input.removeAttribute("aria-activedescendant");
    input.setAttribute("aria-activedescendant", `${id}-${at}`);
    list.children[at].scrollIntoView({ block: "nearest" });
  }
  function take(i) {
    chosen = i;
    close();
    onChoose(i);
  }
  input.addEventListener("input", () => open(input.value));
  input.addEventListener("click", () => { if (list.hidden) { input.select(); open(""); } });
  input.addEventListener("blur", close);
  input.addEventListener("keydown", (event) => {
    const n = Math.min(found.length, MOST);
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (list.hidden) return open("");
      if (n) move((at + (event.key === "ArrowDown" ? 1 : n - 1) + (at < 0 && event.key === "ArrowUp" ? 1 : 0)) % n);
    } else if (event.key === "Enter" && !list.hidden && at >= 0 && at < n) {
      event.preventDefault();
      take(found[at]);
    } else if (event.key === "Escape" && !list.hidden) {
      event.preventDefault();
      close();
    }
  });
  const root = h("div", { class: "control combo" }, h("label", { for: id }, label), input, list);
  root.set = (i) => { chosen = i; if (list.hidden) input.value = names[i] ?? ""; };
  root.fill = (others, i) => { names = others; folded = names.map(fold); root.set(i); };
  root.set(value);
  return root;
}

/** A table: `columns` are texts, or {text, number: true}; of a row the first cell names it. Scrolls by itself. */
export function table(caption, columns, rows, { hideCaption = false } = {}) {
  const heads = columns.map((c) => (typeof c === "string" ? { text: c } : c));
  const body = h("tbody");
  const root = h("div", { class: "scroll", role: "region", "aria-label": caption, tabindex: "0" },
    h("table", {}, h("caption", { class: hideCaption ? "hidden" : null }, caption), h("thead", {}, h("tr", {}, ...heads.map((c) => h("th", { scope: "col", class: c.number ? "number" : null }, c.text)))), body));
  root.set = (list) => body.replaceChildren(...list.map((row) => h("tr", {}, ...row.map((cell, k) => (k === 0 ? h("th", { scope: "row" }, cell) : h("td", { class: heads[k].number ? "number" : null }, cell))))));
  root.set(rows);
  return root;
}

/** A line that a screen reader says when it changes. */
export function live(text = "", kind = "") {
  const root = h("p", { class: `live ${kind}`.trim(), role: "status", "aria-live": "polite" }, text);
  root.set = (...now) => root.replaceChildren(...now);
  return root;
}

/** Something long that is closed at first. `fill` is called when it is first opened, and makes what is in it. */
export function more(summary, fill) {
  const inside = h("div"), root = h("details", {}, h("summary", {}, summary), inside);
  root.addEventListener("toggle", () => { if (root.open) inside.replaceChildren(fill()); });
  root.again = () => { if (root.open) inside.replaceChildren(fill()); };
  return root;
}

/** A number as it is read: four digits, a real minus. */
export function number(x, digits = 4) {
  if (!Number.isFinite(x)) return x > 0 ? "∞" : x < 0 ? "−∞" : "–";
  const size = Math.abs(x);
  const text = size !== 0 && (size < 1e-3 || size >= 1e6) ? x.toExponential(Math.max(0, digits - 2)) : Number(x.toPrecision(digits)).toString();
  return text.replace("-", "−");
}

export const percent = (share, digits = 0) => `${(100 * share).toFixed(digits)}%`;
export const counted = (n, what) => `${n.toLocaleString("en")} ${what}${n === 1 ? "" : "s"}`;
