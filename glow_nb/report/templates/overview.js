"use strict";
// What the network is, in numbers: time, memory, kernels, passes.

function drawOverview(main) {
  const part = partNow();
  main.append(tiles(part), ...said(part));
  const families = familyShares(part);
  const facts = panel("What was compiled", table(["", ""], compilationNow().facts || []));
  main.append(h("div", { class: "two" }, facts, panel(families.title, families.table)));
  main.append(...part.tables.map(textTable));
}

function tiles(part) {
  const { memory, measurement } = part;
  const shown = [];
  if (measurement) {
    shown.push(tile(seconds(measurement.plain), "a run", "The shortest ordinary run"));
    const limit = limitShare(part);
    if (limit) shown.push(tile(percent(limit, 0), "of the machine's limit", "Least possible time of all kernels over the time they take"));
  }
  shown.push(tile(bytes(memory.arena), "arena of all activations", `Lower bound ${bytes(memory.lower_bound)}`));
  shown.push(tile(bytes(memory.constants), "constants, packed"));
  const { program, kernels } = part.stage;
  shown.push(tile(program.items.length.toLocaleString("en"), "instructions"));
  shown.push(tile(kernels.items.length.toLocaleString("en"), "different kernels"));
  if (part.passes.length) {
    const spent = part.passes.reduce((sum, row) => sum + row.seconds, 0);
    shown.push(tile(seconds(spent), `in ${plural(part.passes.length, "step")} of passes`));
  }
  return h("div", { class: "tiles" }, shown);
}

function said(part) {
  const notes = [];
  const { measurement } = part;
  if (measurement) {
    const { runs, inputs, minimum, median } = measurement;
    const times = `shortest ${seconds(minimum)} with time stamps, median ${seconds(median)}`;
    notes.push(`Times are of ${plural(runs, "run")} on ${inputs}: ${times}.`);
  }
  if (part.unmeasured) notes.push(part.unmeasured);
  const more = compilationNow().left_out;
  if (more) notes.push(`${plural(more, "further program")} of this network are not in this page.`);
  return notes.map(faint);
}

// Return the part of the kernels' time that the machine's limits ask for.
function limitShare(part) {
  const timed = part.calls.filter((call) => call.time && call.time.limit);
  const spent = timed.reduce((sum, call) => sum + call.time.minimum, 0);
  const least = timed.reduce((sum, call) => sum + Math.min(call.time.limit, call.time.minimum), 0);
  return spent ? least / spent : 0;
}

function familyShares(part) {
  const isTimed = part.calls.some((call) => call.time);
  const cost = (call) => (isTimed ? (call.time ? call.time.minimum : 0) : call.estimated_ns * 1e-9);
  const families = new Map();
  for (const call of part.calls) {
    const { kind } = part.stage.kernels.items[call.kernel];
    const known = families.get(kind) || { calls: 0, spent: 0 };
    families.set(kind, { calls: known.calls + 1, spent: known.spent + cost(call) });
  }
  const total = [...families.values()].reduce((sum, each) => sum + each.spent, 0) || 1;
  const rows = [...families].sort((one, other) => other[1].spent - one[1].spent).map(([kind, each]) => [
    kind,
    String(each.calls),
    seconds(each.spent),
    percent(each.spent / total),
    meter(each.spent / total),
  ]);
  const title = isTimed ? "Time by family of kernels" : "Estimated time by family of kernels";
  return { title, table: table(["family", "#calls", "#time", "#share", ""], rows) };
}

function textTable(shown) {
  const note = shown.note ? faint(shown.note) : null;
  return panel(shown.title, table(shown.columns, shown.rows), note);
}
