// Results of statements: a list of them, and the chosen one as a table or a chart.

import { element, localInstant, number, zoneName } from "./dom.js";
import { wideTable } from "./parts.js";
import { Chart, isDrawable, isNumber } from "./worksheet-chart.js";
import { download, toCsv } from "./worksheet-export.js";

const PAGE_ROWS = 100;
const MAX_TITLE = 60;

// A time as the page shows times, with the fraction of the second that it has.
function timeText(value) {
  const [, fraction = ""] = /\.(\d+)/.exec(value) ?? [];
  if (!/(Z|[+-]\d\d:?\d\d)$/.test(value)) return value.replace("T", " ");
  return localInstant(Date.parse(value)) + (fraction ? `.${fraction.padEnd(3, "0")}` : "");
}

function cell(value, { type }) {
  if (value === null) return element("td", { class: "quiet" }, "NULL");
  if (type.startsWith("timestamp")) return element("td", { class: "time" }, timeText(value));
  // A float has 7 digits, of which JSON shows as many as those of the double next to it.
  if (type === "float" && typeof value === "number") return element("td", { class: "n" }, String(Number(value.toPrecision(7))));
  if (typeof value === "number" || isNumber({ type })) return element("td", { class: "n" }, String(value));
  return element("td", { class: "value" }, typeof value === "object" ? JSON.stringify(value) : String(value));
}

// A heading names the zone of its times; those without an offset are as they were written.
function heading({ name, type }) {
  const zone = type.startsWith("timestamp") && type.includes("tz=") ? element("small", {}, ` ${zoneName()}`) : null;
  return element("th", { scope: "col", title: type, class: isNumber({ type }) ? "n" : null }, name, zone);
}

export function rowsTable({ columns }, rows) {
  const body = rows.map((row) => element("tr", {}, row.map((value, column) => cell(value, columns[column]))));
  const table = element("table", { class: "rows" }, element("thead", {}, element("tr", {}, columns.map(heading))), element("tbody", {}, body));
  return wideTable("Rows of the result", table);
}

export class Results {
  // `write` gets the job that maintains the result of a query.
  constructor(write) {
    this.write = write;
    this.tabs = element("div", { class: "tabs", role: "tablist", "aria-label": "Results" });
    this.panel = element("div", { class: "panel" });
    this.node = element("section", { class: "results", "aria-label": "Results" }, this.tabs, this.panel);
    this.clear();
  }

  clear() {
    this.outcomes = [];
    this.chosen = -1;
    this.view = "table";
    this.leaveChart();
    this.tabs.replaceChildren();
    this.panel.replaceChildren(
      element(
        "div",
        { class: "empty" },
        element("h2", {}, "No results yet"),
        element("p", {}, "Write a statement, such as ", element("code", {}, "SHOW DATABASES"), ", and press Ctrl+Enter."),
      ),
    );
  }

  // Adds the outcome of a statement and shows it. It has `sql`, `result` or `error`, and `job` if one can maintain the result.
  add(outcome) {
    this.outcomes.push(outcome);
    this.choose(this.outcomes.length - 1);
  }

  choose(number, focus = false) {
    this.chosen = number;
    this.first = 0;
    this.tabs.hidden = this.outcomes.length < 2;
    this.tabs.replaceChildren(...(this.tabs.hidden ? [] : this.outcomes.map((outcome, index) => this.tab(outcome, index))));
    if (focus) this.tabs.children[number].focus();
    this.tabs.children[number]?.scrollIntoView({ block: "nearest", inline: "nearest" });
    this.render();
  }

  tab({ sql, error }, index) {
    const title = sql.replace(/\s+/g, " ");
    const isChosen = index === this.chosen;
    const step = { ArrowRight: 1, ArrowLeft: -1 };
    const move = (event) => {
      if (step[event.key]) this.choose((index + step[event.key] + this.outcomes.length) % this.outcomes.length, true);
    };
    return element(
      "button",
      { type: "button", role: "tab", id: `result-${index}`, "aria-selected": String(isChosen), tabindex: isChosen ? "0" : "-1", title, on: { click: () => this.choose(index), keydown: move } },
      element("span", { class: error ? "bad" : "good" }, error ? "✗ " : "✓ "),
      `${index + 1} ${title.length > MAX_TITLE ? `${title.slice(0, MAX_TITLE)}…` : title}`,
    );
  }

  render() {
    this.leaveChart();
    const { result, error } = this.outcomes[this.chosen];
    if (this.tabs.hidden) ["role", "aria-labelledby"].forEach((name) => this.panel.removeAttribute(name));
    else {
      this.panel.setAttribute("role", "tabpanel");
      this.panel.setAttribute("aria-labelledby", `result-${this.chosen}`);
    }
    if (error) this.panel.replaceChildren(errorBox(error));
    else if (!result.columns.length) this.panel.replaceChildren(element("p", { class: "good" }, doneText(result)));
    else this.renderRows(this.outcomes[this.chosen]);
  }

  renderRows({ result, job }) {
    const isChart = this.view === "chart" && isDrawable(result);
    const bar = element("div", { class: "result-bar" }, this.views(result, isChart), element("p", {}, countText(result)), this.uses(result, job));
    this.panel.replaceChildren(bar, ...(isChart ? [] : this.table(result)));
    if (isChart) {
      this.chart = new Chart(result);
      this.panel.append(this.chart.node);
    }
  }

  views(result, isChart) {
    const button = (view, name, isPressed, disabled) =>
      element("button", { type: "button", "aria-pressed": String(isPressed), disabled, title: disabled ? "A chart needs a column of times and a column of numbers" : null, on: { click: () => this.show(view) } }, name);
    return element(
      "div",
      { class: "ranges", role: "group", "aria-label": "View of the result" },
      button("table", "Table", !isChart, false),
      button("chart", "Chart", isChart, !isDrawable(result) || !result.rows.length),
    );
  }

  uses(result, job) {
    const button = (name, title, use) => element("button", { type: "button", title, on: { click: use } }, name);
    return element(
      "div",
      { class: "ranges", role: "group", "aria-label": "Use of the result" },
      button("Export CSV", result.has_more ? "The rows that are shown, without those that follow" : "All rows as comma-separated values", () => download("result.csv", toCsv(result))),
      job ? button(`Create a ${job.kind} from this query`, "Write its statement into the editor", () => this.write(job)) : null,
    );
  }

  show(view) {
    this.view = view;
    this.render();
    this.panel.querySelector(".ranges [aria-pressed=true]")?.focus();
  }

  table(result) {
    const { rows } = result;
    const shown = rowsTable(result, rows.slice(this.first, this.first + PAGE_ROWS));
    return [shown, rows.length > PAGE_ROWS ? this.pager(rows.length) : null].filter(Boolean);
  }

  pager(count) {
    const move = (rows) => {
      this.first += rows;
      this.render();
      const wanted = rows > 0 ? "Next" : "Previous";
      const buttons = [...this.panel.querySelectorAll(".pager button")];
      (buttons.find((button) => button.textContent.includes(wanted) && !button.disabled) ?? buttons.find((button) => !button.disabled))?.focus();
    };
    const button = (name, rows, disabled) => element("button", { type: "button", disabled, on: { click: () => move(rows) } }, name);
    const last = Math.min(count, this.first + PAGE_ROWS);
    return element(
      "nav",
      { class: "pager", "aria-label": "Pages of the result" },
      button("← Previous", -PAGE_ROWS, this.first === 0),
      element("span", {}, `Rows ${number(this.first + 1)} to ${number(last)} of ${number(count)}`),
      button("Next →", PAGE_ROWS, last === count),
    );
  }

  leaveChart() {
    this.chart?.destroy();
    this.chart = null;
  }

  recolor() {
    this.chart?.redraw();
  }

  // Draws again, with the times of another zone.
  redraw() {
    if (this.outcomes.length) this.render();
  }
}

function errorBox({ code, message, hint, place }) {
  return element(
    "div",
    { class: "reason" },
    code ? element("span", { class: "code" }, code) : null,
    place ? ` line ${place.line}, column ${place.column}: ` : " ",
    message,
    hint ? element("div", { class: "hint" }, "→ ", hint) : null,
  );
}

export function countText({ rows, has_more: hasMore }) {
  const count = rows.length;
  if (hasMore) return `The first ${number(count)} row${count === 1 ? "" : "s"}. There are more: narrow the query with WHERE, or page with LIMIT and OFFSET.`;
  return count === 1 ? "1 row" : `${number(count)} rows`;
}

function doneText({ affected }) {
  if (affected < 0) return "✓ Done";
  return `✓ Done, ${number(affected)} row${affected === 1 ? "" : "s"}`;
}
