"use strict";
// The calls of kernels with what they take, as a table that sorts, below the roofline.

const ROW_OF_CALL = 30;
const RATES_NOTE =
  "Nominal rates count the operations of the operators. Kernels by the algorithms of Winograd and Strassen carry out fewer, " +
  "so a nominal rate may exceed the peak; the chart and the limits count the operations that are carried out.";

// Each column: title, width, what it sorts by, cell, classes, and whether small numbers come first.
function callColumns(part) {
  const isTimed = part.calls.some((call) => call.time);
  const spent = (call) => (isTimed ? (call.time ? call.time.minimum : 0) : call.estimated_ns * 1e-9);
  const total = part.calls.reduce((sum, call) => sum + spent(call), 0) || 1;
  const items = part.stage.program.items;
  const kernels = part.stage.kernels.items;
  const nodes = (call) => items[call.instruction].origins.map((origin) => part.stage.model.items[origin].name).join(", ");
  const column = (title, width, value, cell, classes, ascends = false) => ({ title, width, value, cell, classes, ascends });
  const columns = [
    column("#", "2.6rem", (call) => call.instruction, (call) => String(call.instruction), "number", true),
    column("kernel", "minmax(6rem, 1fr)", null, (call) => kernels[call.kernel].kind, ""),
    column("made from", "minmax(6rem, 2fr)", null, (call) => shortened(nodes(call) || items[call.instruction].name), "mono"),
    column("plan", "minmax(5rem, 2fr)", null, (call) => call.plan, "mono widest"),
    column("threads", "4rem", (call) => call.threads, (call) => String(call.threads), "number widest"),
    column(isTimed ? "time" : "estimate", "5rem", spent, (call) => seconds(spent(call)), "number"),
    column("share", "8.8rem", spent, (call) => [percent(spent(call) / total), " ", meter(spent(call) / total)], "number wide"),
  ];
  if (isTimed) columns.push(...limitColumns(column, spent));
  columns.push(column("moved", "5.5rem", movedBytes, (call) => bytes(movedBytes(call)), "number widest"));
  return columns;
}

function limitColumns(column, spent) {
  const rate = (call) => call.flops / spent(call) / 1e9 || 0;
  const whereKnown = (text) => (call) => (limitPart(call) ? text(call) : "");
  return [
    column("nominal GFLOP/s", "5.5rem", rate, (call) => rate(call).toFixed(1), "number wide"),
    column("of limit", "4.4rem", limitPart, whereKnown((call) => percent(limitPart(call), 0)), "number wide", true),
    column("above limit", "5.4rem", aboveLimit, whereKnown((call) => seconds(aboveLimit(call))), "number wide"),
    column("limit", "minmax(10.5rem, 1fr)", null, whereKnown((call) => boundAndRaised(call.time)), "widest"),
  ];
}

// Columns that are "wide" need a page of a tablet, and those that are "widest" one of a desk.
function fits(classes) {
  if (classes.includes("widest")) return innerWidth >= 1200;
  return innerWidth >= 760 || !classes.includes("wide");
}

function movedBytes(call) {
  return call.constant_bytes + call.read_bytes + call.written_bytes;
}

function drawKernels(main) {
  const part = partNow();
  const columns = callColumns(part).filter(({ classes }) => fits(classes));
  const template = columns.map(({ width }) => width).join(" ");
  const view = Object.assign(viewState({ words: "", sorted: "", ascends: false }), { part, columns });
  const details = h("div", { class: "details", "aria-live": "polite" });
  const heads = callHeads(columns, template, (column) => { sortBy(view, column); refresh(); });
  const list = new VirtualList({
    label: "Calls of kernels",
    most: 0.44,
    heads,
    height: ROW_OF_CALL,
    draw: (number) => [callRow(part.calls[number], columns, template)],
    pick: (number, byKey) => choose({ stage: "program", item: part.calls[number].instruction }, !byKey),
    classOf: (number) => callMark(part, number),
  });
  const count = h("span", { class: "faint", role: "status" });
  const refresh = () => {
    const found = callOrder(view);
    markSorted(view, heads);
    list.show(found);
    count.textContent = foundOf(found.length, part.calls.length, "call");
  };
  const search = searchField("Search kernels: families, nodes, plans", view, refresh);
  const roof = roofline(part, (number) => {
    list.reveal(number);
    list.pick(number, false);
    details.scrollIntoView({ block: "start" });
  });
  const box = h("section", { class: "stage shown" }, heads, list.element);
  if (part.unmeasured) main.append(faint(part.unmeasured));
  const note = part.calls.some((call) => call.time) ? faint(RATES_NOTE) : null;
  main.append(roof || "", h("div", { class: "bar" }, search, count), box, h("div", { class: "below" }, note), details);
  refresh();
  const update = () => {
    const item = itemNow();
    list.redraw();
    if (roof) markPoints(roof, part);
    const invitation = "Choose a kernel to see its plan, what else was weighed, and its source.";
    details.replaceChildren(item ? itemDetails(part, chosen.stage, chosen.item) : faint(invitation));
  };
  update();
  return update;
}

function callMark(part, number) {
  if (chosen.stage === "program" && part.calls[number].instruction === chosen.item) return "selected";
  return chosen.stage === "kernels" && part.calls[number].kernel === chosen.item ? "related" : "";
}

function markPoints(roof, part) {
  for (const point of roof.querySelectorAll(".point")) {
    point.classList.toggle("selected", callMark(part, Number(point.dataset.n)) !== "");
  }
}

function callOrder(view) {
  const { part } = view;
  const numbers = part.calls.map((_, number) => number);
  const found = numbers.filter((number) => {
    const call = part.calls[number];
    const { kind } = part.stage.kernels.items[call.kernel];
    const text = searchText(part, part.stage.program.items[call.instruction]);
    return `${text} ${kind} ${call.plan}`.toLowerCase().includes(view.words);
  });
  const column = view.columns.find(({ title }) => title === view.sorted);
  if (!column) return found;
  const sign = view.ascends ? 1 : -1;
  return found.sort((one, other) => sign * (column.value(part.calls[one]) - column.value(part.calls[other])));
}

// The first click on a column sorts it, a second one turns it around.
function sortBy(view, column) {
  view.ascends = view.sorted === column.title ? !view.ascends : column.ascends;
  view.sorted = column.title;
}

function markSorted(view, heads) {
  for (const [number, column] of view.columns.entries()) {
    const head = heads.children[number];
    if (column.title === view.sorted) head.setAttribute("aria-sort", view.ascends ? "ascending" : "descending");
    else head.removeAttribute("aria-sort");
  }
}

function callRow(call, columns, template) {
  const cells = columns.map(({ cell, classes }) => h("span", { class: classes }, cell(call)));
  for (const cell of cells) cell.title = cell.textContent;
  return cellsIn(template, "", cells);
}

function callHeads(columns, template, sort) {
  const heads = columns.map((column) => {
    const classes = column.classes.replace("mono", "");
    if (!column.value) return h("span", { class: classes }, column.title);
    const title = column.title === "#" ? "Sort by the number of the instruction" : `Sort by ${column.title}`;
    return h("span", { class: classes }, h("button", { onclick: () => sort(column), title }, column.title));
  });
  return cellsIn(template, "heads", heads);
}

function callSummary(part, number) {
  const call = part.calls[number];
  const item = part.stage.program.items[call.instruction];
  const lines = [`${call.instruction} ${item.name}`, part.stage.kernels.items[call.kernel].kind];
  if (call.time) {
    lines.push(`${seconds(call.time.minimum)}, ${operations(call.executed_flops / call.time.minimum)}op/s carried out`);
  }
  if (limitPart(call)) lines.push(`${percent(limitPart(call), 0)} of the limit: ${boundAndRaised(call.time)}`);
  return lines.join("\n");
}
