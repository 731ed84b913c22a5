"use strict";
// All that is known of one item: what belongs to it in each stage, its text, what it costs, how it
// could be computed, and the source of its kernels.

const MOST_LINKS = 8;

function itemDetails(part, key, number) {
  const item = part.stage[key].items[number];
  const related = Links.of(part).related(key, number);
  const calls = related.program.map((one) => part.callOf.get(one)).filter((one) => one !== undefined);
  const title = `${part.stage[key].title}: ${item.name}`;
  const about = [item.kind, item.type].filter(Boolean).join(" · ");
  const text = key === "kernels" ? null : h("div", { class: "code" }, h("pre", {}, item.text));
  const said = panel(title, about ? h("p", { class: "faint mono" }, about) : null, trail(part, key, related), text);
  const costs = calls.length ? costPanels(part, key, calls) : [faint(whyNoCall(part, key, related))];
  const source = related.kernels.length ? sourcePanel(part, related.kernels) : null;
  return h("div", { class: "item" }, h("div", {}, said, costs), source);
}

function whyNoCall(part, key, related) {
  if (related.program.length) return "This instruction writes nothing, so that it has no kernel.";
  if (key === "model" && !related.lowered.length) {
    return "No instruction computes this node: passes made a constant of it, found that it moves nothing, or nothing reads it.";
  }
  return "No instruction computes this node by itself: it only declares or moves a value.";
}

// The stages in order, with links to what belongs to the item in each.
function trail(part, key, related) {
  const lines = part.stages.map((stage) => {
    const numbers = related[stage.key];
    const isHere = stage.key === key;
    const links = isHere ? [h("span", { class: "here mono" }, stage.items[numbers[0]].name)] : linksTo(stage, numbers);
    return [h("span", { class: isHere ? "here" : "faint" }, stage.title), h("span", { class: "chips" }, links)];
  });
  return h("div", { class: "trail" }, lines);
}

function linksTo(stage, numbers) {
  if (!numbers.length) return [h("span", { class: "faint" }, stage.missing || "nothing")];
  const link = (number) => itemLink(stage.key, number, stage.items[number].name, stage.items[number].kind);
  const links = numbers.slice(0, MOST_LINKS).map(link);
  if (numbers.length > MOST_LINKS) {
    const rest = numbers.slice(MOST_LINKS, 200);
    const onclick = () => more.replaceWith(...rest.map(link));
    const more = h("button", { class: "link", onclick }, `and ${numbers.length - MOST_LINKS} more`);
    links.push(more);
  }
  return links;
}

function costPanels(part, key, calls) {
  if (calls.length > 1) {
    const title = key === "kernels" ? `${calls.length} calls of this kernel` : `${calls.length} instructions do this work`;
    return [panel(title, callTable(part, calls))];
  }
  const call = part.calls[calls[0]];
  const item = part.stage.program.items[call.instruction];
  const nodes = item.origins.length > 1 ? ` (${item.origins.length} nodes)` : "";
  const title = `What instruction ${item.name} costs${nodes}`;
  return [panel(title, table(["", "#"], costRows(call))), planPanel(call)];
}

function callTable(part, calls) {
  const rows = calls.map((number) => {
    const call = part.calls[number];
    const item = part.stage.program.items[call.instruction];
    const spent = call.time ? call.time.minimum : call.estimated_ns * 1e-9;
    const link = itemLink("program", call.instruction, item.name);
    return [link, item.kind, call.plan, bytes(movedBytes(call)), seconds(spent)];
  });
  return table(["instruction", "kind", "plan", "#moved", "#time"], rows, 20);
}

function costRows(call) {
  const moved = movedBytes(call);
  const rows = [];
  if (call.time) {
    const { minimum, median } = call.time;
    rows.push(["shortest time", seconds(minimum)], ["median", seconds(median)], ...limitRows(call.time));
    rows.push(["nominal operations a second", operations(call.flops / minimum)]);
    if (call.executed_flops !== call.flops) rows.push(["carried out a second", operations(call.executed_flops / minimum)]);
    rows.push(["bytes a second", operations(moved / minimum)]);
  }
  if (call.estimated_ns) {
    rows.push(["estimate of the cost model (one thread, nominal clock)", seconds(call.estimated_ns * 1e-9)]);
  }
  rows.push(["nominal operations", operations(call.flops)]);
  if (call.executed_flops !== call.flops) rows.push(["operations carried out", operations(call.executed_flops)]);
  rows.push(["weights read", bytes(call.constant_bytes)], ["other bytes read", bytes(call.read_bytes)]);
  rows.push(["bytes written", bytes(call.written_bytes)]);
  rows.push(["scratch of a thread", bytes(call.scratch_bytes)], ["threads", String(call.threads)]);
  return rows;
}

function planPanel(call) {
  if (!call.plan) return panel("Plan", faint("This kernel leaves no choice."));
  const plan = h("div", { class: "code" }, h("pre", {}, call.plan));
  if (!call.alternatives.length) return panel("Plan", plan);
  const best = Math.min(...call.alternatives.map((each) => each.cycles).filter(Boolean));
  const rows = call.alternatives.map((each) => {
    const cells = [each.plan, Math.round(each.cycles).toLocaleString("en"), ratio(each.cycles / best), each.note || ""];
    if (each.chosen) cells.class = "new";
    return cells;
  });
  const candidates = table(["candidate", "#cycles", "#of the least", "note"], rows, 12);
  const title = h("h3", {}, "Candidates by estimated cycles");
  return panel("Plan, and what else was weighed", plan, title, candidates);
}

function sourcePanel(part, kernels) {
  const box = h("div", { class: "code source", tabindex: "0", role: "region", "aria-label": "Source of the kernel" });
  const title = h("span", { class: "mono" });
  const show = (kernel) => {
    title.textContent = part.stage.kernels.items[kernel].name;
    box.replaceChildren(sourceText(part.sources[kernel]));
    box.scrollTop = 0;
  };
  const choices = kernels.slice(0, 12).map((kernel) => [kernel, part.stage.kernels.items[kernel].kind]);
  const buttons = kernels.length > 1 ? pressButtons("Kernel", choices, kernels[0], show) : null;
  show(kernels[0]);
  const head = h("h2", {}, "Source of the kernel ", title);
  return h("section", { class: "panel kernel-source" }, head, buttons, box);
}

// The source with its comments in grey, a node for each run of lines of one kind.
function sourceText(source) {
  const whole = h("pre");
  if (!source) {
    whole.append(h("span", { class: "faint" }, "Nothing was generated for this instruction."));
    return whole;
  }
  let run = "";
  let isComment = false;
  const end = () => {
    if (run) whole.append(isComment ? h("span", { class: "comment" }, run) : run);
    run = "";
  };
  for (const line of source.split("\n")) {
    const comment = line.trimStart().startsWith("#");
    if (comment !== isComment) end();
    isComment = comment;
    run += `${line}\n`;
  }
  end();
  return whole;
}
