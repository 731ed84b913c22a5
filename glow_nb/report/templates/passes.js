"use strict";
// The steps of the compiler in order, what each took, and what it changed.

const ROW_OF_PASS = 44;

function drawPasses(main) {
  const part = partNow();
  if (!part.passes.length) {
    main.append(panel("Passes", h("p", {}, part.no_passes)));
    return undefined;
  }
  const view = Object.assign(viewState({ words: "", order: "run", unchanged: false, current: -1 }), { part });
  const shown = h("div", { class: "panel", "aria-live": "polite" });
  const longest = Math.max(...part.passes.map((row) => row.seconds));
  const list = new VirtualList({
    label: "Steps",
    most: innerWidth < 1100 ? 0.4 : 0.7,
    height: ROW_OF_PASS,
    draw: (number) => passRow(part, number, longest),
    pick: (number) => {
      view.current = number;
      list.redraw();
      shown.replaceChildren(...passDetails(part, number));
    },
    classOf: (number) => (number === view.current ? "selected" : ""),
  });
  const refresh = () => list.show(passOrder(view));
  const search = searchField("Search steps", view, refresh);
  const order = pressButtons("Order", [["run", "In order"], ["time", "Slowest first"]], view.order, (key) => { view.order = key; refresh(); });
  const all = h("input", { type: "checkbox", checked: view.unchanged, onchange: (event) => { view.unchanged = event.target.checked; refresh(); } });
  main.append(h("div", { class: "bar" }, search, order, h("label", {}, all, "Also steps that changed nothing")));
  const box = h("section", { class: "stage shown" }, h("h2", {}, "Steps", h("span", { class: "count" }, passTotals(part))), list.element);
  main.append(h("div", { class: "beside" }, box, shown));
  refresh();
  if (list.rows.length) list.pick(list.rows.includes(view.current) ? view.current : list.rows[0]);
  return undefined;
}

function passTotals(part) {
  const changed = part.passes.filter((row) => row.changed).length;
  return `${changed} of ${part.passes.length} changed something`;
}

function passOrder(view) {
  const { passes } = view.part;
  const numbers = passes.map((_, number) => number);
  const found = numbers.filter((number) => {
    const row = passes[number];
    return (row.changed || view.unchanged) && `${row.name} ${row.does}`.toLowerCase().includes(view.words);
  });
  return view.order === "run" ? found : found.sort((one, other) => passes[other].seconds - passes[one].seconds);
}

// Return what a step changed, in words; one that makes a program of the graph changes no lines.
function changeSaid(part, number) {
  const row = part.passes[number];
  const before = part.passes[number - 1];
  const after = plural(row.items, row.level === "graph" ? "node" : "instruction");
  if (!row.changed) return "changed nothing";
  if (before && before.level !== row.level) return `makes ${after} of the graph`;
  if (row.removed || row.added) return `−${row.removed} +${row.added} lines, ${after} after it`;
  return `the same lines, with other numbers in constants; ${after} after it`;
}

function passRow(part, number, longest) {
  const row = part.passes[number];
  return [
    h("span", { class: "name" }, `${number}  ${row.name}`),
    h("span", { class: "about" }, meter(row.seconds / longest), ` ${seconds(row.seconds)} · ${changeSaid(part, number)}`),
  ];
}

function passDetails(part, number) {
  const row = part.passes[number];
  const constants = row.constants ? `, ${row.constants > 0 ? "+" : "−"}${plural(Math.abs(row.constants), "constant")}` : "";
  const about = `Step ${number} of the ${row.level}, ${seconds(row.seconds)}: ${changeSaid(part, number)}${constants}.`;
  const body = row.lines.length ? differenceLines(row.lines) : null;
  return [h("h2", {}, row.name), row.does ? h("p", {}, row.does) : null, faint(about), body].filter(Boolean);
}

const CLASSES_OF_MARKS = { "-": "gone", "+": "new", "@": "comment" };

function differenceLines(lines) {
  const rows = lines.map((line) => {
    const [mark, text] = [line[0], line.slice(1)];
    const shown = { "@": "⋯", "-": "−" }[mark] || mark;
    return h("div", { class: CLASSES_OF_MARKS[mark] || "" }, `${shown} ${mark === "@" ? text.trim() : text}`);
  });
  return h("div", { class: "code diff", tabindex: "0", role: "region", "aria-label": "Lines before and after" }, rows);
}
