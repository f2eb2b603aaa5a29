"""Tables of the words, operators, types and units of the IoTDB language."""

from __future__ import annotations

import re
from typing import ClassVar, Final

from headrace.model.instants import nanoseconds
from headrace.model.paths import RESERVED_NODES
from headrace.sql.lexical_rules import LexicalRules
from headrace.sql.operators import AND, BITS, OR, PRODUCT, SUM, Operator

NAME_CHARACTERS: Final = r"[\w:@#${}]"
DATE: Final = r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}|[0-9]{4}/[0-9]{1,2}/[0-9]{1,2}|[0-9]{4}\.[0-9]{1,2}\.[0-9]{1,2}"
TIME_OF_DAY: Final = r"[0-9]{1,2}:[0-9]{1,2}:[0-9]{1,2}(?:\.[0-9]+)?(?:[+-][0-9]{1,2}:[0-9]{1,2}|Z)?"
INSTANT: Final = rf"(?:{DATE})(?:(?:[Tt]|\s+){TIME_OF_DAY})?(?!{NAME_CHARACTERS})"
NUMBER: Final = rf"(?:[0-9]++(?:\.[0-9]*+)?+|(?<!{NAME_CHARACTERS})(?<![`*])\.[0-9]++)(?:[eE][+-]?[0-9]+)?(?!{NAME_CHARACTERS})"
DURATION: Final = re.compile(r"(?:[0-9]{1,20}(?:mo|ms|us|ns|[ywdhms]))+", re.IGNORECASE)
DURATION_PART: Final = re.compile(r"([0-9]{1,20})(mo|ms|us|ns|[ywdhms])", re.IGNORECASE)


def canonical_instant(written: str) -> str | None:
    """Return an instant with `-` in its date and two digits in its offset; None if there is no such day or hour."""
    text = re.sub(r"^([0-9]+)([-/.])([0-9]+)\2([0-9]+)", r"\1-\3-\4", written)
    text = re.sub(r"([+-])([0-9]):", r"\g<1>0\2:", text)
    return None if nanoseconds(text, "UTC") is None else text


class TreeLexis(LexicalRules):
    """Names keep their case. `--` begins a comment only before a blank, since an operand may have two signs."""

    COMMENT: ClassVar[str] = r"--(?=\s|\Z)[^\n]*|/\*.*?\*/"
    UNQUOTED: ClassVar[str] = (
        rf"(?P<instant>{INSTANT})|(?P<binary>[xX]'[^']*')|(?P<number>{NUMBER})|(?P<word>{NAME_CHARACTERS}+)"
        r"|(?P<symbol>&&|\|\||\*\*|[<>!=]=|<>|.)"
    )

    def name(self, raw: str) -> str:
        """Return the name that a word or back-quoted text denotes."""
        return raw[1:-1].replace("``", "`") if raw[0] == "`" else raw

    def name_sql(self, name: str) -> str:
        """Write a name, in back quotes if it needs them."""
        plain = PLAIN_NAME.fullmatch(name) and name.upper() not in self.reserved
        return name if plain else "`" + name.replace("`", "``") + "`"


PLAIN_NAME: Final = re.compile(r"(?![0-9]+(?:[eE][0-9]+)?$)[A-Za-z0-9_\u2E80-\u9FFF]+")
LEXICAL_RULES: Final = TreeLexis(reserved=RESERVED_NODES, escapes={})

BINARY: Final = {
    "||": Operator("or", OR),
    "|": Operator("or", OR),
    "OR": Operator("or", OR),
    "&&": Operator("and", AND),
    "&": Operator("and", AND),
    "AND": Operator("and", AND),
    "==": Operator("=", BITS),
    "=": Operator("=", BITS),
    "<>": Operator("<>", BITS),
    "!=": Operator("<>", BITS),
    "<": Operator("<", BITS),
    "<=": Operator("<=", BITS),
    ">": Operator(">", BITS),
    ">=": Operator(">=", BITS),
    "+": Operator("+", SUM),
    "-": Operator("-", SUM),
    "*": Operator("*", PRODUCT),
    "/": Operator("/", PRODUCT),
    "%": Operator("%", PRODUCT),
}
"""The renderer writes the last of several spellings. Comparisons chain, and bind tighter than LIKE, REGEXP, BETWEEN, IS and IN."""

PREDICATES: Final = {"LIKE": "like", "REGEXP": "match"}
NEGATED: Final = {"LIKE": "not like", "REGEXP": "nmatch"}

FOLLOWERS: Final = frozenset(
    (
        *("FROM", "AS", "AND", "OR", "IN", "IS", "LIKE", "REGEXP", "BETWEEN", "CONTAINS", "NOT", "WHEN", "THEN", "ELSE", "END"),
        *("INTO", "WHERE", "GROUP", "HAVING", "FILL", "ORDER", "LIMIT", "OFFSET", "SLIMIT", "SOFFSET", "ALIGN", "ASC", "DESC"),
        *("NULLS", "FOR", "WITH", "USING", "LEVEL", "TO", "WITHOUT"),
    )
)
"""Words that may follow an operand or a path; each may also be a name."""

UNITS: Final = {"y": "y", "mo": "n", "w": "w", "d": "d", "h": "h", "m": "m", "s": "s", "ms": "a", "us": "u", "ns": "b"}
"""The model's duration units by IoTDB's names."""

UNIT_NAMES: Final = {unit: name for name, unit in UNITS.items()}

ENCODINGS: Final = frozenset(
    (
        *("PLAIN", "DICTIONARY", "RLE", "DIFF", "TS_2DIFF", "BITMAP", "GORILLA_V1", "REGULAR", "GORILLA", "ZIGZAG", "FREQ"),
        *("CHIMP", "SPRINTZ", "RLBE"),
    )
)
COMPRESSIONS: Final = frozenset(("UNCOMPRESSED", "SNAPPY", "GZIP", "LZO", "SDT", "PAA", "PLA", "LZ4", "ZSTD", "LZMA2"))
