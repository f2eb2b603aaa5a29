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
    """A format with its tokens translated; everything else stands for itself."""
    parts, place = [], 0
    for found in _TOKEN.finditer(format_):
        parts.append(quoted(format_[place : found.start()]))
        inside = found["quoted"]
        parts.append(quoted(inside) if inside is not None else TOKENS[found[0].lower()])
        place = found.end()
    return "".join([*parts, quoted(format_[place:])])


def quoted(text: str) -> str:
    """Text that stands for itself; punctuation needs no quotes."""
    if not any(character.isalpha() or character in "'[]{}#" for character in text):
        return text
    return "'" + text.replace("'", "''") + "'"
