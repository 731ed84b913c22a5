"use strict";
// Elements of the page. Text becomes text nodes, never HTML: names of models may be anything.

const END_OF_NAME = 10; // letters, for which the style leaves room

function h(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") Object.assign(element.style, value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(2).filter((child) => child !== null && child !== undefined));
  return element;
}

function panel(title, ...children) {
  return h("section", { class: "panel" }, title ? h("h2", {}, title) : null, ...children);
}

function faint(text) {
  return h("p", { class: "faint" }, text);
}

function swatch(colour, title, radius = "2px") {
  const mark = h("i", { class: "swatch", style: { background: `var(--${colour})`, borderRadius: radius } });
  return h("span", {}, mark, title);
}

// A row of cells in columns, as tables that draw only the rows in sight have them.
function cellsIn(template, classes, cells) {
  return h("div", { class: `cells ${classes}`, style: { gridTemplateColumns: template } }, cells);
}

function tile(value, label, note = "") {
  return h("div", { class: "tile", title: note }, h("b", {}, value), h("span", {}, label));
}

// A name that is cut inside where it has no room: long names of a model differ at their ends.
function shortened(name) {
  if (name.length <= 2 * END_OF_NAME) return name;
  const [start, end] = [name.slice(0, -END_OF_NAME), name.slice(-END_OF_NAME)];
  return [h("span", { class: "start" }, start), h("span", { class: "end" }, end)];
}

function meter(share) {
  const width = `${Math.min(100, Math.max(0, 100 * share))}%`;
  return h("span", { class: "meter", "aria-hidden": "true" }, h("i", { style: { width } }));
}

// A table whose columns with numbers have names that begin with "#".
function table(columns, rows, limit = 200) {
  const shown = (column, cell) => (typeof cell === "string" && !column.startsWith("#") ? breakable(cell) : cell);
  const cells = (tag, row) => row.map((cell, n) => h(tag, { class: cellClass(columns[n], cell) }, shown(columns[n], cell)));
  const body = h("tbody");
  const show = (from, to) =>
    body.append(...rows.slice(from, to).map((row) => h("tr", { class: row.class }, cells("td", row))));
  show(0, limit);
  const head = h("tr", {}, cells("th", columns.map((column) => column.replace(/^#/, ""))));
  const whole = h("div", { class: "scroll" }, h("table", {}, h("thead", {}, head), body));
  if (rows.length > limit) {
    const more = h("button", { onclick: () => { show(limit); more.remove(); } }, `Show all ${rows.length}`);
    whole.append(more);
  }
  return whole;
}

// Return a text that may break after the signs in names; only much longer words break elsewhere.
function breakable(text) {
  return text.split(/(?<=_)/).flatMap((piece, n) => (n ? [document.createElement("wbr"), piece] : [piece]));
}

function cellClass(column, cell) {
  const longest = innerWidth < 760 ? /[^\s_]{14,}/ : /[^\s_]{22,}/;
  const isLong = typeof cell === "string" && longest.test(cell);
  return [column.startsWith("#") ? "number" : "", isLong ? "long" : ""].filter(Boolean).join(" ");
}

function pressButtons(label, choices, current, onchoose) {
  const group = h("div", { class: "group", role: "group", "aria-label": label });
  const press = (value) => {
    for (const [n, [key]] of choices.entries()) group.children[n].setAttribute("aria-pressed", key === value);
  };
  for (const [key, title] of choices) {
    group.append(h("button", { onclick: () => { press(key); onchoose(key); } }, title));
  }
  press(current);
  return group;
}

// A field for the words of a view, which draws anew what is found.
function searchField(label, view, refresh) {
  const field = h("input", {
    type: "search",
    placeholder: label,
    "aria-label": label,
    spellcheck: "false",
    autocomplete: "off",
    oninput: () => {
      view.words = field.value.trim().toLowerCase();
      refresh();
    },
  });
  field.value = view.words;
  return field;
}

function foundOf(found, all, noun) {
  return found === all ? plural(all, noun) : `${found.toLocaleString("en")} of ${plural(all, noun)}`;
}

// A link to an item of a stage, in the view that shows stages unless the current one does, too.
function itemLink(stage, number, text, title = "") {
  const view = VIEWS_OF_ITEMS.has(chosen.view) ? chosen.view : "stages";
  return linkButton(text, "mono", title, () => choose({ view, stage, item: number }));
}

function linkButton(text, classes, title, onclick) {
  return h("button", { class: `link ${classes} ${cellClass("", text)}`, title, onclick }, breakable(text));
}

const VIEWS_OF_ITEMS = new Set(["stages", "kernels"]);

function showTooltip(text, x, y) {
  const box = document.getElementById("tooltip");
  box.hidden = !text;
  if (!text) return;
  box.textContent = text;
  const left = Math.min(x + 14, innerWidth - box.offsetWidth - 8);
  const top = y + 16 + box.offsetHeight > innerHeight ? y - box.offsetHeight - 10 : y + 16;
  Object.assign(box.style, { left: `${Math.max(4, left)}px`, top: `${Math.max(4, top)}px` });
}

// Let elements with data-n in `root` show a text while the pointer is on them.
function tooltips(root, textOf) {
  root.addEventListener("pointermove", (event) => {
    const number = event.target.dataset ? event.target.dataset.n : undefined;
    showTooltip(number === undefined ? "" : textOf(Number(number)), event.clientX, event.clientY);
  });
  root.addEventListener("pointerleave", () => showTooltip(""));
}
