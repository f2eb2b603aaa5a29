// Where the rows of a stream have gone, as bands whose widths are rows.

import { element, number, svg, time } from "./dom.js";
import { wideTable } from "./parts.js";

const REFRESH_MS = 10000;
const RANGE_NAMES = { all: "All", sample: "Last sample", hour: "1 hour", day: "1 day", week: "1 week" };
const WORDS = {
  used: "used in windows",
  updated: "replaced an earlier row",
  filtered: "filtered by WHERE",
  expired: "expired (late, dropped)",
  quarantined: "set aside in quarantine",
  dropped: "dropped from quarantine",
  pending: "waiting",
};
const WERE = { quarantined: "released", pending: "had waited", dropped: "had been dropped" };
const COLORS = { in: "quiet" };
// In pixels: what all bands take together, the space between two, and the width of a character beside them.
const SIZE = { bands: 110, space: 36, edge: 18, bar: 12, maxWidth: 640, minWidth: 300, character: 6.6 };
const MIN_BAND = 1.5;

// The flow of one stream. The node is kept while the page around it is drawn again.
export class Flow {
  constructor(fetchFlow) {
    Object.assign(this, { fetchFlow, over: "all", loadedAt: 0 });
    this.ranges = element("div", { class: "ranges", role: "group", "aria-label": "Range of the flow" });
    this.note = element("p", { class: "quiet", role: "status" }, "Loading the flow of rows…");
    this.picture = element("div");
    this.table = element("div");
    this.alternative = element("details", { class: "as-table", hidden: true }, element("summary", {}, "As a table"), this.table);
    new ResizeObserver(() => this.resize()).observe(this.picture);
    this.node = element("section", { class: "flow", "aria-label": "Flow of rows" }, element("h3", {}, "Flow of rows"), this.ranges, this.note, this.picture, this.alternative);
  }

  async update() {
    if (Date.now() - this.loadedAt < REFRESH_MS) return;
    this.loadedAt = Date.now();
    const { over } = this;
    try {
      const data = await this.fetchFlow(over);
      if (over === this.over) this.draw(data);
    } catch (error) {
      this.note.textContent = error.message;
      this.note.classList.add("bad");
    }
  }

  choose(over) {
    this.over = over;
    this.loadedAt = 0;
    this.update();
  }

  draw(data) {
    this.note.classList.remove("bad");
    const button = (name) => element("button", { type: "button", "aria-pressed": String(name === this.over), on: { click: () => this.choose(name) } }, RANGE_NAMES[name]);
    if (this.drawnOver !== data.over) this.ranges.replaceChildren(...data.ranges.map(button));
    this.drawnOver = data.over;
    this.data = data;
    this.flows = {
      sources: positive(data.sources, (name) => (name === "in" ? "rows in" : (WERE[name] ?? `${WORDS[name]} before`))),
      outcomes: positive(data.outcomes, (name) => WORDS[name]),
    };
    this.total = this.flows.sources.reduce((sum, [, , rows]) => sum + rows, 0);
    this.note.replaceChildren(...this.describe(data, this.total));
    this.alternative.hidden = !this.total;
    this.table.replaceChildren(flowTable(this.flows, data));
    this.width = 0;
    this.resize();
  }

  resize() {
    const width = Math.max(SIZE.minWidth, Math.min(SIZE.maxWidth, this.picture.clientWidth));
    if (!this.data || width === this.width) return;
    this.width = width;
    this.picture.replaceChildren(...(this.total ? [sankey(this.flows, this.total, width, this.data)] : []));
  }

  describe(data, total) {
    const isCounted = data.over === "all" || data.since !== null;
    if (!isCounted) return ["No samples with counts of rows yet, so these are all rows of the stream."];
    const since = data.since === null ? ["Since the stream was created"] : ["Since ", time(data.since)];
    return [...since, total ? ": " : ": no rows.", total ? `${counted(total, "row")}, ${counted(data.results, "row")} of results, ${counted(data.recalculated, "recalculation")}.` : ""];
  }
}

const counted = (count, noun) => `${number(count)} ${noun}${count === 1 ? "" : "s"}`;

const positive = (rows, words) =>
  Object.entries(rows)
    .filter(([, count]) => count > 0)
    .map(([name, count]) => [name, words(name), count]);

function sankey({ sources, outcomes }, total, width, data) {
  const height = SIZE.bands + (Math.max(sources.length, outcomes.length) - 1) * SIZE.space + 2 * SIZE.edge;
  const scale = SIZE.bands / total;
  const first = textWidth(sources);
  const last = width - textWidth(outcomes) - SIZE.bar;
  const at = { left: first, middle: (first + last) / 2, right: last };
  const left = place(sources, scale, height);
  const right = place(outcomes, scale, height);
  const y = (height - SIZE.bands) / 2;
  const words = (parts) => parts.map(([, name, rows]) => `${number(rows)} ${name}`).join(", ");
  const label = `${words(sources)}; of these ${words(outcomes)}. ${counted(data.results, "row")} of results.`;
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, class: "sankey", role: "img", "aria-label": label });
  picture.append(...bands(left, y, at.left + SIZE.bar, at.middle, scale, false), ...bands(right, y, at.middle + SIZE.bar, at.right, scale, true));
  picture.append(bar(at.middle, y, SIZE.bands, "stream"));
  for (const one of left) picture.append(bar(at.left, one.y, one.height, one.name), text(at.left - 8, one, "end"));
  for (const one of right) picture.append(bar(at.right, one.y, one.height, one.name), text(at.right + SIZE.bar + 8, one, "start"));
  return picture;
}

// The space that the longest label of a side needs.
const textWidth = (parts) => 16 + SIZE.character * Math.max(...parts.map(([, words]) => words.length));

// The parts of one side below each other, in the middle of the height.
function place(parts, scale, height) {
  const heights = parts.map(([, , rows]) => Math.max(MIN_BAND, rows * scale));
  const taken = heights.reduce((sum, one) => sum + one, 0) + (parts.length - 1) * SIZE.space;
  let y = (height - taken) / 2;
  return parts.map(([name, words, rows], index) => {
    const part = { name, words, rows, y, height: heights[index] };
    y += heights[index] + SIZE.space;
    return part;
  });
}

function bands(parts, top, from, to, scale, isOut) {
  let y = top;
  return parts.map((part) => {
    const inner = { y, height: part.rows * scale };
    y += inner.height;
    const [start, end] = isOut ? [inner, part] : [part, inner];
    const bend = (from + to) / 2;
    const upper = `M${from},${start.y} C${bend},${start.y} ${bend},${end.y} ${to},${end.y}`;
    const lower = `L${to},${end.y + end.height} C${bend},${end.y + end.height} ${bend},${start.y + start.height} ${from},${start.y + start.height} Z`;
    const band = svg("path", { d: `${upper} ${lower}`, class: "band" });
    band.style.fill = color(part.name);
    return band;
  });
}

const color = (name) => `var(--${COLORS[name] ?? name})`;

function bar(x, y, height, name) {
  const node = svg("rect", { x, y, width: SIZE.bar, height: Math.max(height, MIN_BAND), class: "bar" });
  node.style.fill = name === "stream" ? "var(--accent)" : color(name);
  return node;
}

function text(x, { y, height, words, rows }, anchor) {
  const at = y + height / 2;
  return svg("text", { x, y: at, "text-anchor": anchor }, svg("tspan", { class: "rows" }, number(rows)), svg("tspan", { x, dy: "1.15em", class: "words" }, words));
}

function flowTable({ sources, outcomes }, data) {
  const row = (side, words, rows) => element("tr", {}, element("td", {}, side), element("td", {}, words), element("td", { class: "n" }, number(rows)));
  const rows = [
    ...sources.map(([, words, count]) => row("came", words, count)),
    ...outcomes.map(([, words, count]) => row("went", words, count)),
    row("results", "written or retracted", data.results),
  ];
  const head = element("thead", {}, element("tr", {}, ["", "Rows", "Number"].map((title, index) => element("th", { scope: "col", class: index === 2 ? "n" : "" }, title || element("span", { class: "hidden" }, "Side")))));
  return wideTable("Flow of rows as a table", element("table", {}, head, element("tbody", {}, rows)));
}
