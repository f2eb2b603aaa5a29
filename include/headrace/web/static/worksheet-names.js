// What statements can name: databases, their tables and the columns of these, or the nodes of trees. A click writes a name into the editor.

import { element } from "./dom.js";
import { names } from "./worksheet-api.js";

const TABLE_DEPTH = 3;
const LEVELS = ["databases", "tables", "columns"];

export class Names {
  // `context` returns the language; `insert` writes a name into the editor.
  constructor(context, insert) {
    Object.assign(this, { context, insert });
    this.list = element("ul", { class: "names-list" });
    this.again = element("button", { type: "button", on: { click: () => this.show() } }, "Load again");
    this.node = element("details", { class: "names", on: { toggle: () => this.node.open && !this.list.children.length && this.show() } }, element("summary", {}, "Names"), this.list, this.again);
    this.node.open = matchMedia("(width >= 60rem)").matches;
  }

  // Loads the names of the top.
  show() {
    return this.fill(this.list, []);
  }

  useLanguage() {
    if (this.dialect === this.context().dialect) return;
    this.dialect = this.context().dialect;
    this.list.replaceChildren();
    if (this.node.open) this.show();
  }

  async fill(list, path) {
    const { dialect } = this.context();
    list.replaceChildren(element("li", { class: "quiet", role: "status" }, "Loading…"));
    let items;
    try {
      const below = await names(dialect, path);
      if (dialect !== this.context().dialect) return;
      items = below.map((one) => this.item(one, [...path, one.name], dialect));
      if (!items.length) items = [element("li", { class: "quiet" }, dialect === "iotdb" ? "nothing below it" : `no ${LEVELS[path.length]}`)];
    } catch (error) {
      items = [element("li", { class: "bad" }, [error.message, error.hint].filter(Boolean).join(": "))];
    }
    list.replaceChildren(...items);
  }

  item({ name, text, type }, path, dialect) {
    const write = element("button", { type: "button", class: "name-text", title: `Write ${text} into the editor`, on: { click: () => this.insert(text) } }, name);
    const note = type ? element("small", { class: "quiet" }, ` ${type}`) : null;
    if (dialect !== "iotdb" && path.length === TABLE_DEPTH) return element("li", {}, write, note);
    const below = element("ul", { hidden: true });
    const toggle = element("button", { type: "button", class: "name-toggle", "aria-expanded": "false", "aria-label": `What is below ${name}` }, "▸");
    toggle.addEventListener("click", () => {
      below.hidden = !below.hidden;
      toggle.setAttribute("aria-expanded", String(!below.hidden));
      toggle.textContent = below.hidden ? "▸" : "▾";
      if (!below.hidden) this.fill(below, path);
    });
    return element("li", {}, toggle, write, below);
  }
}
