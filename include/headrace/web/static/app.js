// The page: polls the server while it is visible, and shows the age of its data.

import * as server from "./api.js";
import { Detail } from "./detail.js";
import { duration, element } from "./dom.js";
import { List, snodeLinks } from "./list.js";

const POLL_MS = 2000;
const STALE_MS = 8000;
const $ = (id) => document.getElementById(id);

// Follows the theme chosen in Airflow's UI, or else the system's.
function applyTheme() {
  const stored = localStorage.getItem("theme");
  const dark = stored === "dark" || (stored !== "light" && matchMedia("(prefers-color-scheme: dark)").matches);
  document.documentElement.dataset.theme = dark ? "dark" : "light";
}

const page = { data: null, more: null, loadedAt: 0, failure: null, stream: null, detail: null };
const list = new List((label) => go({ stream: label }));

function route() {
  const query = new URLSearchParams(location.search);
  return { stream: query.get("stream"), tab: query.get("tab") };
}

function go(target, replace = false) {
  const query = new URLSearchParams(Object.entries(target).filter(([, value]) => value));
  const url = query.size ? `?${query}` : location.pathname;
  history[replace ? "replaceState" : "pushState"](null, "", url);
  updateAirflowUrl();
  enter();
}

// Mirrors the address to Airflow's outer page, so that it can be bookmarked.
function updateAirflowUrl() {
  if (window.parent === window) return;
  const outer = window.parent.location.pathname;
  const index = outer.indexOf("/plugin/headrace");
  if (index < 0) return;
  const root = outer.slice(0, index + "/plugin/headrace".length);
  window.parent.history.replaceState(window.parent.history.state, "", `${root}${location.pathname}${location.search}`);
}

function enter() {
  const { stream, tab } = route();
  if (stream !== page.stream) {
    page.stream = stream;
    page.more = null;
    page.detail = stream && new Detail({ onBack: () => go({}), onAction: confirm, loadPlan, tab, onTab: (selected) => go({ stream: page.stream, tab: selected }, true) });
    render();
    refresh();
  }
}

function currentRow() {
  return page.data?.streams.find((stream) => `${stream.database}.${stream.name}` === page.stream);
}

async function loadPlan(row) {
  try {
    return (await server.fetchPlan(row.id)).plan;
  } catch (error) {
    return error.message;
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
    const more = row ? await server.fetchStream(row.id) : null;
    if (controller.signal.aborted) return;
    page.more = more;
    page.failure = null;
    page.loadedAt = Date.now();
  } catch (error) {
    if (controller.signal.aborted) return;
    page.failure = error;
  }
  render();
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
  const row = page.stream && currentRow();
  if (!page.stream) {
    withFocusKept(list.node, () => list.render(page.data));
    if (main.firstChild !== list.node) main.replaceChildren(list.node);
  } else if (row) {
    if (!hasSelection()) withFocusKept(page.detail.node, () => page.detail.render(row, page.more, page.data.as_of));
    if (main.firstChild !== page.detail.node) main.replaceChildren(page.detail.node);
  } else {
    main.replaceChildren(missingStream());
  }
  renderFreshness();
}

// Rendering replaces the elements, so the focus is restored by position.
function withFocusKept(node, renderNode) {
  const stops = () => [...node.querySelectorAll("a, button, input")];
  const index = stops().indexOf(document.activeElement);
  renderNode();
  if (index >= 0) stops()[index]?.focus({ preventScroll: true });
}

// Rendering would clear the selection, so it waits while text is selected.
function hasSelection() {
  const selection = getSelection();
  return !selection.isCollapsed && page.detail.node.contains(selection.anchorNode);
}

function missingStream() {
  const back = (event) => {
    event.preventDefault();
    go({});
  };
  return element("section", { class: "empty" }, element("h2", {}, `Stream ${page.stream} does not exist`), element("p", {}, "It was dropped, or you have no right to read it."), element("a", { href: "?", on: { click: back } }, "← All streams"));
}

function renderNotice() {
  const box = $("notice");
  const failure = page.failure;
  box.hidden = !failure;
  if (!failure) return;
  const loggedOut = failure.status === 401;
  const message = loggedOut ? "Your session has expired. Log in to Airflow again." : failure.message;
  box.replaceChildren(element("b", {}, loggedOut ? "" : "The catalog cannot be read. "), message, failure.hint ? element("div", {}, failure.hint) : "");
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
  const confirmButton = element("button", { type: "button", class: action.action }, `${action.action[0].toUpperCase()}${action.action.slice(1)}`);
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
    element("h2", { id: "confirm-title" }, `${action.action[0].toUpperCase()}${action.action.slice(1)} ${row.database}.${row.name}?`),
    element("p", {}, action.effect),
    element("pre", {}, action.sql),
    element("p", { class: "quiet" }, "From a terminal: ", element("code", { class: "command" }, action.command)),
    failed,
    element("div", { class: "buttons" }, element("button", { type: "button", on: { click: () => dialog.close() } }, "Cancel"), confirmButton),
  );
  dialog.showModal();
}

applyTheme();
addEventListener("storage", applyTheme);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", applyTheme);
addEventListener("popstate", enter);
addEventListener("keydown", (event) => {
  if (event.key === "/" && !page.stream && document.activeElement !== list.search) {
    event.preventDefault();
    list.search.focus();
  }
});
document.addEventListener("visibilitychange", () => document.hidden || refresh());
setInterval(() => document.hidden || refresh(), POLL_MS);
setInterval(renderFreshness, 1000);
enter();
refresh();
