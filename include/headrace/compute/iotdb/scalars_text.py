"""IoTDB's scalar functions of text."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from headrace.compute.functions.scalars import ScalarArguments, ScalarFunction
from headrace.compute.iotdb.inputs import Attributes
from headrace.compute.iotdb.operators import check_regexp
from headrace.compute.iotdb.scalars import RowFunction
from headrace.compute.iotdb.types import BOOLEAN, EXECUTION_ERROR, INT32, TEXT, TEXTUAL, type_error, type_name
from headrace.compute.nodes import NULL, Node, call, columns_of, either, if_, spark_sql, string, string_sql
from headrace.compute.terms import Term, to_string
from headrace.model.types import TypeKind

TEXT_ONLY: Final = (TypeKind.VARCHAR,)
POINT_COLUMN: Final = re.compile(r"__[sw]\d+")
"""A column of the points that a time-series function returns."""
JAVA_BLANKS: Final = r"^[\\x00-\\x20]+|[\\x00-\\x20]+$"


def contains(arguments: ScalarArguments) -> Term:
    """Return `STRING_CONTAINS`: whether the text contains the attribute `s`."""
    return Term(
        spark_sql("contains({}, {})", to_string(arguments.terms[0]), string_sql(Attributes(arguments.attributes).text("s"))),
        BOOLEAN,
    )


def matches(arguments: ScalarArguments) -> Term:
    """Return whether the whole text matches a regular expression."""
    pattern = Attributes(arguments.attributes).text("regex")
    check_regexp(pattern)
    anchored = string_sql(r"\A(?:" + pattern + r")\z")
    return Term(spark_sql("({} RLIKE {})", to_string(arguments.terms[0]), anchored), BOOLEAN)


def locate(arguments: ScalarArguments) -> Term:
    """Return where the target first occurs, or last with `reverse`, from 0; -1 if it does not."""
    attributes, x = Attributes(arguments.attributes), to_string(arguments.terms[0])
    target = attributes.text("target")
    if not attributes.flag("reverse", False):
        return Term(spark_sql("(instr({}, {}) - 1)", x, string_sql(target)), INT32)
    position = spark_sql("instr(reverse({}), {})", x, string_sql(target[::-1]))
    return Term(spark_sql("if({} = 0, -1, char_length({}) - {} + 1 - {})", position, x, position, len(target)), INT32)


def affix_function(function: str) -> Callable[[ScalarArguments], Term]:
    """Return the builder of `STARTSWITH` or `ENDSWITH`."""
    return lambda arguments: Term(
        spark_sql(
            "{}({}, {})", function, to_string(arguments.terms[0]), string_sql(Attributes(arguments.attributes).text("target"))
        ),
        BOOLEAN,
    )


def concat(arguments: ScalarArguments) -> Term:
    """Return the inputs followed by the attributes `target…`; with `series_behind` these come first. NULL is empty text.

    Of time-series functions alone, there is a result only where one has a point, as there are no other rows.
    """
    inputs = [call("coalesce", to_string(term), string("")) for term in arguments.terms]
    targets = [string(value) for name, value in arguments.attributes if name.startswith("target")]
    inputs_last = Attributes(arguments.attributes).flag("series_behind", False)
    text = call("concat", *(targets + inputs if inputs_last else inputs + targets))
    if not all(any(map(POINT_COLUMN.fullmatch, columns_of(term.node))) for term in arguments.terms):
        return Term(text, TEXT)
    return Term(if_(either(*(term.node.is_not_null() for term in arguments.terms)), text, NULL), TEXT)


def strcmp(arguments: ScalarArguments) -> Term:
    """Return the difference of the first pair of different characters, else of the lengths."""
    a, b = (to_string(term) for term in arguments.terms)
    shorter = spark_sql("least(char_length({}), char_length({}))", a, b)
    difference = spark_sql("try_element_at(filter(sequence(1, {}), i -> substr({}, i, 1) <> substr({}, i, 1)), 1)", shorter, a, b)
    lengths = spark_sql("char_length({}) - char_length({})", a, b)
    letters = spark_sql("transform(array({}), i -> ascii(substr({}, i, 1)) - ascii(substr({}, i, 1)))[0]", difference, a, b)
    return Term(spark_sql("if({} = 0, {}, coalesce({}, {}))", shorter, lengths, letters, lengths), INT32)


def text_function(template: str) -> Callable[[ScalarArguments], Term]:
    return lambda arguments: Term(spark_sql(template, to_string(arguments.terms[0])), TEXT)


def scalar_text(arguments: ScalarArguments) -> Node:
    """Return the first argument of REPLACE and SUBSTRING, which must be text."""
    term = arguments.terms[0]
    if term.type is not None and term.type.kind not in TEXTUAL:
        raise type_error(
            f"Unsupported data type {type_name(term.type)} for function {arguments.function.upper()}.",
            hint=f"cast it, as in {arguments.function}(CAST(x AS TEXT), …)",
        )
    return to_string(term)


def replace_text(arguments: ScalarArguments) -> Term:
    """Return `REPLACE(x, from, to)`; an empty `from` matches before, between and after all characters."""
    x = scalar_text(arguments)
    if arguments.terms[1].type is None:
        raise type_error(
            "Function REPLACE must specify from and to component.", hint="write REPLACE(x, 'from', 'to')", status=EXECUTION_ERROR
        )
    old, new = arguments.string(1), arguments.string(2)
    if old:
        return Term(spark_sql("replace({}, {}, {})", x, string_sql(old), string_sql(new)), TEXT)
    letters = spark_sql("filter(split({}, ''), c -> c <> '')", x)
    return Term(
        spark_sql("concat({}, array_join(transform({}, c -> concat(c, {})), ''))", string_sql(new), letters, string_sql(new)), TEXT
    )


def substring(arguments: ScalarArguments) -> Term:
    """Return `SUBSTRING(x, begin[, length])`, counted from 1; what lies before the text counts as empty."""
    x, begin = scalar_text(arguments), arguments.integer(1)
    length = arguments.integer(2) if len(arguments.terms) > 2 else None
    if begin < 0 or (length is not None and length < 0):
        raise type_error(
            "Argument exception,the scalar function [SUBSTRING] beginPosition and length must be greater than 0",
            hint="count positions from 1",
            status=EXECUTION_ERROR,
        )
    first = max(begin, 1)
    if length is None:
        return Term(spark_sql("substr({}, {})", x, first), TEXT)
    return Term(spark_sql("substr({}, {}, {})", x, first, max(begin + length - first, 0)), TEXT)


TEXT_TABLE: Final = (
    RowFunction("string_contains", 1, 1, contains, "whether the text contains the attribute `s`", accepts=TEXT_ONLY),
    RowFunction(
        "string_matches", 1, 1, matches, "whether the whole text matches the regular expression `regex`", accepts=TEXT_ONLY
    ),
    RowFunction(
        "length",
        1,
        1,
        lambda arguments: Term(spark_sql("char_length({})", to_string(arguments.terms[0])), INT32),
        "characters",
        accepts=TEXTUAL,
    ),
    RowFunction(
        "locate",
        1,
        1,
        locate,
        "where `target` begins, counted from 0, with `reverse=true` the last time; -1 if it does not occur",
        accepts=TEXTUAL,
    ),
    RowFunction("startswith", 1, 1, affix_function("startswith"), "whether the text begins with `target`", accepts=TEXTUAL),
    RowFunction("endswith", 1, 1, affix_function("endswith"), "whether the text ends with `target`", accepts=TEXTUAL),
    RowFunction(
        "concat",
        1,
        None,
        concat,
        "inputs, NULL as empty text, then the attributes `target1`, …; with `series_behind=true` these come first",
        accepts=TEXTUAL,
    ),
    RowFunction("upper", 1, 1, text_function("upper({})"), "text in capitals", accepts=TEXTUAL),
    RowFunction("lower", 1, 1, text_function("lower({})"), "text in small letters", accepts=TEXTUAL),
    RowFunction(
        "trim", 1, 1, text_function(f"regexp_replace({{}}, '{JAVA_BLANKS}', '')"), "text without blanks around it", accepts=TEXTUAL
    ),
    RowFunction("strcmp", 2, 2, strcmp, "0 of equal texts, negative if the first comes first", accepts=TEXTUAL),
    ScalarFunction("replace", 3, 3, replace_text, "text x with every y replaced by z"),
    ScalarFunction("substring", 2, 3, substring, "text x from character y on, of z characters"),
)
