// Colors of SQL in the editor, for both languages.

const WORDS = `add alter aligned all analyze and as asc audit backfill between boundary by case cast column compact compression connections
continuous count_window cq create database databases datatype delete desc describe device devices distinct drop else encoding
end event_window every exists explain expired false fill fill_history flush for from full function functions grant group
having if ignore in inner insert interval into is jobs join kill left like limit list match max_delay nmatch not notify null offset
on or order outer partition pass pause pipe pipes primary privileges quarantine queries query range recalculate regexp rename
replace replay reset resume revoke right role select session set show sliding slimit snode snodes soffset stable stables
state_window stop stream streams subtable table tables tags then timeseries to trigger triggers true ttl union update use user
users using values vtable vtables watermark when where window_close with write`.split(/\s+/);

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
