// The claims: which are shown, and in which order. Without scripts all of them are, as the page has them.
"use strict";
const claims = (() => {
  const controls = document.getElementById("claim-controls");
  if (!controls) return null;
  const body = document.querySelector("table.claims tbody"), rows = [...body.rows];
  const others = [...document.querySelectorAll(".not-run li")];
  const text = document.getElementById("claim-text"), sort = document.getElementById("claim-sort");
  const boxes = [...controls.querySelectorAll("input[type=checkbox]")], said = document.getElementById("claim-count");
  const order = new Map(boxes.map((box, i) => [box.value, i])); // from the best verdict to the worst
  const words = (element) => element.textContent.toLowerCase().replace(/\s+/g, " ");
  const orders = {
    place: (a, b) => rows.indexOf(a) - rows.indexOf(b),
    worst: (a, b) => order.get(b.dataset.verdict) - order.get(a.dataset.verdict) || rows.indexOf(a) - rows.indexOf(b),
    name: (a, b) => a.dataset.name.localeCompare(b.dataset.name),
  };
  const has = (element) => text.value.toLowerCase().split(/\s+/).every((word) => words(element).includes(word));

  function filter() {
    const wanted = new Set(boxes.filter((box) => box.checked).map((box) => box.value));
    for (const row of rows) row.hidden = !(wanted.has(row.dataset.verdict) && has(row));
    for (const item of others) item.hidden = !has(item);
    const shown = rows.filter((row) => !row.hidden).length;
    said.textContent = `${shown} of ${rows.length} shown`;
  }
  function arrange() {
    body.append(...[...rows].sort(orders[sort.value]));
  }
  text.addEventListener("input", filter);
  for (const box of boxes) box.addEventListener("change", filter);
  sort.addEventListener("change", arrange);
  controls.addEventListener("submit", (event) => event.preventDefault());
  controls.hidden = false;
  filter();
  return { filter, arrange };
})();

// A link to a claim shows it, whatever is filtered.
function reveal() {
  const target = location.hash.startsWith("#claim-") && document.getElementById(location.hash.slice(1));
  if (!target) return;
  target.hidden = false;
  target.closest("details")?.setAttribute("open", "");
  target.scrollIntoView();
}
addEventListener("hashchange", reveal);
reveal();
pictures.ready.then(() => (document.documentElement.dataset.ready = ""));
