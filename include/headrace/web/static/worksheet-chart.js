// A result as a chart: its numeric columns over its first column of times.

import { lonePoints } from "./charts.js";
import { compact, element, instant, zoneName } from "./dom.js";

const COLORS = ["pending", "expired", "used", "quarantined", "failed", "filtered", "updated"];
const MAX_LINES = 12;
const HEIGHT = 320;
const FEW_POINTS = 60;
const DAY = "\n{YYYY}-{MM}-{DD}";
const YEAR = [365 * 86400, "{YYYY}"];
const MONTH = [28 * 86400, "{MMM}", "\n{YYYY}"];
// Labels of the axis for each distance of ticks, in seconds: each one, and those that begin a year, a month, a day, an hour, a minute.
const TIME_LABELS = [
  YEAR,
  MONTH,
  [86400, "{MM}-{DD}", "\n{YYYY}"],
  [60, "{HH}:{mm}", DAY, null, DAY],
  [1, "{HH}:{mm}:{ss}", DAY, null, DAY],
  [0.001, ":{ss}.{fff}", `${DAY} {HH}:{mm}`, null, `${DAY} {HH}:{mm}`, null, "\n{HH}:{mm}"],
].map((labels) => [...labels, ...new Array(8 - labels.length).fill(null), 1]);
const isTime = ({ type }) => type.startsWith("timestamp");
export const isNumber = ({ type }) => /^(u?int|float|double|halffloat|decimal)/.test(type);
const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

export const isDrawable = ({ columns }) => columns.some(isTime) && columns.some(isNumber);

const toNumber = (value) => (value === null || !Number.isFinite(Number(value)) ? null : Number(value));

// Returns times, and lines with names and values; a line continues where it has no row (undefined), and has a gap where it is NULL. If rows have the same time, there is a line for each value of the first text column.
export function toLines({ columns, rows }) {
  const time = columns.findIndex(isTime);
  const timed = rows.filter((row) => row[time] !== null).map((row) => [Date.parse(row[time]) / 1000, row]);
  const times = [...new Set(timed.map(([at]) => at))].sort((one, other) => one - other);
  const text = times.length < timed.length ? columns.findIndex(({ type }) => /string|dictionary/.test(type)) : -1;
  const positions = new Map(times.map((at, index) => [at, index]));
  const lines = new Map();
  for (const [at, row] of timed) {
    columns.forEach((column, number) => {
      if (!isNumber(column)) return;
      const name = text < 0 ? column.name : `${column.name} ${row[text] ?? "NULL"}`;
      const key = `${number} ${name}`;
      if (!lines.has(key)) lines.set(key, { name, values: new Array(times.length).fill(undefined) });
      lines.get(key).values[positions.get(at)] = toNumber(row[number]);
    });
  }
  return { times, lines: [...lines.values()] };
}

// Labels of small steps have all their digits, 0.05 and 0.1; of others they are short, such as 1.5K.
const labelOf = (splits) => (Math.abs(splits[1] - splits[0]) < 1 ? (value) => String(Number(value.toPrecision(6))) : compact);

export class Chart {
  constructor(result) {
    const { times, lines } = toLines(result);
    this.times = times;
    this.lines = lines.slice(0, MAX_LINES);
    this.canvas = element("div", { class: "plot", role: "img", "aria-label": describe(times, this.lines) });
    this.when = element("p", { class: "quiet" });
    this.keys = this.lines.map((line, number) => this.key(line, number));
    const left = lines.length - this.lines.length;
    this.node = element(
      "div",
      {},
      element("ul", { class: "legend keys" }, this.keys.map(({ node }) => node)),
      this.when,
      this.canvas,
      left ? element("p", { class: "quiet" }, `${left} more line${left === 1 ? " is" : "s are"} not drawn. Choose fewer columns or series.`) : null,
    );
    this.observer = new ResizeObserver(() => this.resize());
    this.observer.observe(this.canvas);
    this.draw();
  }

  key({ name }, number) {
    const mark = element("i", { "aria-hidden": "true" });
    mark.style.background = `var(--${COLORS[number % COLORS.length]})`;
    const box = element("input", { type: "checkbox", checked: true, on: { change: () => this.drawing.setSeries(number + 1, { show: box.checked }) } });
    const value = element("b", {});
    return { value, node: element("li", {}, element("label", {}, box, mark, ` ${name} `, value)) };
  }

  draw() {
    const axis = { stroke: () => color("quiet"), grid: { stroke: () => color("line"), width: 1 }, ticks: { show: false }, font: "11px system-ui" };
    const series = this.lines.map(({ name }, number) => ({
      label: name,
      stroke: () => color(COLORS[number % COLORS.length]),
      width: 1.5,
      dash: number < COLORS.length ? undefined : [6, 3],
      points: { show: true, size: 4, ...(this.times.length < FEW_POINTS ? {} : { filter: (plot, number) => lonePoints(plot.data[number]) }) },
    }));
    const options = {
      width: 300,
      height: HEIGHT,
      legend: { show: false },
      scales: { x: { time: true } },
      tzDate: (second) => globalThis.uPlot.tzDate(new Date(second * 1000), zoneName()),
      axes: [{ ...axis, values: TIME_LABELS }, { ...axis, size: 62, values: (_, splits) => splits.map(labelOf(splits)) }],
      series: [{}, ...series],
      hooks: { setCursor: [({ cursor }) => this.showValues(cursor.idx)] },
    };
    this.drawing = new globalThis.uPlot(options, [this.times, ...this.lines.map(({ values }) => values)], this.canvas);
  }

  showValues(index) {
    const isOver = index !== null && index !== undefined;
    this.when.textContent = isOver ? instant(this.times[index] * 1000) : "Point at the chart to read its values; drag over it to zoom in, double-click to zoom out.";
    this.keys.forEach(({ value }, number) => {
      value.textContent = isOver ? (this.lines[number].values[index] ?? "–") : "";
    });
  }

  resize() {
    const width = this.canvas.clientWidth;
    if (width && width !== this.drawing?.width) this.drawing?.setSize({ width, height: HEIGHT });
  }

  // Draws again in the colors of another theme.
  redraw() {
    this.drawing.redraw(false);
  }

  destroy() {
    this.observer.disconnect();
    this.drawing.destroy();
  }
}

function describe(times, lines) {
  const values = lines.map(({ name, values }) => {
    const present = values.filter((value) => typeof value === "number");
    return present.length ? `${name} from ${compact(Math.min(...present))} to ${compact(Math.max(...present))}` : `${name} without values`;
  });
  return `Chart of ${times.length} instants from ${instant(times[0] * 1000)} to ${instant(times.at(-1) * 1000)}: ${values.join("; ")}`;
}
