"""TDengine's mathematical functions and those of text, and the table of all single-row functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from headrace.compute.functions.scalars import Build, ScalarArguments, ScalarFunction, finite, number
from headrace.compute.nodes import NULL, Node, Value, bigint, call, double, either, if_, integer, string
from headrace.compute.tdengine.conversions import common_type, convert, to_whole
from headrace.compute.tdengine.decimals import opposite
from headrace.compute.tdengine.operators import arithmetic
from headrace.compute.tdengine.scalars_time import TIME_TABLE
from headrace.compute.terms import Term
from headrace.compute.types import is_text, spark_type
from headrace.model.types import BIGINT, DOUBLE, FLOATS, SIGNED, VARCHAR, DataType, TypeKind


def result_type(arguments: ScalarArguments) -> DataType:
    """Return NCHAR if an argument is NCHAR, else VARCHAR."""
    wide = any(term.type is not None and term.type.kind is TypeKind.NCHAR for term in arguments.terms)
    return DataType(TypeKind.NCHAR) if wide else VARCHAR


def text_call(function: str, arguments: ScalarArguments) -> Node:
    """Return the call of a function of Spark whose arguments are texts."""
    return call(function, *map(arguments.text, range(len(arguments.terms))))


def text_function(function: str) -> Build:
    """Return a function of texts with a text result."""
    return lambda arguments: Term(text_call(function, arguments), result_type(arguments))


def integer_function(function: str) -> Build:
    """Return a function of texts with a whole-number result."""
    return lambda arguments: Term(text_call(function, arguments).cast("bigint"), BIGINT)


def length(arguments: ScalarArguments) -> Term:
    """Build `length(x)`: the bytes of text or binary data; NCHAR has four for each character."""
    term = arguments.terms[0]
    if term.type is not None and term.type.kind is TypeKind.NCHAR:
        return Term(call("char_length", term.node).cast("bigint") * bigint(4), BIGINT)
    if term.type is not None and term.type.kind is not TypeKind.VARBINARY:
        arguments.text(0)
    return Term(call("octet_length", term.node).cast("bigint"), BIGINT)


def concat_ws(arguments: ScalarArguments) -> Term:
    separator, *values = map(arguments.text, range(len(arguments.terms)))
    joined = call("concat_ws", separator, *values)
    return Term(if_(call("coalesce", *values).is_null(), NULL, joined), result_type(arguments))


def substring(arguments: ScalarArguments) -> Term:
    """Build `substr(text, position[, length])`. Positions count from 1, negative ones from the end; at 0 the result is empty."""
    value, position = arguments.text(0), to_whole(arguments.terms[1])
    parts = [value, position.cast("int")]
    if len(arguments.terms) > 2:
        parts.append(to_whole(arguments.terms[2]).cast("int"))
    return Term(if_(position.equals(integer(0)), string(""), call("substring", *parts)), result_type(arguments))


def trim(arguments: ScalarArguments) -> Term:
    value, removed = arguments.text(0), arguments.text(1) if len(arguments.terms) > 1 else string(" ")
    side = arguments.string(2).lower() if len(arguments.terms) > 2 else "both"
    return Term(call(f"trim_{side}", removed, value), result_type(arguments))


def repeat(arguments: ScalarArguments) -> Term:
    return Term(call("repeat", arguments.text(0), to_whole(arguments.terms[1]).cast("int")), result_type(arguments))


def substring_index(arguments: ScalarArguments) -> Term:
    text, delimiter, count = arguments.text(0), arguments.text(1), to_whole(arguments.terms[2])
    return Term(call("substring_index", text, delimiter, count.cast("int")), result_type(arguments))


def characters(arguments: ScalarArguments) -> Term:
    """Build `char(code, …)`. A code is one to four bytes of UTF-8, highest byte first. NULL codes are ignored."""
    codes = [
        call("coalesce", call("unhex", call("hex", to_whole(term) & bigint(2**32 - 1))), Value(b"", "binary"))
        for term in arguments.terms
    ]
    return Term(call("make_valid_utf8", call("concat", *codes).cast("string")), VARCHAR)


def find_in_set(arguments: ScalarArguments) -> Term:
    """Build `find_in_set(text, list[, separator])`: the position in a list, 0 if it is missing."""
    separator = arguments.text(2) if len(arguments.terms) > 2 else string(",")
    position = call("position_in_list", arguments.text(0), arguments.text(1), separator)
    return Term(position.cast("bigint"), BIGINT)


def first_byte(arguments: ScalarArguments) -> Term:
    """Build `ascii(text)`: the first byte in UTF-8, 0 for empty text."""
    return Term(call("first_byte", arguments.text(0)), BIGINT)


SUBSTRING: Final = "z characters (default: all) from position y; a negative position counts from the end; empty if y is 0"
TEXT_TABLE: Final = (
    ScalarFunction("ascii", 1, 1, first_byte, "first byte of the text in UTF-8; 0 for empty text"),
    ScalarFunction("char", 1, None, characters, "text of the codes, each of one to four bytes in UTF-8; ignores NULL"),
    ScalarFunction("char_length", 1, 1, integer_function("char_length"), "number of characters"),
    ScalarFunction("concat", 2, None, text_function("concat"), "concatenation of the arguments; NULL if any argument is NULL"),
    ScalarFunction(
        "concat_ws", 3, None, concat_ws, "y, z, … joined with the separator x; ignores NULL, and is NULL if all of them are NULL"
    ),
    ScalarFunction(
        "find_in_set",
        2,
        3,
        find_in_set,
        "position of x in the list y, or 0 if it is not in the list; z is the separator (default: a comma)",
    ),
    ScalarFunction("length", 1, 1, length, "number of bytes: of NCHAR four for each character, else those in UTF-8"),
    ScalarFunction("lower", 1, 1, text_function("lower"), "x in lower case"),
    ScalarFunction("ltrim", 1, 1, text_function("ltrim"), "x without leading spaces"),
    ScalarFunction("position", 2, 2, integer_function("locate"), "position of x in y, or 0 if y does not contain x"),
    ScalarFunction("repeat", 2, 2, repeat, "x repeated y times"),
    ScalarFunction("replace", 3, 3, text_function("replace"), "x with every y replaced by z"),
    ScalarFunction("rtrim", 1, 1, text_function("rtrim"), "x without trailing spaces"),
    ScalarFunction("substr", 2, 3, substring, SUBSTRING),
    ScalarFunction("substring", 2, 3, substring, SUBSTRING),
    ScalarFunction(
        "substring_index",
        3,
        3,
        substring_index,
        "part of x before the z-th occurrence of y; if z is negative, the part after it, counted from the end",
    ),
    ScalarFunction("to_json", 1, 1, lambda text: Term(text.text(0), DataType(TypeKind.JSON)), "text converted to JSON"),
    ScalarFunction("trim", 1, 3, trim, "x without spaces, or without the specified characters, at both ends or at one end"),
    ScalarFunction("upper", 1, 1, text_function("upper"), "x in upper case"),
)


def real_function(function: str) -> Build:
    """Return a function of one number with a DOUBLE result, NULL outside its domain."""
    return lambda arguments: Term(finite(call(function, number(arguments.terms[0]))), DOUBLE)


def same_type_function(function: str) -> Build:
    """Return `abs` or `sign` in the type of the argument. They change no BOOL, which is 0 or 1."""

    def build(arguments: ScalarArguments) -> Term:
        term = arguments.terms[0]
        number(term)
        type_ = term.type or DOUBLE
        if type_.kind is TypeKind.BOOL:
            return term
        wide = "bigint" if type_.is_integer and type_.kind is not TypeKind.UBIGINT else spark_type(type_)
        return Term(call(function, term.node.cast(wide)).cast(spark_type(type_)), type_)

    return build


def absolute(arguments: ScalarArguments) -> Term:
    """Build `abs(x)` in the type of x. The least integer has no opposite in its type, and does not change."""
    term = arguments.terms[0]
    if term.type is not None and term.type.kind is TypeKind.DECIMAL:
        return Term(if_(term.node < integer(0), opposite(term), term.node), term.type)
    if term.type is None or term.type.kind not in SIGNED:
        return same_type_function("abs")(arguments)
    least, _ = term.type.integer_range()
    value = call("abs", term.node.cast("bigint")).cast(spark_type(term.type))
    return Term(if_(term.node.equals(bigint(least)), term.node, value), term.type)


def whole(function: str, x: Node) -> Node:
    """Return `ceil` or `floor` of a DOUBLE. Spark's result is a BIGINT, and numbers beyond 2^53 have no fraction."""
    return if_(call("abs", x) < double(2.0**53), call(function, x).cast("double"), x)


def integral_function(of_decimal: Callable[[Node], Node], of_double: Callable[[Node], Node]) -> Build:
    """Return a function that rounds fractions in the type of its argument. Integers do not change; DECIMAL is rounded exactly."""

    def build(arguments: ScalarArguments) -> Term:
        term = arguments.terms[0]
        number(term)
        if term.type is not None and term.type.kind not in (*FLOATS, TypeKind.DECIMAL):
            return Term(term.node, term.type)
        type_ = term.type or DOUBLE
        rounded = of_decimal(term.node) if type_.kind is TypeKind.DECIMAL else of_double(number(term))
        return Term(rounded.cast(spark_type(type_)), type_)

    return build


def round_number(arguments: ScalarArguments) -> Term:
    """Build `round(x[, digits])`. Negative digits round integers, too."""
    if len(arguments.terms) > 1 and arguments.terms[1].constant is None:
        scale = power_of_ten(arguments.terms[1])

        def apply(x: Node) -> Node:
            return call("round", x * scale, integer(0)) / scale

        return integral_function(apply, apply)(arguments)
    digits = arguments.integer(1) if len(arguments.terms) > 1 else 0
    type_ = arguments.terms[0].type
    if digits < 0 and type_ is not None and type_.is_integer:
        value = arguments.terms[0].node if type_.kind is TypeKind.UBIGINT else arguments.terms[0].node.cast("bigint")
        return Term(call("round", value, integer(digits)).try_cast(spark_type(type_)), type_)

    def round_(x: Node) -> Node:
        return call("round", x, integer(digits))

    return integral_function(round_, round_)(arguments)


def power_of_ten(digits: Term) -> Node:
    return call("power", double(10), call("floor", number(digits)))


MAX_EXPONENT: Final = 308
"""With more digits a DOUBLE stays as it is, and with fewer it becomes 0."""


def truncate_number(arguments: ScalarArguments) -> Term:
    places = arguments.terms[1]
    digits = integer(arguments.integer(1)) if places.constant else None
    scale = double(10.0 ** max(min(arguments.integer(1), MAX_EXPONENT), -MAX_EXPONENT)) if places.constant else power_of_ten(places)

    def cut_double(x: Node) -> Node:
        scaled = x * scale
        cut = if_(scaled < integer(0), whole("ceil", scaled), whole("floor", scaled)) / scale
        return if_(finite(scaled).is_null(), x, cut)

    def cut_decimal(x: Node) -> Node:
        if digits is None:
            return cut_double(x.cast("double"))
        return if_(x < integer(0), call("ceil", x, digits), call("floor", x, digits))

    return integral_function(cut_decimal, cut_double)(arguments)


def logarithm(arguments: ScalarArguments) -> Term:
    values = [call("ln", number(term)) for term in arguments.terms]
    return Term(finite(values[0] if len(values) == 1 else values[0] / values[1]), DOUBLE)


def power(arguments: ScalarArguments) -> Term:
    return Term(finite(call("power", *map(number, arguments.terms))), DOUBLE)


def extreme_function(function: str) -> Build:
    """Return a function that picks the greatest or least argument, NULL if one is NULL."""

    def build(arguments: ScalarArguments) -> Term:
        type_ = common_type([term.type for term in arguments.terms]) or DOUBLE
        values = [convert(term, type_) for term in arguments.terms]
        return Term(if_(either(*(value.is_null() for value in values)), NULL, call(function, *values)), type_)

    return build


def random(arguments: ScalarArguments) -> Term:
    return Term(call("rand", *([integer(arguments.integer(0))] if arguments.terms else [])), DOUBLE)


def checksum(arguments: ScalarArguments) -> Term:
    term = arguments.terms[0]
    return Term(call("crc32", term.node.cast("string" if term.type and not is_text(term.type) else "binary")), BIGINT)


EXTREME: Final = "argument; NULL if any argument is NULL; compared as text if any argument is text"
MATH_TABLE: Final = (
    ScalarFunction("abs", 1, 1, absolute, "absolute value; the least integer of a type does not change"),
    ScalarFunction("acos", 1, 1, real_function("acos"), "arc cosine, in radians"),
    ScalarFunction("asin", 1, 1, real_function("asin"), "arc sine, in radians"),
    ScalarFunction("atan", 1, 1, real_function("atan"), "arc tangent, in radians"),
    ScalarFunction(
        "ceil", 1, 1, integral_function(partial(call, "ceil"), partial(whole, "ceil")), "smallest integer that is at least x"
    ),
    ScalarFunction("cos", 1, 1, real_function("cos"), "cosine of x in radians"),
    ScalarFunction("crc32", 1, 1, checksum, "CRC-32 checksum"),
    ScalarFunction("degrees", 1, 1, real_function("degrees"), "radians converted to degrees"),
    ScalarFunction("exp", 1, 1, real_function("exp"), "e raised to the power x"),
    ScalarFunction(
        "floor", 1, 1, integral_function(partial(call, "floor"), partial(whole, "floor")), "largest integer that is at most x"
    ),
    ScalarFunction("greatest", 2, None, extreme_function("greatest"), f"largest {EXTREME}"),
    ScalarFunction("least", 2, None, extreme_function("least"), f"smallest {EXTREME}"),
    ScalarFunction("ln", 1, 1, logarithm, "natural logarithm"),
    ScalarFunction("log", 1, 2, logarithm, "natural logarithm, or logarithm to base y"),
    ScalarFunction(
        "mod", 2, 2, lambda arguments: arithmetic("%", *arguments.terms), "remainder of x divided by y, with the sign of x"
    ),
    ScalarFunction("pi", 0, 0, lambda _: Term(call("pi"), DOUBLE), "the number π"),
    ScalarFunction("pow", 2, 2, power, "x raised to the power y"),
    ScalarFunction("power", 2, 2, power, "x raised to the power y"),
    ScalarFunction("radians", 1, 1, real_function("radians"), "degrees converted to radians"),
    ScalarFunction("rand", 0, 1, random, "random number from 0 to 1 for each row; x is a seed"),
    ScalarFunction("round", 1, 2, round_number, "x rounded to y decimal digits (default: 0), halves away from zero"),
    ScalarFunction("sign", 1, 1, same_type_function("sign"), "sign of x: -1, 0 or 1"),
    ScalarFunction("sin", 1, 1, real_function("sin"), "sine of x in radians"),
    ScalarFunction("sqrt", 1, 1, real_function("sqrt"), "square root"),
    ScalarFunction("tan", 1, 1, real_function("tan"), "tangent of x in radians"),
    ScalarFunction("trunc", 2, 2, truncate_number, "x truncated to y decimal digits"),
    ScalarFunction("truncate", 2, 2, truncate_number, "x truncated to y decimal digits"),
)

SCALARS: Final[Mapping[str, ScalarFunction]] = {function.name: function for function in (*MATH_TABLE, *TEXT_TABLE, *TIME_TABLE)}

EXAMPLES: Final[Mapping[str, tuple[str, str]]] = {
    "abs": ("abs(-2.5)", "2.5"),
    "acos": ("acos(2)", "NULL"),
    "asin": ("asin(0)", "0"),
    "atan": ("atan(1)", "0.785398"),
    "ceil": ("ceil(-2.5)", "-2"),
    "cos": ("cos(0)", "1"),
    "crc32": ("crc32('abc')", "891568578"),
    "degrees": ("degrees(pi())", "180"),
    "exp": ("exp(1)", "2.71828"),
    "floor": ("floor(-2.5)", "-3"),
    "greatest": ("greatest(1, 3, 2)", "3"),
    "least": ("least(1, NULL)", "NULL"),
    "ln": ("ln(0)", "NULL"),
    "log": ("log(8, 2)", "3"),
    "mod": ("mod(-7, 4)", "-3"),
    "pi": ("pi()", "3.14159"),
    "pow": ("pow(2, 10)", "1024"),
    "power": ("power(4, 0.5)", "2"),
    "radians": ("radians(180)", "3.14159"),
    "round": ("round(2.345, 1)", "2.3"),
    "sign": ("sign(-2.5)", "-1"),
    "sin": ("sin(0)", "0"),
    "sqrt": ("sqrt(-1)", "NULL"),
    "tan": ("tan(0)", "0"),
    "trunc": ("trunc(-2.78, 1)", "-2.7"),
    "truncate": ("truncate(-2.78, 1)", "-2.7"),
    "ascii": ("ascii('A')", "65"),
    "char": ("char(72, 105)", "'Hi'"),
    "char_length": ("char_length('héllo')", "5"),
    "concat": ("concat('a', '-', 'b')", "'a-b'"),
    "concat_ws": ("concat_ws('-', 'a', NULL, 'b')", "'a-b'"),
    "find_in_set": ("find_in_set('b', 'a,b,c')", "2"),
    "length": ("length('héllo')", "6"),
    "lower": ("lower('Abc')", "'abc'"),
    "ltrim": ("ltrim('  a ')", "'a '"),
    "position": ("position('l' IN 'hello')", "3"),
    "repeat": ("repeat('ab', 3)", "'ababab'"),
    "replace": ("replace('hello', 'l', 'L')", "'heLLo'"),
    "rtrim": ("rtrim(' a  ')", "' a'"),
    "substr": ("substr('hello', -3, 2)", "'ll'"),
    "substring": ("substring('hello' FROM 2 FOR 3)", "'ell'"),
    "substring_index": ("substring_index('a.b.c', '.', -2)", "'b.c'"),
    "to_json": ("""to_json('{"a": 1}')->'a'""", "'1'"),
    "trim": ("trim(LEADING 'x' FROM 'xxyx')", "'yx'"),
    "upper": ("upper('Abc')", "'ABC'"),
    "dayofweek": ("dayofweek('2024-05-01')", "4"),
    "timediff": ("timediff('2024-05-01 12:00:59', '2024-05-01 12:00:00', 1m)", "0"),
    "timetruncate": ("timetruncate('2024-05-01 12:34:56', 1h)", "'2024-05-01 12:00:00'"),
    "timezone": ("timezone()", "'UTC'"),
    "to_char": ("to_char('2024-05-01 15:00:00', 'dd.mm.yyyy hh12 am')", "'01.05.2024 03 PM'"),
    "to_iso8601": ("to_iso8601('2024-05-01 12:00:00', '+02:00')", "'2024-05-01T14:00:00.000+02:00'"),
    "to_timestamp": ("to_timestamp('01.05.2024', 'dd.mm.yyyy')", "'2024-05-01 00:00:00'"),
    "to_unixtimestamp": ("to_unixtimestamp('1970-01-01T00:00:01Z')", "1000"),
    "week": ("week('2024-12-30', 3)", "1"),
    "weekday": ("weekday('2024-05-01')", "2"),
    "weekofyear": ("weekofyear('2024-12-30')", "1"),
}
"""`rand` is missing because its value is random."""
