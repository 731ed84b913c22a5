"use strict";
// The views, the choice among them and among programs, and what happens when the address changes.

const VIEWS = {
  overview: ["Overview", drawOverview],
  stages: ["Stages", drawStages],
  passes: ["Passes", drawPasses],
  kernels: ["Kernels", drawKernels],
  memory: ["Memory", drawMemory],
  weights: ["Weights", drawWeights],
};
if (report.comparison) VIEWS.comparison = ["Comparison", drawComparison];

let drawn = "";
let widthDrawn = 0;
let update;
let kept = {}; // of the view that is drawn: what was searched, sorted and opened

// Return what is kept of this view when it is drawn anew, with these values at first.
function viewState(first) {
  return Object.assign(kept, { ...first, ...kept });
}

function show() {
  Object.assign(chosen, readAddress(location.hash));
  if (!Object.hasOwn(VIEWS, chosen.view)) chosen.view = "overview";
  const wanted = [chosen.view, chosen.compilation, chosen.part].join("/");
  if (wanted === drawn && update) {
    update();
    return;
  }
  drawn = wanted;
  kept = {};
  draw();
}

function draw() {
  widthDrawn = innerWidth;
  showTooltip("");
  drawViews();
  drawChoices();
  const main = document.getElementById("main");
  main.replaceChildren();
  update = VIEWS[chosen.view][1](main);
}

// Draw anew for another width: columns, charts and the memory map depend on it.
function drawAtNewWidth() {
  if (innerWidth === widthDrawn) return;
  const place = scrollY;
  draw();
  scrollTo(0, place);
}

function drawViews() {
  const order = report.comparison ? ["comparison", ...Object.keys(VIEWS).filter((view) => view !== "comparison")] : Object.keys(VIEWS);
  const links = order.map((view) => {
    const item = VIEWS_OF_ITEMS.has(view) ? {} : { stage: "", item: -1 };
    const href = addressOf({ ...chosen, ...item, view });
    const onclick = (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return; // the browser opens it elsewhere
      event.preventDefault();
      choose({ ...item, view });
    };
    return h("a", { href, onclick, "aria-current": view === chosen.view ? "page" : null }, VIEWS[view][0]);
  });
  const views = document.getElementById("views");
  views.replaceChildren(...links);
  const current = views.querySelector("[aria-current]");
  views.scrollLeft = current.offsetLeft + current.offsetWidth / 2 - views.clientWidth / 2;
}

function drawChoices() {
  const place = document.getElementById("choices");
  const controls = [];
  if (chosen.view !== "comparison") {
    const titles = report.compilations.map((each, n) => `${"AB"[n]}: ${each.title}`);
    controls.push(chooser("Compilation", "compilation", titles));
    controls.push(chooser("Program", "part", compilationNow().parts.map((part) => part.title)));
  }
  place.replaceChildren(...controls.filter(Boolean));
}

function chooser(label, key, titles) {
  if (titles.length < 2) return null;
  const options = titles.map((title, n) => h("option", { value: n, selected: n === chosen[key] }, title));
  const reset = key === "compilation" ? { part: 0 } : {};
  const onchange = (event) => choose({ ...reset, [key]: Number(event.target.value), stage: "", item: -1 });
  return h("label", {}, `${label} `, h("select", { onchange }, options));
}

document.addEventListener("keydown", (event) => {
  const isTyping = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
  const field = document.querySelector('main input[type="search"]');
  if (event.key === "/" && !isTyping && field) {
    event.preventDefault();
    field.focus();
  } else if (event.key === "Escape") {
    showTooltip("");
  }
});
window.addEventListener("hashchange", show);
window.addEventListener("popstate", show);
let resizing;
window.addEventListener("resize", () => {
  clearTimeout(resizing);
  resizing = setTimeout(drawAtNewWidth, 100);
});
if (!location.hash && report.comparison) chosen.view = "comparison";
if (!location.hash) history.replaceState(null, "", addressOf(chosen));
show();
