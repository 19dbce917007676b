// The page: the model out of the page's own text, the tabs, and what all views share.

import * as charts from "facthold/charts";
import { everyFact } from "facthold/many";
import { Model } from "facthold/model";
import { bytesOf, read } from "facthold/safetensors";
import { State } from "facthold/state";
import * as ui from "facthold/ui";
import apart from "facthold/view_apart";
import ask from "facthold/view_ask";
import learn from "facthold/view_learn";
import mend from "facthold/view_mend";
import store from "facthold/view_store";

/** The views, in the order of their tabs. */
const VIEWS = [ask, apart, mend, learn, store];

function context() {
  const file = read(bytesOf(document.getElementById("model").textContent.trim()));
  const { model, table } = Model.of(file);
  const state = new State({
    subject: table.subjects[0], relation: table.relations[0], seed: 0, noise: model.task.T - 3,
    dropped: "", // positions of the prompt that are left out, with commas between
    changed: null, // {model, table, what}: the model with other weights; null as it came
  });
  const start = JSON.parse(document.getElementById("start").textContent);
  if (start) state.set(start);
  const ctx = { model, table, state, ui, charts, everyFact };
  /** The model and the facts as they are now: with the weights that a view has changed. */
  ctx.now = () => state.get("changed") ?? { model, table };
  return ctx;
}

function tabs(ctx) {
  const list = document.getElementById("tabs"), place = document.getElementById("views");
  const opened = new Map();
  const buttons = VIEWS.map((view) => {
    const tab = ui.h("button", { type: "button", role: "tab", id: `tab-${view.id}`, "aria-controls": `view-${view.id}`, onclick: () => open(view) }, view.title);
    place.append(ui.h("div", { role: "tabpanel", id: `view-${view.id}`, "aria-labelledby": `tab-${view.id}`, tabindex: "0", hidden: true }));
    return tab;
  });
  list.append(...buttons);

  function open(view, focus = false) {
    VIEWS.forEach((other, i) => {
      const on = other === view;
      buttons[i].setAttribute("aria-selected", String(on));
      buttons[i].tabIndex = on ? 0 : -1;
      const panel = document.getElementById(`view-${other.id}`);
      if (!on && !panel.hidden) opened.get(other)?.hidden?.();
      panel.hidden = !on;
      if (on && focus) buttons[i].focus();
    });
    const panel = document.getElementById(`view-${view.id}`);
    if (!opened.has(view)) {
      panel.append(ui.h("p", { class: "summary" }, view.summary));
      opened.set(view, view.mount(panel, ctx) ?? {});
    }
    opened.get(view).shown?.();
    try { history.replaceState(null, "", `#${view.id}`); } catch { /* not where a page may not change its address */ }
  }
  list.addEventListener("keydown", (event) => {
    const at = buttons.indexOf(document.activeElement), n = VIEWS.length;
    const to = { ArrowRight: (at + 1) % n, ArrowLeft: (at + n - 1) % n, Home: 0, End: n - 1 }[event.key];
    if (at < 0 || to === undefined) return;
    event.preventDefault();
    open(VIEWS[to], true);
  });
  open(VIEWS.find((view) => location.hash === `#${view.id}`) ?? VIEWS[0]);
}

/** Light or dark as the system has it, or as the button says. */
function theme() {
  const root = document.documentElement, system = matchMedia("(prefers-color-scheme: dark)");
  const dark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const button = ui.button("", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    say();
    charts.redraw();
  });
  const say = () => { button.textContent = dark() ? "Light colours" : "Dark colours"; };
  system.addEventListener("change", say);
  say();
  document.getElementById("theme").append(button);
}

/** Weights that a view has changed hold in all views: say so, and offer the way back. */
function changes(ctx) {
  const place = document.getElementById("changed");
  const back = ui.button("Undo all changes", () => ctx.state.set("changed", null));
  const say = ui.live();
  place.append(say, back);
  const show = () => {
    const changed = ctx.state.get("changed");
    place.hidden = !changed;
    say.set(changed ? `The weights are changed: ${changed.what}. All tabs show the changed model.` : "");
  };
  ctx.state.subscribe("changed", show);
  show();
}

const ctx = context();
theme();
changes(ctx);
tabs(ctx);
globalThis.facthold = ctx; // for whoever opens the console
document.documentElement.dataset.ready = "yes";
