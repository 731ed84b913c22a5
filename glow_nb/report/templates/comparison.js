"use strict";
// Two compilations of a network, or two networks: what differs in numbers, graphs, kernels, passes.

const ROW_OF_MATCH = 44;
const STATES = { same: ["=", ""], changed: ["≠", "changed"], gone: ["−", "gone"], new: ["+", "new"] };

function drawComparison(main) {
  const { comparison } = report;
  const parts = report.compilations.map((compilation) => compilation.parts[0]);
  const accuracy = comparison.accuracy ? textTable(comparison.accuracy) : null;
  main.append(namesOfBoth());
  if (report.compilations.some((compilation) => compilation.parts.length > 1)) {
    main.append(faint(`Compared are the first programs: ${parts.map((part) => part.title || "the only one").join(" and ")}.`));
  }
  main.append(h("div", { class: "two" }, comparedNumbers(parts), h("div", {}, accuracy, liveOfBoth(parts))));
  main.append(matchedItems(parts));
  main.append(h("div", { class: "two" }, passesOfBoth(parts), factsOfBoth(comparison)));
  return undefined;
}

function namesOfBoth() {
  const [first, second] = report.compilations.map((compilation) => compilation.title);
  return h("p", { class: "legend" }, swatch("blue", `A: ${first}`), swatch("orange", `B: ${second}`));
}

function runTime(part) {
  return part.measurement ? part.measurement.plain : 0;
}

function comparedNumbers(parts) {
  const counts = (key) => parts.map((part) => part.stage[key].items.length);
  const memory = (key) => parts.map((part) => part.memory[key]);
  const rows = [
    ["a run", parts.map(runTime), seconds],
    ["time of all kernels", parts.map((part) => part.calls.reduce((sum, call) => sum + (call.time ? call.time.minimum : 0), 0)), seconds],
    ["arena", memory("arena"), bytes],
    ["constants", memory("constants"), bytes],
    ["scratch", memory("scratch"), bytes],
    ["nodes of the model", counts("model"), String],
    ["nodes of the graph", counts("graph"), String],
    ["nodes of the lowered graph", counts("lowered"), String],
    ["instructions", counts("program"), String],
    ["different kernels", counts("kernels"), String],
    ["operations carried out", parts.map((part) => part.calls.reduce((sum, call) => sum + call.executed_flops, 0)), operations],
    ["time in passes", parts.map((part) => part.passes.reduce((sum, row) => sum + row.seconds, 0)), seconds],
  ];
  const shown = rows.filter(([, values]) => values.some(Boolean)).map(([title, [first, second], format]) => {
    const cells = [title, first ? format(first) : "", second ? format(second) : "", first && second ? ratio(second / first) : ""];
    if (first !== second) cells.class = "differs";
    return cells;
  });
  return panel("In numbers", table(["", "#A", "#B", "#B to A"], shown));
}

// The items of a stage that belong together, side by side.
function matchedItems(parts) {
  const view = { parts, stage: "lowered", filter: "different", order: "stage", words: "" };
  const details = h("div", { "aria-live": "polite" });
  const list = new VirtualList({
    label: "Items of both compilations",
    most: "42vh",
    height: ROW_OF_MATCH,
    draw: (number) => [matchRow(view, matchesOf(view)[number])],
    pick: (number) => {
      view.current = number;
      list.redraw();
      details.replaceChildren(...matchDetails(view, matchesOf(view)[number]));
    },
    classOf: (number) => `${STATES[stateOf(matchesOf(view)[number])][1]} ${number === view.current ? "selected" : ""}`,
    empty: "Both are the same here.",
  });
  const count = h("span", { class: "faint", role: "status" });
  const orders = [["stage", "In order"], ["time", "By difference of time"]];
  const order = pressButtons("Order", orders, view.order, (key) => { view.order = key; refresh(); });
  const refresh = () => {
    view.current = -1;
    order.hidden = !hasTimes(view);
    list.element.style.height = "";
    list.show(shownMatches(view));
    count.textContent = countOfMatches(view);
    details.replaceChildren();
  };
  const stages = STAGES.map((key) => [key, parts[0].stage[key].title]);
  const bar = h(
    "div",
    { class: "bar" },
    pressButtons("Stage", stages, view.stage, (key) => { view.stage = key; refresh(); }),
    pressButtons("Which", [["different", "Differences"], ["all", "All"]], view.filter, (key) => { view.filter = key; refresh(); }),
    order,
    searchField("Search both", (words) => { view.words = words; refresh(); }),
    count,
  );
  refresh();
  return panel("Item by item", bar, h("section", { class: "stage shown" }, list.element), details);
}

function matchesOf(view) {
  return report.comparison.stages[view.stage];
}

function stateOf(match) {
  if (match.left < 0) return "new";
  if (match.right < 0) return "gone";
  return match.same ? "same" : "changed";
}

function itemsOf(view, match) {
  return [match.left, match.right].map((number, side) => (number < 0 ? null : view.parts[side].stage[view.stage].items[number]));
}

function shownMatches(view) {
  const matches = matchesOf(view);
  const numbers = matches.map((_, number) => number).filter((number) => {
    if (view.filter === "different" && stateOf(matches[number]) === "same") return false;
    const text = itemsOf(view, matches[number]).map((item) => (item ? `${item.name} ${item.kind} ${item.type}` : "")).join(" ");
    return text.toLowerCase().includes(view.words);
  });
  if (view.order === "stage" || !hasTimes(view)) return numbers;
  const gained = (number) => Math.abs(timeOfMatch(view, matches[number], 1) - timeOfMatch(view, matches[number], 0));
  return numbers.sort((one, other) => gained(other) - gained(one));
}

function countOfMatches(view) {
  const counts = { same: 0, changed: 0, gone: 0, new: 0 };
  for (const match of matchesOf(view)) counts[stateOf(match)] += 1;
  return `${counts.same} the same, ${counts.changed} changed, ${counts.gone} only in A, ${counts.new} only in B`;
}

// Return what the instructions of an item take, in seconds; 0 where they were not measured.
function timeOfMatch(view, match, side) {
  const number = side ? match.right : match.left;
  if (number < 0) return 0;
  const part = view.parts[side];
  return callsOfItem(part, view.stage, number).reduce((sum, call) => sum + (call.time ? call.time.minimum : 0), 0);
}

function callsOfItem(part, stage, number) {
  const { program } = Links.of(part).related(stage, number);
  return program.map((one) => part.calls[part.callOf.get(one)]).filter(Boolean);
}

function matchRow(view, match) {
  const [sign] = STATES[stateOf(match)];
  const cells = itemsOf(view, match).map((item, side) => h(
    "span",
    {},
    h("span", { class: "name", title: item ? item.name : "" }, item ? item.name : "—"),
    h("span", { class: "about" }, item ? [item.kind, item.type, timeText(view, match, side)].filter(Boolean).join(" · ") : ""),
  ));
  return cellsIn("1.2rem minmax(0, 1fr) minmax(0, 1fr)", "", [h("span", { class: "mark" }, sign), cells]);
}

// Nodes share an instruction, which takes its time once: only instructions and kernels have one.
function timeText(view, match, side) {
  const spent = hasTimes(view) ? timeOfMatch(view, match, side) : 0;
  return spent ? seconds(spent) : "";
}

function hasTimes(view) {
  return view.stage === "program" || view.stage === "kernels";
}
