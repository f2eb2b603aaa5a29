// The executions of a continuous query: a strip of intervals colored by state, and a table.

import { duration, element, instant, localTime, number, time, zoneName } from "./dom.js";
import { wideTable } from "./parts.js";

// Shape and color both tell the state; a cell's title has the details.
export const STATES = [
  ["DONE", "done", "done"],
  ["RUNNING", "running", "running"],
  ["PENDING", "pending", "due, not started"],
  ["FAILED", "failed", "failed"],
  ["MISSED", "missed", "missed (a later one was due)"],
];
const CLASSES = Object.fromEntries(STATES.map(([state, name]) => [state, name]));

// Oldest interval on the left. Null if nothing has been due yet.
export function intervalStrip(intervals) {
  if (!intervals.length) return null;
  const counts = countStates(intervals);
  const words = STATES.filter(([state]) => counts[state]).map(([state, , label]) => `${counts[state]} ${label}`);
  const cells = intervals.map((execution) => element("i", { class: CLASSES[execution.state], title: describe(execution) }));
  return element("div", { class: "intervals", role: "img", "aria-label": `last ${intervals.length} intervals: ${words.join(", ")}` }, cells);
}

function countStates(intervals) {
  const counts = {};
  for (const { state } of intervals) counts[state] = (counts[state] ?? 0) + 1;
  return counts;
}

function describe(execution) {
  const outcome = execution.state === "DONE" ? `: ${number(execution.rows)} rows in ${duration(execution.duration_ms)}` : execution.message ? `: ${execution.message}` : "";
  return `${instant(execution.scheduled)} ${execution.state}${outcome}`;
}

// The strip with a legend of the states that occur, and the ends of its time axis.
export function intervalPicture(intervals) {
  const strip = intervalStrip(intervals);
  if (!strip) return element("p", { class: "quiet" }, "No execution has been due yet.");
  const counts = countStates(intervals);
  const legend = STATES.filter(([state]) => counts[state]).map(([state, name, label]) =>
    element("li", {}, element("span", { class: "intervals" }, element("i", { class: name, "aria-hidden": "true" })), ` ${number(counts[state])} ${label}`),
  );
  // The labels of the axis need a width of their own; many intervals take what there is.
  const axis = element("div", { class: "axis quiet" }, time(intervals[0].scheduled), intervals.length > 1 ? time(intervals.at(-1).scheduled) : null);
  const chart = element("div", { class: "chart" }, strip, axis);
  chart.style.width = `max(20rem, ${intervals.length * 1.25}rem)`;
  return element(
    "div",
    { class: "picture" },
    element("p", {}, intervals.length === 1 ? "The first interval:" : `The last ${number(intervals.length)} intervals:`),
    chart,
    element("ul", { class: "legend" }, legend),
  );
}

export function executionPanel(row, more) {
  if (!more.executions.length) return element("p", { class: "quiet" }, "No execution has been due yet.");
  const command = `headrace backfill --cq ${quoted(row.label)} --from '…' --to '…'`;
  const titles = [`Due (${zoneName()})`, "Range from", "To, exclusive", "State", "Attempt", "Rows", "Duration"];
  return element(
    "div",
    {},
    element("p", { class: "quiet" }, "From a terminal: ", element("code", {}, command)),
    wideTable(
      "Executions",
      element(
        "table",
        { class: "executions" },
        element("thead", {}, element("tr", {}, titles.map((title, index) => element("th", { scope: "col", class: index > 3 ? "n" : "" }, title)))),
        element("tbody", {}, more.executions.flatMap(executionRows)),
      ),
    ),
    more.has_older ? element("p", { class: "quiet" }, "Older executions that are done are listed by ", element("code", {}, `SHOW CQ EXECUTIONS ${row.label}`), ".") : null,
  );
}

// The command is for a shell, so that a name with other characters is quoted for it.
const quoted = (name) => (/^[\w.]+$/.test(name) ? name : `'${name.replaceAll("'", "'\\''")}'`);

function executionRows(execution) {
  const name = CLASSES[execution.state];
  const isRecorded = execution.attempt !== null;
  const main = element(
    "tr",
    {},
    element("td", {}, localTime(execution.scheduled)),
    element("td", {}, localTime(execution.start)),
    element("td", {}, localTime(execution.end)),
    element("td", {}, element("span", { class: `badge ${name === "running" ? "busy" : name}` }, execution.state)),
    element("td", { class: "n" }, isRecorded ? String(execution.attempt) : "–"),
    element("td", { class: "n" }, number(execution.rows)),
    element("td", { class: "n" }, duration(execution.duration_ms)),
  );
  if (!execution.message) return [main];
  return [main, element("tr", { class: "why" }, element("td", { colspan: 7 }, element("div", { class: "reason" }, execution.message)))];
}
