"use strict";
// The roofline: operations a second over operations for each byte, below the machine's limits.

const ROOF = { height: 300, left: 64, right: 16, top: 20, bottom: 40 };

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
  picture.append(...rooflineAxes(scale), ...rooflineRoofs(scale, peaks, roof.levels));
  const longest = Math.max(...points.map((point) => point.spent));
  for (const point of points) picture.append(rooflineMark(scale, point, longest));
  picture.append(...picture.querySelectorAll(".on-lines")); // above the marks
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
  drawn.push(svg("text", { x: middle, y: ROOF.height - 6, "text-anchor": "middle" }, "operations for each byte that is moved"));
  return drawn;
}

function rooflineRoofs(scale, peaks, levels) {
  const peak = Math.max(...peaks.map(([, rate]) => rate));
  const [left, right] = [10 ** scale.x0, 10 ** scale.x1];
  const lines = levels.map(([name, rate]) => {
    const start = Math.max(left, 10 ** scale.y0 / rate);
    const end = Math.min(right, peak / rate);
    const text = svg("text", { class: "on-lines", x: scale.x(start) + 12, y: scale.y(start * rate) - 14 }, name);
    const [y1, y2] = [scale.y(start * rate), scale.y(end * rate)];
    return [svg("line", { class: "level", x1: scale.x(start), y1, x2: scale.x(end), y2 }), text];
  });
  const nearest = Math.max(...levels.map(([, rate]) => rate));
  const roofs = peaks.map(([name, rate]) => {
    const y = scale.y(rate);
    const text = svg("text", { class: "on-lines", x: scale.width - ROOF.right, y: y - 6, "text-anchor": "end" }, `peak of ${name}`);
    return [svg("line", { class: "roof", x1: scale.x(Math.max(left, rate / nearest)), x2: scale.width - ROOF.right, y1: y, y2: y }), text];
  });
  return [...lines, ...roofs].flat();
}

// A circle for a kernel that arithmetic limits, a square for one that memory limits.
function rooflineMark(scale, point, longest) {
  const size = 3.5 + 7 * Math.sqrt(point.spent / longest);
  const [x, y] = [scale.x(point.x), scale.y(point.y)];
  const classes = `point ${point.bound || "arithmetic"}`;
  const common = { class: classes, "data-n": point.number, "fill-opacity": 0.75 };
  if (point.bound === "memory") {
    return svg("rect", { ...common, x: x - size, y: y - size, width: 2 * size, height: 2 * size });
  }
  return svg("circle", { ...common, cx: x, cy: y, r: size });
}

function rooflineLegend(part, points) {
  const left = part.calls.length - points.length;
  const entries = [
    swatch("blue", "arithmetic limits it", "50%"),
    swatch("orange", "memory limits it"),
    h("span", { class: "faint" }, "The larger, the longer it takes."),
  ];
  if (left) entries.push(h("span", { class: "faint" }, `Not drawn: ${plural(left, "call")} without arithmetic.`));
  return h("div", { class: "legend" }, entries);
}
