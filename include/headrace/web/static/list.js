// The list of streams, with the numbers about their health above it.

import { airflowLink, badge, bar, batch, reason, spark } from "./parts.js";
import { ago, compact, duration, element, number, rate } from "./dom.js";

const ORDER = ["STOPPED", "FILLING", "CREATED", "RUNNING", "PAUSED"];

export function health(data) {
  const { states, worst_lag: lag, rows_in_s: incoming, rows_out_s: outgoing, rows_expired: expired } = data.health;
  const total = data.streams.length;
  const others = ORDER.filter((state) => state !== "RUNNING" && states[state]).map((state) => `${states[state]} ${state}`);
  const card = (title, value, note, tone = "") =>
    element("div", { class: `card ${tone}` }, element("h2", {}, title), element("b", {}, value), element("p", { class: "quiet" }, note));
  return element(
    "section",
    { class: "cards", "aria-label": "Health" },
    card("Streams running", `${states.RUNNING} of ${total}`, others.join(", ") || "all of them", states.STOPPED ? "alarm" : ""),
    card("Worst lag", lag ? duration(lag.ms) : "–", lag ? lag.stream : "no stream has told its lag"),
    card("Rows a second", `${rate(incoming)} → ${rate(outgoing)}`, incoming === null ? "measured while this page is open" : "in → out"),
    card("Expired rows", compact(expired), "came after their window had closed", expired ? "warn" : ""),
  );
}

const COLUMNS = [
  ["Stream", (s) => `${s.database}.${s.name}`, ""],
  ["State", (s) => ORDER.indexOf(s.state), ""],
  ["Lag", (s) => s.lag_ms ?? -1, "n"],
  ["Moved", (s) => -(s.updated ?? 0), "n"],
  ["Rows in", (s) => s.counters.rows_in, "n"],
  ["Rows out", (s) => s.counters.rows_out, "n"],
  ["Expired", (s) => s.counters.rows_expired, "n"],
  ["Rate", (s) => s.rate?.rows_in ?? -1, "n"],
];

export class List {
  constructor(open) {
    this.open = open;
    this.filter = "";
    this.sorted = 1;
    this.descending = false;
    this.search = element("input", {
      type: "search",
      placeholder: "Find a stream (press /)",
      "aria-label": "Find a stream",
      on: { input: () => this.search_(this.search.value) },
    });
    this.node = element("div");
  }

  search_(text) {
    this.filter = text.toLowerCase();
    this.render(this.data);
  }

  render(data) {
    this.data = data;
    if (!data.streams.length) {
      this.node.replaceChildren(health(data), empty());
      return;
    }
    const rows = this.chosen(data.streams).map((stream) => this.row(stream, data.as_of));
    const table = element("table", { class: "streams" }, this.head(), element("tbody", {}, rows.flat()));
    const nothing = rows.length ? null : element("p", { class: "quiet" }, `No stream matches “${this.filter}”.`);
    if (!this.node.contains(this.search)) this.node.replaceChildren(element("div"), this.search, element("div"));
    this.node.children[0].replaceChildren(health(data));
    this.node.children[2].replaceChildren(element("div", { class: "wide" }, table), ...(nothing ? [nothing] : []));
  }

  chosen(streams) {
    const words = (s) => `${s.database}.${s.name} ${s.state} ${s.source} ${s.target} ${s.reason?.code ?? ""}`.toLowerCase();
    const kept = streams.filter((stream) => words(stream).includes(this.filter));
    const key = COLUMNS[this.sorted][1];
    const order = (a, b) => (key(a) < key(b) ? -1 : key(a) > key(b) ? 1 : COLUMNS[0][1](a).localeCompare(COLUMNS[0][1](b)));
    kept.sort(order);
    return this.descending ? kept.reverse() : kept;
  }

  head() {
    const cell = ([title, , kind], place) => {
      const direction = place !== this.sorted ? "none" : this.descending ? "descending" : "ascending";
      const sort = () => {
        this.descending = place === this.sorted ? !this.descending : kind === "n";
        this.sorted = place;
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
      element("td", {}, badge(stream), stream.backfill ? bar(stream.backfill) : null),
      element("td", { class: "n" }, duration(stream.lag_ms), batch(stream)),
      element("td", { class: "n" }, ago(stream.updated, now)),
      element("td", { class: "n", title: number(counters.rows_in) }, compact(counters.rows_in)),
      element("td", { class: "n", title: number(counters.rows_out) }, compact(counters.rows_out)),
      element("td", { class: counters.rows_expired ? "n warn" : "n", title: number(counters.rows_expired) }, compact(counters.rows_expired)),
      element("td", { class: "n rate" }, spark(stream.history), stream.rate ? ` ${rate(stream.rate.rows_in)}/s` : "–"),
    );
    const why = reason(stream, now);
    return why ? [main, element("tr", { class: "why" }, element("td", { colspan: COLUMNS.length }, why))] : [main];
  }
}

function empty() {
  return element(
    "section",
    { class: "empty" },
    element("h2", {}, "No streams yet"),
    element("p", {}, "A stream is one statement. It is filled from the rows that are there, then follows the table:"),
    element(
      "pre",
      {},
      "CREATE STREAM power.avg_minute FILL_HISTORY 1 INTO power.avg_minute_out\nAS SELECT _wstart, avg(voltage) FROM power.meters PARTITION BY tbname INTERVAL(1m);",
    ),
    element("p", {}, "Give it to ", element("code", {}, 'headrace sql "…"'), ", and it appears here within two seconds. To see some at work: ", element("code", {}, "make demo"), "."),
  );
}

export function snodes(data) {
  return data.snodes.map((snode) =>
    airflowLink(
      `dags/${snode.dag_id}`,
      element(
        "span",
        { class: snode.trouble ? "snode bad" : "snode good", title: snode.trouble ? `its driver ${snode.trouble}` : `driver ${snode.holder}, epoch ${snode.epoch}` },
        snode.trouble ? "✗ " : "✓ ",
        `snode ${snode.name}`,
        snode.trouble ? element("small", {}, ` ${snode.trouble}`) : null,
      ),
    ),
  );
}
