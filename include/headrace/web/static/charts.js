// Histories of a stream's measurements, as small line charts.

import { compact, duration, element, instant, rate, svg } from "./dom.js";

const WIDTH = 240;
const HEIGHT = 48;
const MAX_GAP = 4;
export const bytes = (value) => `${compact(value)}B`;
export const STREAM_CHARTS = [
  ["Lag", "lag_ms", duration],
  ["Batch", "batch_ms", duration],
  ["Rows per second", "rows_in_s", rate],
  ["State", "state_bytes", bytes],
];
export const PIPE_CHARTS = [
  ["Lag", "lag_ms", duration],
  ["Rows per second", "rows_out_s", rate],
  ["Bytes per second", "bytes_out_s", bytes],
  ["Remaining rows", "rows_behind", compact],
];
const PARTS = ["read", "compute", "checkpoint", "write", "record"];

export function chartPanel(metrics, kinds = STREAM_CHARTS) {
  const charts = kinds.map(([title, field, format]) => chart(title, metrics[field], format, metrics)).filter(Boolean);
  if (!charts.length) return element("p", { class: "quiet" }, "No measurements of the last hour yet.");
  return element("div", { class: "charts" }, charts, parts(metrics.parts_ms));
}

function chart(title, values, format, { from, to }) {
  const measured = values.filter((value) => value !== null);
  if (!measured.length) return null;
  const [top, last] = [Math.max(...measured, 1e-9), measured[measured.length - 1]];
  const label = `${title} of the last hour: now ${format(last)}, maximum ${format(Math.max(...measured))}`;
  const picture = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "chart", role: "img", "aria-label": label, preserveAspectRatio: "none" });
  picture.append(svg("title", {}, `${instant(from)} to ${instant(to)}`), ...lines(values, top));
  return element(
    "figure",
    {},
    element("figcaption", {}, element("b", {}, title), ` ${format(last)} `, element("span", { class: "quiet" }, `max ${format(Math.max(...measured))}`)),
    picture,
  );
}

// One line for each run of points without a long gap; a point alone is drawn as a short line.
function lines(values, top) {
  const step = WIDTH / (values.length - 1);
  const runs = [];
  let previous = -Infinity;
  values.forEach((value, index) => {
    if (value === null) return;
    if (index - previous > MAX_GAP) runs.push([]);
    previous = index;
    runs[runs.length - 1].push([index * step, HEIGHT - 2 - (value / top) * (HEIGHT - 6)]);
  });
  return runs.map((run) => {
    const points = run.length > 1 ? run : [run[0], [run[0][0] + 1.5, run[0][1]]];
    return svg("polyline", { points: points.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join(" ") });
  });
}

function parts(means) {
  if (!means) return null;
  const text = PARTS.map((part) => `${part} ${duration(means[part])}`).join(", ");
  return element("p", { class: "quiet" }, `A batch of the last hour, on average: ${text}`);
}
