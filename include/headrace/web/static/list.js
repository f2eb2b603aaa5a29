// The list of streams and continuous queries, below a summary of their health.

import { intervalStrip } from "./intervals.js";
import { airflowLink, backfillBar, badge, batchAge, jobAddress, sparkline, stopReason, wideTable } from "./parts.js";
import { triggerTable } from "./triggers.js";
import { ago, bytes, compact, duration, element, length, number, rate } from "./dom.js";

const ORDER = ["STOPPED", "FILLING", "CREATED", "RUNNING", "PAUSED"];

export function healthCards(data, open) {
  const { states, kinds, worst_lag: lag, rows_in_s: incoming, rows_out_s: outgoing, rows_expired: late } = data.health;
  const total = data.jobs.length;
  const others = ORDER.filter((state) => state !== "RUNNING" && states[state]).map((state) => `${states[state]}\u00a0${state}`);
  const card = (title, value, note, tone = "") =>
    element("div", { class: `card ${tone}` }, element("h2", {}, title), element("b", {}, value), element("p", { class: "quiet" }, note));
  const worst = lag && jobLink(lag.address, lag.name, {}, open);
  return element(
    "section",
    { class: "cards", "aria-label": "Health" },
    card("Running", `${states.RUNNING} of ${total}`, [countKinds(kinds, data.kinds), ...others].join(", "), states.STOPPED ? "alarm" : ""),
    card("Worst lag", lag ? duration(lag.ms) : "–", worst ?? "not reported yet"),
    card("Rows per second", `${rate(incoming)} → ${rate(outgoing)}`, incoming === null ? "nothing measured" : "in → out"),
    card("Expired rows", compact(late), "late, dropped", late ? "warn" : ""),
  );
}

function jobLink(address, name, attributes, open) {
  const follow = (event) => {
    event.preventDefault();
    open(address);
  };
  return element("a", { href: `?${new URLSearchParams(address)}`, ...attributes, on: { click: follow } }, name);
}

function countKinds(counts, kinds) {
  const present = Object.entries(counts).filter(([, number]) => number);
  return present.map(([kind, number]) => `${number} ${number === 1 ? kind : kinds[kind].plural}`).join(" and ") || "nothing yet";
}

// A kind that does not count the rows it reads has no expired rows either.
const rowsIn = (job) => (job.counts_rows_in ? job.counters.rows_in : -1);
const expired = (job) => (job.counts_rows_in ? job.counters.rows_expired : -1);

const COLUMNS = [
  ["Name", (s) => s.label, ""],
  ["Kind", (s) => s.kind, ""],
  ["State", (s) => ORDER.indexOf(s.state), ""],
  ["Lag", (s) => s.lag_ms ?? -1, "n"],
  ["Updated", (s) => -(s.updated ?? 0), "n"],
  ["Rows in", rowsIn, "n"],
  ["Rows out", (s) => s.counters.rows_out, "n"],
  ["Expired", expired, "n"],
  ["Activity", (s) => s.rate?.rows_in ?? -1, "n"],
];
const STATE_COLUMN = 2;

export class List {
  constructor(open) {
    this.open = open;
    this.filter = "";
    this.sortColumn = STATE_COLUMN;
    this.descending = false;
    this.search = element("input", {
      type: "search",
      placeholder: "Find a job (press /)",
      "aria-label": "Find a job",
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
    const triggers = [triggerTable(data.triggers, data.as_of)].filter(Boolean);
    if (!data.jobs.length) {
      this.node.replaceChildren(healthCards(data, this.open), emptyState(), ...triggers);
      return;
    }
    const rows = this.filterAndSort(data.jobs).map((job) => this.row(job, data.as_of));
    const table = element("table", { class: "jobs" }, this.head(), element("tbody", {}, rows.flat()));
    const noMatch = rows.length ? null : element("p", { class: "quiet" }, `Nothing matches “${this.filter}”.`);
    if (!this.node.contains(this.search)) this.node.replaceChildren(element("div"), this.search, element("div"));
    this.node.children[0].replaceChildren(healthCards(data, this.open));
    this.node.children[2].replaceChildren(wideTable("Jobs", table), ...(noMatch ? [noMatch] : []), ...triggers);
  }

  filterAndSort(jobs) {
    const searchText = (s) => `${s.label} ${s.kind} ${s.state} ${s.source} ${s.target} ${s.reason?.code ?? ""}`.toLowerCase();
    const matching = jobs.filter((job) => searchText(job).includes(this.filter));
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

  row(job, now) {
    const main = element(
      "tr",
      {},
      element(
        "td",
        {},
        jobLink(jobAddress(job), job.label, { class: "name" }, this.open),
        element("div", { class: "quiet" }, `${job.source} → ${job.target}`),
        job.schedule ? element("div", { class: "quiet" }, scheduleText(job.schedule, now)) : null,
      ),
      element("td", { class: "kind" }, job.kind),
      element("td", {}, badge(job), job.backfill ? backfillBar(job.backfill) : null),
      element("td", { class: "n" }, duration(job.lag_ms), batchAge(job)),
      ...(CELLS[job.layout] ?? streamCells)(job, now),
    );
    [...main.children].slice(1).forEach((cell, index) => cell.setAttribute("data-title", COLUMNS[index + 1][0]));
    const reason = stopReason(job, now);
    return reason ? [main, element("tr", { class: "why" }, element("td", { colspan: COLUMNS.length }, reason))] : [main];
  }
}

function streamCells(stream, now) {
  const { counters } = stream;
  return [
    element("td", { class: "n" }, ago(stream.updated, now)),
    element("td", { class: "n", title: number(counters.rows_in) }, compact(counters.rows_in)),
    element("td", { class: "n", title: number(counters.rows_out) }, compact(counters.rows_out)),
    element("td", { class: counters.rows_expired ? "n warn" : "n", title: number(counters.rows_expired) }, compact(counters.rows_expired)),
    element("td", { class: "n rate" }, sparkline(stream.history), stream.rate ? ` ${rate(stream.rate.rows_in)}/s` : "–"),
  ];
}

// A continuous query reads whole ranges, so it has no count of rows in and no expired rows.
function queryCells(query, now) {
  const none = () => element("td", { class: "n quiet", title: "streams only" }, "–");
  return [
    element("td", { class: "n" }, lastExecution(query.last, now)),
    none(),
    element("td", { class: "n", title: number(query.counters.rows_out) }, compact(query.counters.rows_out)),
    none(),
    element("td", { class: "n" }, intervalStrip(query.intervals) ?? "–"),
  ];
}

// A pipe delivers all rows of its source, however late.
function pipeCells(pipe, now) {
  const none = () => element("td", { class: "n quiet", title: "streams only" }, "–");
  return [
    element("td", { class: "n" }, ago(pipe.updated, now)),
    none(),
    element("td", { class: "n", title: number(pipe.counters.rows_out) }, compact(pipe.counters.rows_out)),
    none(),
    element("td", { class: "n rate" }, sparkline(pipe.history), pipe.rate ? `${rate(pipe.rate.rows_out)}/s` : "–"),
  ];
}

const CELLS = { query: queryCells, pipe: pipeCells };

function lastExecution(last, now) {
  if (last?.state === "FAILED") return element("span", { class: "bad", title: last.message }, `✗ failed ${ago(last.finished, now)}`);
  if (last?.state === "RUNNING") return `running for ${duration(Math.max(0, now - last.started))}`;
  return ago(last?.finished, now);
}

export function scheduleText(schedule, now) {
  const next = schedule.next === null ? "" : `, next in ${duration(schedule.next - now)}`;
  return `every ${length(schedule.every_ms)}${next}`;
}

const STREAM_EXAMPLE =
  "CREATE STREAM power.avg_minute FILL_HISTORY 1 INTO power.avg_minute_out\nAS SELECT _wstart, avg(voltage) FROM power.meters PARTITION BY tbname INTERVAL(1m);";
const QUERY_EXAMPLE =
  "CREATE CONTINUOUS QUERY minutes BEGIN\n  SELECT avg(speed) INTO root.hall.minutes(speed) FROM root.hall.line1 GROUP BY (1m)\nEND;";

const PIPE_EXAMPLE =
  "CREATE PIPE copy WITH SOURCE ('source.path'='root.hall.**')\n  WITH SINK ('sink'='iotdb-thrift-sink', 'sink.node-urls'='db.example:6667');";

function emptyState() {
  return element(
    "section",
    { class: "empty" },
    element("h2", {}, "No streams, continuous queries or pipes yet"),
    element("p", {}, "A stream first computes the stored rows, then processes new ones:"),
    element("pre", {}, STREAM_EXAMPLE),
    element("p", {}, "A continuous query computes one interval after the other, of a tree of devices:"),
    element("pre", {}, QUERY_EXAMPLE),
    element("p", {}, "A pipe sends the points of a tree to another system, first those that are stored:"),
    element("pre", {}, PIPE_EXAMPLE),
    element("p", {}, "Run one with ", element("code", {}, 'headrace sql "…"'), " or ", element("code", {}, 'headrace sql --dialect iotdb "…"'), "; it appears here within two seconds. For a demonstration, run ", element("code", {}, "make demo"), "."),
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
        element("small", {}, ` ${snode.problem ?? usage(snode)}`),
      ),
    ),
  );
}

function usage({ memory_bytes: memory, cores }) {
  return memory === null ? "" : `${bytes(memory)}, ${rate(cores)} ${cores === 1 ? "core" : "cores"}`;
}
