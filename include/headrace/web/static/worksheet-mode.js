// Colors of SQL in the editor, for both languages.

const WORDS = `add alter aligned all analyze and as asc attributes audit backfill between boundary by case cast child column comment
compact compression connections continuous count_window cq create current database databases datatype delete desc describe device
devices distinct drop else encoding end event_window every exists explain expired false fill fill_history flush for from full function
functions grant group having if ignore in inner insert insert_window interval into is jobs join kill last left level like limit list
log match max_delay nmatch nodes not notify null offset on or order outer partition partition_by pass pause paths pipe pipes prev
primary privileges quarantine queries query range recalculate regexp rename replace replay reset resume revoke right role select
session set show sliding slimit snode snodes soffset stable stables start state_window stop stream streams subtable table tables tag
tags template then time timeseries to trigger triggers true ttl union update usage use user users using value values version view
vtable vtables watermark when where window_close with write`.split(/\s+/);

const KEYWORDS = new Set(WORDS);

// Reads on to the end of what `state.inside` names: a comment, or text in quotes.
function readInside(stream, state) {
  if (state.inside === "/*") {
    if (stream.skipTo("*/")) {
      stream.match("*/");
      state.inside = null;
    } else stream.skipToEnd();
    return "comment";
  }
  const quote = state.inside;
  while (!stream.eol()) {
    const character = stream.next();
    if (character === "\\" && state.escapes) stream.next();
    else if (character === quote && !stream.eat(quote)) {
      state.inside = null;
      break;
    }
  }
  return quote === "`" ? "variable-2" : "string";
}

export function defineMode(CodeMirror) {
  CodeMirror.defineMode("headrace", (_, { escapes }) => ({
    startState: () => ({ inside: null, escapes }),
    token(stream, state) {
      if (state.inside) return readInside(stream, state);
      if (stream.eatSpace()) return null;
      if (stream.match("/*")) {
        state.inside = "/*";
        return readInside(stream, state);
      }
      // In the IoTDB language an operand may have two signs.
      if (stream.match(escapes ? /^--/ : /^--(?=\s|$)/)) {
        stream.skipToEnd();
        return "comment";
      }
      const quote = stream.match(/^['"`]/);
      if (quote) {
        state.inside = quote[0];
        return readInside(stream, state);
      }
      if (stream.match(/^\d[\d.]*(?:[eE][+-]?\d+)?\w*/)) return "number";
      const word = stream.match(/^[\w\u0080-\uffff]+/);
      if (word) return KEYWORDS.has(word[0].toLowerCase()) ? "keyword" : stream.match(/^\s*\(/, false) ? "builtin" : null;
      stream.next();
      return null;
    },
  }));
}
