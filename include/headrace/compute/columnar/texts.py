"""Functions of texts over Arrow arrays, with the values that Spark's have."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable
from functools import partial
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from headrace.compute.columnar.arrays import Values, any_true, by_row, refuse
from headrace.compute.columnar.patterns import extract, like, matches, replace_matches

MAX_REPEATED: Final = 1 << 20
SAME_CASES: Final = re.compile(
    r"[\x00-\u017f\u0370-\u03a2\u03a4-\u052f\u0590-\u109f\u2000-\u206f\u2e80-\ua63f\uac00-\ud7a3\U0001f000-\U0001faff]*"
)
"""Texts whose case Python and Java change alike. Other letters depend on the version of Unicode, and Σ on its neighbors."""


def change_case(ascii_only: Callable[[Values], Values], change: Callable[[str], str]) -> Callable[[Values], Values]:
    """Return `lower` or `upper`."""

    def change_text(text: str) -> str:
        refuse(SAME_CASES.fullmatch(text) is None, "a text whose case changes differently")
        return change(text)

    by_unicode = by_row(change_text, pa.string())
    return lambda texts: by_unicode(texts) if any_true(pc.invert(pc.string_is_ascii(texts))) else ascii_only(texts)


def substring(text: str, position: int, length: int = 2**31 - 1) -> str:
    """Return characters from a position on, counted from 1, or from the end if it is negative."""
    start = position - 1 if position > 0 else len(text) + position if position < 0 else 0
    return text[max(start, 0) : max(min(start + length, len(text)), 0)]


def substring_index(text: str, delimiter: str, count: int) -> str:
    """Return what is before the n-th delimiter; if n is negative, what is after it, counted from the end. They may overlap."""
    if not delimiter or not count:
        return ""
    at = -1 if count > 0 else len(text) - len(delimiter) + 1
    for _ in range(abs(count)):
        at = text.find(delimiter, at + 1) if count > 0 else text.rfind(delimiter, 0, at - 1 + len(delimiter)) if at > 0 else -1
        if at < 0:
            return text
    return text[:at] if count > 0 else text[at + len(delimiter) :]


def repeat(text: str, count: int) -> str:
    refuse(len(text) * count > MAX_REPEATED, "a long text")
    return text * count


def pad_left(text: str, length: int, padding: str) -> str:
    missing = max(length, 0) - len(text)
    if missing <= 0 or not padding:
        return text[: max(length, 0)]
    return (padding * missing)[:missing] + text


def position_in_list(text: str, members: str, separator: str) -> int:
    refuse(not separator or "\\E" in separator, "a separator that Java reads as an expression")
    listed = members.split(separator)
    return listed.index(text) + 1 if text in listed else 0


def strcmp(left: str, right: str) -> int:
    if left and right:
        for one, other in zip(left, right, strict=False):
            if one != other:
                return ord(one) - ord(other)
    return len(left) - len(right)


def surround(text: str, new: str) -> str:
    return new + "".join(character + new for character in text)


def decode(data: bytes, charset: str) -> str:
    refuse(charset != "ISO-8859-1", charset)
    return data.decode("latin-1")


def has_member(text: str, name: str) -> bool:
    """Return whether a JSON object has a member. Raise `UnsupportedError` for other texts, which Spark judges."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    refuse(not isinstance(value, dict), "a text that is no JSON object")
    return name in (value or {})


def join(*values: Values) -> Values:
    empty = pa.scalar("" if pa.types.is_string(values[0].type) else b"", values[0].type)
    return pc.binary_join_element_wise(*values, empty, null_handling="emit_null")


def join_with(separator: Values, *texts: Values) -> Values:
    """Return texts that are not NULL, with a separator between them."""
    # Arrow leaves out rows in which all texts are NULL.
    first = pc.if_else(pc.is_null(pc.coalesce(*texts)), pa.scalar("", TEXT), texts[0])
    return pc.binary_join_element_wise(first, *texts[1:], separator, null_handling="skip")


def unhex(text: str) -> bytes | None:
    try:
        return bytes.fromhex(text.rjust(len(text) + len(text) % 2, "0")) if text.isalnum() or not text else None
    except ValueError:
        return None


def left_bytes(texts: Values, limit: Values) -> Values:
    if not any_true(pc.greater(pc.binary_length(texts), limit)):
        return texts
    return by_row(lambda text, count: text.encode()[: max(count, 0)].decode(errors="ignore"), TEXT)(texts, limit)


TEXT, INT, LONG, BOOL = pa.string(), pa.int32(), pa.int64(), pa.bool_()
find = by_row(lambda text, part: text.find(part) + 1, INT)
TEXT_FUNCTIONS: Final[dict[str, tuple[str, Callable[..., Values]]]] = {
    "lower": ("t", change_case(pc.ascii_lower, str.lower)),
    "upper": ("t", change_case(pc.ascii_upper, str.upper)),
    "concat": ("c", join),
    "concat_ws": ("t", join_with),
    "char_length": ("t", pc.utf8_length),
    "octet_length": ("c", lambda values: pc.cast(pc.binary_length(values), INT)),
    "left": ("ti", by_row(lambda text, length: text[: max(length, 0)], TEXT)),
    "left_bytes": ("ti", left_bytes),
    **dict.fromkeys(("substr", "substring"), ("ti", by_row(substring, TEXT))),
    "substring_index": ("tti", by_row(substring_index, TEXT)),
    "replace": ("t", by_row(lambda text, old, new: text.replace(old, new) if old else text, TEXT)),
    "trim": ("t", partial(pc.utf8_trim, characters=" ")),
    "ltrim": ("t", partial(pc.utf8_ltrim, characters=" ")),
    "rtrim": ("t", partial(pc.utf8_rtrim, characters=" ")),
    "trim_both": ("t", by_row(lambda characters, text: text.strip(characters), TEXT)),
    "trim_leading": ("t", by_row(lambda characters, text: text.lstrip(characters), TEXT)),
    "trim_trailing": ("t", by_row(lambda characters, text: text.rstrip(characters), TEXT)),
    "repeat": ("ti", by_row(repeat, TEXT)),
    "reverse": ("t", by_row(lambda text: text[::-1], TEXT)),
    "lpad": ("tit", by_row(pad_left, TEXT)),
    "instr": ("t", find),
    "locate": ("t", lambda part, text: find(text, part)),
    "contains": ("t", by_row(lambda text, part: part in text, BOOL)),
    "startswith": ("t", by_row(str.startswith, BOOL)),
    "endswith": ("t", by_row(str.endswith, BOOL)),
    "position_in_list": ("t", by_row(position_in_list, LONG)),
    "first_byte": ("t", by_row(lambda text: text.encode()[0] if text else 0, LONG)),
    "strcmp": ("t", by_row(strcmp, INT)),
    "surround": ("t", by_row(surround, TEXT)),
    "decode": ("bt", by_row(decode, TEXT)),
    "hex": ("l", by_row(lambda number: f"{number % 2**64:X}", TEXT)),
    "unhex": ("t", by_row(unhex, pa.binary())),
    "make_valid_utf8": ("t", lambda texts: texts),
    "is_valid_utf8": ("t", pc.is_valid),
    "crc32": ("c", by_row(lambda data: zlib.crc32(data.encode() if isinstance(data, str) else data), LONG)),
    "has_member": ("t", by_row(has_member, BOOL)),
    "parse_boolean": ("t", by_row(lambda text: {"true": True, "false": False}.get(text.lower()), BOOL)),
    "like": ("t", like),
    **dict.fromkeys(("matches", "rlike"), ("t", matches)),
    "regexp_extract": ("tti", extract),
    "regexp_replace": ("t", replace_matches),
}
"""The types of the operands (see `OPERANDS`), the last of which holds for all that follow, and the kernel of each function."""
