// Statements that a user has run, kept by the browser. The server has put stars in the place of what may be secret.

import { element, instant } from "./dom.js";

const MAX_ENTRIES = 100;
const SECRET = /passw|\bpass\b|\bpwd\b|secret|token|credential|key/i;
const DRAFT = "headrace.worksheet.draft";

function read(storage, key) {
  try {
    return JSON.parse(storage.getItem(key));
  } catch {
    return null;
  }
}

function write(storage, key, value) {
  try {
    storage.setItem(key, JSON.stringify(value));
  } catch {
    // The storage is full or forbidden: there is no history then.
  }
}

// What the editor had when this tab left the page, unless it may have been secret.
export const readDraft = () => read(sessionStorage, DRAFT) ?? {};
export const writeDraft = (draft) => write(sessionStorage, DRAFT, SECRET.test(draft.sql) ? { ...draft, sql: "" } : draft);

export class History {
  constructor(user, choose) {
    this.key = `headrace.worksheet.history.${user}`;
    this.choose = choose;
    this.entries = read(localStorage, this.key) ?? [];
    this.list = element("ol", { class: "past" });
    this.clearButton = element("button", { type: "button", on: { click: () => this.clear() } }, "Clear the history");
    this.count = element("span", { class: "quiet" });
    const note = "Kept in this browser alone, under your name. Stars replace what may be secret.";
    this.node = element(
      "details",
      { class: "history" },
      element("summary", {}, "History ", this.count),
      element("p", { class: "quiet" }, note, " ", this.clearButton),
      this.list,
    );
    this.render();
  }

  add(entry) {
    const rest = this.entries.filter(({ sql, dialect, database }) => sql !== entry.sql || dialect !== entry.dialect || database !== entry.database);
    this.entries = [entry, ...rest].slice(0, MAX_ENTRIES);
    write(localStorage, this.key, this.entries);
    this.render();
  }

  clear() {
    this.entries = [];
    localStorage.removeItem(this.key);
    this.render();
  }

  render() {
    this.count.textContent = `(${this.entries.length})`;
    this.clearButton.hidden = !this.entries.length;
    this.list.replaceChildren(...this.entries.map((entry) => this.item(entry)));
  }

  item(entry) {
    const { sql, dialect, database, at, ok, note } = entry;
    const where = dialect === "iotdb" ? "IoTDB" : database ? `TDengine, ${database}` : "TDengine";
    return element(
      "li",
      {},
      element("button", { type: "button", title: "Put this statement into the editor", on: { click: () => this.choose(entry) } }, element("code", {}, sql)),
      element("span", { class: ok ? "quiet" : "bad" }, ok ? "✓ " : "✗ ", note),
      element("small", { class: "quiet" }, `${where}, ${instant(at)}`),
    );
  }
}
