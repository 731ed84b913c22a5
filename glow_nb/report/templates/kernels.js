"use strict";
// The calls of kernels with what they take, as a table that sorts, below the roofline.

const ROW_OF_CALL = 30;

// Name, width, key of sorting (the largest first), and cell of each column.
function callColumns(part) {
  const isTimed = part.calls.some((call) => call.time);
  const spent = (call) => (isTimed ? (call.time ? call.time.minimum : 0) : call.estimated_ns * 1e-9);
  const total = part.calls.reduce((sum, call) => sum + spent(call), 0) || 1;
  const items = part.stage.program.items;
  const kernels = part.stage.kernels.items;
  const nodes = (call) => items[call.instruction].origins.map((origin) => part.stage.model.items[origin].name).join(", ");
  const limitPart = (call) => (call.time && call.time.limit ? Math.min(1, call.time.limit / call.time.minimum) : 0);
  const columns = [
    ["#", "2.6rem", (call) => -call.instruction, (call) => String(call.instruction), "number"],
    ["kernel", "minmax(6rem, 1fr)", null, (call) => kernels[call.kernel].kind, ""],
    ["made from", "minmax(6rem, 2fr)", null, (call) => nodes(call) || items[call.instruction].name, "mono"],
    ["plan", "minmax(5rem, 2fr)", null, (call) => call.plan, "mono widest"],
    ["threads", "4rem", (call) => call.threads, (call) => String(call.threads), "number widest"],
    [isTimed ? "time" : "estimate", "5rem", spent, (call) => seconds(spent(call)), "number"],
    ["share", "8.6rem", spent, (call) => [percent(spent(call) / total), " ", meter(spent(call) / total)], "number wide"],
  ];
  if (isTimed) {
    const rate = (call) => call.flops / spent(call) / 1e9 || 0;
    const ofLimit = (call) => (limitPart(call) ? percent(limitPart(call), 0) : "");
    columns.push(["GFLOP/s", "5rem", rate, (call) => rate(call).toFixed(1), "number wide"]);
    columns.push(["of limit", "4.2rem", (call) => -limitPart(call), ofLimit, "number wide"]);
    columns.push(["limit", "6rem", null, (call) => (call.time ? call.time.bound || "" : ""), "widest"]);
  }
  columns.push(["moved", "5.5rem", movedBytes, (call) => bytes(movedBytes(call)), "number widest"]);
  return columns;
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
  const columns = callColumns(part).filter(([, , , , classes]) => fits(classes));
  const template = columns.map((column) => column[1]).join(" ");
  const view = { part, words: "", sorted: null };
  const details = h("div", { class: "details", "aria-live": "polite" });
  const list = new VirtualList({
    label: "Calls of kernels",
    most: "44vh",
    height: ROW_OF_CALL,
    draw: (number) => [callRow(part.calls[number], columns, template)],
    pick: (number, byKey) => choose({ stage: "program", item: part.calls[number].instruction }, !byKey),
    classOf: (number) => callMark(part, number),
  });
  const refresh = () => list.show(callOrder(view));
  const heads = callHeads(columns, template, (key) => { view.sorted = key; refresh(); });
  const search = searchField("Search kernels: families, nodes, plans", (words) => { view.words = words; refresh(); });
  const roof = roofline(part, (number) => { list.reveal(number); list.pick(number, false); });
  const box = h("section", { class: "stage shown" }, heads, list.element);
  box.style.marginBottom = "1rem";
  if (part.unmeasured) main.append(faint(part.unmeasured));
  main.append(roof || "", h("div", { class: "bar" }, search), box, details);
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
  if (!view.sorted) return found;
  return found.sort((one, other) => view.sorted(part.calls[other]) - view.sorted(part.calls[one]));
}

function callRow(call, columns, template) {
  const cells = columns.map(([, , , cell, classes]) => h("span", { class: classes }, cell(call)));
  for (const cell of cells) cell.title = cell.textContent;
  return cellsIn(template, "", cells);
}

function callHeads(columns, template, sort) {
  const heads = columns.map(([title, , key, , classes]) => {
    if (!key) return h("span", { class: classes.replace("mono", "") }, title);
    const head = h("span", { class: classes });
    const onclick = () => {
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", "descending");
      sort(key);
    };
    head.append(h("button", { onclick, title: `Sort by ${title}` }, title));
    return head;
  });
  return cellsIn(template, "heads", heads);
}

function callSummary(part, number) {
  const call = part.calls[number];
  const item = part.stage.program.items[call.instruction];
  const lines = [item.name, part.stage.kernels.items[call.kernel].kind];
  if (call.time) lines.push(`${seconds(call.time.minimum)}, ${operations(call.flops / call.time.minimum)}FLOP/s`);
  if (call.time && call.time.limit) {
    const reached = percent(Math.min(1, call.time.limit / call.time.minimum), 0);
    lines.push(`${reached} of the speed that ${call.time.bound} allows`);
  }
  return lines.join("\n");
}
