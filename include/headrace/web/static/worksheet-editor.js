// The editor of SQL: CodeMirror, with completion by the server and errors at their place.

import { complete, toCharacters, toUnits } from "./worksheet-api.js";
import { element } from "./dom.js";
import { defineMode } from "./worksheet-mode.js";

const TYPING_PAUSE_MS = 120;
const BLUR_MS = 150;
const KIND_NAMES = { keyword: "", function: "function", database: "database", table: "table", column: "column", stream: "stream", node: "" };

export class Editor {
  // `context` returns the language and the current database; `run(all)` runs statements.
  constructor({ context, run }) {
    this.context = context;
    this.node = element("div", { class: "editor" });
    defineMode(globalThis.CodeMirror);
    this.code = globalThis.CodeMirror(this.node, {
      lineNumbers: true,
      lineWrapping: true,
      screenReaderLabel: "SQL statements",
      // Tab leaves the editor, as anywhere else on the page.
      extraKeys: {
        Tab: false,
        "Shift-Tab": false,
        "Ctrl-Enter": () => run(false),
        "Cmd-Enter": () => run(false),
        "Shift-Ctrl-Enter": () => run(true),
        "Shift-Cmd-Enter": () => run(true),
        "Ctrl-Space": () => this.suggest(),
        Esc: () => this.closeSuggestions(),
      },
    });
    // The answer to a request may come after the editor has been left. A click on a suggestion leaves it for a moment.
    this.code.on("blur", () => setTimeout(() => this.code.hasFocus() || this.closeSuggestions(), BLUR_MS));
    this.code.on("mousedown", () => this.closeSuggestions());
    this.code.on("inputRead", (_, { text, origin }) => origin === "+input" && /[\w.]$/.test(text.at(-1)) && this.suggestSoon());
    this.code.on("changes", () => this.clearError());
    new ResizeObserver(() => this.code.refresh()).observe(this.node);
    this.useLanguage();
  }

  get text() {
    return this.code.getValue();
  }

  set text(value) {
    this.code.setValue(value);
    this.code.setCursor(this.code.lastLine());
  }

  useLanguage() {
    this.code.setOption("mode", { name: "headrace", escapes: this.context().dialect === "tdengine" });
  }

  focus() {
    this.code.focus();
  }

  // Adds a statement below what is there.
  append(sql) {
    const before = this.text.trimEnd();
    const closed = !before || before.endsWith(";") ? before : `${before};`;
    this.text = closed ? `${closed}\n\n${sql}` : sql;
    this.focus();
  }

  // Writes a name in place of what is selected, with a space between two names.
  insert(name) {
    const before = this.code.getRange({ line: this.code.getCursor("from").line, ch: 0 }, this.code.getCursor("from"));
    this.code.replaceSelection(`${/[\w`]$/.test(before) ? " " : ""}${name}`);
    this.focus();
  }

  // Selects a name in a statement that the editor has.
  select(sql, name) {
    const at = this.text.lastIndexOf(sql) + sql.indexOf(name);
    this.code.setSelection(this.code.posFromIndex(at), this.code.posFromIndex(at + name.length));
  }

  // The selected text with its offset, or null.
  selection() {
    if (!this.code.somethingSelected()) return null;
    return { text: this.code.getSelection(), start: this.code.indexFromPos(this.code.getCursor("from")) };
  }

  cursor() {
    return this.code.indexFromPos(this.code.getCursor());
  }

  suggestSoon() {
    clearTimeout(this.pause);
    this.pause = setTimeout(() => this.code.hasFocus() && this.suggest(), TYPING_PAUSE_MS);
  }

  closeSuggestions() {
    clearTimeout(this.pause);
    this.asked?.abort();
    this.code.closeHint();
  }

  suggest() {
    const hint = async (code) => {
      this.asked?.abort();
      this.asked = new AbortController();
      try {
        return await this.suggestions(code, this.asked.signal);
      } catch {
        return null; // completion is a help, so its failure is not reported
      }
    };
    // While the list is open it is filtered by the editor, so it needs no other request for each letter.
    this.code.showHint({ hint, completeSingle: false, closeCharacters: /[\s()[\]{};:>,.]/ });
  }

  async suggestions(code, signal) {
    const { text } = this;
    const at = this.cursor();
    const { length, suggestions } = await complete({ sql: text, cursor: toCharacters(text, at), ...this.context() }, signal);
    if (this.text !== text || this.cursor() !== at) return null;
    const word = [...text.slice(0, at)].slice(-length || Infinity).join("");
    const from = code.posFromIndex(length ? at - word.length : at);
    return { list: suggestions.map((one) => listed(one)), from, to: code.posFromIndex(at) };
  }

  // Marks a place, given in characters of a statement that begins at `start`, and shows a message below its line.
  showError(sql, start, span, message) {
    this.clearError();
    const [first, last] = span.map((offset) => this.code.posFromIndex(start + toUnits(sql, offset)));
    const isEmpty = span[0] === span[1];
    const from = isEmpty ? this.code.posFromIndex(Math.max(0, start + toUnits(sql, span[0]) - 1)) : first;
    this.mark = this.code.markText(from, last, { className: "error-mark" });
    this.note = this.code.addLineWidget(first.line, element("div", { class: "error-note" }, message));
    this.code.setCursor(first);
    return { line: first.line + 1, column: toCharacters(this.code.getLine(first.line), first.ch) + 1 };
  }

  clearError() {
    this.mark?.clear();
    this.note?.clear();
    this.mark = this.note = null;
  }
}

function listed({ text, kind, detail }) {
  const render = (item) => item.append(element("span", {}, text), element("small", {}, detail || KIND_NAMES[kind]));
  return { text, render };
}
