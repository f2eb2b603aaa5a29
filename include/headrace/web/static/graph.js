// The graph of jobs and of what they read and write, drawn by Cytoscape with a layered layout.

import { ago, compact, duration, element, rate } from "./dom.js";
import { Lineage } from "./lineage.js";
import { Preview } from "./preview.js";

const LIBRARIES = ["vendor/cytoscape.min.js", "vendor/dagre.min.js", "vendor/cytoscape-dagre.js"];
const STATES = ["RUNNING", "STOPPED", "PAUSED", "FILLING", "CREATED"];
const STATE_COLORS = { RUNNING: "running", STOPPED: "stopped", PAUSED: "paused", FILLING: "filling", CREATED: "created" };
const ZOOM = { min: 0.15, max: 2, step: 1.3 };
let loading = null;

// The libraries are loaded with the first graph, one after the other, since they find each other by global names.
function load() {
  loading ??= LIBRARIES.reduce((before, source) => before.then(() => loadScript(source)), Promise.resolve());
  return loading;
}

function loadScript(source) {
  return new Promise((resolve, reject) => {
    const script = element("script", { src: source, on: { load: resolve, error: () => reject(new Error(`${source} cannot be loaded`)) } });
    document.head.append(script);
  });
}

const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

// The word of a state shows it as well as its color.
function label({ label: name, kind, state, note }) {
  const lines = kind === "data" || kind === "outside" ? [name] : [name, `${kind}${state && state !== "RUNNING" ? `, ${state}` : ""}`];
  return [...lines, note].filter(Boolean).join("\n");
}

// The rows that jobs have written into each node, and how long ago the last ones were.
function notes({ nodes, edges, as_of: now }) {
  const jobs = new Map(nodes.filter((node) => node.job_id).map((node) => [node.id, node]));
  const writers = Map.groupBy(edges.filter((edge) => jobs.has(edge.source)), (edge) => edge.target);
  const note = (written) => {
    const rows = written.reduce((sum, job) => sum + job.rows_out, 0);
    const updated = Math.max(...written.map((job) => job.updated ?? 0));
    return rows && updated ? `${compact(rows)} rows, ${ago(updated, now)}` : "";
  };
  return new Map([...writers].map(([id, written]) => [id, note(written.map((edge) => jobs.get(edge.source)))]));
}

// What flows in, and how far the job lags behind it.
function edgeLabel({ rate: rows, lag_ms: lag }) {
  return [rows === null ? "" : `${rate(rows)}/s`, lag ? `${duration(lag)} behind` : ""].filter(Boolean).join("\n");
}

function style() {
  const text = { color: color("text"), "font-size": 11, "font-family": "system-ui, sans-serif" };
  const states = STATES.map((state) => ({ selector: `.${state}`, style: { "background-color": color(STATE_COLORS[state]) } }));
  return [
    {
      selector: "node",
      style: {
        ...text,
        label: "data(text)",
        shape: "round-rectangle",
        width: "label",
        height: "label",
        padding: 8,
        "text-valign": "center",
        "text-wrap": "wrap",
        "background-color": color("raised"),
        "border-width": 1,
        "border-color": color("line"),
      },
    },
    { selector: ".outside", style: { shape: "cut-rectangle", "border-style": "dashed" } },
    { selector: ".data", style: { shape: "barrel" } },
    ...states,
    { selector: ".STOPPED", style: { "border-color": color("bad"), "border-width": 2 } },
    {
      selector: "edge",
      style: {
        ...text,
        label: "data(text)",
        width: 1.5,
        "curve-style": "bezier",
        "line-color": color("filtered"),
        "target-arrow-color": color("filtered"),
        "target-arrow-shape": "triangle",
        "text-background-color": color("ground"),
        "text-background-opacity": 0.9,
        "text-wrap": "wrap",
      },
    },
    { selector: "edge.RUNNING", style: lineStyle("used", "solid") },
    { selector: "edge.FILLING", style: lineStyle("pending", "solid") },
    { selector: "edge.PAUSED", style: lineStyle("filtered", "dashed") },
    { selector: "edge.STOPPED", style: lineStyle("failed", "dashed") },
    { selector: ".traced", style: { "border-color": color("text"), "border-width": 2 } },
    { selector: ".dimmed", style: { opacity: 0.2 } },
  ];
}

const lineStyle = (name, line) => ({ "line-color": color(name), "target-arrow-color": color(name), "line-style": line });

export class Graph {
  constructor(open, fetchLineage) {
    this.open = open;
    this.lineage = new Lineage(fetchLineage, () => this.highlight());
    this.drawing = null;
    this.shape = "";
    this.theme = "";
    this.search = element("input", {
      type: "search",
      placeholder: "Find in the graph",
      "aria-label": "Find in the graph",
      on: { input: () => this.highlight(), keydown: (event) => event.key === "Enter" && this.openFirst() },
    });
    const button = (text, name, handler) => element("button", { type: "button", "aria-label": name, title: name, on: { click: handler } }, text);
    this.canvas = element("div", { class: "graph", role: "img", "aria-label": "Graph of jobs" });
    this.table = element("div", { class: "graph-table", hidden: true });
    this.note = element("p", { class: "quiet" }, "Drawing…");
    this.node = element(
      "section",
      {},
      element(
        "div",
        { class: "graph-tools" },
        this.search,
        button("−", "Zoom out", () => this.zoom(1 / ZOOM.step)),
        button("+", "Zoom in", () => this.zoom(ZOOM.step)),
        button("⤢", "Show all", () => this.drawing?.fit(undefined, 30)),
      ),
      this.note,
      this.lineage.node,
      element("div", { class: "graph-frame" }, this.canvas, this.table),
    );
  }

  async render(data) {
    try {
      await load();
    } catch (error) {
      this.note.textContent = error.message;
      return;
    }
    const shape = JSON.stringify([data.nodes.map((node) => node.id), data.edges.map((edge) => [edge.source, edge.target])]);
    if (shape !== this.shape) this.draw(data, shape);
    this.update(data);
  }

  draw(data, shape) {
    this.drawing?.destroy();
    this.shape = shape;
    this.drawing = globalThis.cytoscape({
      container: this.canvas,
      elements: [
        ...data.nodes.map((node) => ({ data: { ...node, text: label(node) }, classes: `${node.kind} ${node.state ?? ""}` })),
        ...data.edges.map((edge, index) => ({ data: { id: `edge ${index}`, source: edge.source, target: edge.target, text: "" } })),
      ],
      style: style(),
      minZoom: ZOOM.min,
      maxZoom: ZOOM.max,
      layout: { name: "dagre", rankDir: "LR", nodeSep: 18, rankSep: 70, padding: 30 },
    });
    this.drawing.on("tap", "node", ({ target }) => {
      if (target.data("address")) this.open(target.data("address"));
      else this.show(target);
    });
    const isLink = (node) => Boolean(node.data("address") || node.data("preview")) || this.lineage.has(node.id());
    this.drawing.on("mouseover", "node", ({ target }) => this.canvas.classList.toggle("link", isLink(target)));
    this.drawing.on("mouseout", "node", () => this.canvas.classList.remove("link"));
  }

  // States, lags and rates change without another layout.
  update(data) {
    const { drawing } = this;
    const written = notes(data);
    drawing.batch(() => {
      for (const node of data.nodes) {
        const shown = drawing.getElementById(node.id);
        shown.data({ state: node.state, lag_ms: node.lag_ms, note: written.get(node.id) ?? "" });
        for (const state of STATES) shown.toggleClass(state, state === node.state);
      }
      data.edges.forEach((edge, index) => {
        const shown = drawing.getElementById(`edge ${index}`);
        shown.data("text", edgeLabel(edge));
        for (const state of STATES) shown.toggleClass(state, state === edge.state);
      });
    });
    const theme = document.documentElement.dataset.theme;
    if (theme !== this.theme) drawing.style(style());
    this.theme = theme;
    const jobs = data.nodes.filter((node) => node.address).length;
    this.note.textContent = jobs ? `${jobs} job${jobs === 1 ? "" : "s"}. Click one to open it, or find it and press Enter. Tables show their latest rows.` : "There are no jobs yet.";
    this.canvas.setAttribute("aria-label", describe(data));
    this.lineage.update(data);
    this.highlight();
  }

  highlight() {
    const text = this.search.value.trim().toLowerCase();
    const traced = this.lineage.traced;
    this.drawing?.batch(() => {
      this.drawing.nodes().forEach((node) => {
        const isFound = !text || node.data("label").toLowerCase().includes(text);
        const columns = traced?.get(node.id());
        node.toggleClass("dimmed", !isFound || Boolean(traced && !columns));
        node.toggleClass("traced", Boolean(columns));
        const shown = label(node.data());
        node.data("text", columns?.size ? `${shown}\n${[...columns].join(", ")}` : shown);
      });
      this.drawing.edges().forEach((edge) => edge.toggleClass("dimmed", Boolean(traced) && !(traced.has(edge.data("source")) && traced.has(edge.data("target")))));
    });
  }

  // Opens the first job that is found, or else shows the first table, so that the drawing can be used without a mouse.
  openFirst() {
    const text = this.search.value.trim().toLowerCase();
    const matches = this.drawing?.nodes().filter((node) => node.data("label").toLowerCase().includes(text));
    if (!text || !matches?.length) return;
    const job = matches.filter((node) => node.data("address"))[0];
    if (job) this.open(job.data("address"));
    else this.show(matches[0]);
  }

  // The columns of a table and its latest rows.
  show(node) {
    this.lineage.choose(node.id());
    const preview = node.data("preview");
    this.table.hidden = !preview;
    if (!preview) return;
    const close = () => {
      this.table.hidden = true;
      this.search.focus();
    };
    const closing = element("button", { type: "button", class: "close", "aria-label": "Close the latest rows", on: { click: close } }, "✕");
    const rows = new Preview({ label: node.data("label"), ...preview });
    this.table.replaceChildren(closing, rows.node);
    this.table.onkeydown = ({ key }) => key === "Escape" && close();
  }

  zoom(factor) {
    const { drawing, canvas } = this;
    drawing?.zoom({ level: drawing.zoom() * factor, renderedPosition: { x: canvas.clientWidth / 2, y: canvas.clientHeight / 2 } });
  }
}

// What a screen reader says in place of the drawing; the list has the same jobs as a table.
function describe(data) {
  const names = new Map(data.nodes.map((node) => [node.id, node.label]));
  const flows = data.edges.slice(0, 50).map((edge) => `${names.get(edge.source)} to ${names.get(edge.target)}`);
  return `Graph of jobs: ${flows.join(", ") || "nothing yet"}`;
}
