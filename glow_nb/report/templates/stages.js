"use strict";
// The stages of the compilation side by side. What belongs to the chosen item is marked in each.

const ROW_OF_STAGE = 44;

function drawStages(main) {
  const part = partNow();
  const view = Object.assign(viewState({ words: "" }), { part, lists: {}, counts: {}, related: {} });
  const details = h("div", { class: "details", "aria-live": "polite" });
  const columns = part.stages.map((stage) => stageColumn(view, stage));
  const count = h("span", { class: "faint", role: "status" });
  const label = "Search all stages: names, operators";
  const search = searchField(label, view, () => filterStages(view, count));
  search.addEventListener("keydown", (event) => pickFirstFound(view, event));
  const tabs = pressButtons("Stage", part.stages.map((stage) => [stage.key, stage.title]), shownStage(), (key) => showStage(columns, key));
  tabs.classList.add("stage-tabs");
  const hint = h("span", { class: "faint wide" }, "/ searches, arrow keys move, ← and → go to another stage");
  main.append(h("div", { class: "bar" }, search, count, hint), tabs);
  main.append(h("div", { class: "split" }, h("div", { class: "stages" }, columns), details));
  showStage(columns, shownStage());
  filterStages(view, count);
  const update = () => updateStages(view, columns, tabs, details);
  update();
  return update;
}

function shownStage() {
  return chosen.stage || "model";
}

function showStage(columns, key) {
  for (const column of columns) column.classList.toggle("shown", column.dataset.stage === key);
}

function stageColumn(view, stage) {
  const list = new VirtualList({
    label: stage.title,
    height: ROW_OF_STAGE,
    draw: (number) => stageRow(view.part, stage, number),
    pick: (number, byKey) => choose({ stage: stage.key, item: number }, !byKey),
    classOf: (number) => markOf(view, stage.key, number),
  });
  list.element.addEventListener("keydown", (event) => moveAcross(view, stage.key, event));
  view.lists[stage.key] = list;
  view.counts[stage.key] = h("span", { class: "count" });
  const head = h("h2", { title: stage.says }, stage.title, view.counts[stage.key]);
  return h("section", { class: "stage", "data-stage": stage.key }, head, list.element);
}

function stageRow(part, stage, number) {
  const item = stage.items[number];
  const about = [item.kind, item.type].filter(Boolean).join(" · ");
  const said = stage.key === "kernels" ? `${about} · ${callsSaid(item)}` : `${number}  ${about}`;
  return [
    h("span", { class: "name", title: item.name }, shortened(item.name)),
    h("span", { class: "about", title: said }, said),
  ];
}

// Kernels are called by the numbers of their instructions, which all lists have.
function callsSaid(kernel) {
  const { length } = kernel.made_of;
  return `${plural(length, "call")}: ${kernel.made_of.slice(0, 12).join(", ")}${length > 12 ? ", …" : ""}`;
}

function markOf(view, key, number) {
  if (chosen.stage === key && chosen.item === number) return "selected";
  return view.related[key] && view.related[key].includes(number) ? "related" : "";
}

function filterStages(view, count) {
  let found = 0;
  for (const stage of view.part.stages) {
    const numbers = matching(view.part, stage, view.words);
    found += numbers.length;
    const all = stage.items.length.toLocaleString("en");
    view.counts[stage.key].textContent = view.words ? `${numbers.length.toLocaleString("en")} of ${all}` : all;
    view.lists[stage.key].show(numbers, stage.missing || (stage.items.length ? "Nothing is found." : "There are none."));
    if (chosen.stage === stage.key) view.lists[stage.key].reveal(chosen.item);
  }
  count.textContent = view.words ? `${plural(found, "match").replace("matchs", "matches")}` : "";
}

// Return the items in which all words occur, in what they are or in the nodes that they do the work of.
function matching(part, stage, text) {
  const words = text.split(/\s+/).filter(Boolean);
  const numbers = stage.items.map((_, number) => number);
  if (!words.length) return numbers;
  return numbers.filter((number) => {
    const searched = searchText(part, stage.items[number]);
    return words.every((word) => searched.includes(word));
  });
}

function searchText(part, item) {
  if (item.searched === undefined) {
    const origins = item.origins.map((origin) => part.stage.model.items[origin].name);
    item.searched = [item.name, item.kind, item.type, ...origins].join("\n").toLowerCase();
  }
  return item.searched;
}

function pickFirstFound(view, event) {
  if (event.key !== "Enter") return;
  const first = view.part.stages.find((stage) => view.words && view.lists[stage.key].rows.length);
  if (!first) return;
  choose({ stage: first.key, item: view.lists[first.key].rows[0] });
  view.lists[first.key].element.focus();
}

// Go to what belongs to the chosen item in the stage to the left or to the right.
function moveAcross(view, key, event) {
  const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (!step) return;
  event.preventDefault();
  const order = view.part.stages.map((stage) => stage.key);
  for (let place = order.indexOf(key) + step; order[place]; place += step) {
    const wanted = (view.related[order[place]] || [0])[0];
    if (wanted !== undefined && view.part.stage[order[place]].items.length) {
      choose({ stage: order[place], item: wanted }, false);
      view.lists[order[place]].element.focus({ preventScroll: true });
      return;
    }
  }
}

function updateStages(view, columns, tabs, details) {
  const item = itemNow();
  view.related = item ? Links.of(view.part).related(chosen.stage, chosen.item) : {};
  showStage(columns, shownStage());
  for (const [n, stage] of view.part.stages.entries()) {
    tabs.children[n].setAttribute("aria-pressed", stage.key === shownStage());
    const list = view.lists[stage.key];
    const wanted = view.related[stage.key] || [];
    if (wanted.length && !wanted.some((number) => list.rows.includes(number))) {
      list.show(unique([...list.rows, ...wanted])); // found or not, what is chosen is in sight
    }
    if (wanted.length) list.reveal(wanted.find((number) => list.rows.includes(number)));
    else list.redraw();
  }
  const invitation = faint("Choose a node to follow it through all stages, to its kernel and the kernel's source.");
  details.replaceChildren(item ? itemDetails(view.part, chosen.stage, chosen.item) : invitation);
}
