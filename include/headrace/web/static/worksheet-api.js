// Client of the worksheet's routes. Offsets in texts are in characters there, and in UTF-16 units in JavaScript.

import { ApiError } from "./api.js";

const NUMBER_OR_STRING = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;

// Parses JSON, with integers that JavaScript cannot hold as text.
export function parseExact(text) {
  const exact = text.replace(NUMBER_OR_STRING, (token) => (/^-?\d{16,}$/.test(token) && !Number.isSafeInteger(Number(token)) ? `"${token}"` : token));
  return JSON.parse(exact);
}

async function request(path, options = {}) {
  let response;
  try {
    response = await fetch(`api/${path}`, { credentials: "same-origin", ...options });
  } catch {
    throw new ApiError(0, { message: "Airflow's API server does not respond", hint: "Check it with headrace status." });
  }
  const text = await response.text();
  let body = {};
  try {
    body = parseExact(text);
  } catch {
    if (response.ok) throw new ApiError(response.status, { message: "the answer is incomplete", hint: "Run the statement again." });
  }
  if (!response.ok) throw Object.assign(new ApiError(response.status, body), { span: body.span ?? null });
  return body;
}

const send = (path, body, options = {}) =>
  request(`worksheet/${path}`, {
    method: "POST",
    headers: { "Content-Type": "application/json", "X-Headrace-Action": path },
    body: JSON.stringify(body),
    ...options,
  });

export const names = async (dialect, path) => {
  const query = new URLSearchParams([["dialect", dialect], ...path.map((name) => ["path", name])]);
  return (await request(`worksheet/names?${query}`)).names;
};
export const open = () => request("worksheet");
export const split = async (sql, dialect) => (await send("statements", { sql, dialect })).statements;
export const complete = (body, signal) => send("complete", body, { signal });
export const run = (body) => send("run", body);
// Also sent while the page is being left.
export const cancel = (id) => send("cancel", { id }, { keepalive: true });

export const toCharacters = (text, units) => [...text.slice(0, units)].length;
export const toUnits = (text, characters) => [...text].slice(0, characters).join("").length;
