// The page: polls the server while it is visible, and shows the age of its data.

import * as server from "./api.js";
import { Detail } from "./detail.js";
import { actionLabel, duration, element, withFocusKept, zonePicker } from "./dom.js";
import { followTheme, updateAirflowUrl } from "./frame.js";
import { Graph } from "./graph.js";
import { List, snodeLinks } from "./list.js";
import { jobAddress } from "./parts.js";

const POLL_MS = 2000;
const STALE_MS = 8000;
const $ = (id) => document.getElementById(id);

// `address` identifies the job of the detail page by its kind, such as { stream: name }, or is null for the list or the graph.
const page = { data: null, more: null, loadedAt: 0, failure: null, address: null, detail: null, graph: null };
const list = new List(go);

function route() {
  const query = new URLSearchParams(location.search);
  const tab = query.get("tab");
  const view = query.get("view");
  query.delete("tab");
  query.delete("view");
  const [entry] = query;
  return { address: entry ? Object.fromEntries([entry]) : null, tab, view };
}

const isSame = (one, other) => JSON.stringify(one) === JSON.stringify(other);

function go(target, replace = false) {
  const query = new URLSearchParams(Object.entries(target).filter(([, value]) => value));
  const url = query.size ? `?${query}` : location.pathname;
  history[replace ? "replaceState" : "pushState"](null, "", url);
  updateAirflowUrl();
  enter();
}

function enter() {
  const { address, tab, view } = route();
  const isGraph = view === "graph" && !address;
  if (isGraph !== Boolean(page.graph)) {
    page.graph = isGraph ? new Graph(go, server.fetchLineage) : null;
    page.address = undefined;
  }
  for (const [id, isCurrent] of Object.entries({ "view-list": !isGraph && !address, "view-graph": isGraph })) {
    if (isCurrent) $(id).setAttribute("aria-current", "page");
    else $(id).removeAttribute("aria-current");
  }
  if (!isSame(address, page.address)) {
    page.address = address;
    page.more = null;
    page.detail = address && new Detail({ onBack: () => go({}), onAction: confirm, loadPlan, loadVersions, fetchMetrics: server.fetchMetrics, fetchFlow: server.fetchFlow, fetchWindows: server.fetchWindows, fetchRights: server.fetchRights, startBackfill: server.startBackfill, tab, onTab: (selected) => go({ ...page.address, tab: selected }, true) });
    render();
    refresh();
  }
}

function currentRow() {
  return page.address && page.data?.jobs.find((job) => isSame(jobAddress(job), page.address));
}

async function loadPlan(row) {
  try {
    return await server.fetchPlan(row.id);
  } catch (error) {
    return { plan: error.message, chains: [] };
  }
}

// Without the versions, the statement is shown alone.
async function loadVersions(row) {
  try {
    return (await server.fetchVersions(row.id)).versions;
  } catch {
    return [];
  }
}

let pending = null;

async function refresh() {
  pending?.abort();
  const controller = (pending = new AbortController());
  try {
    const data = await server.fetchOverview();
    if (controller.signal.aborted) return;
    page.data = data;
    const row = currentRow();
    const more = row ? await fetchDetail(row) : null;
    const flows = page.graph ? await server.fetchGraph() : null;
    if (controller.signal.aborted) return;
    page.more = more;
    page.flows = flows;
    page.failure = null;
    page.loadedAt = Date.now();
  } catch (error) {
    if (controller.signal.aborted) return;
    page.failure = error;
  }
  render();
}

// Return a job's detail, or null if it was dropped since the list was read; the next list will not have it.
async function fetchDetail(row) {
  try {
    return await server.fetchJob(row.id);
  } catch (error) {
    if (error.status !== 404) throw error;
    return null;
  }
}

function render() {
  const main = $("main");
  main.setAttribute("aria-busy", String(!page.data && !page.failure));
  renderNotice();
  if (!page.data) {
    if (page.failure) main.replaceChildren();
    return;
  }
  $("snodes").replaceChildren(...snodeLinks(page.data));
  const row = currentRow();
  if (page.graph) {
    if (main.firstChild !== page.graph.node) main.replaceChildren(page.graph.node);
    if (page.flows) page.graph.render(page.flows);
  } else if (!page.address) {
    withFocusKept(list.node, () => list.render(page.data));
    if (main.firstChild !== list.node) main.replaceChildren(list.node);
  } else if (row) {
    if (!isInUse()) withFocusKept(page.detail.node, () => page.detail.render(row, page.more, page.data.as_of));
    if (main.firstChild !== page.detail.node) main.replaceChildren(page.detail.node);
  } else {
    main.replaceChildren(missingJob());
  }
  renderFreshness();
}

// Rendering would clear the selection, and what is being typed, so it waits.
function isInUse() {
  const selection = getSelection();
  const { activeElement } = document;
  const hasInput = activeElement.matches("input") && page.detail.node.contains(activeElement);
  return hasInput || (!selection.isCollapsed && page.detail.node.contains(selection.anchorNode));
}

function missingJob() {
  const back = (event) => {
    event.preventDefault();
    go({});
  };
  const [[parameter, name]] = Object.entries(page.address);
  const kind = Object.keys(page.data.kinds).find((kind) => page.data.kinds[kind].address === parameter) ?? "job";
  return element(
    "section",
    { class: "empty" },
    element("h2", {}, `${kind[0].toUpperCase()}${kind.slice(1)} ${name} does not exist`),
    element("p", {}, "It was dropped, or you have no right to read its DAG."),
    element("a", { href: "?", on: { click: back } }, "← All jobs"),
  );
}

function renderNotice() {
  const box = $("notice");
  const failure = page.failure;
  box.hidden = !failure;
  if (!failure) return;
  const loggedOut = failure.status === 401;
  const message = loggedOut ? "Your session has expired. Log in to Airflow again." : failure.message;
  const isCatalog = failure.status === 503;
  box.replaceChildren(element("b", {}, isCatalog ? "The catalog cannot be read. " : ""), message, failure.hint ? element("div", {}, failure.hint) : "");
}

function renderFreshness() {
  if (!page.loadedAt) return;
  const age = Date.now() - page.loadedAt;
  const stale = age > STALE_MS;
  $("freshness").classList.toggle("bad", stale);
  $("freshness").textContent = stale ? `data as of ${duration(age)} ago` : "data as of now";
  document.body.classList.toggle("stale", stale);
}

function confirm(row, action) {
  const dialog = $("confirm");
  const failed = element("p", { class: "bad", role: "alert" });
  const confirmButton = element("button", { type: "button", class: action.action }, actionLabel(action));
  confirmButton.addEventListener("click", async () => {
    confirmButton.disabled = true;
    try {
      await server.runAction(row.id, action.action, action.sql);
      dialog.close();
      if (action.action === "drop") go({});
      refresh();
    } catch (error) {
      failed.textContent = [error.message, error.hint].filter(Boolean).join(" ");
      confirmButton.disabled = false;
    }
  });
  dialog.replaceChildren(
    element("h2", { id: "confirm-title" }, `${actionLabel(action)}${action.action.includes("-") ? " of" : ""} ${row.kind} ${row.label}?`),
    element("p", {}, action.effect),
    element("pre", {}, action.sql),
    element("p", { class: "quiet" }, "From a terminal: ", element("code", { class: "command" }, action.command)),
    failed,
    element("div", { class: "buttons" }, element("button", { type: "button", on: { click: () => dialog.close() } }, "Cancel"), confirmButton),
  );
  // The button may have been drawn again since, so it is found by its action.
  dialog.onclose = () => page.detail?.node.querySelector(`.buttons .${CSS.escape(action.action)}`)?.focus();
  dialog.showModal();
}

for (const [id, target] of Object.entries({ "view-list": {}, "view-graph": { view: "graph" } })) {
  $(id).addEventListener("click", (event) => {
    event.preventDefault();
    go(target);
  });
}
// All is drawn again, with the times of another zone.
function redraw() {
  page.address = undefined;
  page.graph = null;
  enter();
}

$("zone").append(zonePicker(redraw));
followTheme();
addEventListener("popstate", enter);
addEventListener("keydown", (event) => {
  if (event.key === "/" && !page.address && !page.graph && document.activeElement !== list.search) {
    event.preventDefault();
    list.search.focus();
  }
});
document.addEventListener("visibilitychange", () => document.hidden || refresh());
setInterval(() => document.hidden || refresh(), POLL_MS);
setInterval(renderFreshness, 1000);
enter();
refresh();
