// One stream: what it is, how it gets on, what happened to it, and what can be done about it.

import { accounting, airflowLink, badge, bar, batch, reason, spark } from "./parts.js";
import { ago, duration, element, number, rate, time, zoneName } from "./dom.js";

const TABS = ["Overview", "SQL", "Plan", "Backfill", "Events"];

export class Detail {
  constructor({ back, ask, loadPlan, tab, chose }) {
    this.back = back;
    this.ask = ask;
    this.loadPlan = loadPlan;
    this.chose = chose;
    this.tab = TABS.includes(tab) ? tab : TABS[0];
    this.plan = null;
    this.node = element("div");
  }

  // `row` is the stream's line of the list, `more` what only the detail tells (null while it is being loaded).
  render(row, more, now) {
    this.last = [row, more, now];
    const label = `${row.database}.${row.name}`;
    const leave = (event) => {
      event.preventDefault();
      this.back();
    };
    this.node.replaceChildren(
      element("nav", { class: "crumbs" }, element("a", { href: "?", on: { click: leave } }, "← All streams")),
      element(
        "section",
        { class: "title" },
        element("h2", {}, label),
        badge(row),
        element("div", { class: "buttons" }, ...(more?.actions ?? []).map((action) => this.button(row, action)), airflowLink(`dags/${row.dag_id}`, "DAG and backfill form")),
      ),
      reason(row, now) ?? "",
      row.backfill ? bar(row.backfill) : "",
      this.tabs(),
      element("section", { class: "panel", role: "tabpanel" }, more ? this.panel(row, more, now) : element("p", { class: "quiet" }, "Loading…")),
    );
  }

  button(row, action) {
    const words = action.action[0].toUpperCase() + action.action.slice(1);
    return element("button", { type: "button", class: action.action, on: { click: () => this.ask(row, action) } }, words);
  }

  tabs() {
    const choose = (tab) => {
      this.tab = tab;
      this.chose(tab);
      this.render(...this.last);
      this.node.querySelector('[role="tab"][aria-selected="true"]')?.focus();
    };
    const step = (event) => {
      const move = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (move) choose(TABS[(TABS.indexOf(this.tab) + move + TABS.length) % TABS.length]);
    };
    const tab = (name) =>
      element("button", { type: "button", role: "tab", "aria-selected": String(name === this.tab), tabindex: name === this.tab ? "0" : "-1", on: { click: () => choose(name) } }, name);
    return element("div", { class: "tabs", role: "tablist", on: { keydown: step } }, TABS.map(tab));
  }

  panel(row, more, now) {
    switch (this.tab) {
      case "SQL":
        return element("pre", { class: "sql" }, more.sql);
      case "Plan":
        return this.planPanel(row);
      case "Backfill":
        return backfills(more);
      case "Events":
        return events(more);
      default:
        return facts(row, more, now);
    }
  }

  planPanel(row) {
    if (this.plan?.id === row.id) return element("pre", {}, this.plan.text);
    this.loadPlan(row).then((text) => {
      this.plan = { id: row.id, text };
      this.render(...this.last);
    });
    return element("p", { class: "quiet" }, "Loading…");
  }
}

function facts(row, more, now) {
  const { counters } = row;
  const fact = (name, ...value) => [element("dt", {}, name), element("dd", {}, ...value)];
  const behind = more.source_version === null ? "has not begun" : `version ${number(more.source_version)}`;
  return element(
    "div",
    { class: "facts" },
    accounting(counters),
    element(
      "dl",
      {},
      fact("Reads", row.source),
      fact("Fills", row.target),
      fact("Lag", duration(row.lag_ms)),
      fact("Current batch", batch(row) ?? duration(row.batch_ms)),
      fact("Last moved", time(row.updated), row.updated === null ? "" : ` (${ago(row.updated, now)})`),
      fact("Rows a second", spark(row.history) ?? "", ` ${rate(row.rate?.rows_in)} in, ${rate(row.rate?.rows_out)} out`),
      fact("Rows out", number(counters.rows_out)),
      fact("Windows recalculated", number(counters.windows_recalculated)),
      fact("Batches", number(counters.batches)),
      fact("Watermark", time(more.watermark)),
      fact("Source", behind),
      fact("History ends at", more.boundary === null ? "no history" : `version ${number(more.boundary)}`),
      fact("Snode", row.snode),
      fact("Created", time(row.created)),
      fact("Id", element("code", {}, row.id)),
    ),
  );
}

function backfills(more) {
  if (!more.runs.length) return element("p", { class: "quiet" }, "Nothing has been backfilled. Trigger the stream's DAG to compute a range again.");
  const rows = more.chunks.map((chunk) =>
    element(
      "tr",
      {},
      element("td", {}, chunk.run),
      element("td", { class: "n" }, String(chunk.number)),
      element("td", {}, time(chunk.start)),
      element("td", {}, time(chunk.end)),
      element("td", { class: "n" }, number(chunk.rows)),
      element("td", {}, element("span", { class: `badge ${chunk.state === "RUNNING" ? "busy" : chunk.state.toLowerCase()}` }, chunk.state), chunk.message ? element("div", { class: "hint" }, chunk.message) : null),
    ),
  );
  const left = more.chunks_in_all - more.chunks.length;
  return element(
    "div",
    {},
    more.runs.map((run) => element("div", { class: "run" }, element("h3", {}, run.run), bar(run))),
    element(
      "div",
      { class: "wide" },
      element(
        "table",
        {},
        element("thead", {}, element("tr", {}, ["Run", "Chunk", `Windows from (${zoneName()})`, "To", "Rows, about", "State"].map((title, place) => element("th", { scope: "col", class: [1, 4].includes(place) ? "n" : "" }, title)))),
        element("tbody", {}, rows),
      ),
    ),
    left > 0 ? element("p", { class: "quiet" }, `… and ${number(left)} more that are done`) : null,
  );
}

function events(more) {
  if (!more.events.length) return element("p", { class: "quiet" }, "Nothing has happened to this stream yet.");
  const rows = more.events.map((event) =>
    element("tr", {}, element("td", {}, time(event.time)), element("td", {}, element("span", { class: "code" }, event.kind)), element("td", { class: "message" }, event.message)),
  );
  return element("div", { class: "wide" }, element("table", {}, element("tbody", {}, rows)));
}
