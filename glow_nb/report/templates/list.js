"use strict";
// A list of any length that draws only the rows in sight. Arrow keys move through it.

class VirtualList {
  // `draw` returns what a row holds, `pick` is told which row is chosen, and whether by keyboard.
  // With `most`, a short list is as high as its rows, and no list is higher than that part of the
  // window. `heads` is the line above it, which is as wide as its rows.
  constructor({ label, height, draw, pick, most = 0, heads = null, classOf = () => "", empty = "Nothing is found." }) {
    Object.assign(this, { rowHeight: height, draw, pick, most, heads, classOf, empty });
    this.rows = [];
    this.active = -1;
    this.inner = h("div", { class: "rows", role: "presentation" });
    this.note = h("div", { class: "empty", hidden: true });
    this.id = `list-${VirtualList.count++}`;
    this.element = h(
      "div",
      { class: "list", role: "listbox", tabindex: "0", "aria-label": label, id: this.id },
      this.inner,
      this.note,
    );
    this.element.addEventListener("scroll", () => this.redraw());
    this.element.addEventListener("keydown", (event) => this.onKey(event));
    this.inner.addEventListener("click", (event) => this.onClick(event));
    new ResizeObserver(() => this.redraw()).observe(this.element);
  }

  // Show these rows, numbers of things that `draw` knows.
  show(rows, empty = this.empty) {
    this.rows = rows;
    if (this.most && !this.element.style.height) this.element.style.height = `${this.height()}px`;
    this.note.textContent = empty;
    this.note.hidden = rows.length > 0;
    this.inner.style.height = `${rows.length * this.rowHeight}px`;
    this.redraw();
  }

  // Return the height for all rows, or for so many and a half that there are clearly more.
  height() {
    const wanted = Math.max(3, this.rows.length) * this.rowHeight;
    const most = this.most * innerHeight;
    return wanted <= most ? wanted : (Math.max(2, Math.round(most / this.rowHeight)) + 0.5) * this.rowHeight;
  }

  redraw() {
    const { scrollTop, clientHeight } = this.element;
    if (this.heads) this.heads.style.paddingRight = `calc(var(--row-right) + ${this.element.offsetWidth - this.element.clientWidth}px)`;
    const first = Math.max(0, Math.floor(scrollTop / this.rowHeight) - 4);
    const last = Math.min(this.rows.length, Math.ceil((scrollTop + clientHeight) / this.rowHeight) + 4);
    const drawn = [];
    for (let place = first; place < last; place++) drawn.push(this.rowAt(place));
    this.inner.replaceChildren(...drawn);
    const shown = this.active >= first && this.active < last;
    if (shown) this.element.setAttribute("aria-activedescendant", `${this.id}-${this.active}`);
    else this.element.removeAttribute("aria-activedescendant");
  }

  rowAt(place) {
    const number = this.rows[place];
    const classes = this.classOf(number);
    const row = h("div", {
      class: `row ${classes}`,
      role: "option",
      id: `${this.id}-${place}`,
      "data-place": place,
      "data-number": number,
      "aria-selected": classes.includes("selected") ? "true" : "false",
      "aria-posinset": place + 1,
      "aria-setsize": this.rows.length,
      style: { top: `${place * this.rowHeight}px`, height: `${this.rowHeight}px` },
    });
    row.append(...this.draw(number));
    return row;
  }

  // Bring a row into sight, in the middle if it is out of it.
  reveal(number) {
    const place = this.rows.indexOf(number);
    if (place < 0) return;
    this.active = place;
    const top = place * this.rowHeight;
    const { scrollTop, clientHeight } = this.element;
    if (top < scrollTop || top + this.rowHeight > scrollTop + clientHeight) {
      this.element.scrollTop = Math.max(0, top - (clientHeight - this.rowHeight) / 2);
    }
    this.redraw();
  }

  onClick(event) {
    const row = event.target.closest("[data-place]");
    if (!row) return;
    this.active = Number(row.dataset.place);
    this.pick(this.rows[this.active], false);
  }

  onKey(event) {
    const page = Math.max(1, Math.floor(this.element.clientHeight / this.rowHeight) - 1);
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    if (event.key === "Enter" && this.active >= 0) {
      this.pick(this.rows[this.active], false);
    } else if (event.key in steps && this.rows.length) {
      const wanted = this.active < 0 ? 0 : this.active + steps[event.key];
      const place = Math.min(this.rows.length - 1, Math.max(0, wanted));
      this.reveal(this.rows[place]);
      this.pick(this.rows[place], true);
    } else {
      return;
    }
    event.preventDefault();
  }
}

VirtualList.count = 0;
