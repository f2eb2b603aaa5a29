// Measurements of a stream or pipe over an hour, a day or a week, drawn by uPlot.

import { bytes, compact, duration, element, instant, length, rate, time, zoneName } from "./dom.js";

// Where samples are missing, a line has a gap (null); undefined values lie between two samples that it connects.
export function withGaps(values, times, isSampled, maxGapMs) {
  const result = values.map((value, index) => value ?? (isSampled[index] ? undefined : null));
  let last = -1;
  isSampled.forEach((sampled, index) => {
    if (!sampled) return;
    if (last >= 0 && times[index] - times[last] <= maxGapMs) result.fill(undefined, last + 1, index);
    last = index;
  });
  return result.map((value, index) => values[index] ?? value);
}

// The points that no line reaches, since there is a gap on either side.
export function lonePoints(values) {
  const isAlone = (index, step) => {
    let at = index + step;
    while (values[at] === undefined && at >= 0 && at < values.length) at += step;
    return values[at] === undefined || values[at] === null;
  };
  return values.map((_, index) => index).filter((index) => typeof values[index] === "number" && isAlone(index, -1) && isAlone(index, 1));
}

const REFRESH_MS = 10000;
const HEIGHT = 130;
const SYNC = "headrace";
const RANGE_NAMES = { hour: "1 hour", day: "1 day", week: "1 week" };
const MARKED_EVENTS = ["ACTIVATED", "ALTERED", "MOVED", "PAUSED", "QUARANTINED", "REBUILDING", "RESUMED", "RETRIED", "STOPPED"];
const MAX_NAMED_EVENTS = 8;

// Title, format of values, and for each line its name, field and color; `stacked` lines add up.
const LAG = ["Lag", duration, [["commits not handled", "lag_ms", "pending"]]];
const ROWS_OUT = ["out", "rows_out_s", "expired"];
const PARTS = [
  ["read", "read_ms", "pending"],
  ["compute", "compute_ms", "used"],
  ["checkpoint", "checkpoint_ms", "quarantined"],
  ["commit", "write_ms", "expired"],
  ["record", "record_ms", "filtered"],
];
export const STREAM_CHARTS = [
  LAG,
  ["Rows per second", rate, [["in", "rows_in_s", "used"], ROWS_OUT]],
  ["Time of a micro-batch", duration, PARTS, "stacked"],
  ["Rows waiting", compact, [["not handled", "rows_behind", "pending"]]],
  ["Windows in state", compact, [["windows", "state_windows", "used"]]],
  ["State", bytes, [["in memory", "state_bytes", "filtered"]]],
];
export const PIPE_CHARTS = [
  LAG,
  ["Rows per second", rate, [ROWS_OUT]],
  ["Bytes per second", bytes, [["out", "bytes_out_s", "used"]]],
  ["Remaining rows", compact, [["not delivered", "rows_behind", "pending"]]],
];

let loading = null;

// The library is loaded with the first chart.
function load() {
  loading ??= new Promise((resolve, reject) => {
    document.head.append(element("link", { rel: "stylesheet", href: "vendor/uplot.css" }));
    document.head.append(element("script", { src: "vendor/uplot.min.js", on: { load: resolve, error: () => reject(new Error("vendor/uplot.min.js cannot be loaded")) } }));
  });
  return loading;
}

const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

// The charts of one job. The node is kept while the page around it is drawn again.
export class Charts {
  constructor(kinds, fetchMetrics) {
    this.kinds = kinds;
    this.fetchMetrics = fetchMetrics;
    this.over = "hour";
    this.loadedAt = 0;
    this.plots = [];
    this.ranges = element("div", { class: "ranges", role: "group", "aria-label": "Range of the charts" });
    this.note = element("p", { class: "quiet" }, "Loading…");
    this.marks = element("p", { class: "quiet marks", hidden: true });
    this.canvases = element("div", { class: "charts" });
    this.node = element("section", { class: "measurements", "aria-label": "Measurements" }, this.ranges, this.note, this.marks, this.canvases);
    new ResizeObserver(() => this.resize()).observe(this.canvases);
  }

  // Loads the measurements if they are old. `events` are marked where they happened.
  async update(events) {
    this.events = events.filter(({ kind }) => MARKED_EVENTS.includes(kind));
    if (Date.now() - this.loadedAt < REFRESH_MS) return;
    this.loadedAt = Date.now();
    const { over } = this;
    try {
      await load();
      const data = await this.fetchMetrics(over);
      if (over === this.over) this.draw(data);
    } catch (error) {
      this.note.textContent = error.message;
    }
  }

  choose(over) {
    this.over = over;
    this.loadedAt = 0;
    this.update(this.events);
  }

  draw(data) {
    this.ranges.replaceChildren(...data.ranges.map((name) => this.rangeButton(name)));
    const shown = this.kinds.filter(([, , lines]) => lines.some(([, field]) => data.series[field].some((value) => value !== null)));
    this.note.textContent = shown.length ? keptNote(data) : `No measurements of the last ${data.over} yet.`;
    const titles = shown.map(([title]) => title).join();
    if (titles !== this.titles || this.drawnOver !== data.over) {
      for (const plot of this.plots) plot.destroy();
      this.plots = shown.map((kind) => new Plot(kind, data.over, () => this.events));
      this.canvases.replaceChildren(...this.plots.map((plot) => plot.node));
      this.titles = titles;
      this.drawnOver = data.over;
    }
    for (const plot of this.plots) plot.update(data);
    this.nameMarks(data);
    this.resize();
  }

  // The events that the dashed lines are, newest first.
  nameMarks({ times }) {
    const marked = this.events.filter((event) => event.time >= times[0] && event.time <= times.at(-1));
    const names = marked.slice(0, MAX_NAMED_EVENTS).flatMap((event, index) => [index ? ", " : "", event.kind, " ", time(event.time)]);
    const more = marked.length > MAX_NAMED_EVENTS ? ` and ${marked.length - MAX_NAMED_EVENTS} more` : "";
    this.marks.hidden = !marked.length || !this.plots.length;
    this.marks.replaceChildren("Dashed lines: ", ...names, more);
  }

  rangeButton(name) {
    return element("button", { type: "button", "aria-pressed": String(name === this.over), on: { click: () => this.choose(name) } }, RANGE_NAMES[name]);
  }

  resize() {
    for (const plot of this.plots) plot.resize();
  }
}

function keptNote({ over, keep_ms: kept }) {
  const points = over === "hour" ? "" : `Each point is the mean of its time, of lags, waiting rows and state the maximum. Samples are kept for ${length(kept)}, thinned out with age. `;
  return `${points}Times are in ${zoneName()}.`;
}

class Plot {
  constructor([title, format, lines, stacked], over, events) {
    Object.assign(this, { title, format, lines, stacked, over, events });
    this.keys = lines.map(([name, , key]) => {
      const value = element("b", {}, "–");
      const mark = element("i", { "aria-hidden": "true" });
      mark.style.background = `var(--${key})`;
      return { value, node: element("li", {}, mark, ` ${name} `, value) };
    });
    this.when = element("span", { class: "quiet" });
    this.canvas = element("div", { role: "img" });
    const legend = element("ul", { class: "legend" }, this.keys.map(({ node }) => node));
    this.node = element("figure", {}, element("figcaption", {}, element("b", {}, title), " ", this.when, legend), this.canvas);
  }

  update(data) {
    this.times = data.times;
    this.values = this.lines.map(([, field]) => data.series[field]);
    const isSampled = data.series.batches.map((count) => count !== null);
    const lines = (this.stacked ? stack(this.values) : this.values).map((values) => withGaps(values, data.times, isSampled, data.max_gap_ms));
    const drawn = [data.times.map((ms) => ms / 1000), ...lines];
    if (this.drawing) this.drawing.setData(drawn);
    else this.drawing = new globalThis.uPlot(this.options(), drawn, this.canvas);
    this.canvas.setAttribute("aria-label", this.describe());
    this.showValues(null);
  }

  options() {
    const axis = { stroke: () => color("quiet"), grid: { stroke: () => color("line"), width: 1 }, ticks: { show: false }, font: "11px system-ui" };
    const series = this.lines.map(([label, , key]) => ({
      label,
      stroke: () => color(key),
      fill: this.stacked ? () => color(key) : undefined,
      width: 1.5,
      points: { show: true, size: 5, filter: (plot, number) => lonePoints(plot.data[number]) },
    }));
    return {
      width: 300,
      height: HEIGHT,
      legend: { show: false },
      cursor: { sync: { key: SYNC }, drag: { x: false, y: false }, points: { size: 5 } },
      scales: { x: { time: true }, y: { range: (_, low, high) => [0, high > 0 ? high * 1.1 : 1] } },
      axes: [
        { ...axis, size: 26, values: (_, splits) => splits.map((second) => this.axisLabel(second * 1000)) },
        { ...axis, size: 58, values: (_, splits) => splits.map((value) => this.format(value)) },
      ],
      series: [{}, ...series],
      hooks: { setCursor: [({ cursor }) => this.showValues(cursor.idx)], draw: [(plot) => this.markEvents(plot)] },
    };
  }

  axisLabel(ms) {
    const parts = this.over === "week" ? { day: "2-digit", month: "short" } : { hour: "2-digit", minute: "2-digit", hourCycle: "h23" };
    return new Intl.DateTimeFormat(undefined, { ...parts, timeZone: zoneName() }).format(ms);
  }

  // The values at a point, or the last ones.
  showValues(index) {
    const at = index ?? this.lastIndex();
    this.when.textContent = index === null || index === undefined ? "" : instant(this.times[index]);
    this.keys.forEach(({ value }, line) => {
      value.textContent = this.format(this.values[line][at]);
    });
  }

  lastIndex() {
    return Math.max(0, ...this.values.map((values) => values.findLastIndex((value) => value !== null)));
  }

  describe() {
    const last = this.lastIndex();
    const lines = this.lines.map(([name], line) => {
      const top = Math.max(0, ...this.values[line].filter((value) => value !== null));
      return `${name} now ${this.format(this.values[line][last])}, maximum ${this.format(top)}`;
    });
    return `${this.title} of the last ${this.over}: ${lines.join("; ")}`;
  }

  // A dashed line where the job was changed, stopped or started.
  markEvents(plot) {
    const { ctx, bbox } = plot;
    ctx.save();
    ctx.setLineDash([4, 4]);
    ctx.lineWidth = 1.5 * devicePixelRatio;
    for (const event of this.events()) {
      ctx.strokeStyle = color(event.kind === "STOPPED" ? "bad" : "accent");
      const x = Math.round(plot.valToPos(event.time / 1000, "x", true));
      if (x < bbox.left || x > bbox.left + bbox.width) continue;
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
    }
    ctx.restore();
  }

  resize() {
    const width = this.canvas.clientWidth;
    if (width && width !== this.drawing?.width) this.drawing?.setSize({ width, height: HEIGHT });
  }

  destroy() {
    this.drawing?.destroy();
  }
}

// Sums of each line and those after it: drawn in this order, each covers the lower part of the one before.
function stack(values) {
  return values.map((_, line) =>
    values[line].map((value, index) => (value === null ? null : values.slice(line).reduce((sum, other) => sum + (other[index] ?? 0), 0))),
  );
}
