"use strict";
// What the network is, in numbers: time, memory, kernels, passes, and the machine it was measured on.

function drawOverview(main) {
  const part = partNow();
  main.append(tiles(part), ...said(part));
  const families = familyShares(part);
  const facts = panel("What was compiled", table(["", ""], compilationNow().facts || []));
  const machine = machineRows(part);
  const card = machine.length ? panel("Machine", table(["", ""], machine), faint(machineNote(part))) : null;
  main.append(h("div", { class: "two" }, facts, h("div", {}, panel(families.title, families.table), card)));
  main.append(...part.tables.map(textTable));
}

function tiles(part) {
  const { memory, measurement } = part;
  const shown = [];
  if (measurement) {
    shown.push(tile(seconds(measurement.plain), "shortest run, without time stamps", "With the call from Python"));
    shown.push(tile(seconds(timeOf(part.calls).minimum), "kernels alone", "The sum of the shortest times of all kernels"));
    const limit = limitShare(part);
    if (limit) shown.push(tile(percent(limit, 0), "of that is the limit of all kernels", "Least possible time of all kernels over the time they take"));
  }
  shown.push(tile(bytes(memory.arena), "arena of all activations", `Lower bound ${bytes(memory.lower_bound)}`));
  shown.push(tile(bytes(memory.constants), "constants, packed"));
  const { program, kernels } = part.stage;
  const instructions = program.items.length.toLocaleString("en");
  const calls = plural(part.calls.length, "call");
  shown.push(tile(instructions, `instructions: ${calls} of ${plural(kernels.items.length, "different kernel")}`));
  if (part.passes.length) {
    const spent = part.passes.reduce((sum, row) => sum + row.seconds, 0);
    shown.push(tile(seconds(spent), `in ${plural(part.passes.length, "step")} of passes`));
  }
  return h("div", { class: "tiles" }, shown);
}

function said(part) {
  const notes = [];
  if (part.measurement) notes.push(timesSaid(part));
  if (part.unmeasured) notes.push(part.unmeasured);
  const more = compilationNow().left_out;
  if (more) notes.push(`${plural(more, "further program")} of this network are not in this page.`);
  return notes.map(faint);
}

function timesSaid(part) {
  const { runs, inputs, minimum, median, plain, plain_median } = part.measurement;
  const ordinary = plain_median ? `${seconds(plain)}, median ${seconds(plain_median)}` : seconds(plain);
  const least = part.calls.filter((call) => call.time && call.time.limit).reduce((sum, call) => sum + leastTime(call.time), 0);
  const limit = least ? ` The limits of all kernels add up to ${seconds(least)}.` : "";
  return (
    `${plural(runs, "run")} on ${inputs}, each without time stamps and with them. ` +
    `Without them, and with the call from Python: shortest run ${ordinary}. ` +
    `From the first time stamp to the last, without the call: shortest run ${seconds(minimum)}, median ${seconds(median)}. ` +
    `Kernels alone: ${seconds(timeOf(part.calls).minimum)}, the sum of the shortest time of each.${limit}`
  );
}

function machineNote(part) {
  const raised = part.calls.filter((call) => call.time && isRaised(call.time)).length;
  const rates = "Rates are measured, with all threads together; a multiply-add is two operations.";
  return raised ? `${rates} ${plural(raised, "kernel")} exceeded a measured limit, which is raised for it to what it reached.` : rates;
}

// Return the part of the kernels' time that the machine's limits ask for.
function limitShare(part) {
  const timed = part.calls.filter((call) => call.time && call.time.limit);
  const spent = timed.reduce((sum, call) => sum + call.time.minimum, 0);
  const least = timed.reduce((sum, call) => sum + leastTime(call.time), 0);
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
