"use strict";
// The weights as the kernels read them, the largest first.

const ROW_OF_WEIGHT = 30;
const WEIGHT_COLUMNS = "minmax(8rem, 2fr) minmax(7rem, 2fr) 5.5rem 8.6rem minmax(7rem, 2fr)";
const FEW_WEIGHT_COLUMNS = "minmax(6rem, 2fr) 5.5rem minmax(6rem, 1fr)";

function drawWeights(main) {
  const part = partNow();
  const total = part.weights.reduce((sum, row) => sum + row.size, 0) || 1;
  const isNarrow = innerWidth < 760;
  const template = isNarrow ? FEW_WEIGHT_COLUMNS : WEIGHT_COLUMNS;
  const view = viewState({ words: "" });
  const heads = ["weight", isNarrow ? null : "type", "size", isNarrow ? null : "share", "read by"].filter(Boolean);
  const classes = { size: "number", share: "number" };
  const titles = heads.map((title) => h("span", { class: classes[title] || "" }, title));
  const head = cellsIn(template, "heads", titles);
  const list = new VirtualList({
    label: "Weights",
    most: 0.65,
    heads: head,
    height: ROW_OF_WEIGHT,
    draw: (number) => [weightRow(part, part.weights[number], total, template)],
    pick: (number) => {
      const [reader] = part.weights[number].readers || [];
      if (reader !== undefined) choose({ view: "stages", stage: "program", item: reader });
    },
    empty: "The program has no such weights.",
  });
  const show = () => {
    const numbers = part.weights.map((_, number) => number);
    list.show(numbers.filter((number) => `${part.weights[number].name} ${part.weights[number].type}`.toLowerCase().includes(view.words)));
  };
  const counted = `${plural(part.weights.length, "weight")}, ${bytes(total)} as the kernels read them.`;
  const said = `${counted} A click goes to the instruction that reads it.`;
  main.append(h("div", { class: "bar" }, searchField("Search weights", view, show), h("span", { class: "faint" }, said)));
  main.append(h("section", { class: "stage shown" }, head, list.element));
  show();
  return undefined;
}

function weightRow(part, row, total, template) {
  const readers = (row.readers || []).map((reader) => part.stage.program.items[reader].name);
  const share = row.size / total;
  const cells = [
    h("span", { class: "mono", title: row.name }, shortened(row.name)),
    template === WEIGHT_COLUMNS ? h("span", { class: "mono", title: row.type }, row.type) : null,
    h("span", { class: "number" }, bytes(row.size)),
    template === WEIGHT_COLUMNS ? h("span", { class: "number" }, percent(share), " ", meter(share)) : null,
    h("span", { class: "mono", title: readers.join(", ") }, shortened(readers.join(", ")) || "nothing"),
  ];
  return cellsIn(template, "", cells);
}
