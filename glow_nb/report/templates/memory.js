"use strict";
// The arena: time to the right, addresses upwards. A rectangle is an activation.

const MAP = { height: 420, live: 90, left: 64, bottom: 34, gap: 10, least: 4 };
const KINDS = 7;

function drawMemory(main) {
  const part = partNow();
  const { memory } = part;
  main.append(memoryTiles(memory));
  if (!memory.lives.length) {
    main.append(panel("Arena", h("p", {}, "No activation lies in memory.")));
    return undefined;
  }
  const view = Object.assign(viewState({ zoom: 1 }), { part, order: livesInOrder(memory.lives) });
  const label = "Memory map; arrow keys go through the activations";
  const map = h("div", { class: "map", tabindex: "0", role: "application", "aria-label": label });
  const said = h("div", { class: "panel", id: "life", "aria-live": "polite" });
  const pick = (number, byKey) => choose({ stage: "life", item: number }, !byKey);
  const wider = h("button", { onclick: () => zoomMap(view, map, 2) }, "Wider");
  const narrower = h("button", { onclick: () => zoomMap(view, map, 0.5) }, "Narrower");
  map.addEventListener("keydown", (event) => moveInMap(view, pick, event));
  map.addEventListener("click", (event) => {
    if (event.target.dataset.n !== undefined) pick(Number(event.target.dataset.n), false);
  });
  tooltips(map, (number) => lifeText(part, memory.lives[number]));
  const note = memory.left_out ? faint(`${plural(memory.left_out, "small activation")} are not drawn.`) : null;
  const buttons = h("div", { class: "bar" }, h("div", { class: "group" }, wider, narrower));
  main.append(panel("Arena: what lies where, and for how long", buttons, map, memoryLegend(view), note), said);
  map.replaceChildren(memoryPicture(view, map));
  const update = () => {
    markLife(map);
    const life = chosen.stage === "life" ? memory.lives[chosen.item] : undefined;
    const invitation = "Point at a rectangle, click it, or press the arrow keys in the map.";
    said.replaceChildren(...(life ? lifeDetails(part, life) : [faint(invitation)]));
  };
  update();
  return update;
}

// Stretch the map around the chosen rectangle if it is in sight, else around the middle.
function zoomMap(view, map, factor) {
  const before = mapFocus(map);
  view.zoom = Math.min(64, Math.max(1, view.zoom * factor));
  const width = map.firstChild.getAttribute("width") - MAP.left;
  map.replaceChildren(memoryPicture(view, map));
  const scale = (map.firstChild.getAttribute("width") - MAP.left) / width;
  map.scrollLeft = MAP.left + (before.x - MAP.left) * scale - before.inSight;
  markLife(map, false);
}

function mapFocus(map) {
  const selected = map.querySelector(".life.selected");
  const middle = map.scrollLeft + map.clientWidth / 2;
  if (!selected) return { x: middle, inSight: map.clientWidth / 2 };
  const x = Number(selected.getAttribute("x")) + Number(selected.getAttribute("width")) / 2;
  const inSight = x - map.scrollLeft;
  return inSight > 0 && inSight < map.clientWidth ? { x, inSight } : { x, inSight: map.clientWidth / 2 };
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
  picture.append(liveCurve(live, x, memory, map.clientWidth), ...memoryAxes(memory, x, y, live.length, width));
  const colours = kindColours(memory.lives);
  const drawn = [...view.order].sort((one, other) => memory.lives[other].size - memory.lives[one].size);
  for (const number of drawn) picture.append(lifeMark(memory.lives[number], number, x, y, colours));
  return picture;
}

// A rectangle, which is high enough to be seen and hit; the small ones are above the large ones.
function lifeMark(life, number, x, y, colours) {
  const height = Math.max(MAP.least, y(life.offset) - y(life.offset + life.size));
  return svg("rect", {
    class: "life",
    "data-n": number,
    x: x(life.begin),
    y: y(life.offset) - height,
    width: Math.max(1, x(life.end) - x(life.begin)),
    height,
    fill: `var(--kind-${colours.get(life.kind)})`,
  });
}

function liveCurve(live, x, memory, room) {
  const y = (value) => MAP.live - ((MAP.live - 14) * value) / Math.max(memory.lower_bound, 1);
  const corners = live.flatMap((value, step) => [`${x(step)},${y(value)}`, `${x(step + 1)},${y(value)}`]);
  const curve = svg("polygon", { class: "live", points: [`${x(0)},${MAP.live}`, ...corners, `${x(live.length)},${MAP.live}`].join(" ") });
  const bound = svg("line", { class: "bound", x1: x(0), x2: x(live.length), y1: y(memory.lower_bound), y2: y(memory.lower_bound) });
  const whole = `live bytes, at most ${bytes(memory.lower_bound)}: the lower bound of the arena`;
  const short = `live bytes, at most ${bytes(memory.lower_bound)}`;
  const text = svg("text", { x: MAP.left + 4, y: 10 }, room < 520 ? short : whole);
  return svg("g", {}, curve, bound, text);
}

function memoryAxes(memory, x, y, steps, width) {
  const addresses = evenly(memory.arena, 6, 2).map((address) => {
    const text = svg("text", { x: MAP.left - 6, y: y(address) + 4, "text-anchor": "end" }, roundBytes(address));
    return [svg("line", { class: "axis", x1: MAP.left, x2: width - 8, y1: y(address), y2: y(address) }), text];
  });
  const bottom = MAP.height - MAP.bottom + 16;
  const wanted = Math.max(2, Math.floor(width / 110));
  const numbers = evenly(steps - 1, wanted, 10).map((step) => {
    const middle = x(step + 0.5);
    const tick = svg("line", { class: "axis", x1: middle, x2: middle, y1: MAP.height - MAP.bottom, y2: MAP.height - MAP.bottom + 5 });
    return [tick, svg("text", { x: middle, y: bottom, "text-anchor": "middle" }, String(step))];
  });
  const title = svg("text", { x: MAP.left, y: bottom + 14 }, "instruction");
  return [...addresses.flat(), ...numbers.flat(), title];
}

// Return numbers from 0 to `most`, about `count` steps apart that are round in this base.
function evenly(most, count, base) {
  const rough = Math.max(1, most / count);
  const power = base ** Math.floor(Math.log(rough) / Math.log(base) + 1e-9);
  const factors = base === 10 ? [1, 2, 5, 10] : [1, 2];
  const step = power * factors.find((factor) => factor * power >= rough * 0.999);
  const found = [];
  for (let value = 0; value <= most; value += step) found.push(value);
  return found;
}

function roundBytes(value) {
  const [factor, unit] = [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [1024, "KiB"], [1, "B"]].find(([least]) => value >= least) || [1, "B"];
  return `${Number((value / factor).toFixed(2))} ${unit}`;
}

// Return what writes an activation, in order: a kernel may write a part of it, or write it in place.
function writersOf(part, life) {
  return life.writers.map((number) => ({ number, item: part.stage.program.items[number] })).filter(({ item }) => item);
}

function lifeText(part, life) {
  const writers = writersOf(part, life).map(({ number, item }) => `${number} ${item.name} (${item.kind})`);
  const more = writers.length > 4 ? [`and ${writers.length - 4} more`] : [];
  return [
    life.name,
    life.type,
    `${bytes(life.size)} at offset ${life.offset.toLocaleString("en")}`,
    `lives from instruction ${life.begin} to ${life.end - 1}`,
    `written by ${writers.length ? [...writers.slice(0, 4), ...more].join(", ") : life.kind}`,
  ].join("\n");
}

function lifeDetails(part, life) {
  const links = writersOf(part, life).map(({ number }) => h("div", {}, linkToInstruction(part, number)));
  const rows = [
    ["type", life.type],
    ["bytes", `${bytes(life.size)} (${life.size.toLocaleString("en")})`],
    ["offset", life.offset.toLocaleString("en")],
    ["lives", `from instruction ${life.begin} to ${life.end - 1}`],
    ["written by", links.length ? h("div", {}, links) : life.kind],
    ["needed last by", linkToInstruction(part, life.end - 1)],
  ];
  return [h("h2", { class: "mono" }, life.name), table(["", ""], rows)];
}

function markLife(map, mayScroll = true) {
  const wanted = chosen.stage === "life" ? chosen.item : -1;
  for (const rectangle of map.querySelectorAll(".life")) {
    rectangle.classList.toggle("selected", Number(rectangle.dataset.n) === wanted);
  }
  const selected = map.querySelector(".life.selected");
  if (!selected || !mayScroll) return;
  const [x, width] = ["x", "width"].map((name) => Number(selected.getAttribute(name)));
  const isInSight = x + width > map.scrollLeft && x < map.scrollLeft + map.clientWidth;
  if (!isInSight) map.scrollLeft = Math.max(0, x + width / 2 - map.clientWidth / 2);
}

function linkToInstruction(part, number) {
  const item = part.stage.program.items[number];
  return item ? itemLink("program", number, `${number} ${item.name} (${item.kind})`) : String(number);
}

function moveInMap(view, pick, event) {
  const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1, Home: -Infinity, End: Infinity }[event.key];
  if (!step) return;
  event.preventDefault();
  const last = view.order.length - 1;
  const place = chosen.stage === "life" ? view.order.indexOf(chosen.item) + step : 0;
  pick(view.order[Math.min(last, Math.max(0, place))], true);
}

function memoryLegend(view) {
  const colours = kindColours(view.part.memory.lives);
  const own = [...colours].filter(([, colour]) => colour < KINDS).sort((one, other) => one[1] - other[1]);
  const entries = own.map(([kind, colour]) => swatch(`kind-${colour}`, kind));
  if (own.length < colours.size) entries.push(swatch(`kind-${KINDS}`, "others"));
  entries.push(h("span", { class: "faint" }, "The colour is that of the first instruction that writes the activation."));
  return h("div", { class: "legend" }, entries);
}
