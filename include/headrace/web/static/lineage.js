// The lineage of columns in the graph: of a column of a target, the tables and columns that it is made of, through all jobs before it.

import { element } from "./dom.js";

const MAX_STEPS = 50;
const WORDS = {
  IDENTITY: "unchanged",
  TRANSFORMATION: "computed",
  AGGREGATION: "aggregated",
  CONDITIONAL: "chooses values",
  SORT: "orders rows",
  FILTER: "filters rows",
  GROUP_BY: "groups rows",
  WINDOW: "forms windows",
  JOIN: "joins rows",
};

export class Lineage {
  // `fetchLineage` returns the lineage of a job by its id; `changed` is called when `traced` has changed.
  constructor(fetchLineage, changed) {
    this.fetchLineage = fetchLineage;
    this.changed = changed;
    this.graph = { nodes: [], edges: [] };
    this.loaded = new Map();
    // By node of the graph the columns that take part; null if no column is chosen.
    this.traced = null;
    this.targets = "";
    this.select = element("select", { "aria-label": "Columns of", on: { change: () => this.choose(this.select.value) } });
    this.columns = element("span", { role: "group", "aria-label": "Columns" });
    this.sources = element("ul", { "aria-label": "Sources of the column" });
    this.node = element("div", { class: "lineage", hidden: true }, element("span", { class: "quiet" }, "Columns of"), this.select, this.columns, this.sources);
  }

  writers(id) {
    const jobs = new Map(this.graph.nodes.filter((node) => node.job_id).map((node) => [node.id, node]));
    return this.graph.edges.filter((edge) => edge.target === id && jobs.has(edge.source)).map((edge) => jobs.get(edge.source));
  }

  has(id) {
    return this.writers(id).length > 0;
  }

  update(graph) {
    this.graph = graph;
    const targets = graph.nodes.filter((node) => !node.job_id && this.has(node.id));
    this.node.hidden = targets.length === 0;
    const shape = JSON.stringify(targets.map((node) => node.id));
    if (shape === this.targets) return;
    this.targets = shape;
    const chosen = this.select.value;
    const options = targets.map((node) => element("option", { value: node.id }, node.label));
    this.select.replaceChildren(element("option", { value: "" }, "– choose a target –"), ...options);
    this.select.value = targets.some((node) => node.id === chosen) ? chosen : "";
    if (this.select.value !== chosen) this.clear();
  }

  clear() {
    this.traced = null;
    this.columns.replaceChildren();
    this.sources.replaceChildren();
    this.changed();
  }

  // Shows the columns of a target.
  async choose(id) {
    if (id && !this.has(id)) return;
    this.select.value = id;
    this.clear();
    if (!id) return;
    const found = await this.columnsOf(id);
    if (this.select.value !== id) return;
    const names = [...new Set(found.map(({ column }) => column.column))];
    this.columns.replaceChildren(...names.map((name) => this.button(id, name)));
    if (!names.length) this.sources.replaceChildren(element("li", {}, "Nothing is known of its columns, or you may not see them."));
  }

  button(id, name) {
    const show = () => this.trace(id, name);
    return element("button", { type: "button", "aria-pressed": "false", on: { click: show } }, name);
  }

  // Returns the columns of a target with the job that writes each. A table that one job writes may have another name in its lineage.
  async columnsOf(id) {
    const label = this.graph.nodes.find((node) => node.id === id)?.label;
    const found = await Promise.all(
      this.writers(id).map(async (job) => {
        const { columns, all } = await this.load(job);
        const own = columns.filter((column) => column.table === label);
        return (own.length ? own : columns).map((column) => ({ job, column, all }));
      }),
    );
    return found.flat();
  }

  // An error is shown as a job without lineage, and loading is tried again the next time.
  async load(job) {
    if (!this.loaded.has(job.job_id)) {
      const loading = this.fetchLineage(job.job_id).catch(() => {
        this.loaded.delete(job.job_id);
        return { columns: [], all: [] };
      });
      this.loaded.set(job.job_id, loading);
    }
    return this.loaded.get(job.job_id);
  }

  // The node of a source table among those that a job reads: the one of its name, else all of them, which are patterns of paths.
  sourceNodes(job, table) {
    const read = this.graph.edges.filter((edge) => edge.target === job.id).map((edge) => edge.source);
    const exact = this.graph.nodes.find((node) => node.label === table && read.includes(node.id));
    return exact ? [exact.id] : read;
  }

  async trace(id, name) {
    for (const button of this.columns.children) button.setAttribute("aria-pressed", String(button.textContent === name));
    this.loaded.clear();
    const traced = new Map([[id, new Set([name])]]);
    const lines = new Map();
    const waiting = [[id, name]];
    for (let step = 0; waiting.length && step < MAX_STEPS; step += 1) {
      const [target, wanted] = waiting.shift();
      for (const { job, column, all } of await this.columnsOf(target)) {
        if (column.column !== wanted) continue;
        traced.set(job.id, traced.get(job.id) ?? new Set());
        for (const input of step ? column.inputs : [...column.inputs, ...all]) {
          lines.set(`${input.table}.${input.column} ${input.transformation}`, line(input));
          if (!input.direct) continue;
          for (const source of this.sourceNodes(job, input.table)) {
            const seen = traced.get(source) ?? new Set();
            if (!seen.has(input.column)) waiting.push([source, input.column]);
            traced.set(source, seen.add(input.column));
          }
        }
      }
    }
    this.traced = traced;
    this.sources.replaceChildren(...lines.values());
    this.changed();
  }
}

function line({ table, column, transformation, direct }) {
  return element("li", { class: direct ? null : "quiet" }, element("code", {}, `${table}.${column}`), ` ${WORDS[transformation] ?? transformation}`);
}
