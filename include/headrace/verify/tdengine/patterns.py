"""Patterns of LIKE and MATCH as RE2's regular expressions, for patterns that are valid."""

from __future__ import annotations

import re
from typing import Final

from headrace.verify.values import unsupported

SPACES: Final = r"\t-\r \x{1680}\x{2000}-\x{2006}\x{2008}-\x{200a}\x{2028}\x{2029}\x{205f}\x{3000}"
CLASSES: Final = {
    "alnum": r"\p{L}\p{Nd}",
    "alpha": r"\p{L}",
    "digit": "0-9",
    "lower": r"\p{Ll}",
    "punct": r"!-/:-@\[-`{-~\p{P}\p{S}",
    "space": SPACES,
    "upper": r"\p{Lu}",
    "xdigit": "0-9A-Fa-f",
}
ESCAPES: Final = {"w": r"[\p{L}\p{Nd}_]", "W": r"[^\p{L}\p{Nd}_]", "s": f"[{SPACES}]", "S": f"[^{SPACES}]", "`": r"\A", "'": r"\z"}
SIGNS: Final = {"^": r"\A", "$": r"\z", ".": r"[^\x00]", "(": "(?:", "|": "|"}
TOKEN: Final = re.compile(r"\\.|\[\^?\]?(?:\[[:.=].*?[:.=]\]|[^\]])*\]|[*+?]|\{[^}]*\}|.", re.DOTALL)
MEMBER: Final = re.compile(r"\[:(\w+):\]|\[[.=](.)[.=]\]|(.)", re.DOTALL)


def like_regex(pattern: str, *, is_national: bool) -> str:
    """Return the expression of LIKE: NCHAR has characters, VARCHAR bytes, of which only letters of ASCII differ in case."""
    tokens = re.findall(r"\\[%_]|.", pattern, re.DOTALL)
    wildcards = {"%": r"(?s:.*)", "_": r"(?s:.)" if is_national else r"\C"}
    text = "".join(wildcards.get(token) or _any_case(token[-1], is_national=is_national) for token in tokens)
    return f"(?i){text}" if is_national else text


def _any_case(character: str, *, is_national: bool) -> str:
    if is_national or not (character.isascii() and character.isalpha()):
        return re.escape(character)
    return f"[{character.lower()}{character.upper()}]"


def posix_regex(pattern: str) -> str:
    """Return the expression of MATCH."""
    parts: list[str] = []
    depth, was_repeated = 0, False
    for token in TOKEN.findall(pattern):
        is_repetition = token[0] in "*+?{" and token != "{"
        if is_repetition and was_repeated:
            raise unsupported("MATCH with a repetition that is repeated")
        depth += {"(": 1, ")": -1}.get(token, 0)
        if token == ")" and depth < 0:
            token, depth = r"\)", 0
        parts.append(token.replace("{,", "{0,") if is_repetition else _translate(token))
        was_repeated = is_repetition
    return "".join(parts)


def _translate(token: str) -> str:
    if token[0] == "[" and len(token) > 1:
        return _brackets(token)
    if token[0] != "\\":
        return token if token == ")" else SIGNS.get(token) or re.escape(token)
    if token[1] in "bB<>123456789":
        raise unsupported(f"MATCH with {token}")
    return ESCAPES.get(token[1]) or re.escape(token[1])


def _brackets(token: str) -> str:
    inside = token[2:-1] if token[1] == "^" else token[1:-1]
    parts: list[str] = []
    for match in MEMBER.finditer(inside):
        name, member, character = match.groups()
        if name:
            if name not in CLASSES:
                raise unsupported(f"MATCH with [:{name}:]")
            parts.append(CLASSES[name])
        else:
            is_range = character == "-" and parts and match.end() < len(inside)
            parts.append("-" if is_range else re.escape(member or character))
    return f"[{'^' if token[1] == '^' else ''}{''.join(parts)}]"
