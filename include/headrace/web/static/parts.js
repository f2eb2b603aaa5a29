// Pieces that the list and the detail share.

import { ago, compact, duration, element, instant, number, percent, svg } from "./dom.js";

// A state is told by a sign and a word; the colour only repeats it.
const SIGNS = { CREATED: "○", FILLING: "◔", RUNNING: "▶", PAUSED: "‖", STOPPED: "■" };
const MEANINGS = {
  CREATED: "recorded; its snode has not taken it up yet",
  FILLING: "its history is being computed",
  RUNNING: "it follows its source",
  PAUSED: "it waits for RESUME STREAM",
  STOPPED: "it failed; the reason stands beside it",
};

export function badge(stream) {
  const { state, desired } = stream;
  const pending = desired === "PAUSED" && state !== "PAUSED" && state !== "STOPPED" ? " → PAUSED" : "";
  return element(
    "span",
    { class: `badge ${state.toLowerCase()}`, title: MEANINGS[state] ?? "" },
    element("span", { "aria-hidden": "true" }, SIGNS[state] ?? "?"),
    ` ${state}${pending}`,
  );
}

export function reason(stream, now) {
  const why = stream.reason;
  if (!why) return null;
  return element(
    "div",
    { class: "reason" },
    element("span", { class: "code" }, why.code),
    ` ${why.message} `,
    element("span", { class: "quiet" }, `(since ${instant(why.since)}, ${ago(why.since, now)})`),
    why.hint ? element("div", { class: "hint" }, why.transient ? "↻ " : "→ ", why.hint) : null,
  );
}

// How long the current micro-batch has been running. Most end within a second: those would only flicker.
export function batch(stream) {
  if (stream.slow_batch) return element("div", { class: "warn", title: stream.slow_batch }, `▲ slow batch: ${duration(stream.batch_ms)}`);
  return stream.batch_ms >= 1000 ? element("div", { class: "quiet" }, `batch: ${duration(stream.batch_ms)}`) : null;
}

export function bar(run) {
  const known = run.chunks > 0;
  const words = known ? `${percent(run.fraction)}, ${run.done} of ${run.chunks} chunks` : "is being planned";
  const rest = run.eta_ms && run.done < run.chunks ? `, ${duration(run.eta_ms)} left` : "";
  const failed = run.failed ? `, ${run.failed} failed` : "";
  const track = element("progress", known ? { max: "1", value: run.fraction, "aria-label": "progress" } : { "aria-label": "progress" });
  return element("div", { class: "backfill" }, track, element("span", { class: "quiet" }, words + rest + failed));
}

// Rows that came in, by what became of them. The parts add up to the whole, or the page says that they do not.
const FATES = [
  ["used", "rows_used", "used"],
  ["filtered", "rows_filtered", "filtered by WHERE"],
  ["expired", "rows_expired", "expired (came after their window had closed)"],
  ["pending", "rows_pending", "pending"],
];

export function accounting(counters) {
  const whole = counters.rows_in;
  const sum = FATES.reduce((total, [, field]) => total + counters[field], 0);
  const strip = element("div", { class: "strip", role: "img", "aria-label": FATES.map(([, f, w]) => `${counters[f]} ${w}`).join(", ") });
  for (const [name, field] of FATES) {
    if (!counters[field]) continue;
    const piece = element("span", { class: name });
    piece.style.flexGrow = counters[field];
    strip.append(piece);
  }
  const legend = element(
    "ul",
    { class: "legend" },
    FATES.map(([name, field, words]) =>
      element("li", {}, element("i", { class: name, "aria-hidden": "true" }), ` ${number(counters[field])} ${words}`),
    ),
  );
  const verdict =
    sum === whole
      ? element("span", { class: "good" }, "✓ every row is accounted for")
      : element("span", { class: "bad" }, `✗ ${number(Math.abs(whole - sum))} rows are not accounted for`);
  return element("div", { class: "accounting" }, element("p", {}, `${number(whole)} rows in. `, verdict), strip, legend);
}

export function spark(values) {
  if (values.length < 2) return null;
  const top = Math.max(...values, 1e-9);
  const points = values.map((value, place) => `${(place / (values.length - 1)) * 60},${15 - (value / top) * 14}`);
  const line = svg("polyline", { points: points.join(" ") });
  const picture = svg("svg", { viewBox: "0 0 60 16", class: "spark", role: "img", "aria-label": `rows a second, at most ${compact(top)}` });
  picture.append(line);
  return picture;
}

// The page stands in a frame of Airflow's, which may not open windows: Airflow itself is asked to go there.
export function airflowLink(path, ...children) {
  const go = (event) => {
    if (window.parent === window || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    const outer = window.parent.document;
    const link = outer.createElement("a");
    link.href = event.currentTarget.href;
    outer.body.append(link);
    link.click();
    link.remove();
  };
  return element("a", { href: `../${path}`, on: { click: go } }, ...children);
}
