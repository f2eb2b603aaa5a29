// The page: looks at the server every two seconds while it is visible, and shows how old what it shows is.

import * as server from "./api.js";
import { Detail } from "./detail.js";
import { duration, element } from "./dom.js";
import { List, snodes } from "./list.js";

const EVERY_MS = 2000;
const STALE_MS = 8000;
const $ = (id) => document.getElementById(id);

// Airflow keeps the choice of light or dark; without one the system's counts.
function applyTheme() {
  const chosen = localStorage.getItem("theme");
  const dark = chosen === "dark" || (chosen !== "light" && matchMedia("(prefers-color-scheme: dark)").matches);
  document.documentElement.dataset.theme = dark ? "dark" : "light";
}

const page = { data: null, more: null, took: 0, failure: null, stream: null, detail: null };
const list = new List((label) => go({ stream: label }));

function route() {
  const query = new URLSearchParams(location.search);
  return { stream: query.get("stream"), tab: query.get("tab") };
}

function go(target, replace = false) {
  const query = new URLSearchParams(Object.entries(target).filter(([, value]) => value));
  const url = query.size ? `?${query}` : location.pathname;
  history[replace ? "replaceState" : "pushState"](null, "", url);
  tellAirflow();
  enter();
}

// The address of Airflow's page follows, so that it can be bookmarked.
function tellAirflow() {
  if (window.parent === window) return;
  const outer = window.parent.location.pathname;
  const place = outer.indexOf("/plugin/headrace");
  if (place < 0) return;
  const root = outer.slice(0, place + "/plugin/headrace".length);
  window.parent.history.replaceState(window.parent.history.state, "", `${root}${location.pathname}${location.search}`);
}

function enter() {
  const { stream, tab } = route();
  if (stream !== page.stream) {
    page.stream = stream;
    page.more = null;
    page.detail = stream && new Detail({ back: () => go({}), ask: confirm, loadPlan, tab, chose: (chosen) => go({ stream: page.stream, tab: chosen }, true) });
    render();
    refresh();
  }
}

function current() {
  return page.data?.streams.find((stream) => `${stream.database}.${stream.name}` === page.stream);
}

async function loadPlan(row) {
  try {
    return (await server.plan(row.id)).plan;
  } catch (error) {
    return error.message;
  }
}

let asking = null;

async function refresh() {
  asking?.abort();
  const mine = (asking = new AbortController());
  try {
    const data = await server.overview();
    if (mine.signal.aborted) return;
    page.data = data;
    const row = current();
    const more = row ? await server.stream(row.id) : null;
    if (mine.signal.aborted) return;
    page.more = more;
    page.failure = null;
    page.took = Date.now();
  } catch (error) {
    if (mine.signal.aborted) return;
    page.failure = error;
  }
  render();
}

function render() {
  const main = $("main");
  main.setAttribute("aria-busy", String(!page.data && !page.failure));
  notice();
  if (!page.data) {
    if (page.failure) main.replaceChildren();
    return;
  }
  $("snodes").replaceChildren(...snodes(page.data));
  const row = page.stream && current();
  if (!page.stream) {
    keepingFocus(list.node, () => list.render(page.data));
    if (main.firstChild !== list.node) main.replaceChildren(list.node);
  } else if (row) {
    if (!selecting()) keepingFocus(page.detail.node, () => page.detail.render(row, page.more, page.data.as_of));
    if (main.firstChild !== page.detail.node) main.replaceChildren(page.detail.node);
  } else {
    main.replaceChildren(gone());
  }
  freshness();
}

// What is rendered anew keeps the keyboard where it was.
function keepingFocus(node, render_) {
  const stops = () => [...node.querySelectorAll("a, button, input")];
  const place = stops().indexOf(document.activeElement);
  render_();
  if (place >= 0) stops()[place]?.focus({ preventScroll: true });
}

// Text that is being marked would lose its marks.
function selecting() {
  const selection = getSelection();
  return !selection.isCollapsed && page.detail.node.contains(selection.anchorNode);
}

function gone() {
  const back = (event) => {
    event.preventDefault();
    go({});
  };
  return element("section", { class: "empty" }, element("h2", {}, `There is no stream ${page.stream}`), element("p", {}, "It was dropped, or you may not see it."), element("a", { href: "?", on: { click: back } }, "← All streams"));
}

function notice() {
  const box = $("notice");
  const failure = page.failure;
  box.hidden = !failure;
  if (!failure) return;
  const ended = failure.status === 401;
  const words = ended ? "Your session has ended: log in to Airflow again." : failure.message;
  box.replaceChildren(element("b", {}, ended ? "" : "The catalog cannot be read. "), words, failure.hint ? element("div", {}, failure.hint) : "");
}

function freshness() {
  if (!page.took) return;
  const age = Date.now() - page.took;
  const stale = age > STALE_MS;
  $("freshness").classList.toggle("bad", stale);
  $("freshness").textContent = stale ? `data as of ${duration(age)} ago` : "data as of now";
  document.body.classList.toggle("stale", stale);
}

function confirm(row, action) {
  const dialog = $("confirm");
  const failed = element("p", { class: "bad", role: "alert" });
  const doIt = element("button", { type: "button", class: action.action }, `${action.action[0].toUpperCase()}${action.action.slice(1)}`);
  doIt.addEventListener("click", async () => {
    doIt.disabled = true;
    try {
      await server.act(row.id, action.action, action.sql);
      dialog.close();
      if (action.action === "drop") go({});
      refresh();
    } catch (error) {
      failed.textContent = [error.message, error.hint].filter(Boolean).join(" ");
      doIt.disabled = false;
    }
  });
  dialog.replaceChildren(
    element("h2", { id: "confirm-title" }, `${action.action[0].toUpperCase()}${action.action.slice(1)} ${row.database}.${row.name}?`),
    element("p", {}, action.effect),
    element("pre", {}, action.sql),
    element("p", { class: "quiet" }, "The same from a terminal: ", element("code", { class: "command" }, action.command)),
    failed,
    element("div", { class: "buttons" }, element("button", { type: "button", on: { click: () => dialog.close() } }, "Cancel"), doIt),
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
setInterval(() => document.hidden || refresh(), EVERY_MS);
setInterval(freshness, 1000);
enter();
refresh();
