// Making elements and texts. Text is only ever set as text, never parsed as HTML.

export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "on") for (const [event, handler] of Object.entries(value)) made.addEventListener(event, handler);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== null && value !== undefined && value !== false) made.setAttribute(name, value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}

export function svg(tag, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

const counted = new Intl.NumberFormat();
const short = new Intl.NumberFormat(undefined, { notation: "compact", maximumFractionDigits: 1 });

export const number = (value) => (value === null || value === undefined ? "–" : counted.format(value));
export const compact = (value) => (value === null || value === undefined ? "–" : short.format(value));
export const percent = (fraction) => `${Math.floor(fraction * 1000) / 10} %`;

export function rate(perSecond) {
  if (perSecond === null || perSecond === undefined) return "–";
  return perSecond >= 10 || perSecond === 0 ? compact(Math.round(perSecond)) : perSecond.toFixed(1);
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
  let rest = Math.round(seconds);
  for (const [size, unit] of units) {
    const count = Math.floor(rest / size);
    rest -= count * size;
    if (count || parts.length) parts.push(`${count} ${unit}`);
    if (parts.length === 2) break;
  }
  return parts.join(" ");
}

// Airflow remembers the user's time zone; without it the browser's is taken.
function zone() {
  try {
    const chosen = localStorage.getItem("timezone");
    if (!chosen) return undefined;
    const name = chosen.startsWith('"') ? JSON.parse(chosen) : chosen;
    new Intl.DateTimeFormat(undefined, { timeZone: name });
    return name;
  } catch {
    return undefined;
  }
}

const shownZone = zone();
const whole = new Intl.DateTimeFormat("sv-SE", {
  dateStyle: "short",
  timeStyle: "medium",
  timeZone: shownZone,
});

export const instant = (ms) => (ms === null || ms === undefined ? "–" : whole.format(new Date(ms)));
export const zoneName = () => shownZone ?? Intl.DateTimeFormat().resolvedOptions().timeZone;
export const ago = (ms, now) => (ms === null || ms === undefined ? "–" : `${duration(Math.max(0, now - ms))} ago`);

export function time(ms) {
  if (ms === null || ms === undefined) return "–";
  return element("time", { datetime: new Date(ms).toISOString(), title: `${instant(ms)} ${zoneName()}` }, instant(ms));
}
