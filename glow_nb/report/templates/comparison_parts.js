"use strict";
// What the page of a comparison shows of one pair, of the passes, of memory, and of what was said.

const MOST_WORDS = 600;

function matchDetails(view, match) {
  const items = itemsOf(view, match);
  const texts = items.map((item) => (item ? item.text : ""));
  const [first, second] = items[0] && items[1] ? wordDifference(...texts) : texts.map((text) => [text]);
  const side = (title, item, text, n) => {
    if (!item) return h("div", {}, h("h3", {}, title), faint(elsewhere(view, match, n)));
    const code = h("div", { class: "code" }, h("pre", {}, text));
    return h("div", {}, h("h3", {}, `${title}: ${item.name}`), code, callsOfSide(view, match, n));
  };
  const both = h("div", { class: "two" }, side("A", items[0], first, 0), side("B", items[1], second, 1));
  return [both, hasTimes(view) ? groupDetails(view, match) : null].filter(Boolean);
}

// All calls that do the work of the same nodes, where one compilation has more of them.
function groupDetails(view, match) {
  const group = groupsOf(view)[matchesOf(view).indexOf(match)];
  if (group.pairs < 2) return null;
  const rows = group.calls.flatMap((calls, side) => calls.map((call) => {
    const item = view.parts[side].stage.program.items[call.instruction];
    return ["AB"[side], otherPageLink(side, "program", call.instruction, item.name), item.kind, call.time ? seconds(call.time.minimum) : ""];
  }));
  const [one, other] = group.times;
  const sums = one.minimum || other.minimum ? `: ${seconds(one.minimum)} and ${seconds(other.minimum)}, ${differenceText(one, other)}` : "";
  return h("div", {}, h("h3", {}, `Instructions of the same nodes${sums}`), table(["", "instruction", "kind", "#time"], rows, 20));
}

// Say what does the work of an item in the compilation that has no such item.
function elsewhere(view, match, side) {
  const found = view.parts[side].stage[view.stage].items;
  const names = new Set(workOf(view, match));
  const model = view.parts[side].stage.model.items;
  const others = names.size ? found.filter((item) => item.origins.some((origin) => names.has(model[origin].name))) : [];
  if (!others.length) return "It has nothing here.";
  const shown = others.slice(0, 4).map((item) => item.name).join(", ");
  return `Its nodes are computed by ${shown}${others.length > 4 ? ` and ${others.length - 4} more` : ""}.`;
}

function callsOfSide(view, match, side) {
  const part = view.parts[side];
  const number = side ? match.right : match.left;
  const calls = callsOfItem(part, view.stage, number);
  if (!calls.length) return faint("No kernel computes it.");
  const rows = calls.map((call) => [
    otherPageLink(side, "kernels", call.kernel, part.stage.kernels.items[call.kernel].kind),
    call.plan,
    seconds(call.time ? call.time.minimum : call.estimated_ns * 1e-9),
  ]);
  return table(["kernel", "plan", "#time"], rows, 10);
}

function otherPageLink(compilation, stage, item, text) {
  return linkButton(text, "", "", () => choose({ view: "stages", compilation, part: 0, stage, item }));
}

// Return both texts as lists of strings and elements that mark the words of one alone.
function wordDifference(first, second) {
  const [left, right] = [first, second].map((text) => text.match(/\w+|\s+|[^\w\s]/g) || []);
  if (left.length > MOST_WORDS || right.length > MOST_WORDS) return [[first], [second]];
  const lengths = commonLengths(left, right);
  const [one, other] = [[], []];
  let [i, j] = [0, 0];
  while (i < left.length || j < right.length) {
    if (i < left.length && j < right.length && left[i] === right[j]) {
      one.push(left[i++]);
      other.push(right[j++]);
    } else if (j < right.length && (i === left.length || lengths[i][j + 1] >= lengths[i + 1][j])) {
      other.push(h("ins", {}, right[j++]));
    } else {
      one.push(h("del", {}, left[i++]));
    }
  }
  return [one, other];
}

// Return, for each pair of places, how many words the rests of both texts have in common.
function commonLengths(left, right) {
  const lengths = Array.from({ length: left.length + 1 }, () => new Uint16Array(right.length + 1));
  for (let i = left.length - 1; i >= 0; i--) {
    for (let j = right.length - 1; j >= 0; j--) {
      lengths[i][j] = left[i] === right[j] ? lengths[i + 1][j + 1] + 1 : Math.max(lengths[i + 1][j], lengths[i][j + 1]);
    }
  }
  return lengths;
}

function passesOfBoth(parts) {
  const sums = parts.map((part) => {
    const found = new Map();
    for (const row of part.passes) {
      const known = found.get(row.name) || { runs: 0, changes: 0, seconds: 0 };
      found.set(row.name, { runs: known.runs + 1, changes: known.changes + row.changed, seconds: known.seconds + row.seconds });
    }
    return found;
  });
  const names = [...new Set(sums.flatMap((found) => [...found.keys()]))];
  const rows = names.map((name) => {
    const [first, second] = sums.map((found) => found.get(name));
    const changes = (sum) => (sum ? `${sum.changes} of ${sum.runs}` : "not run");
    const spent = (sum) => (sum ? seconds(sum.seconds) : "");
    const cells = [name, changes(first), changes(second), spent(first), spent(second)];
    const differs = !first || !second || first.changes !== second.changes;
    if (differs) cells.class = "changed";
    return [differs, cells];
  });
  const sorted = rows.sort((one, other) => other[0] - one[0]).map(([, cells]) => cells);
  const columns = ["pass", "#A", "#B", "#time, A", "#time, B"];
  const shown = names.length ? table(columns, sorted, 25) : faint("The passes of neither are known.");
  return panel("Passes: how often they changed something", shown);
}

// What was said of both, and the machines that they ran on.
function factsOfBoth(comparison, parts) {
  const machines = parts.map((part) => new Map(machineRows(part)));
  const known = new Set(comparison.facts.map(([name]) => name));
  const names = [...new Set(machines.flatMap((rows) => [...rows.keys()]))].filter((name) => !known.has(name));
  const more = names.map((name) => [name, ...machines.map((rows) => rows.get(name) || "")]);
  const rows = [...comparison.facts, ...more].map(([name, first, second]) => {
    const cells = [name, first, second];
    if (first !== second) cells.class = "changed";
    return cells;
  });
  return panel("What was compiled", table(["", "A", "B"], rows));
}

// The live bytes of both over their instructions, each from its first to its last.
function liveOfBoth(parts) {
  const room = document.getElementById("main").clientWidth - 80;
  const [width, height, left] = [Math.max(240, innerWidth < 1100 ? room : room / 2), 180, 64];
  const curves = parts.map(liveBytes);
  const most = Math.max(1, ...curves.flat());
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "Live bytes of both" });
  for (const value of evenly(most, 4, 2)) {
    const y = height - 24 - (value / most) * (height - 40);
    picture.append(svg("line", { class: "axis", x1: left, x2: width, y1: y, y2: y }));
    picture.append(svg("text", { x: left - 6, y: y + 4, "text-anchor": "end" }, roundBytes(value)));
  }
  curves.forEach((curve, n) => {
    const x = (step) => left + ((width - left) * step) / curve.length;
    const y = (value) => height - 24 - ((height - 40) * value) / most;
    const points = curve.flatMap((value, step) => [`${x(step)},${y(value)}`, `${x(step + 1)},${y(value)}`]);
    picture.append(svg("polyline", { class: `line-${n}`, points: points.join(" ") }));
  });
  picture.append(svg("text", { x: width, y: height - 6, "text-anchor": "end" }, "from the first instruction to the last"));
  return panel("Live bytes of activations", picture, namesOfBoth());
}
