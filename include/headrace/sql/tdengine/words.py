"""Keywords and operators of the TDengine language, as tables."""

from __future__ import annotations

from typing import Final

from headrace.sql.lexical_rules import LexicalRules
from headrace.sql.operators import AND, BITS, MEMBER, OR, PRODUCT, SUM, Operator

BARE_FUNCTIONS: Final = frozenset({"NOW", "TODAY"})
CALLABLE: Final = BARE_FUNCTIONS | {"IF"}

RESERVED: Final = CALLABLE | {
    *("ALL", "ALTER", "AND", "ANOMALY_WINDOW", "AS", "ASC", "BETWEEN", "BY", "CASE", "COUNT_WINDOW", "CREATE", "DELETE", "DESC"),
    *("DESCRIBE", "DISTINCT", "DROP", "ELSE", "END", "EVENT_WINDOW", "EVERY", "EXISTS", "EXPLAIN", "FALSE", "FILL", "FROM", "FULL"),
    *("GROUP", "HAVING", "IGNORE", "IN", "INNER", "INSERT", "INTERVAL", "INTO", "IS", "JLIMIT", "JOIN", "LEFT", "LIKE"),
    *("LIMIT", "MATCH", "NMATCH"),
    *("NOT", "NOTIFY", "NULL", "OFFSET", "ON", "OR", "ORDER", "OUTER", "PARTITION", "RANGE", "REGEXP", "RIGHT", "SELECT"),
    *("SESSION", "SET", "SHOW", "SLIDING", "SLIMIT", "SOFFSET", "STATE_WINDOW", "SUBTABLE", "TAGS", "THEN", "TRIGGER", "TRUE"),
    *("TRUE_FOR", "UNION", "USE", "USING", "VALUES", "WATERMARK", "WHEN", "WHERE"),
}
"""Words that would be ambiguous as names. TDengine reserves more, but every name it accepts is accepted here."""

ESCAPES: Final = {"n": "\n", "r": "\r", "t": "\t"}
KEPT_ESCAPES: Final = "%_x"
"""`\\%` and `\\_` belong to patterns of LIKE and `\\x` begins binary data, so the backslash stays."""

LEXICAL_RULES: Final = LexicalRules(reserved=RESERVED, escapes=ESCAPES, kept=KEPT_ESCAPES)

BINARY: Final = {
    "OR": Operator("or", OR),
    "AND": Operator("and", AND),
    "&": Operator("&", BITS),
    "|": Operator("|", BITS),
    "+": Operator("+", SUM),
    "-": Operator("-", SUM),
    "*": Operator("*", PRODUCT),
    "/": Operator("/", PRODUCT),
    "%": Operator("%", PRODUCT),
    "->": Operator("->", MEMBER),
}

PREDICATES: Final = {
    "=": "=",
    "==": "=",
    "<>": "<>",
    "!=": "<>",
    "<": "<",
    "<=": "<=",
    ">": ">",
    ">=": ">=",
    "LIKE": "like",
    "MATCH": "match",
    "REGEXP": "match",
    "NMATCH": "nmatch",
    "CONTAINS": "contains",
}

NEGATED: Final = {"LIKE": "not like", "REGEXP": "nmatch"}
