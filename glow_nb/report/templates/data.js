"use strict";
// What the page shows, as glow_nb/report/data.py describes it, and what of it is chosen.
// Fields at their defaults are left out of the JSON; they are filled in here.

const STAGES = ["model", "graph", "lowered", "program", "kernels"];

const report = JSON.parse(document.getElementById("report").textContent);

for (const compilation of report.compilations) {
  compilation.parts.forEach(completePart);
}

function completePart(part) {
  const lists = { calls: [], sources: [], passes: [], weights: [], tables: [] };
  Object.assign(part, { ...lists, memory: {}, ...part });
  const memory = { arena: 0, lower_bound: 0, unshared: 0, constants: 0, scratch: 0, state: 0 };
  part.memory = { ...memory, lives: [], left_out: 0, ...part.memory };
  part.memory.lives = part.memory.lives.map((life) => ({ writers: [], ...life }));
  part.stages = part.stages.map((stage) => ({ items: [], missing: "", ...stage }));
  for (const stage of part.stages) {
    stage.items = stage.items.map((item) => ({ origins: [], made_of: [], ...item }));
  }
  const call = { plan: "", alternatives: [], time: null };
  part.calls = part.calls.map((each) => ({ ...call, ...each }));
  const time = { limit: 0, bound: "", peak: "", level: "" };
  for (const each of part.calls) each.time = each.time ? { ...time, ...each.time } : null;
  const row = { removed: 0, added: 0, constants: 0, items: 0, does: "", lines: [] };
  part.passes = part.passes.map((each) => ({ ...row, ...each }));
  if (part.measurement) completeMeasurement(part);
  part.stage = Object.fromEntries(part.stages.map((stage) => [stage.key, stage]));
  part.callOf = new Map(part.calls.map((each, number) => [each.instruction, number]));
}

function completeMeasurement(part) {
  const measurement = { roof: null, plain_median: 0, in_turn: false, ...part.measurement };
  if (measurement.roof) measurement.roof = { raised: [], machine: [], ...measurement.roof };
  part.measurement = measurement;
}

for (const matches of Object.values(report.comparison ? report.comparison.stages : {})) {
  for (const match of matches) match.same = match.same || false;
}

// What is chosen: a view of a program of a compilation, and an item of a stage. In the memory map
// the stage is "life", and in the comparison an item is a pair.
const chosen = { view: "overview", compilation: 0, part: 0, stage: "", item: -1 };

function compilationNow() {
  return report.compilations[chosen.compilation];
}

function partNow() {
  return compilationNow().parts[chosen.part];
}

function itemNow() {
  const stage = partNow().stage[chosen.stage];
  return stage ? stage.items[chosen.item] : undefined;
}

// Return the list that the last number of an address is a place in; undefined if there is none.
function itemsAt({ view, compilation, part, stage }) {
  if (view === "memory") return stage === "life" ? report.compilations[compilation].parts[part].memory.lives : undefined;
  if (!STAGES.includes(stage)) return undefined;
  if (view === "comparison") return report.comparison ? report.comparison.stages[stage] : undefined;
  const found = report.compilations[compilation].parts[part].stage[stage];
  return found ? found.items : undefined;
}

// The address of what is chosen, so that the browser's Back button leads back to it.
function addressOf({ view, compilation, part, stage, item }) {
  const where = [view, compilation, part, ...(stage ? [stage] : []), ...(stage && item >= 0 ? [item] : [])];
  return "#" + where.join("/");
}

function readAddress(text) {
  const [view, compilation, part, stage, item] = text.replace(/^#/, "").split("/");
  const found = { view: view || "overview", compilation: 0, part: 0, stage: "", item: -1 };
  if (report.compilations[Number(compilation)]) found.compilation = Number(compilation);
  const compiled = report.compilations[found.compilation];
  if (compiled.parts[Number(part)]) found.part = Number(part);
  const items = itemsAt({ ...found, stage });
  if (items) found.stage = stage;
  if (items && item && items[Number(item)]) found.item = Number(item);
  return found;
}

// Choose something else; without `remember`, Back does not return to what was chosen before.
function choose(changes, remember = true) {
  const address = addressOf({ ...chosen, ...changes });
  if (address === location.hash) return;
  if (remember) history.pushState(null, "", address);
  else history.replaceState(null, "", address);
  show();
}
