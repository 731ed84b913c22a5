"use strict";
// What the page of a comparison shows of one pair, of the passes, of memory, and of what was said.

const MOST_WORDS = 600;

function matchDetails(view, match) {
  const items = itemsOf(view, match);
  const texts = items.map((item) => (item ? item.text : ""));
  const [first, second] = items[0] && items[1] ? wordDifference(...texts) : texts.map((text) => [text]);
  const side = (title, item, text, n) => {
    if (!item) return h("div", {}, h("h3", {}, title), faint("It has nothing here."));
    const code = h("div", { class: "code" }, h("pre", {}, text));
    return h("div", {}, h("h3", {}, `${title}: ${item.name}`), code, callsOfSide(view, match, n));
  };
  return [h("div", { class: "two" }, side("A", items[0], first, 0), side("B", items[1], second, 1))];
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
  return h("button", { class: "link", onclick: () => choose({ view: "stages", compilation, part: 0, stage, item }) }, text);
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
  const columns = ["pass", "#A", "#B", "#time of A", "#time of B"];
  const shown = names.length ? table(columns, sorted, 25) : faint("The passes of neither are known.");
  return panel("Passes: how often they changed something", shown);
}

function factsOfBoth(comparison) {
  const rows = comparison.facts.map(([name, first, second]) => {
    const cells = [name, first, second];
    if (first !== second) cells.class = "changed";
    return cells;
  });
  return panel("What was compiled", table(["", "A", "B"], rows));
}

// The live bytes of both over their instructions, each from its first to its last.
function liveOfBoth(parts) {
  const room = document.getElementById("main").clientWidth - 80;
  const [width, height, left] = [Math.max(240, innerWidth < 760 ? room : room / 2), 180, 64];
  const curves = parts.map(liveBytes);
  const most = Math.max(1, ...curves.flat());
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "Live bytes of both" });
  for (const share of [0, 0.5, 1]) {
    const y = height - 24 - share * (height - 40);
    picture.append(svg("line", { class: "axis", x1: left, x2: width, y1: y, y2: y }));
    picture.append(svg("text", { x: left - 6, y: y + 4, "text-anchor": "end" }, bytes(Math.round(most * share))));
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
