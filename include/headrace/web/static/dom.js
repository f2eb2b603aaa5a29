// Elements and formatting. Text is always set as text, never parsed as HTML.

export function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "on") for (const [event, handler] of Object.entries(value)) node.addEventListener(event, handler);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

export function svg(tag, attributes = {}, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

const exactFormat = new Intl.NumberFormat();
const compactFormat = new Intl.NumberFormat(undefined, { notation: "compact", maximumFractionDigits: 1 });

export const number = (value) => (value === null || value === undefined ? "–" : exactFormat.format(value));
export const compact = (value) => (value === null || value === undefined ? "–" : compactFormat.format(value));
export const bytes = (value) => (value === null || value === undefined ? "–" : `${compact(value)}B`);
export const actionLabel = ({ label }) => label[0].toUpperCase() + label.slice(1).replaceAll("-", " ");
export const percent = (fraction) => `${Math.floor(fraction * 1000) / 10} %`;

export function rate(perSecond) {
  if (perSecond === null || perSecond === undefined) return "–";
  if (perSecond >= 10 || perSecond === 0) return compact(Math.round(perSecond));
  return perSecond >= 0.1 ? perSecond.toFixed(1) : String(Number(perSecond.toPrecision(1)));
}

export function duration(ms) {
  if (ms === null || ms === undefined) return "–";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const seconds = ms / 1000;
  if (seconds < 60) return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
  const units = [
    [86400, "d"],
    [3600, "h"],
    [60, "m"],
    [1, "s"],
  ];
  const parts = [];
  let remainder = Math.round(seconds);
  for (const [size, unit] of units) {
    const count = Math.floor(remainder / size);
    remainder -= count * size;
    if (count || parts.length) parts.push(`${count} ${unit}`);
    if (parts.length === 2) break;
  }
  return parts.join(" ");
}

// A length of a schedule in full, e.g. "1 h 30 m".
export function length(ms) {
  const units = [
    [86400000, "d"],
    [3600000, "h"],
    [60000, "m"],
    [1000, "s"],
    [1, "ms"],
  ];
  const parts = [];
  let remainder = ms;
  for (const [size, unit] of units) {
    const count = Math.floor(remainder / size);
    remainder -= count * size;
    if (count) parts.push(`${count} ${unit}`);
  }
  return parts.join(" ") || "0 s";
}

// The time zone: the one chosen on the page, else the one chosen in Airflow's UI, else the browser's.
const OWN_ZONE = "headrace.timezone";
const AIRFLOW_ZONE = "timezone";

function storedZone(key) {
  try {
    const stored = localStorage.getItem(key);
    if (!stored) return null;
    const name = stored.startsWith('"') ? JSON.parse(stored) : stored;
    new Intl.DateTimeFormat(undefined, { timeZone: name });
    return name;
  } catch {
    return null;
  }
}

const browserZone = () => Intl.DateTimeFormat().resolvedOptions().timeZone;
const defaultZone = () => storedZone(AIRFLOW_ZONE) ?? browserZone();
let zone, instantFormat, offsetFormat;

function useZone(name) {
  zone = name;
  instantFormat = new Intl.DateTimeFormat("sv-SE", { dateStyle: "short", timeStyle: "medium", timeZone: zone });
  offsetFormat = new Intl.DateTimeFormat("en-US", { timeZone: zone, timeZoneName: "shortOffset" });
}

useZone(storedZone(OWN_ZONE) ?? defaultZone());

export const zoneName = () => zone;
const offset = (date) => offsetFormat.formatToParts(date).find(({ type }) => type === "timeZoneName").value.replace(/^GMT(\+0$)?/, "UTC");

// Without the zone, for a time below a heading that names it.
export const localInstant = (ms) => (ms === null || ms === undefined ? "–" : instantFormat.format(new Date(ms)));
export const instant = (ms) => (ms === null || ms === undefined ? "–" : `${localInstant(ms)} ${offset(new Date(ms))}`);
export const ago = (ms, now) => (ms === null || ms === undefined ? "–" : `${duration(Math.max(0, now - ms))} ago`);

// The instant of a wall time, such as "2026-03-01T10:00", in the zone.
export function zonedInstant(text) {
  const wall = Date.parse(`${text}Z`);
  const shift = (ms) => Date.parse(`${localInstant(ms).replace(" ", "T")}Z`) - ms;
  return wall - shift(wall - shift(wall));
}

const timeElement = (ms, text) =>
  ms === null || ms === undefined ? "–" : element("time", { datetime: new Date(ms).toISOString(), title: `${localInstant(ms)} ${zone}` }, text);
export const time = (ms) => timeElement(ms, instant(ms));
export const localTime = (ms) => timeElement(ms, localInstant(ms));

// Lets the user choose the zone of all times; `changed` draws them again.
export function zonePicker(changed) {
  const names = [...new Set(["UTC", ...Intl.supportedValuesOf("timeZone")])];
  const chosen = storedZone(OWN_ZONE);
  const option = (value, text) => element("option", { value, selected: value === (chosen ?? "") }, text);
  const choose = ({ target }) => {
    try {
      if (target.value) localStorage.setItem(OWN_ZONE, target.value);
      else localStorage.removeItem(OWN_ZONE);
    } catch {
      // The storage is forbidden: the choice lasts until the page is left.
    }
    useZone(target.value || defaultZone());
    changed();
  };
  const source = storedZone(AIRFLOW_ZONE) ? "as in Airflow" : "of the browser";
  const select = element("select", { on: { change: choose } }, option("", `${defaultZone()} (${source})`), names.map((name) => option(name, name)));
  return element("label", { class: "zone" }, "Times in ", select);
}

// Rendering replaces the elements, so the focus goes to the one of the same text, or else of the same position.
export function withFocusKept(node, renderNode) {
  const stops = () => [...node.querySelectorAll("a, button, input, summary, select, [tabindex='0']")];
  const focused = document.activeElement;
  const index = stops().indexOf(focused);
  const isSameStop = (one) => one.tagName === focused.tagName && one.textContent === focused.textContent;
  renderNode();
  if (index < 0) return;
  const rendered = stops();
  const kept = isSameStop(rendered[index] ?? node) ? rendered[index] : rendered.find(isSameStop);
  (kept ?? rendered[index])?.focus({ preventScroll: true });
}
