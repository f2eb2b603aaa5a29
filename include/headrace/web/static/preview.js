// The latest rows of a table, which the worksheet's route reads with the rights of the user.

import { element } from "./dom.js";
import { rowsTable } from "./worksheet-results.js";
import { run } from "./worksheet-api.js";

// The statement is after the `#`, so it is in no server's log. It is only written into the editor, not run.
export const worksheetLink = ({ sql, dialect }, text = "Open in the worksheet") =>
  element("a", { href: `worksheet.html#${new URLSearchParams({ sql, dialect })}` }, text);

// The rows of one statement with a name. The node is kept while the page around it is drawn again.
export class Preview {
  constructor({ label, sql, dialect }) {
    Object.assign(this, { sql, dialect });
    this.rows = element("div", {}, element("p", { class: "quiet", role: "status" }, "Loading the latest rows…"));
    const again = element("button", { type: "button", on: { click: () => this.load() } }, "Load again");
    const tools = element("div", { class: "preview-tools" }, element("h2", {}, `Latest rows of ${label}`), again, worksheetLink({ sql, dialect }));
    this.node = element("section", { class: "preview", "aria-label": `Latest rows of ${label}` }, tools, this.rows);
    this.load();
  }

  async load() {
    try {
      const result = await run({ sql: this.sql, dialect: this.dialect, database: "", id: "" });
      this.rows.replaceChildren(result.rows.length ? rowsTable(result, result.rows) : element("p", { class: "quiet", role: "status" }, "There are no rows yet."));
    } catch (error) {
      this.rows.replaceChildren(element("p", { class: "bad", role: "status" }, [error.message, error.hint].filter(Boolean).join(": ")));
    }
  }
}
