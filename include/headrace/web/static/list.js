// The list of streams, below a summary of their health.

import { airflowLink, backfillBar, badge, batchAge, sparkline, stopReason } from "./parts.js";
import { ago, compact, duration, element, number, rate } from "./dom.js";

const ORDER = ["STOPPED", "FILLING", "CREATED", "RUNNING", "PAUSED"];

export function healthCards(data) {
  const { states, worst_lag: lag, rows_in_s: incoming, rows_out_s: outgoing, rows_expired: expired } = data.health;
  const total = data.streams.length;
  const others = ORDER.filter((state) => state !== "RUNNING" && states[state]).map((state) => `${states[state]} ${state}`);
  const card = (title, value, note, tone = "") =>
    element("div", { class: `card ${tone}` }, element("h2", {}, title), element("b", {}, value), element("p", { class: "quiet" }, note));
  return element(
    "section",
    { class: "cards", "aria-label": "Health" },
    card("Streams running", `${states.RUNNING} of ${total}`, others.join(", ") || "all", states.STOPPED ? "alarm" : ""),
    card("Worst lag", lag ? duration(lag.ms) : "–", lag ? lag.stream : "not reported yet"),
    card("Rows per second", `${rate(incoming)} → ${rate(outgoing)}`, incoming === null ? "measured while this page is open" : "in → out"),
    card("Expired rows", compact(expired), "late, dropped", expired ? "warn" : ""),
  );
}

const COLUMNS = [
  ["Stream", (s) => `${s.database}.${s.name}`, ""],
  ["State", (s) => ORDER.indexOf(s.state), ""],
  ["Lag", (s) => s.lag_ms ?? -1, "n"],
  ["Updated", (s) => -(s.updated ?? 0), "n"],
  ["Rows in", (s) => s.counters.rows_in, "n"],
  ["Rows out", (s) => s.counters.rows_out, "n"],
  ["Expired", (s) => s.counters.rows_expired, "n"],
  ["Rate", (s) => s.rate?.rows_in ?? -1, "n"],
];

export class List {
  constructor(open) {
    this.open = open;
    this.filter = "";
    this.sortColumn = 1;
    this.descending = false;
    this.search = element("input", {
      type: "search",
      placeholder: "Find a stream (press /)",
      "aria-label": "Find a stream",
      on: { input: () => this.setFilter(this.search.value) },
    });
    this.node = element("div");
  }

  setFilter(text) {
    this.filter = text.toLowerCase();
    this.render(this.data);
  }

  render(data) {
    this.data = data;
    if (!data.streams.length) {
      this.node.replaceChildren(healthCards(data), emptyState());
      return;
    }
    const rows = this.filterAndSort(data.streams).map((stream) => this.row(stream, data.as_of));
    const table = element("table", { class: "streams" }, this.head(), element("tbody", {}, rows.flat()));
    const noMatch = rows.length ? null : element("p", { class: "quiet" }, `No stream matches “${this.filter}”.`);
    if (!this.node.contains(this.search)) this.node.replaceChildren(element("div"), this.search, element("div"));
    this.node.children[0].replaceChildren(healthCards(data));
    this.node.children[2].replaceChildren(element("div", { class: "wide" }, table), ...(noMatch ? [noMatch] : []));
  }

  filterAndSort(streams) {
    const searchText = (s) => `${s.database}.${s.name} ${s.state} ${s.source} ${s.target} ${s.reason?.code ?? ""}`.toLowerCase();
    const matching = streams.filter((stream) => searchText(stream).includes(this.filter));
    const key = COLUMNS[this.sortColumn][1];
    const order = (a, b) => (key(a) < key(b) ? -1 : key(a) > key(b) ? 1 : COLUMNS[0][1](a).localeCompare(COLUMNS[0][1](b)));
    matching.sort(order);
    return this.descending ? matching.reverse() : matching;
  }

  head() {
    const cell = ([title, , kind], index) => {
      const direction = index !== this.sortColumn ? "none" : this.descending ? "descending" : "ascending";
      const sort = () => {
        this.descending = index === this.sortColumn ? !this.descending : kind === "n";
        this.sortColumn = index;
        this.render(this.data);
      };
      return element("th", { class: kind, "aria-sort": direction, scope: "col" }, element("button", { type: "button", on: { click: sort } }, title));
    };
    return element("thead", {}, element("tr", {}, COLUMNS.map(cell)));
  }

  row(stream, now) {
    const label = `${stream.database}.${stream.name}`;
    const open = (event) => {
      event.preventDefault();
      this.open(label);
    };
    const { counters } = stream;
    const main = element(
      "tr",
      {},
      element(
        "td",
        {},
        element("a", { href: `?stream=${encodeURIComponent(label)}`, class: "name", on: { click: open } }, label),
        element("div", { class: "quiet" }, `${stream.source} → ${stream.target}`),
      ),
      element("td", {}, badge(stream), stream.backfill ? backfillBar(stream.backfill) : null),
      element("td", { class: "n" }, duration(stream.lag_ms), batchAge(stream)),
      element("td", { class: "n" }, ago(stream.updated, now)),
      element("td", { class: "n", title: number(counters.rows_in) }, compact(counters.rows_in)),
      element("td", { class: "n", title: number(counters.rows_out) }, compact(counters.rows_out)),
      element("td", { class: counters.rows_expired ? "n warn" : "n", title: number(counters.rows_expired) }, compact(counters.rows_expired)),
      element("td", { class: "n rate" }, sparkline(stream.history), stream.rate ? ` ${rate(stream.rate.rows_in)}/s` : "–"),
    );
    const reason = stopReason(stream, now);
    return reason ? [main, element("tr", { class: "why" }, element("td", { colspan: COLUMNS.length }, reason))] : [main];
  }
}

function emptyState() {
  return element(
    "section",
    { class: "empty" },
    element("h2", {}, "No streams yet"),
    element("p", {}, "One statement defines a stream. It first computes the stored rows, then processes new ones:"),
    element(
      "pre",
      {},
      "CREATE STREAM power.avg_minute FILL_HISTORY 1 INTO power.avg_minute_out\nAS SELECT _wstart, avg(voltage) FROM power.meters PARTITION BY tbname INTERVAL(1m);",
    ),
    element("p", {}, "Run it with ", element("code", {}, 'headrace sql "…"'), "; the stream appears here within two seconds. For a demonstration, run ", element("code", {}, "make demo"), "."),
  );
}

export function snodeLinks(data) {
  return data.snodes.map((snode) =>
    airflowLink(
      `dags/${snode.dag_id}`,
      element(
        "span",
        { class: snode.problem ? "snode bad" : "snode good", title: snode.problem ? `its driver ${snode.problem}` : `driver ${snode.holder}, epoch ${snode.epoch}` },
        snode.problem ? "✗ " : "✓ ",
        `snode ${snode.name}`,
        snode.problem ? element("small", {}, ` ${snode.problem}`) : null,
      ),
    ),
  );
}
