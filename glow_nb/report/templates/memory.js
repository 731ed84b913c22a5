"use strict";
// The arena: time to the right, addresses upwards. A rectangle is an activation.

const MAP = { height: 420, live: 90, left: 64, bottom: 34, gap: 10 };
const KINDS = 7;

function drawMemory(main) {
  const part = partNow();
  const { memory } = part;
  main.append(memoryTiles(memory));
  if (!memory.lives.length) {
    main.append(panel("Arena", h("p", {}, "No activation lies in memory.")));
    return undefined;
  }
  const view = { part, zoom: 1, current: -1, order: livesInOrder(memory.lives) };
  const label = "Memory map; arrow keys go through the activations";
  const map = h("div", { class: "map", tabindex: "0", role: "application", "aria-label": label });
  const said = h("div", { class: "panel", id: "life", "aria-live": "polite" }, "Point at a rectangle, or press the arrow keys in the map.");
  const redraw = () => map.replaceChildren(memoryPicture(view, map));
  const zoom = (factor) => { view.zoom = Math.min(64, Math.max(1, view.zoom * factor)); redraw(); };
  const wider = h("button", { onclick: () => zoom(2) }, "Wider");
  const buttons = h("div", { class: "group" }, wider, h("button", { onclick: () => zoom(0.5) }, "Narrower"));
  map.addEventListener("keydown", (event) => moveInMap(view, map, said, event));
  map.addEventListener("click", (event) => {
    if (event.target.dataset.n !== undefined) pickLife(view, map, said, Number(event.target.dataset.n));
  });
  tooltips(map, (number) => lifeText(memory.lives[number]));
  const note = memory.left_out ? faint(`${plural(memory.left_out, "small activation")} are not drawn.`) : null;
  main.append(panel("Arena: what lies where, and for how long", h("div", { class: "bar" }, buttons), map, memoryLegend(view), note), said);
  redraw();
  return undefined;
}

function memoryTiles(memory) {
  const shown = [
    tile(bytes(memory.arena), "arena"),
    tile(bytes(memory.lower_bound), "lower bound", "The largest sum of activations that are live at one time"),
    tile(bytes(memory.unshared), "without sharing", "What all activations would take if none shared memory"),
    tile(bytes(memory.constants), "constants"),
    tile(bytes(memory.scratch), "scratch of all threads"),
  ];
  if (memory.state) shown.push(tile(bytes(memory.state), "states"));
  return h("div", { class: "tiles" }, shown);
}

function livesInOrder(lives) {
  const numbers = lives.map((_, number) => number);
  return numbers.sort((one, other) => lives[one].begin - lives[other].begin || lives[one].offset - lives[other].offset);
}

// Return the number of the colour of each kind: the first ones go to those that take most bytes.
function kindColours(lives) {
  const sizes = new Map();
  for (const life of lives) sizes.set(life.kind, (sizes.get(life.kind) || 0) + life.size);
  const kinds = [...sizes.keys()].sort((one, other) => sizes.get(other) - sizes.get(one));
  return new Map(kinds.map((kind, place) => [kind, Math.min(place, KINDS)]));
}

// Return the bytes that are live at each instruction.
function liveBytes(part) {
  const steps = Math.max(1, part.stage.program.items.length, ...part.memory.lives.map((life) => life.end));
  const changes = new Array(steps + 1).fill(0);
  for (const life of part.memory.lives) {
    changes[life.begin] += life.size;
    changes[life.end] -= life.size;
  }
  let sum = 0;
  return changes.slice(0, steps).map((change) => (sum += change));
}

function memoryPicture(view, map) {
  const { part } = view;
  const { memory } = part;
  const live = liveBytes(part);
  const width = Math.max(280, (map.clientWidth || 900) * view.zoom - 4);
  const x = (step) => MAP.left + ((width - MAP.left - 8) * step) / live.length;
  const top = MAP.live + MAP.gap;
  const bottom = MAP.height - MAP.bottom;
  const y = (address) => bottom - ((bottom - top) * address) / Math.max(memory.arena, 1);
  const picture = svg("svg", { width, height: MAP.height, viewBox: `0 0 ${width} ${MAP.height}` });
  picture.append(liveCurve(live, x, memory), ...memoryAxes(memory, x, y, live.length, width));
  const colours = kindColours(memory.lives);
  for (const number of view.order) {
    const life = memory.lives[number];
    picture.append(svg("rect", {
      class: number === view.current ? "life selected" : "life",
      "data-n": number,
      x: x(life.begin),
      y: y(life.offset + life.size),
      width: Math.max(1, x(life.end) - x(life.begin)),
      height: Math.max(1, y(life.offset) - y(life.offset + life.size)),
      fill: `var(--kind-${colours.get(life.kind)})`,
    }));
  }
  return picture;
}

function liveCurve(live, x, memory) {
  const y = (value) => MAP.live - ((MAP.live - 14) * value) / Math.max(memory.lower_bound, 1);
  const corners = live.flatMap((value, step) => [`${x(step)},${y(value)}`, `${x(step + 1)},${y(value)}`]);
  const curve = svg("polygon", { class: "live", points: [`${x(0)},${MAP.live}`, ...corners, `${x(live.length)},${MAP.live}`].join(" ") });
  const bound = svg("line", { class: "bound", x1: x(0), x2: x(live.length), y1: y(memory.lower_bound), y2: y(memory.lower_bound) });
  const text = svg("text", { x: MAP.left + 4, y: 10 }, `live bytes, at most ${bytes(memory.lower_bound)}: the lower bound of the arena`);
  return svg("g", {}, curve, bound, text);
}

function memoryAxes(memory, x, y, steps, width) {
  const drawn = [0, 0.25, 0.5, 0.75, 1].map((share) => {
    const address = Math.round(memory.arena * share);
    const text = svg("text", { x: MAP.left - 6, y: y(address) + 4, "text-anchor": "end" }, bytes(address));
    return [svg("line", { class: "axis", x1: MAP.left, x2: width - 8, y1: y(address), y2: y(address) }), text];
  });
  const bottom = MAP.height - MAP.bottom + 16;
  const ends = svg("text", { x: MAP.left, y: bottom }, "instruction 0");
  const last = svg("text", { x: x(steps), y: bottom, "text-anchor": "end" }, String(steps));
  return [...drawn.flat(), ends, last];
}

function lifeText(life) {
  return [
    life.name,
    life.type,
    `${bytes(life.size)} at offset ${life.offset.toLocaleString("en")}`,
    `lives from instruction ${life.begin} to ${life.end - 1}`,
    `written by ${life.kind}`,
  ].join("\n");
}

function pickLife(view, map, said, number) {
  view.current = number;
  const { part } = view;
  const life = part.memory.lives[number];
  for (const rectangle of map.querySelectorAll(".life")) {
    rectangle.classList.toggle("selected", Number(rectangle.dataset.n) === number);
  }
  const chosenOne = map.querySelector(".life.selected");
  if (chosenOne) map.scrollLeft = Math.max(0, Number(chosenOne.getAttribute("x")) - map.clientWidth / 2);
  const rows = [
    ["type", life.type],
    ["bytes", `${bytes(life.size)} (${life.size.toLocaleString("en")})`],
    ["offset", life.offset.toLocaleString("en")],
    ["written first by", linkToInstruction(part, life.begin)],
    ["needed last by", linkToInstruction(part, life.end - 1)],
  ];
  said.replaceChildren(h("h2", { class: "mono" }, life.name), table(["", ""], rows));
}

function linkToInstruction(part, number) {
  const item = part.stage.program.items[number];
  return item ? itemLink("program", number, `${number} ${item.name} (${item.kind})`) : String(number);
}

function moveInMap(view, map, said, event) {
  const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1, Home: -Infinity, End: Infinity }[event.key];
  if (!step) return;
  event.preventDefault();
  const last = view.order.length - 1;
  const place = view.current < 0 ? 0 : view.order.indexOf(view.current) + step;
  pickLife(view, map, said, view.order[Math.min(last, Math.max(0, place))]);
}

function memoryLegend(view) {
  const colours = kindColours(view.part.memory.lives);
  const own = [...colours].filter(([, colour]) => colour < KINDS).sort((one, other) => one[1] - other[1]);
  const entries = own.map(([kind, colour]) => swatch(`kind-${colour}`, kind));
  if (own.length < colours.size) entries.push(swatch(`kind-${KINDS}`, "others"));
  return h("div", { class: "legend" }, entries);
}
