"""Patterns of LIKE, and POSIX extended regular expressions with the extensions of the GNU C library, as those of Java."""

from __future__ import annotations

import re
from typing import Final

MAX_REPETITIONS: Final = 32_767
NO_BREAK: Final = r"\u00a0\u2007\u202f"
VISIBLE: Final = rf"[^\p{{Cc}}\p{{Cn}}\p{{Cs}}\p{{Z}}]{NO_BREAK}"
ALPHANUMERIC: Final = r"\p{IsAlphabetic}\p{Nd}"
CLASSES: Final = {
    "alnum": ALPHANUMERIC,
    "alpha": rf"[{ALPHANUMERIC}&&[^0-9]]",
    "blank": rf"[\t\p{{Zs}}&&[^{NO_BREAK}]]",
    "cntrl": r"\p{Cc}\p{Zl}\p{Zp}",
    "digit": "0-9",
    "graph": VISIBLE,
    "lower": r"\p{IsLowercase}",
    "print": rf"{VISIBLE}\p{{Zs}}",
    "punct": rf"[{VISIBLE}&&[^{ALPHANUMERIC}]]",
    "space": rf"[\t-\r\p{{Z}}&&[^{NO_BREAK}]]",
    "upper": r"\p{IsUppercase}",
    "xdigit": "0-9A-Fa-f",
}
"""The characters of classes, for use in brackets. Spaces that break no line are punctuation."""
WORD: Final = f"[{ALPHANUMERIC}_]"
WORD_START: Final = f"(?:(?<!{WORD})(?={WORD}))"
WORD_END: Final = f"(?:(?<={WORD})(?!{WORD}))"
SETS: Final = {"w": WORD, "W": rf"(?:(?!{WORD})[\s\S])", "s": f"[{CLASSES['space']}]", "S": rf"(?:(?![{CLASSES['space']}])[\s\S])"}
"""Escapes of sets of characters."""
ANCHORS: Final = {
    "^": r"\A",
    "$": r"\z",
    r"\`": r"\A",
    r"\'": r"\z",
    r"\<": WORD_START,
    r"\>": WORD_END,
    r"\b": f"(?:{WORD_START}|{WORD_END})",
    r"\B": f"(?!{WORD_START}|{WORD_END})",
}
INTERVAL: Final = re.compile(r"\{([0-9]*+)(,?)([0-9]*+)\}")


class PatternError(ValueError):
    """A regular expression is invalid; the message says why."""


def like_regex(pattern: str, *, in_bytes: bool, ignores_case: str) -> str:
    """Return the regular expression of a pattern of LIKE, with Java's flags of what differs in case and counts as equal.

    With `in_bytes` it is one of a text that has a character for each byte.
    """
    parts = re.findall(r"\\[%_]|.", pattern, re.DOTALL)
    return f"(?s{ignores_case})\\A{''.join(like_part(part, in_bytes=in_bytes) for part in parts)}\\z"


def like_part(part: str, *, in_bytes: bool) -> str:
    if part in ("%", "_"):
        return ".*" if part == "%" else "."
    character = part[-1]
    return "".join(map(literal, character.encode().decode("latin-1") if in_bytes else character))


def literal(character: str) -> str:
    return character if character.isascii() and character.isalnum() else f"\\x{{{ord(character):x}}}"


def posix_regex(pattern: str) -> str:
    """Return Java's expression for a POSIX extended regular expression, or raise `PatternError`."""
    return PosixParser(pattern).parse()


class PosixParser:
    """A recursive-descent parser that writes Java's expressions."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.offset = 0
        self.closed_groups: set[int] = set()
        self.groups = 0

    def parse(self) -> str:
        """Return the translation of the whole pattern."""
        return self._alternatives(0)

    def _next(self) -> str:
        return self.pattern[self.offset : self.offset + 1]

    def _take(self) -> str:
        character = self._next()
        self.offset += 1
        return character

    def _alternatives(self, depth: int) -> str:
        branches = [self._branch(depth)]
        while self._next() == "|":
            self.offset += 1
            branches.append(self._branch(depth))
        return "|".join(branches)

    def _branch(self, depth: int) -> str:
        parts = []
        while self._next() not in ("", "|") and not (depth and self._next() == ")"):
            parts.append(self._repeated(depth))
        return "".join(parts)

    def _repeated(self, depth: int) -> str:
        sign = self._take()
        sign += self._take() if sign == "\\" else ""
        if sign in ANCHORS:
            return ANCHORS[sign]
        atom = self._atom(sign, depth)
        while (repetition := self._next()) in ("*", "+", "?", "{") and repetition:
            atom = f"(?:{atom}{self._interval() if repetition == '{' else self._take()})"
        return atom

    def _atom(self, sign: str, depth: int) -> str:
        match sign:
            case "*" | "+" | "?" | "{":
                raise PatternError(f"there is nothing to repeat before {sign}")
            case "\\":
                raise PatternError("it ends in a backslash")
            case "(":
                return self._group(depth)
            case "[":
                return self._brackets()
            case ".":
                return r"[^\x00]"
        if len(sign) == 2 and sign[1] in SETS:
            return SETS[sign[1]]
        if len(sign) == 2 and sign[1] in "123456789":
            return self._reference(int(sign[1]))
        return literal(sign[-1])

    def _group(self, depth: int) -> str:
        self.groups += 1
        number, inside = self.groups, self._alternatives(depth + 1)
        if self._take() != ")":
            raise PatternError("a parenthesis is not closed")
        self.closed_groups.add(number)
        return f"({inside})"

    def _reference(self, number: int) -> str:
        if number not in self.closed_groups:
            raise PatternError(f"there is no group {number}")
        return f"(?:\\{number})"

    def _interval(self) -> str:
        match = INTERVAL.match(self.pattern, self.offset)
        if match is None or not (match[1] or match[2]):
            raise PatternError("a brace begins no number of repetitions")
        self.offset = match.end()
        least = int(match[1] or 0)
        most = least if not match[2] else int(match[3]) if match[3] else None
        if max(least, most or 0) > MAX_REPETITIONS or (most is not None and most < least):
            raise PatternError(f"{match[0]} is no range of at most {MAX_REPETITIONS} repetitions")
        return f"{{{least},{'' if most is None else most}}}"

    def _brackets(self) -> str:
        is_negated = self._next() == "^"
        self.offset += is_negated
        parts, start = [], self.offset
        while self._next() != "]" or self.offset == start:
            parts.append(self._range(is_first=self.offset == start))
        self.offset += 1
        inside = f"[{''.join(parts)}]"
        return rf"(?:(?!{inside})[\s\S])" if is_negated else inside

    def _range(self, *, is_first: bool) -> str:
        """Return a class, a character or a range of characters."""
        if not is_first and self._next() == "-" and self.pattern[self.offset + 1 : self.offset + 2] != "]":
            raise PatternError("a range has no start")
        low = self._element()
        if len(low) > 1:
            return low
        if self._next() != "-" or self.pattern[self.offset + 1 : self.offset + 2] == "]":
            return literal(low)
        self.offset += 1
        high = self._element()
        if len(high) > 1 or high < low:
            raise PatternError("a range has no end after its start")
        return f"{literal(low)}-{literal(high)}"

    def _element(self) -> str:
        """Return one character, or the longer text of a class."""
        sign = self._take()
        if not sign:
            raise PatternError("a bracket is not closed")
        kind = self._next()
        if sign != "[" or kind not in (":", "=", ".") or not kind:
            return sign
        end = self.pattern.find(f"{kind}]", self.offset + 1)
        if end < 0:
            raise PatternError("a bracket is not closed")
        name = self.pattern[self.offset + 1 : end]
        self.offset = end + 2
        if kind == ":" and name in CLASSES:
            return CLASSES[name]
        if kind == ":" or len(name) != 1:
            raise PatternError(f"[{kind}{name}{kind}] is no class of characters")
        return f"[{literal(name)}]" if kind == "=" else name
