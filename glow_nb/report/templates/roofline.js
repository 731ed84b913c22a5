"use strict";
// The roofline: operations a second over operations for each byte, below the machine's limits.

const ROOF = { height: 300, left: 64, right: 16, top: 20, bottom: 40 };
const LETTER = 6.4; // about the width of a letter of a label

function roofline(part, pick) {
  const points = rooflinePoints(part);
  const roof = part.measurement && part.measurement.roof;
  if (!roof || !points.length) return null;
  const used = new Set(part.calls.map((call) => (call.time && call.time.peak) || ""));
  const peaks = roof.peaks.filter(([name], n) => n === 0 || used.has(name));
  const scale = rooflineScale(points, peaks);
  const { width } = scale;
  const size = { width, height: ROOF.height, viewBox: `0 0 ${width} ${ROOF.height}` };
  const picture = svg("svg", { ...size, role: "img", "aria-label": "Roofline of the kernels" });
  picture.append(...rooflineAxes(scale), ...rooflineLines(scale, peaks, roof.levels));
  const longest = Math.max(...points.map((point) => point.spent));
  const marks = points.map((point) => rooflineMark(scale, point, longest));
  picture.append(...marks.map(({ element }) => element), ...rooflineLabels(scale, peaks, roof, marks));
  tooltips(picture, (number) => callSummary(part, number));
  picture.addEventListener("click", (event) => {
    if (event.target.dataset.n !== undefined) pick(Number(event.target.dataset.n));
  });
  return panel("Kernels below the limits of the machine", picture, rooflineLegend(part, points));
}

function rooflinePoints(part) {
  return part.calls
    .map((call, number) => {
      const moved = call.constant_bytes + call.read_bytes + call.written_bytes;
      const spent = call.time ? call.time.minimum : 0;
      return { number, bound: call.time ? call.time.bound : "", spent, x: call.executed_flops / moved, y: call.executed_flops / spent };
    })
    .filter(({ x, y }) => x > 0 && y > 0 && Number.isFinite(x) && Number.isFinite(y));
}

function rooflineScale(points, peaks) {
  const width = Math.max(300, Math.min(1860, document.getElementById("main").clientWidth) - 76);
  const peak = Math.max(...peaks.map(([, rate]) => rate));
  const xs = points.map((point) => point.x);
  const ys = points.map((point) => point.y);
  const x0 = Math.log10(Math.min(...xs, 0.1)) - 0.1;
  const x1 = Math.log10(Math.max(...xs, 100)) + 0.1;
  const y1 = Math.log10(Math.max(peak, ...ys)) + 0.1;
  const y0 = Math.min(y1 - 2, Math.log10(Math.min(...ys)) - 0.1);
  const across = (width - ROOF.left - ROOF.right) / (x1 - x0);
  const up = (ROOF.height - ROOF.top - ROOF.bottom) / (y1 - y0);
  return {
    x: (value) => ROOF.left + (Math.log10(value) - x0) * across,
    y: (value) => ROOF.height - ROOF.bottom - (Math.log10(value) - y0) * up,
    width, x0, x1, y0, y1,
  };
}

function rooflineAxes(scale) {
  const drawn = [];
  for (let power = Math.ceil(scale.x0); power <= scale.x1; power++) {
    const x = scale.x(10 ** power);
    drawn.push(svg("line", { class: "axis", x1: x, x2: x, y1: ROOF.top, y2: ROOF.height - ROOF.bottom }));
    drawn.push(svg("text", { x, y: ROOF.height - ROOF.bottom + 16, "text-anchor": "middle" }, String(10 ** power)));
  }
  for (let power = Math.ceil(scale.y0); power <= scale.y1; power++) {
    const y = scale.y(10 ** power);
    drawn.push(svg("line", { class: "axis", x1: ROOF.left, x2: scale.width - ROOF.right, y1: y, y2: y }));
    drawn.push(svg("text", { x: ROOF.left - 6, y: y + 4, "text-anchor": "end" }, `${operations(10 ** power)}/s`));
  }
  const middle = (ROOF.left + scale.width) / 2;
  const title = scale.width < 520 ? "operations carried out for each byte" : "operations carried out for each byte that is moved";
  drawn.push(svg("text", { x: middle, y: ROOF.height - 6, "text-anchor": "middle" }, title));
  return drawn;
}

// Return where the line of a level of the memory begins and ends, as operations for each byte.
function levelSpan(scale, peaks, rate) {
  const peak = Math.max(...peaks.map(([, each]) => each));
  return [Math.max(10 ** scale.x0, 10 ** scale.y0 / rate), Math.min(10 ** scale.x1, peak / rate)];
}

function rooflineLines(scale, peaks, levels) {
  const nearest = Math.max(...levels.map(([, rate]) => rate));
  const slanted = levels.map(([, rate]) => {
    const [start, end] = levelSpan(scale, peaks, rate);
    const [y1, y2] = [scale.y(start * rate), scale.y(end * rate)];
    return svg("line", { class: "level", x1: scale.x(start), y1, x2: scale.x(end), y2 });
  });
  const flat = peaks.map(([, rate]) => {
    const y = scale.y(rate);
    const x1 = scale.x(Math.max(10 ** scale.x0, rate / nearest));
    return svg("line", { class: "roof", x1, x2: scale.width - ROOF.right, y1: y, y2: y });
  });
  return [...slanted, ...flat];
}

// The names of all lines, where they cover neither a mark nor each other as far as there is room.
function rooflineLabels(scale, peaks, roof, marks) {
  const taken = marks.map(({ box }) => box);
  const place = (text, choices, anchor) => {
    const wide = LETTER * text.length;
    const boxes = choices.map(([x, y]) => ({ x: anchor === "end" ? x - wide : x, y: y - 10, right: anchor === "end" ? x : x + wide, bottom: y + 3 }));
    const covered = boxes.map((box) => taken.filter((other) => overlaps(box, other)).length);
    const best = covered.indexOf(Math.min(...covered));
    taken.push(boxes[best]);
    const [x, y] = choices[best];
    return svg("text", { class: "on-lines", x, y, "text-anchor": anchor }, text);
  };
  const right = scale.width - ROOF.right;
  const peakNames = peaks.map(([name, rate]) => {
    const raised = roof.raised.includes(name) ? ", raised" : "";
    const whole = `peak of ${name}${raised}`;
    const text = LETTER * whole.length < scale.width - ROOF.left - 100 ? whole : `${name.replace("multiply-adds of ", "")}${raised}`;
    const y = scale.y(rate) - 6;
    return place(text, [[right, y], [right - 40, y], [right - 90, y], [right, y + 20], [right - 90, y + 20]], "end");
  });
  const levelNames = joinedLevels(scale, roof.levels).map(([name, rate]) => {
    const [start, end] = levelSpan(scale, peaks, rate);
    const along = [0.02, 0.12, 0.25, 0.4, 0.55, 0.7, 0.85].map((share) => start * (end / start) ** share);
    const choices = along.map((at) => [scale.x(at) + 6, scale.y(at * rate) + 12]); // all below their own line
    const inside = choices.filter(([x, y]) => x > ROOF.left && x < right - 40 && y > ROOF.top - 6 && y < ROOF.height - ROOF.bottom);
    return place(name, inside.length ? inside : choices.slice(0, 1), "start");
  });
  return [...peakNames, ...levelNames];
}

// Levels that are about as fast share a name, as their lines lie close to each other.
function joinedLevels(scale, levels) {
  const joined = [];
  for (const [name, rate] of levels) {
    const known = joined.find(([, other]) => Math.abs(scale.y(rate) - scale.y(other)) < 14);
    if (known) known[0] += ` and ${name}`;
    else joined.push([name, rate]);
  }
  return joined;
}

function overlaps(one, other) {
  return one.x < other.right && other.x < one.right && one.y < other.bottom && other.y < one.bottom;
}

// A circle for a kernel that arithmetic limits, a square for one that memory limits.
function rooflineMark(scale, point, longest) {
  const size = 3.5 + 7 * Math.sqrt(point.spent / longest);
  const [x, y] = [scale.x(point.x), scale.y(point.y)];
  const classes = `point ${point.bound || "arithmetic"}`;
  const common = { class: classes, "data-n": point.number, "fill-opacity": 0.75 };
  const box = { x: x - size, y: y - size, right: x + size, bottom: y + size };
  if (point.bound === "memory") {
    return { box, element: svg("rect", { ...common, x: x - size, y: y - size, width: 2 * size, height: 2 * size }) };
  }
  return { box, element: svg("circle", { ...common, cx: x, cy: y, r: size }) };
}

function rooflineLegend(part, points) {
  const left = part.calls.length - points.length;
  const entries = [
    swatch("blue", "arithmetic limits it", "50%"),
    swatch("orange", "memory limits it"),
    h("span", { class: "faint" }, "The larger, the longer it takes. Dashed lines: a kernel whose bytes lie in that level. Weights may lie in a slower one."),
  ];
  if (left) entries.push(h("span", { class: "faint" }, `Not drawn: ${plural(left, "call")} without arithmetic.`));
  return h("div", { class: "legend" }, entries);
}
