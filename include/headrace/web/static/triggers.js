// The triggers that writes call, below the list of jobs.

import { ago, compact, duration, element, number } from "./dom.js";
import { wideTable } from "./parts.js";

const SYMBOLS = { ACTIVE: "▶", INACTIVE: "■", DROPPING: "✕", TRANSFERRING: "↻" };
const COLUMNS = [
  ["Trigger", ""],
  ["State", ""],
  ["Called", ""],
  ["Calls", "n"],
  ["Failures", "n"],
  ["Time", "n"],
  ["Time per call", "n"],
];

export function triggerTable(triggers, now) {
  if (!triggers.length) return null;
  const head = COLUMNS.map(([title, kind]) => element("th", { class: kind, scope: "col" }, title));
  return element(
    "section",
    { class: "triggers", "aria-label": "Triggers" },
    element("h2", {}, "Triggers"),
    wideTable(
      "Triggers and their calls",
      element("table", {}, element("thead", {}, element("tr", {}, head)), element("tbody", {}, triggers.flatMap((trigger) => rows(trigger, now)))),
    ),
  );
}

function rows(trigger, now) {
  const { calls, failures, duration_us: time } = trigger;
  const main = element(
    "tr",
    {},
    element("td", {}, element("span", { class: "name" }, trigger.name), element("div", { class: "quiet" }, trigger.pattern)),
    element("td", {}, badge(trigger.state)),
    element("td", {}, trigger.event.replace("_", " ").toLowerCase(), element("div", { class: "quiet" }, trigger.type.toLowerCase())),
    element("td", { class: "n", title: number(calls) }, compact(calls)),
    element("td", { class: failures ? "n warn" : "n", title: number(failures) }, compact(failures)),
    element("td", { class: "n" }, duration(time / 1000)),
    element("td", { class: "n" }, calls ? `${(time / 1000 / calls).toFixed(1)} ms` : "–"),
  );
  const notes = [stopNote(trigger), errorNote(trigger, now)].filter(Boolean);
  return notes.length ? [main, element("tr", { class: "why" }, element("td", { colspan: COLUMNS.length }, notes))] : [main];
}

function badge(state) {
  const symbol = element("span", { "aria-hidden": "true" }, SYMBOLS[state] ?? "?");
  return element("span", { class: `badge ${state === "ACTIVE" ? "running" : "paused"}` }, symbol, ` ${state}`);
}

const stopNote = ({ reason }) => (reason ? element("div", { class: "reason" }, reason) : null);

function errorNote({ last_error: error, last_error_at: at }, now) {
  return error ? element("div", { class: "quiet" }, `Last error, ${ago(at, now)}: ${error}`) : null;
}
