"""The functions of IoTDB's library for text, which are expressions of Spark. Users register them by the names of their classes."""

from __future__ import annotations

import re
from typing import Final

from headrace.compute.functions.scalars import ScalarArguments
from headrace.compute.iotdb.operators import check_regexp
from headrace.compute.iotdb.scalars import TEXT_ONLY, text_row_function
from headrace.compute.iotdb.types import INT32, TEXT, Attributes, type_error
from headrace.compute.nodes import NULL, Node, call, if_, integer, spark_sql, string
from headrace.compute.terms import Term, to_string

CAPTURING_GROUP: Final = re.compile(r"\((?!\?)|\(\?<(?![=!])")
UNGROUPED: Final = re.compile(r"\\.|\[(?:\\.|[^\]\\])*+(?:\]|\\?\Z)", re.DOTALL)
"""Parts of a regular expression in which a parenthesis begins no group."""


def regex_attribute(attributes: Attributes) -> str:
    """Return the attribute `regex`. Raise `TypeMismatchError` if it is empty or invalid."""
    pattern = attributes.text("regex")
    if not pattern:
        raise type_error("regexp has to be a valid regular expression.", hint="write one, such as 'regex'=','")
    check_regexp(pattern)
    return pattern


def at_least(attributes: Attributes, name: str, default: int, minimum: int, message: str) -> int:
    """Return an integer attribute. Raise `TypeMismatchError` if it is too small."""
    value = attributes.integer(name, default)
    if value < minimum:
        raise type_error(message, hint=f"use {minimum} or more")
    return value


def match_regex(arguments: ScalarArguments) -> Term:
    """Return `REGEXMATCH`: the part of the text that matches, or one group of it."""
    attributes, x = Attributes(arguments.attributes), to_string(arguments.terms[0])
    pattern = regex_attribute(attributes)
    group = at_least(attributes, "group", 0, 0, "group index has to be a non-negative integer.")
    if group > len(CAPTURING_GROUP.findall(UNGROUPED.sub("", pattern))):
        return Term(NULL.cast("string"), TEXT)
    regex = string(pattern)
    return Term(if_(call("matches", x, regex), call("regexp_extract", x, regex, integer(group)), NULL), TEXT)


def split_by_regex(arguments: ScalarArguments) -> Term:
    """Return `REGEXSPLIT`: the number of parts, without empty ones at the end, or one of them, counted from 0."""
    attributes, x = Attributes(arguments.attributes), to_string(arguments.terms[0])
    parts = call("split", x, string(regex_attribute(attributes)))
    message = "index must a non-negative integer to fetch split results or -1 to get length."
    index = at_least(attributes, "index", -1, -1, message)
    count = if_(x.equals(string("")), integer(1), call("count_parts", parts))
    if index == -1:
        return Term(count, INT32)
    return Term(if_(integer(index) < count, call("get", parts, integer(index)), NULL), TEXT)


def replace_part(arguments: ScalarArguments) -> Term:
    """Return `STRREPLACE`: the text with some occurrences of `target` replaced."""
    attributes, x = Attributes(arguments.attributes), to_string(arguments.terms[0])
    target, new = attributes.text("target"), string(attributes.text("replace"))
    if not target:
        raise type_error("target should not be empty", hint="write what to replace, such as 'target'=','")
    return Term(join_parts(call("split", x, string(re.escape(target))), string(target), new, attributes), TEXT)


def replace_by_regex(arguments: ScalarArguments) -> Term:
    """Return `REGEXREPLACE`: the text with some matches replaced; `$1` in the replacement is a group."""
    attributes, x = Attributes(arguments.attributes), to_string(arguments.terms[0])
    regex, new = string(regex_attribute(attributes)), string(attributes.text("replace"))
    if not any(attributes.has(name) for name in ("limit", "offset", "reverse")):
        return Term(call("regexp_replace", x, regex, new), TEXT)
    match = spark_sql("get(regexp_extract_all({}, {}, 0), i - 1)", x, regex)
    return Term(join_parts(call("split", x, regex), match, call("regexp_replace", match, regex, new), attributes), TEXT)


def join_parts(parts: Node, old: Node, new: Node, attributes: Attributes) -> Node:
    """Join the parts of a text by `old`, or by `new` for the occurrences that the attributes limit, offset and reverse choose."""
    message = "limit has to be -1 for replacing all matches or non-negative integers for limited times."
    limit = at_least(attributes, "limit", -1, -1, message)
    offset = at_least(attributes, "offset", 0, 0, "offset has to be non-negative to skip first several matches.")
    number = "(size({parts}) - i)" if attributes.flag("reverse", False) else "i"
    chosen = f"{number} > {offset}" if limit == -1 else f"{number} > {offset} AND {number} <= {offset + limit}"
    pieces = f"transform({{parts}}, (part, i) -> if(i = 0, part, concat(if({chosen}, {{new}}, {{old}}), part)))"
    return spark_sql(f"array_join({pieces}, '')", parts=parts, new=new, old=old)


TEXT_FUNCTIONS: Final = {
    "org.apache.iotdb.library.string.UDTFRegexMatch": text_row_function(
        "regexmatch", match_regex, "the part of the text that matches `regex`, or its group `group`", TEXT_ONLY
    ),
    "org.apache.iotdb.library.string.UDTFRegexReplace": text_row_function(
        "regexreplace",
        replace_by_regex,
        "text with `replace` instead of matches of `regex`; all, or `limit` after `offset`, with `reverse=true` from the end",
        TEXT_ONLY,
    ),
    "org.apache.iotdb.library.string.UDTFRegexSplit": text_row_function(
        "regexsplit",
        split_by_regex,
        "number of parts between matches of `regex`, or the part `index` from 0",
        TEXT_ONLY,
    ),
    "org.apache.iotdb.library.string.UDTFStrReplace": text_row_function(
        "strreplace",
        replace_part,
        "text with `replace` instead of `target`; all, or `limit` after `offset`, with `reverse=true` from the end",
        TEXT_ONLY,
    ),
}
"""The functions by class."""
