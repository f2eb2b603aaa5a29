// A result as a file of comma-separated values (RFC 4180). Times are as the server sends them, with their offset.

import { element } from "./dom.js";

function field(value) {
  if (value === null || value === undefined) return "";
  const text = typeof value === "object" ? JSON.stringify(value) : String(value);
  return /[",\r\n]/.test(text) || text !== text.trim() || text === "" ? `"${text.replaceAll('"', '""')}"` : text;
}

export function toCsv({ columns, rows }) {
  return [columns.map(({ name }) => name), ...rows].map((row) => `${row.map(field).join(",")}\r\n`).join("");
}

export function download(name, text) {
  const url = URL.createObjectURL(new Blob([text], { type: "text/csv;charset=utf-8" }));
  element("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}
