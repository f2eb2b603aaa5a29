// Components that the list and the detail page share.

import { ago, compact, duration, element, instant, number, percent, svg } from "./dom.js";

// The address of a job's detail page: its name by its kind. Jobs of different kinds can have the same name.
export const jobAddress = (job) => job.address;

// A symbol and a word show the state; color is never the only difference.
const SYMBOLS = { CREATED: "○", FILLING: "◔", RUNNING: "▶", PAUSED: "‖", STOPPED: "■" };

export function badge(job) {
  const { state, desired } = job;
  const pending = desired === "PAUSED" && state !== "PAUSED" && state !== "STOPPED" ? " → PAUSED" : "";
  return element(
    "span",
    { class: `badge ${state.toLowerCase()}`, title: job.state_text ?? "" },
    element("span", { "aria-hidden": "true" }, SYMBOLS[state] ?? "?"),
    ` ${state}${pending}`,
  );
}

export function stopReason(job, now) {
  const { reason } = job;
  if (!reason) return null;
  return element(
    "div",
    { class: "reason" },
    element("span", { class: "code" }, reason.code),
    ` ${reason.message} `,
    element("span", { class: "quiet" }, `(since ${instant(reason.since)}, ${ago(reason.since, now)})`),
    reason.hint ? element("div", { class: "hint" }, reason.transient ? "↻ " : "→ ", reason.hint) : null,
  );
}

// Age of the running micro-batch. Those younger than a second are hidden, since most end sooner and would flicker.
export function batchAge(stream) {
  if (stream.slow_batch) return element("div", { class: "warn", title: stream.slow_batch }, `▲ slow batch: ${duration(stream.batch_ms)}`);
  return stream.batch_ms >= 1000 ? element("div", { class: "quiet" }, `batch: ${duration(stream.batch_ms)}`) : null;
}

export function backfillBar(run) {
  const isPlanned = run.chunks > 0;
  const progress = isPlanned ? `${percent(run.fraction)}, ${run.done} of ${run.chunks} chunks` : "planning";
  const remaining = run.eta_ms && run.done < run.chunks ? `, ${duration(run.eta_ms)} left` : "";
  const failed = run.failed ? `, ${run.failed} failed` : "";
  const track = element("progress", isPlanned ? { max: "1", value: run.fraction, "aria-label": "progress" } : { "aria-label": "progress" });
  return element("div", { class: "backfill" }, track, element("span", { class: "quiet" }, progress + remaining + failed));
}

// What became of the rows read. If the counts do not add up to the total, the page says so.
const OUTCOMES = [
  ["used", "rows_used", "used"],
  ["updated", "rows_updated", "updated (replaced an earlier row)"],
  ["filtered", "rows_filtered", "filtered by WHERE"],
  ["expired", "rows_expired", "expired (late, dropped)"],
  ["quarantined", "rows_quarantined", "in quarantine"],
  ["dropped", "rows_dropped", "dropped from quarantine"],
  ["pending", "rows_pending", "pending"],
];

export function accounting(counters) {
  const total = counters.rows_in;
  const sum = OUTCOMES.reduce((subtotal, [, field]) => subtotal + counters[field], 0);
  const strip = element("div", { class: "strip", role: "img", "aria-label": OUTCOMES.map(([, field, label]) => `${counters[field]} ${label}`).join(", ") });
  for (const [name, field] of OUTCOMES) {
    if (!counters[field]) continue;
    const segment = element("span", { class: name });
    segment.style.flexGrow = counters[field];
    strip.append(segment);
  }
  const legend = element(
    "ul",
    { class: "legend" },
    OUTCOMES.map(([name, field, label]) =>
      element("li", {}, element("i", { class: name, "aria-hidden": "true" }), ` ${number(counters[field])} ${label}`),
    ),
  );
  const balance =
    sum === total
      ? element("span", { class: "good" }, "✓ every row is accounted for")
      : element("span", { class: "bad" }, `✗ ${number(Math.abs(total - sum))} rows are not accounted for`);
  return element("div", { class: "accounting" }, element("p", {}, `${number(total)} rows in. `, balance), strip, legend);
}

// A table that scrolls sideways where it is wider than the page, also by keyboard.
export function wideTable(name, ...children) {
  return element("div", { class: "wide", role: "region", "aria-label": name, tabindex: "0" }, ...children);
}

export function sparkline(values) {
  if (values.length < 2) return null;
  const top = Math.max(...values, 1e-9);
  const points = values.map((value, index) => `${(index / (values.length - 1)) * 60},${15 - (value / top) * 14}`);
  const line = svg("polyline", { points: points.join(" ") });
  const picture = svg("svg", { viewBox: "0 0 60 16", class: "spark", role: "img", "aria-label": `rows per second, maximum ${compact(top)}` });
  picture.append(line);
  return picture;
}

// The page runs in a sandboxed frame of Airflow's UI, which cannot navigate the outer page, so the link is clicked there.
export function airflowLink(path, ...children) {
  const navigate = (event) => {
    if (window.parent === window || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    const outer = window.parent.document;
    const link = outer.createElement("a");
    link.href = event.currentTarget.href;
    outer.body.append(link);
    link.click();
    link.remove();
  };
  return element("a", { href: `../${path}`, on: { click: navigate } }, ...children);
}
