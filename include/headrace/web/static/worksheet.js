// The worksheet: an editor of SQL, and the results of its statements.

import { duration, element, zonePicker } from "./dom.js";
import { followTheme, updateAirflowUrl } from "./frame.js";
import * as server from "./worksheet-api.js";
import { Editor } from "./worksheet-editor.js";
import { History, readDraft, writeDraft } from "./worksheet-history.js";
import { Names } from "./worksheet-names.js";
import { countText, Results } from "./worksheet-results.js";

const CANCEL_MS = 700;
const CLOCK_MS = 200;
const NOT_CANCELED_MS = 3000;
const $ = (id) => document.getElementById(id);

function showNotice(error) {
  $("notice").hidden = !error;
  if (!error) return;
  const message = error.status === 401 ? "Your session has expired. Log in to Airflow again." : error.message;
  $("notice").replaceChildren(message, error.hint ? element("div", {}, error.hint) : "");
}

// Names a statement, so that it can be canceled. `randomUUID` exists only over HTTPS.
const randomId = () => [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");

class Worksheet {
  constructor({ user, dialect, databases }) {
    const draft = readDraft();
    this.running = null;
    this.results = new Results((job) => this.write(job));
    this.language = this.select("Language", ["tdengine", "iotdb"], ["TDengine", "IoTDB"], () => this.changeLanguage());
    this.language.value = draft.dialect ?? dialect;
    this.database = this.select("Database", [], [], () => this.editor.focus());
    this.listDatabases(databases, draft.database);
    this.databaseLabel = element("label", {}, "Database ", this.database);
    this.editor = new Editor({ context: () => this.context(), run: (all) => this.run(all) });
    this.editor.text = draft.sql ?? "";
    this.names = new Names(() => this.context(), (name) => this.editor.insert(name));
    this.history = new History(user, (entry) => this.restore(entry));
    this.runButton = this.button("▶ Run", "Run the selection, or the statement at the cursor (Ctrl+Enter)", () => this.run(false));
    this.allButton = this.button("Run all", "Run all statements, one after the other (Ctrl+Shift+Enter)", () => this.run(true));
    this.cancelButton = this.button("Cancel", "End the query that runs", () => this.cancel());
    this.status = element("p", { class: "status", role: "status" });
    this.clock = element("span", { class: "quiet clock" });
    this.changeLanguage();
    this.showRunning();
  }

  nodes() {
    const help = "Ctrl+Enter runs the selection or the statement at the cursor, Ctrl+Shift+Enter all of them. Ctrl+Space completes.";
    return [
      element(
        "div",
        { class: "tools" },
        element("label", {}, "Language ", this.language),
        this.databaseLabel,
        element("div", { class: "buttons" }, this.runButton, this.allButton, this.cancelButton),
      ),
      element("div", { class: "workplace" }, this.names.node, element("div", {}, this.editor.node, element("p", { class: "quiet help" }, help))),
      element("div", { class: "progress" }, this.status, this.clock),
      this.results.node,
      this.history.node,
    ];
  }

  select(name, values, names, changed) {
    const options = values.map((value, index) => element("option", { value }, names[index]));
    return element("select", { name: name.toLowerCase(), on: { change: changed } }, options);
  }

  button(text, title, handler) {
    return element("button", { type: "button", title, on: { click: handler } }, text);
  }

  listDatabases(names, chosen = this.database.value) {
    const options = [element("option", { value: "" }, "none"), ...names.map((name) => element("option", { value: name }, name))];
    this.database.replaceChildren(...options);
    this.database.value = names.includes(chosen) ? chosen : names.length === 1 ? names[0] : "";
  }

  context() {
    const dialect = this.language.value;
    return { dialect, database: dialect === "tdengine" ? this.database.value : "" };
  }

  // Paths of trees begin with their database.
  changeLanguage() {
    this.databaseLabel.hidden = this.language.value === "iotdb";
    this.editor.useLanguage();
    this.names.useLanguage();
  }

  // A statement that a link of the page has brought, without running it.
  take({ sql, dialect }) {
    const isOffered = [...this.language.options].some(({ value }) => value === dialect);
    this.restore({ sql, dialect: isOffered ? dialect : this.language.value, database: this.database.value });
  }

  // The statement of a job, whose name the user may want to change.
  write({ name, sql }) {
    this.editor.append(sql);
    this.editor.select(sql, name);
  }

  redraw() {
    this.results.redraw();
    this.history.render();
  }

  restore({ sql, dialect, database }) {
    this.language.value = dialect;
    this.changeLanguage();
    if ([...this.database.options].some(({ value }) => value === database)) this.database.value = database;
    this.editor.append(sql);
  }

  showRunning() {
    const isRunning = Boolean(this.running);
    this.runButton.disabled = this.allButton.disabled = isRunning;
    this.cancelButton.disabled = !isRunning;
    this.results.node.setAttribute("aria-busy", String(isRunning));
    clearInterval(this.ticking);
    this.clock.textContent = "";
    if (isRunning) this.ticking = setInterval(() => (this.clock.textContent = duration(Date.now() - this.running.began)), CLOCK_MS);
  }

  // The statements to run: of the selection, all, or the one at the cursor, each with its offset in the editor.
  async chosen(all) {
    const selection = all ? null : this.editor.selection();
    const { text, start } = selection ?? { text: this.editor.text, start: 0 };
    const parts = await server.split(text, this.context().dialect);
    const statements = parts.map((part) => {
      const [from, to] = [server.toUnits(text, part.start), server.toUnits(text, part.end)];
      return { ...part, sql: text.slice(from, to), from: start + from, to: start + to };
    });
    if (all || selection) return statements;
    const at = this.editor.cursor();
    const current = statements.findLast(({ from }) => from <= at) ?? statements[0];
    return current ? [current] : [];
  }

  async run(all) {
    if (this.running) return;
    this.running = { began: Date.now(), id: null, canceled: false };
    this.showRunning();
    this.editor.clearError();
    showNotice(null);
    this.status.textContent = "Running…";
    try {
      const statements = await this.chosen(all);
      if (!statements.length) this.status.textContent = "There is no statement to run.";
      else await this.runEach(statements);
    } catch (error) {
      this.status.textContent = "";
      showNotice(error);
    }
    this.running = null;
    const isLost = [this.cancelButton, document.body].includes(document.activeElement);
    this.showRunning();
    if (isLost) this.editor.focus();
  }

  // Stops at the first error.
  async runEach(statements) {
    const began = Date.now();
    this.results.clear();
    for (const [index, statement] of statements.entries()) {
      this.status.textContent = statements.length > 1 ? `Running statement ${index + 1} of ${statements.length}…` : "Running…";
      const outcome = await this.runOne(statement);
      this.results.add(outcome);
      if (outcome.error) {
        const left = statements.length - index - 1;
        this.status.textContent = outcome.text + (left ? ` ${left} statement${left === 1 ? " was" : "s were"} not run.` : "");
        return;
      }
      this.status.textContent = statements.length > 1 ? `${index + 1} statements run in ${duration(Date.now() - began)}` : outcome.text;
    }
  }

  async runOne(statement) {
    const { running } = this;
    const began = (running.began = Date.now());
    const context = this.context();
    running.id = randomId();
    const remember = (ok, note) => this.history.add({ sql: statement.masked, ...context, at: began, ok, note });
    try {
      const result = await server.run({ sql: statement.sql, ...context, id: running.id });
      const note = result.columns.length ? countText({ ...result, has_more: false }) : "done";
      remember(true, note);
      if (statement.use) await this.use(statement.use);
      else if (!result.columns.length) this.refreshDatabases();
      return { sql: statement.masked, job: statement.job, result, text: `${note[0].toUpperCase()}${note.slice(1)} in ${duration(Date.now() - began)}` };
    } catch (error) {
      if (error.status === 401 || error.status === undefined) throw error;
      remember(false, running.canceled ? "canceled" : (error.code ?? "failed"));
      return this.failed(statement, error, running.canceled, began);
    } finally {
      running.id = null;
    }
  }

  failed(statement, error, canceled, began) {
    const text = canceled ? `Canceled after ${duration(Date.now() - began)}.` : "The statement failed.";
    const place = error.span ? this.editor.showError(statement.sql, statement.from, error.span, error.message) : null;
    return { sql: statement.masked, error: { code: error.code, message: error.message, hint: error.hint, place }, text };
  }

  // A session ends with its statement, so the page remembers what USE chose.
  async use(name) {
    await this.refreshDatabases();
    if ([...this.database.options].some(({ value }) => value === name)) this.database.value = name;
  }

  async refreshDatabases() {
    try {
      this.listDatabases((await server.open()).databases);
    } catch {
      // The statement was run all the same; the list stays as it was.
    }
  }

  // Asks until the statement has ended, since a query may only be about to begin.
  async cancel() {
    const { running } = this;
    if (!running?.id || running.canceled) return;
    running.canceled = true;
    this.cancelButton.disabled = true;
    this.status.textContent = "Canceling…";
    const began = Date.now();
    const { id } = running;
    while (running.id === id) {
      try {
        const { canceled } = await server.cancel(id);
        if (!canceled && running.id === id && Date.now() - began > NOT_CANCELED_MS) {
          this.status.textContent = "Only queries can be canceled; this statement continues.";
        }
      } catch (error) {
        showNotice(error);
      }
      await new Promise((resolve) => setTimeout(resolve, CANCEL_MS));
    }
  }

  leave() {
    writeDraft({ sql: this.editor.text, dialect: this.language.value, database: this.database.value });
    if (this.running?.id) server.cancel(this.running.id).catch(() => {});
  }
}

function showReady({ is_ready: isReady }) {
  const text = isReady ? "✓ an snode runs the statements" : "✗ no snode is alive: statements cannot run";
  $("ready").replaceChildren(element("span", { class: isReady ? "good" : "bad" }, text));
}

function takeLinked(worksheet) {
  const linked = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
  if (!linked.sql) return;
  worksheet.take(linked);
  history.replaceState(null, "", location.pathname);
}

async function start() {
  let worksheet = null;
  $("zone").append(zonePicker(() => worksheet?.redraw()));
  followTheme(() => worksheet?.results.recolor());
  updateAirflowUrl();
  const main = $("main");
  try {
    const opened = await server.open();
    worksheet = new Worksheet(opened);
    showReady(opened);
    main.replaceChildren(...worksheet.nodes());
    takeLinked(worksheet);
    worksheet.editor.code.refresh();
    worksheet.editor.focus();
    addEventListener("pagehide", () => worksheet.leave());
    addEventListener("keydown", (event) => {
      // The editor has handled its own.
      if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey) || event.defaultPrevented) return;
      event.preventDefault();
      worksheet.run(event.shiftKey);
    });
  } catch (error) {
    main.replaceChildren();
    showNotice(error);
  }
  main.setAttribute("aria-busy", "false");
}

start();
