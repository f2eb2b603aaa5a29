// The statement of a job, and how each earlier version of it differs.

import { element, time } from "./dom.js";

const TAGS = { removed: "del", added: "ins" };

export function sqlPanel(sql, versions) {
  return element("div", {}, element("pre", { class: "sql" }, sql), history(versions));
}

function history(versions) {
  if (!versions.length) return null;
  const [current, ...earlier] = versions;
  return element(
    "section",
    { class: "versions", "aria-label": "Versions" },
    element("h3", {}, "Versions"),
    element("p", { class: "quiet" }, ...author(current), ", in force"),
    earlier.map(version),
    earlier.length ? null : element("p", { class: "quiet" }, "The statement has not been changed since."),
  );
}

const author = ({ number, time: since, user }) => [`Version ${number}, of `, time(since), user ? ` by ${user}` : ""];

function version(one) {
  return element(
    "details",
    {},
    element("summary", {}, ...author(one)),
    element("p", { class: "quiet" }, "What has changed since: ", element("del", {}, "removed"), ", ", element("ins", {}, "added")),
    element("pre", {}, one.changes.map(([kind, text]) => (TAGS[kind] ? element(TAGS[kind], {}, text) : text))),
  );
}
