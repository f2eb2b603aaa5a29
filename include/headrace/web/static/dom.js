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

// The time zone chosen in Airflow's UI, or undefined for the browser's.
function readTimeZone() {
  try {
    const stored = localStorage.getItem("timezone");
    if (!stored) return undefined;
    const name = stored.startsWith('"') ? JSON.parse(stored) : stored;
    new Intl.DateTimeFormat(undefined, { timeZone: name });
    return name;
  } catch {
    return undefined;
  }
}

const timeZone = readTimeZone();
const instantFormat = new Intl.DateTimeFormat("sv-SE", {
  dateStyle: "short",
  timeStyle: "medium",
  timeZone,
});

export const instant = (ms) => (ms === null || ms === undefined ? "–" : instantFormat.format(new Date(ms)));
export const zoneName = () => timeZone ?? Intl.DateTimeFormat().resolvedOptions().timeZone;
export const ago = (ms, now) => (ms === null || ms === undefined ? "–" : `${duration(Math.max(0, now - ms))} ago`);

export function time(ms) {
  if (ms === null || ms === undefined) return "–";
  return element("time", { datetime: new Date(ms).toISOString(), title: `${instant(ms)} ${zoneName()}` }, instant(ms));
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
