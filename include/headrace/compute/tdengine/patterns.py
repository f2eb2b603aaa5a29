"""Formats of `to_char` and `to_timestamp` as patterns of Java's DateTimeFormatter."""

from __future__ import annotations

import re
from typing import Final

TOKENS: Final = {
    "hh24": "HH",
    "hh12": "hh",
    "hh": "hh",
    "yyyy": "yyyy",
    "yyy": "yyyy",
    "yy": "yy",
    "month": "MMMM",
    "mon": "MMM",
    "mm": "MM",
    "mi": "mm",
    "ms": "SSS",
    "us": "SSSSSS",
    "ns": "SSSSSSSSS",
    "ss": "ss",
    "day": "EEEE",
    "ddd": "DDD",
    "dy": "EEE",
    "dd": "dd",
    "am": "a",
    "pm": "a",
    "a.m.": "a",
    "p.m.": "a",
}
_TOKEN: Final = re.compile(
    "|".join([r'"(?P<quoted>[^"]*)"', *(re.escape(token) for token in sorted(TOKENS, key=len, reverse=True))]), re.IGNORECASE
)


def java_pattern(format_: str) -> str:
    """Translate the tokens of a format. Everything else is literal text."""
    parts, end = [], 0
    for match in _TOKEN.finditer(format_):
        parts.append(quote_text(format_[end : match.start()]))
        literal = match["quoted"]
        parts.append(quote_text(literal) if literal is not None else TOKENS[match[0].lower()])
        end = match.end()
    return "".join([*parts, quote_text(format_[end:])])


def quote_text(text: str) -> str:
    """Quote literal text. Punctuation needs no quotes."""
    if not any(character.isalpha() or character in "'[]{}#" for character in text):
        return text
    return "'" + text.replace("'", "''") + "'"
