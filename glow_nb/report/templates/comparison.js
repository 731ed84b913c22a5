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
  const items = matchedItems(parts);
  main.append(items.panel);
  main.append(h("div", { class: "two" }, passesOfBoth(parts), factsOfBoth(comparison, parts)));
  items.update();
  return items.update;
}

function namesOfBoth() {
  const [first, second] = report.compilations.map((compilation) => compilation.title);
  return h("p", { class: "legend" }, swatch("blue", `A: ${first}`), swatch("orange", `B: ${second}`));
}

// The numbers of both, with the ratio of times only where they differ by more than runs do.
function comparedNumbers(parts) {
  const counts = (key) => parts.map((part) => part.stage[key].items.length);
  const memory = (key) => parts.map((part) => part.memory[key]);
  const sums = (key) => parts.map((part) => part.calls.reduce((sum, call) => sum + call[key], 0));
  const rows = [
    ["arena", memory("arena"), bytes],
    ["constants", memory("constants"), bytes],
    ["scratch", memory("scratch"), bytes],
    ["nodes of the model", counts("model"), String],
    ["nodes of the graph", counts("graph"), String],
    ["nodes of the lowered graph", counts("lowered"), String],
    ["instructions", counts("program"), String],
    ["different kernels", counts("kernels"), String],
    ["nominal operations", sums("flops"), operations],
    ["operations carried out", sums("executed_flops"), operations],
    ["time in passes", parts.map((part) => part.passes.reduce((sum, row) => sum + row.seconds, 0)), seconds],
  ];
  const shown = rows.filter(([, values]) => values.some(Boolean)).map(([title, [first, second], format]) => {
    const isComparable = first && second && format !== seconds; // passes were timed once
    const cells = [title, first ? format(first) : "", second ? format(second) : "", isComparable ? ratio(second / first) : ""];
    if (first !== second) cells.class = "differs";
    return cells;
  });
  const notes = [timesNote(parts), operationsNote(parts)].filter(Boolean).map(faint);
  return panel("In numbers", table(["", "#A", "#B", "#B to A"], [...comparedTimes(parts), ...shown]), notes);
}

function runTime(part) {
  if (!part.measurement) return { minimum: 0, median: 0 };
  const { plain, plain_median } = part.measurement;
  return { minimum: plain, median: plain_median || plain };
}

function comparedTimes(parts) {
  const times = [["a run", parts.map(runTime)], ["all kernels", parts.map((part) => timeOf(part.calls))]];
  return times.flatMap(([title, [one, other]]) => {
    if (!one.minimum && !other.minimum) return [];
    const text = (value) => (value ? seconds(value) : "");
    return [
      [`${title}, shortest`, text(one.minimum), text(other.minimum), timeRatio(one, other)],
      [`${title}, median`, text(one.median), text(other.median), ""],
    ];
  });
}

function timesNote(parts) {
  if (!parts.every((part) => part.measurement)) return "";
  const noise = "A difference is within noise if the ranges from shortest to median overlap.";
  if (parts.every((part) => part.measurement.in_turn)) return `A and B ran in turn, ${plural(parts[0].measurement.runs, "run")} each. ${noise}`;
  return `A and B were not measured in turn: what else the machine did then may make a difference. ${noise}`;
}

function operationsNote(parts) {
  if (parts.every((part) => part.calls.every((call) => call.flops === call.executed_flops))) return "";
  return "Nominal operations are those of the operators. The algorithms of Winograd and Strassen carry out fewer; padded tiles, more.";
}

// The items of a stage that belong together, side by side.
function matchedItems(parts) {
  const view = Object.assign(viewState({ filter: "different", order: "stage", words: "" }), { parts });
  view.stage = STAGES.includes(chosen.stage) ? chosen.stage : firstStage(parts);
  const details = h("div", { "aria-live": "polite" });
  const list = new VirtualList({
    label: "Items of both compilations",
    most: 0.42,
    height: ROW_OF_MATCH,
    draw: (number) => [matchRow(view, matchesOf(view)[number])],
    pick: (number, byKey) => choose({ stage: view.stage, item: number }, !byKey),
    classOf: (number) => `${STATES[stateOf(matchesOf(view)[number])][1]} ${number === chosen.item ? "selected" : ""}`,
    empty: "Both are the same here.",
  });
  const count = h("span", { class: "faint", role: "status" });
  const orders = [["stage", "In order"], ["time", "By difference of time"]];
  const order = pressButtons("Order", orders, view.order, (key) => { view.order = key; refresh(); });
  const refresh = () => {
    order.hidden = !hasTimes(view);
    list.element.style.height = "";
    list.show(shownMatches(view));
    count.textContent = countOfMatches(view);
  };
  const stages = STAGES.map((key) => [key, parts[0].stage[key].title]);
  const tabs = pressButtons("Stage", stages, view.stage, (key) => choose({ stage: key, item: -1 }));
  const bar = h(
    "div",
    { class: "bar" },
    tabs,
    pressButtons("Which", [["different", "Differences"], ["all", "All"]], view.filter, (key) => { view.filter = key; refresh(); }),
    order,
    searchField("Search both", view, refresh),
    count,
  );
  const update = () => {
    view.stage = STAGES.includes(chosen.stage) ? chosen.stage : firstStage(parts);
    for (const [n, [key]] of stages.entries()) tabs.children[n].setAttribute("aria-pressed", key === view.stage);
    refresh();
    list.reveal(chosen.item);
    const match = chosen.item < 0 ? undefined : matchesOf(view)[chosen.item];
    details.replaceChildren(...(match ? matchDetails(view, match) : []));
  };
  const note = faint("≠ another text, − only in A, + only in B. The last column compares the times of all instructions that do the work of the same nodes.");
  return { panel: panel("Item by item", bar, h("section", { class: "stage shown" }, list.element), note, details), update };
}

// Return the stage that is shown first: the one whose items have times, or what there is.
function firstStage(parts) {
  const known = ["program", "lowered", "graph", "model"];
  return known.find((key) => parts.some((part) => part.stage[key].items.length)) || "program";
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
  const groups = groupsOf(view);
  const gained = (number) => {
    const [one, other] = groups[number].times;
    return isNoise(one, other) ? 0 : Math.abs(other.minimum - one.minimum);
  };
  return numbers.sort((one, other) => gained(other) - gained(one) || groups[one].first - groups[other].first || one - other);
}

function countOfMatches(view) {
  const counts = { same: 0, changed: 0, gone: 0, new: 0 };
  for (const match of matchesOf(view)) counts[stateOf(match)] += 1;
  return `${counts.same} the same, ${counts.changed} changed, ${counts.gone} only in A, ${counts.new} only in B`;
}

function callsOfItem(part, stage, number) {
  const { program } = Links.of(part).related(stage, number);
  return program.map((one) => part.calls[part.callOf.get(one)]).filter(Boolean);
}

// Return for each pair the group of instructions that do the work of the same nodes, and its times:
// where one compilation fuses what the other one leaves apart, only whole groups can be compared.
function groupsOf(view) {
  view.parts.groups = view.parts.groups || {};
  if (!view.parts.groups[view.stage]) view.parts.groups[view.stage] = grouped(view);
  return view.parts.groups[view.stage];
}

function grouped(view) {
  const matches = matchesOf(view);
  const roots = matches.map((_, number) => number);
  const root = (number) => {
    while (roots[number] !== number) number = roots[number] = roots[roots[number]];
    return number;
  };
  const users = new Map(); // of the name of a node: the first pair that does its work
  for (const [number, match] of matches.entries()) {
    for (const name of view.stage === "program" ? workOf(view, match) : []) {
      if (users.has(name)) roots[root(number)] = root(users.get(name));
      else users.set(name, number);
    }
  }
  const groups = new Map();
  for (const [number, match] of matches.entries()) {
    const key = root(number);
    if (!groups.has(key)) groups.set(key, { first: number, calls: [[], []], pairs: 0 });
    const group = groups.get(key);
    group.pairs += 1;
    [match.left, match.right].forEach((item, side) => {
      if (item >= 0) group.calls[side].push(...callsOfItem(view.parts[side], view.stage, item));
    });
  }
  for (const group of groups.values()) group.times = group.calls.map(timeOf);
  return matches.map((_, number) => groups.get(root(number)));
}

function workOf(view, match) {
  return itemsOf(view, match).flatMap((item, side) => {
    const { items } = view.parts[side].stage.model;
    return item ? item.origins.map((origin) => items[origin].name) : [];
  });
}

function matchRow(view, match) {
  const [sign] = STATES[stateOf(match)];
  const cells = itemsOf(view, match).map((item, side) => h(
    "span",
    {},
    h("span", { class: "name", title: item ? item.name : "" }, item ? shortened(item.name) : "—"),
    h("span", { class: "about" }, item ? [timeText(view, match, side), item.kind, item.type].filter(Boolean).join(" · ") : ""),
  ));
  const last = innerWidth < 760 ? "4.9rem" : "6.5rem";
  const template = hasTimes(view) ? `1.2rem minmax(0, 1fr) minmax(0, 1fr) ${last}` : "1.2rem minmax(0, 1fr) minmax(0, 1fr)";
  return cellsIn(template, "", [h("span", { class: "mark" }, sign), cells, hasTimes(view) ? groupCell(view, match) : null].filter(Boolean));
}

function groupCell(view, match) {
  const group = groupsOf(view)[matchesOf(view).indexOf(match)];
  const [one, other] = group.times;
  const about = group.pairs > 1 ? `of ${group.pairs} rows` : "";
  return h("span", { class: "number" }, h("span", {}, differenceText(one, other)), h("span", { class: "about" }, about));
}

// Nodes share an instruction, which takes its time once: only instructions and kernels have one.
function timeText(view, match, side) {
  const number = side ? match.right : match.left;
  if (!hasTimes(view) || number < 0) return "";
  const { minimum } = timeOf(callsOfItem(view.parts[side], view.stage, number));
  return minimum ? seconds(minimum) : "";
}

function hasTimes(view) {
  return view.stage === "program" || view.stage === "kernels";
}
