// The windows of a stream over time: which are open, closed, written, late or recalculated, with their values.

import { compact, duration, element, instant, localTime, number, time, zoneName } from "./dom.js";
import { wideTable } from "./parts.js";

const REFRESH_MS = 10000;
const FEW_SERIES = 12;
const MIN_WIDTH = 0.35;
const MAX_ROWS = 6;
let created = 0;

// What a window is, the most important first: its class, its words, and whether it is so.
const STATES = [
  ["open", "open", (one) => !one.is_closed],
  ["missed", "only late rows, left out", (one) => !one.is_written && one.values === null],
  ["due", "closed, its present value is not written", (one) => !one.is_written],
  ["closed", "closed and written", () => true],
];
const MARKS = [
  ["recalculated", "↻", "changed after it was closed", (one) => one.recalculated > 0],
  ["recomputed", "⟲", "recomputed by a run", (one) => one.recomputed !== null],
  ["late", "▲", "rows came too late", (one) => one.late_rows > 0],
];
const stateOf = (one) => STATES.find(([, , is]) => is(one));

// The timeline of one stream. The node is kept while the page around it is drawn again.
export class Windows {
  constructor(target, fetchWindows) {
    Object.assign(this, { fetchWindows, target: target.split(".").at(-1), column: 0, selected: null, loadedAt: 0, id: `windows-${created++}` });
    this.choice = { series: "", tag: "", value: "", before: null };
    this.later = []; // where the pages after this one begin
    this.tools = element("div", { class: "window-tools" });
    this.note = element("p", { class: "quiet", role: "status" }, "Loading the windows…");
    this.chart = element("div", { class: "timeline", role: "listbox", tabindex: "0", "aria-label": "Windows, the last one is at the right", hidden: true, on: { keydown: (event) => this.step(event) } });
    this.pages = element("nav", { class: "pager", "aria-label": "Pages of the windows", hidden: true });
    this.axis = element("div", { class: "axis quiet", hidden: true });
    this.legend = element("ul", { class: "legend window-legend" });
    this.chosen = element("p", { class: "window-details", "aria-live": "polite" });
    this.table = element("div");
    this.alternative = element("details", { class: "as-table", hidden: true }, element("summary", {}, "As a table"), this.table);
    this.node = element("section", { class: "windows", "aria-label": "Windows" }, this.tools, this.note, this.pages, this.chart, this.axis, this.legend, this.chosen, this.alternative);
  }

  // Loads the windows if they are old.
  async update() {
    if (Date.now() - this.loadedAt < REFRESH_MS) return;
    this.loadedAt = Date.now();
    const { choice } = this;
    try {
      const data = await this.fetchWindows(choice);
      if (choice === this.choice) this.draw(data);
    } catch (error) {
      this.note.textContent = [error.message, error.hint].filter(Boolean).join(": ");
      this.note.classList.toggle("bad", error.status !== 409 && error.status !== 403);
      this.show(Boolean(this.data));
    }
  }

  show(isShown) {
    for (const node of [this.chart, this.axis, this.legend, this.alternative]) node.hidden = !isShown;
  }

  draw(data) {
    this.data = data;
    this.note.classList.remove("bad");
    this.windows = data.windows.toReversed();
    this.note.replaceChildren(...this.describe());
    this.drawTools();
    this.drawPages();
    this.show(this.windows.length > 0);
    if (!this.windows.length) return;
    const key = this.selected;
    this.index = this.windows.findIndex((one) => one.series === key?.series && one.start === key?.start);
    if (this.index < 0) this.index = this.windows.length - 1;
    this.drawLanes();
    this.drawTable();
    this.legend.replaceChildren(...this.legendItems());
    this.select(this.index, key !== null);
  }

  describe() {
    const { windows, earlier, is_state_read: isStateRead, watermark } = this.data;
    const { tag, before } = this.choice;
    if (!windows.length) return [tag || before !== null ? "No such windows." : "No windows yet."];
    const which = before === null ? "The last" : "";
    const counted = `${which} ${number(windows.length)} window${windows.length === 1 ? "" : "s"}`.trim();
    const parts = [counted, ...(before === null ? [] : [" before ", time(before)]), earlier ? "; there are earlier ones" : "", ". Watermark: ", time(watermark), "."];
    if (!isStateRead) parts.push(" The state is not there or too large to be read here, so windows that are not written are missing.");
    return parts;
  }

  // The tags of a subtable whose name is a hash, or the part of the name that the stream's SUBTABLE has given it.
  shortName(series) {
    const label = this.data.labels?.[series];
    if (label) return label;
    const end = series.lastIndexOf(`_${this.target}_`);
    return end > 0 ? series.slice(0, end) : series;
  }

  drawTools() {
    const { series, tags = {}, columns, chosen } = this.data;
    const drawn = JSON.stringify([series, tags, columns, chosen, this.choice]);
    if (drawn === this.drawn) return;
    this.drawn = drawn;
    const { tag, value } = this.choice;
    const tagInput = ([name, values]) => this.input(name, values, name === tag ? value : "", (text) => this.choose({ series: "", tag: text && name, value: text }));
    this.tools.replaceChildren(
      ...Object.entries(tags).map(tagInput),
      this.input("Subtable", series, chosen ?? "", (text) => this.choose({ series: text }), (name) => this.shortName(name)),
      columns.length ? element("label", {}, "Height ", this.columnInput(columns)) : "",
    );
  }

  // A choice of one of some values, or of all: a list if they are few.
  input(name, values, chosen, choose, textOf = (value) => value) {
    const change = (event) => choose(event.target.value);
    if (values.length > FEW_SERIES) {
      const list = `${this.id}-${name}`;
      const options = element("datalist", { id: list }, values.map((value) => element("option", { value })));
      return element("label", {}, `${name} `, element("input", { type: "search", list, value: chosen, on: { change } }), options);
    }
    const option = (value, text) => element("option", { value, selected: value === chosen }, text);
    return element("label", {}, `${name} `, element("select", { on: { change } }, option("", "All"), values.map((value) => option(value, textOf(value)))));
  }

  // Earlier windows, 200 at a time.
  drawPages() {
    const { earlier } = this.data;
    const button = (name, isDisabled, turn) => element("button", { type: "button", disabled: isDisabled, on: { click: turn } }, name);
    const isFirst = this.choice.before === null;
    this.pages.hidden = isFirst && !earlier;
    const focused = this.pages.contains(document.activeElement) ? document.activeElement.textContent : "";
    this.pages.replaceChildren(
      button("← Earlier", !earlier, () => {
        this.later.push(this.choice.before);
        this.turn(earlier);
      }),
      button("Later →", isFirst, () => this.turn(this.later.pop() ?? null)),
    );
    const buttons = [...this.pages.children];
    if (focused) (buttons.find((one) => one.textContent === focused && !one.disabled) ?? buttons.find((one) => !one.disabled))?.focus();
  }

  turn(before) {
    this.load({ ...this.choice, before });
  }

  columnInput(columns) {
    const choose = (event) => {
      this.column = Number(event.target.value);
      this.drawLanes();
      this.select(this.index, true);
    };
    return element("select", { on: { change: choose } }, columns.map((name, index) => element("option", { value: index, selected: index === this.column }, name)));
  }

  choose(part) {
    this.later = [];
    this.load({ ...this.choice, ...part, before: null });
  }

  load(choice) {
    this.choice = choice;
    this.selected = null;
    this.loadedAt = 0;
    this.update();
  }

  // One lane for each subtable; windows that overlap share its height.
  drawLanes() {
    const lanes = Map.groupBy(this.windows, (one) => one.series);
    const first = Math.min(...this.windows.map((one) => one.start));
    const last = Math.max(...this.windows.map((one) => one.end ?? one.start), first + 1);
    const place = (ms) => ((ms - first) / (last - first)) * 100;
    const values = this.windows.map((one) => one.values?.[this.column]).filter((value) => typeof value === "number");
    const range = values.length ? [Math.min(0, ...values), Math.max(0, ...values)] : [0, 0];
    this.chart.replaceChildren(...[...lanes].toSorted(([one], [other]) => one.localeCompare(other)).map(([series, windows]) => this.lane(series, windows, place, range)));
    this.axis.replaceChildren(time(first), time(last));
  }

  lane(series, windows, place, range) {
    const [rows, count] = stacked(windows);
    const track = element("div", { class: "track" }, windows.map((one, index) => this.block(one, windows[index + 1], place, range, [rows[index], count])));
    track.style.height = `max(4rem, ${count * 2.2}rem)`;
    const { watermark } = this.data;
    const at = place(watermark);
    if (watermark !== null && at >= 0 && at <= 100) {
      const line = element("i", { class: "watermark", "aria-hidden": "true", title: `watermark ${instant(watermark)}` });
      line.style.left = `min(${at}%, 100% - 2px)`;
      track.append(line);
    }
    const name = element("span", { class: "lane-name", title: series, "aria-hidden": "true" }, this.shortName(series));
    return element("div", { class: "lane", role: "group", "aria-label": this.shortName(series) }, name, scale(range, count), track);
  }

  block(one, next, place, [low, high], [row, rows]) {
    const index = this.windows.indexOf(one);
    const left = place(one.start);
    const right = place(one.end ?? next?.start ?? one.start);
    const value = one.values?.[this.column];
    const node = element("div", { role: "option", id: `${this.id}-${index}`, class: `block ${stateOf(one)[0]}`, "aria-label": this.sentence(one), title: this.sentence(one), on: { click: () => this.select(index, true) } });
    node.style.left = `${left}%`;
    node.style.width = `max(3px, calc(${Math.max(right - left, MIN_WIDTH)}% - 1px))`;
    const height = typeof value === "number" && high > low ? Math.max(8, ((value - low) / (high - low)) * 100) : 100;
    node.style.height = `${(one.values === null ? 60 : height) / rows}%`;
    node.style.bottom = `${(row / rows) * 100}%`;
    for (const [name, symbol, , is] of MARKS) if (is(one)) node.append(element("b", { class: name, "aria-hidden": "true" }, symbol));
    return node;
  }

  sentence(one) {
    const until = one.end === null ? "" : ` to ${instant(one.end)}`;
    return [`${this.shortName(one.series)}, ${instant(one.start)}${until}`, stateOf(one)[1], ...this.marks(one), this.valueText(one)].filter(Boolean).join("; ");
  }

  marks(one) {
    const times = one.recalculated > 1 ? ` ${number(one.recalculated)} times` : "";
    const rows = one.late_rows === 1 ? "1 row was" : `${number(one.late_rows)} rows were`;
    return [one.recalculated ? `changed after it was closed${times}, last at ${instant(one.changed)}` : "", one.recomputed ? `recomputed by the run ${one.recomputed}` : "", one.late_rows ? `${rows} too late and left out` : ""].filter(Boolean);
  }

  valueText(one) {
    if (!one.values) return "";
    return this.data.columns.map((name, index) => `${name} ${shown(one.values[index])}`).join(", ");
  }

  select(index, isUsers) {
    const one = this.windows[index];
    if (isUsers) this.selected = { series: one.series, start: one.start };
    this.index = index;
    for (const node of this.chart.querySelectorAll("[aria-selected]")) node.removeAttribute("aria-selected");
    const node = this.chart.querySelector(`#${this.id}-${index}`);
    node.setAttribute("aria-selected", "true");
    this.chart.setAttribute("aria-activedescendant", node.id);
    this.chosen.textContent = this.sentence(one);
  }

  // Left and right move in a subtable, up and down between subtables.
  step(event) {
    const one = this.windows?.[this.index];
    if (!one) return;
    const own = this.windows.filter((other) => other.series === one.series);
    const at = own.indexOf(one);
    const target = { ArrowRight: own[at + 1], ArrowLeft: own[at - 1], Home: own[0], End: own.at(-1), ArrowDown: this.nearest(one, 1), ArrowUp: this.nearest(one, -1) };
    if (!(event.key in target)) return;
    event.preventDefault();
    if (target[event.key]) this.select(this.windows.indexOf(target[event.key]), true);
  }

  nearest(one, move) {
    const names = [...new Set(this.windows.map((other) => other.series))].toSorted((a, b) => a.localeCompare(b));
    const others = this.windows.filter((other) => other.series === names[names.indexOf(one.series) + move]);
    return others.toSorted((a, b) => Math.abs(a.start - one.start) - Math.abs(b.start - one.start))[0];
  }

  legendItems() {
    const states = STATES.filter((state) => this.windows.some((one) => stateOf(one) === state));
    const marks = MARKS.filter(([, , , is]) => this.windows.some(is));
    return [
      ...states.map(([name, words]) => element("li", {}, element("i", { class: `key ${name}`, "aria-hidden": "true" }), ` ${words}`)),
      ...marks.map(([name, symbol, words]) => element("li", {}, element("b", { class: name, "aria-hidden": "true" }, symbol), ` ${words}`)),
      element("li", {}, element("i", { class: "key watermark", "aria-hidden": "true" }), " watermark"),
    ];
  }

  drawTable() {
    const { columns, windows } = this.data;
    const titles = ["Subtable", `From (${zoneName()})`, "To", "State", "Changed later", "Recomputed by", "Late rows", ...columns];
    const head = element("thead", {}, element("tr", {}, titles.map((title, index) => element("th", { scope: "col", class: index > 3 && index !== 5 ? "n" : "" }, title))));
    const rows = windows.map((one) =>
      element(
        "tr",
        {},
        element("td", { title: one.series }, this.shortName(one.series)),
        element("td", {}, localTime(one.start)),
        element("td", {}, localTime(one.end)),
        element("td", {}, stateOf(one)[1]),
        element("td", { class: "n" }, one.recalculated ? number(one.recalculated) : "–"),
        element("td", {}, one.recomputed ?? "–"),
        element("td", { class: "n" }, one.late_rows ? number(one.late_rows) : "–"),
        columns.map((_, index) => element("td", { class: "n" }, one.values ? shown(one.values[index]) : "–")),
      ),
    );
    this.table.replaceChildren(wideTable("Windows as a table", element("table", {}, head, element("tbody", {}, rows))));
  }
}

// For windows in order, the row of each in which it overlaps none before it, and the number of rows.
function stacked(windows) {
  const ends = [];
  const rows = windows.map((one) => {
    const free = ends.findIndex((end) => end <= one.start);
    const row = free >= 0 ? free : ends.length < MAX_ROWS ? ends.length : ends.indexOf(Math.min(...ends));
    ends[row] = one.end ?? one.start;
    return row;
  });
  return [rows, Math.max(1, ends.length)];
}

// The axis of values at the left of a lane, for each row of windows in it.
function scale([low, high], count) {
  const label = (value, bottom, edge) => {
    const node = element("span", { class: edge }, shown(value));
    node.style.bottom = `${bottom * 100}%`;
    return node;
  };
  const rows = high > low ? [...new Array(count).keys()] : [];
  const labels = rows.flatMap((row) => [label(low, row / count, "low"), label(high, (row + 1) / count, "high")]);
  return element("div", { class: "scale", "aria-hidden": "true" }, labels);
}

function shown(value) {
  if (value === null || value === undefined) return "NULL";
  if (typeof value !== "number") return String(value);
  return Number.isInteger(value) ? number(value) : Math.abs(value) >= 1e6 ? compact(value) : String(Number(value.toPrecision(5)));
}
