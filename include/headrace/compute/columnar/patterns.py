"""Regular expressions of Java as those of Arrow, for what both read alike."""

from __future__ import annotations

import re
from functools import cache
from itertools import count
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from headrace.compute.columnar.arrays import Values, refuse
from headrace.compute.nodes import UnsupportedError
from headrace.model.remembering import remembered

TOKEN: Final = re.compile(
    r"(?P<set>\[\^?(?:\\(?:x\{[0-9a-f]+\}|x[0-9a-fA-F]{2}|[^A-Za-z0-9]|[dwstnrf])|[^\]\[\\&])+\])"
    r"|(?P<literal>\\x\{[0-9a-f]+\}|\\x[0-9a-fA-F]{2}|\\[^A-Za-z0-9]|\\[tnrf]|[^\\\[\](){}.^$|*+?])"
    r"|(?P<class>\\[dwsDWS])|(?P<any>\.)|(?P<start>\^|\\A)|(?P<end>\$|\\z)|(?P<group>\((?:\?:|(?!\?)))|(?P<other>[)|])"
    r"|(?P<repeat>(?:[*+?]|\{[0-9]{1,3}(?:,[0-9]{0,3})?\})\??(?![+*?{]))",
    re.DOTALL,
)
FLAGS: Final = re.compile(r"\(\?(s?)(i?)(u?)\)")
BREAKS: Final = r"\n\r\x{85}\x{2028}\x{2029}"
CLASSES: Final = {r"\s": r"[ \t\n\x0B\f\r]", r"\S": r"[^ \t\n\x0B\f\r]"}
PARTS: Final = re.compile(r"\\.|\[(?:\\.|[^\]\[\\])++\]|\(\?|.", re.DOTALL)
GROUP_NAMES: Final = {True: "(?P<g>", False: "(?:"}
"""Arrow gives no groups without names."""
ENDS_IN_BREAK: Final = f"[{BREAKS}]\\z"


@remembered(1_000)
def translate(pattern: str) -> tuple[str, bool]:
    """Return Arrow's expression for one of Java's, and whether it must not be asked for texts that end in a line break.

    Raises:
        UnsupportedError: Both may mean different things.
    """
    flags = FLAGS.match(pattern)
    has_all, ignores_case, by_unicode = (bool(flag) for flag in flags.groups()) if flags else (False, False, False)
    parts, end, has_end = [], flags.end() if flags else 0, False
    while end < len(pattern):
        token = TOKEN.match(pattern, end)
        if token is None:
            raise UnsupportedError(pattern)
        end, text = token.end(), token[0]
        match token.lastgroup:
            case "any":
                text = r"(?s:.)" if has_all else f"[^{BREAKS}]"
            case "start":
                text = r"\A"
            case "end":
                has_end, text = has_end or text == "$", r"\z"
            case "class":
                text = CLASSES.get(text, text)
            case "set":
                text = text.replace(r"\s", r" \t\n\x0B\f\r")
            case "literal" if ignores_case:
                text = any_case(text, by_unicode=by_unicode)
        refuse(ignores_case and token.lastgroup == "set", pattern)
        parts.append(text)
    return "".join(parts), has_end


def any_case(literal: str, *, by_unicode: bool) -> str:
    """Return the set of the characters that Java takes for a letter: without Unicode's, only ASCII letters have a case."""
    if literal[:-1] == "\\" and literal[-1].isalpha():
        return literal
    character = chr(int(literal.strip("\\x{}"), 16)) if literal.startswith("\\x") else literal[-1]
    if not by_unicode:
        return f"[{character.lower()}{character.upper()}]" if character.isascii() and character.isalpha() else literal
    letters = same_letters().get(folded(character), [character])
    return f"[{''.join(map(written, letters))}]"


def written(character: str) -> str:
    return f"\\x{{{ord(character):x}}}"


def folded(character: str) -> str:
    """Return the lower case of the upper case of a character; Java compares these."""
    upper = next((form for form in (character.upper(), character.title()) if len(form) == 1), character)
    return upper.lower()[0]


@cache
def same_letters() -> dict[str, list[str]]:
    letters: dict[str, list[str]] = {}
    for character in map(chr, range(0x1E944)):
        if not 0xD800 <= ord(character) < 0xE000:
            letters.setdefault(folded(character), []).append(character)
    return {folded_: characters for folded_, characters in letters.items() if len(characters) > 1}


def prepared(texts: Values, pattern: Values) -> str:
    """Return Arrow's expression for a constant pattern, or raise `UnsupportedError`."""
    refuse(not isinstance(pattern, pa.Scalar) or not pattern.is_valid, "a pattern that is not constant")
    expression, has_end = translate(pattern.as_py())
    if has_end:
        refuse(pc.match_substring_regex(texts, ENDS_IN_BREAK), "a text that ends in a line break")
    return expression


def matches(texts: Values, pattern: Values) -> Values:
    """Return whether an expression matches somewhere in texts."""
    return pc.match_substring_regex(texts, prepared(texts, pattern))


def like(texts: Values, pattern: Values) -> Values:
    """Return whether texts are like a pattern, in which a backslash escapes `%`, `_` and itself."""
    refuse(not isinstance(pattern, pa.Scalar) or not pattern.is_valid, "a pattern that is not constant")
    parts = re.findall(r"\\.|.|\\\Z", pattern.as_py(), re.DOTALL)
    refuse(any(part[0] == "\\" and part[1:] not in ("%", "_", "\\") for part in parts), "a pattern that Spark refuses")
    signs = {"%": "(?s:.)*", "_": "(?s:.)"}
    expression = "".join(signs.get(part) or written(part[-1]) for part in parts)
    return pc.match_substring_regex(texts, f"\\A{expression}\\z")


def replace_matches(texts: Values, pattern: Values, replacement: Values) -> Values:
    """Return texts with other text instead of what an expression matches."""
    expression = prepared(texts, pattern)
    refuse(
        not isinstance(replacement, pa.Scalar) or re.search(r"[\\$]", new := replacement.as_py() or ""), "a replacement with groups"
    )
    # Java and Arrow part where an expression matches nothing.
    refuse(pc.match_substring_regex(pa.scalar(""), f"\\A(?:{expression})\\z"), "an expression that matches empty text")
    return pc.replace_substring_regex(texts, expression, new) if replacement.is_valid else pc.if_else(True, replacement, texts)


def extract(texts: Values, pattern: Values, group: Values) -> Values:
    """Return a group of the first match of an expression in texts, empty text without one."""
    expression, number = prepared(texts, pattern), group.as_py()
    groups = count(1)
    parts = [GROUP_NAMES[next(groups) == number] if part == "(" else part for part in PARTS.findall(expression)]
    named = "".join(parts) if number else f"(?P<g>{''.join(parts)})"
    refuse(number >= next(groups), "a group that there is not")
    found = pc.struct_field(pc.extract_regex(texts, named), ["g"])
    return pc.if_else(pc.is_null(texts), pa.scalar(None, pa.string()), pc.fill_null(found, ""))
