// The detail page of a job: its status, statement, plan, backfills or executions, events and actions.

import { BackfillForm } from "./backfill.js";
import { Charts, PIPE_CHARTS, STREAM_CHARTS } from "./charts.js";
import { Flow } from "./flow.js";
import { executionPanel, intervalPicture } from "./intervals.js";
import { accounting, airflowLink, backfillBar, badge, batchAge, sparkline, stopReason, wideTable } from "./parts.js";
import { planPanel } from "./plan.js";
import { Preview, worksheetLink } from "./preview.js";
import { Rights } from "./rights.js";
import { sqlPanel } from "./versions.js";
import { Windows } from "./windows.js";
import { actionLabel, ago, bytes, duration, element, length, localTime, number, rate, time, withFocusKept, zoneName } from "./dom.js";

// The tab of each layout beside those that all jobs have, and what its first tab shows.
const LAYOUTS = {
  stream: { tabs: ["Results", "Windows", "Backfill"], overview: streamOverview, charts: STREAM_CHARTS },
  query: { tabs: ["Results", "Executions"], overview: queryOverview },
  pipe: { tabs: ["Backfill"], overview: pipeOverview, charts: PIPE_CHARTS },
  job: { tabs: [], overview: jobOverview },
};

export class Detail {
  constructor({ onBack, onAction, loadPlan, loadVersions, fetchMetrics, fetchFlow, fetchWindows, fetchRights, startBackfill, tab, onTab }) {
    this.onBack = onBack;
    this.onAction = onAction;
    this.loadPlan = loadPlan;
    this.loadVersions = loadVersions;
    this.fetchMetrics = fetchMetrics;
    this.fetchFlow = fetchFlow;
    this.fetchWindows = fetchWindows;
    this.fetchRights = fetchRights;
    this.startBackfill = startBackfill;
    this.results = null;
    this.form = null;
    this.charts = null;
    this.flow = null;
    this.windows = null;
    this.rights = null;
    this.onTab = onTab;
    this.tab = tab;
    this.plan = null;
    this.statement = { sql: null, panel: null };
    this.node = element("div");
  }

  // `row` is the job's row of the list, `more` the rest of its data, or null while that is loading.
  render(row, more, now) {
    this.last = [row, more, now];
    const names = ["Overview", "SQL", "Plan", ...LAYOUTS[row.layout].tabs, "Events", "Rights"];
    if (!names.includes(this.tab)) this.tab = names[0];
    const leave = (event) => {
      event.preventDefault();
      this.onBack();
    };
    this.node.replaceChildren(
      element("nav", { class: "crumbs" }, element("a", { href: "?", on: { click: leave } }, "← All jobs")),
      element(
        "section",
        { class: "title" },
        element("h2", {}, row.label, " ", element("small", {}, row.kind)),
        badge(row),
        element("div", { class: "buttons" }, ...(more?.actions ?? []).map((action) => this.button(row, action)), airflowLink(`dags/${row.dag_id}`, "DAG")),
      ),
      stopReason(row, now) ?? "",
      row.backfill ? backfillBar(row.backfill) : "",
      this.tabs(names),
      element("section", { class: "panel", role: "tabpanel" }, more ? this.panel(row, more, now) : element("p", { class: "quiet" }, "Loading…")),
    );
  }

  // When something has been loaded.
  renderAgain() {
    withFocusKept(this.node, () => this.render(...this.last));
  }

  button(row, action) {
    return element("button", { type: "button", class: action.action, on: { click: () => this.onAction(row, action) } }, actionLabel(action));
  }

  tabs(names) {
    const choose = (tab) => {
      this.tab = tab;
      this.onTab(tab);
      this.render(...this.last);
      this.node.querySelector('[role="tab"][aria-selected="true"]')?.focus();
    };
    const step = (event) => {
      const move = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (move) choose(names[(names.indexOf(this.tab) + move + names.length) % names.length]);
    };
    const tab = (name) =>
      element("button", { type: "button", role: "tab", "aria-selected": String(name === this.tab), tabindex: name === this.tab ? "0" : "-1", on: { click: () => choose(name) } }, name);
    return element("div", { class: "tabs", role: "tablist", on: { keydown: step } }, names.map(tab));
  }

  panel(row, more, now) {
    switch (this.tab) {
      case "SQL":
        return element("div", {}, worksheetLink(more), this.statementPanel(row, more.sql));
      case "Plan":
        return this.planPanel(row);
      case "Windows":
        return this.windowPanel(row);
      case "Backfill":
        return element("div", {}, this.backfillForm(row, more), backfillPanel(more));
      case "Executions":
        return element("div", {}, this.backfillForm(row, more), executionPanel(row, more));
      case "Results":
        this.results ??= resultPanel(more.results);
        return this.results;
      case "Events":
        return eventPanel(more);
      case "Rights":
        this.rights ??= new Rights(() => this.fetchRights(row.id));
        return this.rights.node;
      default:
        return element("div", {}, LAYOUTS[row.layout].overview(row, more, now), this.flowPanel(row), this.chartPanel(row, more));
    }
  }

  // For those who may edit the DAG; Airflow decides whether they may trigger it.
  backfillForm(row, more) {
    if (!more.actions.length) return null;
    this.form ??= new BackfillForm(row, (range) => this.startBackfill(row.dag_id, range));
    return this.form.node;
  }

  chartPanel(row, more) {
    const kinds = LAYOUTS[row.layout].charts;
    if (!kinds) return null;
    this.charts ??= new Charts(kinds, (over) => this.fetchMetrics(row.id, over));
    this.charts.update(more.events);
    return this.charts.node;
  }

  flowPanel(row) {
    if (row.layout !== "stream") return null;
    this.flow ??= new Flow((over) => this.fetchFlow(row.id, over));
    this.flow.update();
    return this.flow.node;
  }

  windowPanel(row) {
    this.windows ??= new Windows(row.target ?? "", (choice) => this.fetchWindows(row.id, choice));
    this.windows.update();
    return this.windows.node;
  }

  // The panel is kept while the statement is the same, so that versions stay open.
  statementPanel(row, sql) {
    if (this.statement.sql !== sql) {
      this.statement = { sql, panel: element("pre", { class: "sql" }, sql) };
      this.loadVersions(row).then((versions) => {
        if (this.statement.sql !== sql) return;
        this.statement.panel = sqlPanel(sql, versions);
        this.renderAgain();
      });
    }
    return this.statement.panel;
  }

  planPanel(row) {
    if (this.plan?.id === row.id) return this.plan.panel;
    this.loadPlan(row).then((plan) => {
      this.plan = { id: row.id, panel: planPanel(plan) };
      this.renderAgain();
    });
    return element("p", { class: "quiet" }, "Loading…");
  }
}

// The latest rows of the target, or of one of several.
function resultPanel(results) {
  if (!results.length) return element("p", { class: "quiet" }, "Its target has no name that a query could use.");
  const panel = element("div");
  const show = (index) => panel.replaceChildren(...choice, new Preview(results[index]).node);
  const options = results.map(({ label }, index) => element("option", { value: index }, label));
  const choice = results.length > 1 ? [element("label", {}, "Target ", element("select", { on: { change: ({ target }) => show(target.value) } }, options))] : [];
  show(0);
  return panel;
}

const fact = (name, ...value) => [element("dt", {}, name), element("dd", {}, ...value)];

function queryOverview(row, more, now) {
  const { counters, schedule, last } = row;
  const end = schedule.end_offset_ms ? `t − ${length(schedule.end_offset_ms)}` : "t";
  return element(
    "div",
    {},
    intervalPicture(more.intervals),
    element(
      "div",
      { class: "facts" },
      element(
        "dl",
        {},
        fact("Reads", row.source),
        fact("Writes", row.target),
        fact("Executed", `every ${length(schedule.every_ms)}, by ${row.executor}`),
        fact("Range", `[t − ${length(schedule.start_offset_ms)}, ${end}) of an execution that is due at t`),
        fact("If late", schedule.policy === "DISCARD" ? "DISCARD: only the latest interval is computed" : "BLOCKED: every interval is computed, in order"),
        fact("Time zone", schedule.timezone),
        identity(row),
      ),
      element(
        "dl",
        {},
        fact("Next execution", ...nextExecution(row, now)),
        fact("Last execution", ...lastExecution(last, now)),
        fact("Lag", duration(row.lag_ms)),
        fact("Due, not started", number(row.waiting)),
        fact("Executions done", number(counters.batches)),
        fact("Attempts failed", element("span", { class: counters.failures ? "warn" : "" }, number(counters.failures))),
        fact("Rows out", number(counters.rows_out)),
      ),
    ),
  );
}

function nextExecution(row, now) {
  const { next } = row.schedule;
  if (next === null) return [`none while ${row.state === "STOPPED" ? "STOPPED" : row.desired === "PAUSED" ? "PAUSED" : row.state}`];
  return [time(next), ` (in ${duration(next - now)})`];
}

function lastExecution(last, now) {
  if (!last) return ["none yet"];
  const outcome = last.state === "DONE" ? `${number(last.rows)} rows in ${duration(last.duration_ms)}, ${ago(last.finished, now)}` : last.state;
  return [time(last.scheduled), `: ${outcome}`];
}

function streamOverview(row, more, now) {
  const { counters } = row;
  return element(
    "div",
    { class: "facts" },
    accounting(counters),
    element(
      "dl",
      {},
      fact("Reads", row.source),
      fact("Writes", row.target),
      fact("Lag", duration(row.lag_ms)),
      fact("Current batch", batchAge(row) ?? duration(row.batch_ms)),
      fact("Last update", time(row.updated), row.updated === null ? "" : ` (${ago(row.updated, now)})`),
      fact("Rows per second", sparkline(row.history) ?? "", ` ${rate(row.rate?.rows_in)} in, ${rate(row.rate?.rows_out)} out`),
      fact("Rows out", number(counters.rows_out)),
      fact("Windows recalculated", number(counters.windows_recalculated)),
      fact("Batches", number(counters.batches)),
      fact("Watermark", time(more.watermark)),
      fact("Source offset", versions(more.offsets, "not started")),
      fact("History up to", versions(more.boundaries, "no history")),
      identity(row),
    ),
  );
}

function pipeOverview(row, more, now) {
  const { counters } = row;
  return element(
    "div",
    { class: "facts" },
    element("div", { class: "stages" }, more.stages.map(stageCard)),
    element(
      "dl",
      {},
      fact("Lag", duration(row.lag_ms)),
      fact("Last update", time(row.updated), row.updated === null ? "" : ` (${ago(row.updated, now)})`),
      fact("Rows per second", rate(row.rate?.rows_out)),
      fact("Bytes per second", row.rate ? bytes(Math.round(row.rate.bytes_out)) : "–"),
      fact("Rows out", number(counters.rows_out)),
      fact("Bytes out", bytes(counters.bytes_out)),
      fact("Remaining rows", number(row.remaining)),
      fact("Remaining time", duration(row.remaining_ms)),
      fact("Batches", number(counters.batches)),
      fact("Failures", element("span", { class: counters.failures ? "warn" : "" }, number(counters.failures))),
      fact("Defined", time(more.started)),
      identity(row),
    ),
  );
}

function stageCard({ stage, plugin, attributes }) {
  const rows = attributes.map(([key, value]) => fact(key, value)).flat();
  return element("section", { class: "stage" }, element("h3", {}, `${stage} `, element("small", {}, plugin)), rows.length ? element("dl", {}, rows) : null);
}

function jobOverview(row, more, now) {
  return element(
    "div",
    { class: "facts" },
    element(
      "dl",
      {},
      fact("Reads", row.source),
      fact("Writes", row.target),
      fact("Lag", duration(row.lag_ms)),
      fact("Last update", time(row.updated), row.updated === null ? "" : ` (${ago(row.updated, now)})`),
      fact("Rows out", number(row.counters.rows_out)),
      identity(row),
    ),
  );
}

// What all jobs have.
function identity(row) {
  return [fact("Owner", row.owner || "–"), fact("Snode", row.snode), fact("Created", time(row.created)), fact("Id", element("code", {}, row.id))].flat();
}

// The version of each source; their names only if there are several.
function versions(offsets, none) {
  const sources = Object.entries(offsets);
  if (!sources.length) return none;
  return sources.map(([source, version]) => `${sources.length > 1 ? `${source} ` : ""}version ${number(version)}`).join(", ");
}

// The subtables of a chunk that has only some.
function seriesHint(chunk) {
  const first = chunk.first_series ? ` from ${chunk.first_series}` : "";
  const end = chunk.end_series ? ` before ${chunk.end_series}` : "";
  return first || end ? element("div", { class: "hint" }, `subtables${first}${end}`) : null;
}

function backfillPanel(more) {
  if (!more.runs.length) return element("p", { class: "quiet" }, "No backfills yet.");
  const rows = more.chunks.map((chunk) =>
    element(
      "tr",
      {},
      element("td", {}, chunk.run),
      element("td", { class: "n" }, String(chunk.number)),
      element("td", {}, localTime(chunk.start), seriesHint(chunk)),
      element("td", {}, localTime(chunk.end)),
      element("td", { class: "n" }, number(chunk.rows)),
      element("td", {}, element("span", { class: `badge ${chunk.state === "RUNNING" ? "busy" : chunk.state.toLowerCase()}` }, chunk.state), chunk.message ? element("div", { class: "hint" }, chunk.message) : null),
    ),
  );
  const omitted = more.total_chunks - more.chunks.length;
  return element(
    "div",
    {},
    more.runs.map((run) => element("div", { class: "run" }, element("h3", {}, run.run), backfillBar(run))),
    wideTable(
      "Chunks",
      element(
        "table",
        {},
        element("thead", {}, element("tr", {}, ["Run", "Chunk", `Windows from (${zoneName()})`, "To", "Rows (estimate)", "State"].map((title, index) => element("th", { scope: "col", class: [1, 4].includes(index) ? "n" : "" }, title)))),
        element("tbody", {}, rows),
      ),
    ),
    omitted > 0 ? element("p", { class: "quiet" }, `… and ${number(omitted)} more, all done`) : null,
  );
}

function eventPanel(more) {
  if (!more.events.length) return element("p", { class: "quiet" }, "No events yet.");
  const rows = more.events.map((event) =>
    element("tr", {}, element("td", {}, time(event.time)), element("td", {}, element("span", { class: "code" }, event.kind)), element("td", { class: "message" }, event.message)),
  );
  return wideTable("Events", element("table", {}, element("tbody", {}, rows)));
}
