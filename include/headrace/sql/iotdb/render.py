"""The renderer of expressions and queries of the IoTDB language. For the names of result columns see `names`."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Final

from headrace.model.expressions import Call, Cast, ColumnRef, DurationLiteral, Expression, Literal, Scalar
from headrace.model.paths import PathPattern
from headrace.model.queries import SelectItem
from headrace.model.tree_queries import (
    CompoundDuration,
    GroupByCondition,
    GroupByCount,
    GroupBySession,
    GroupByTime,
    GroupByVariation,
    IntoTarget,
    RowGrouping,
    TimeRange,
    TreeFill,
    TreeGrouping,
    TreeOrdering,
    TreeQuery,
)
from headrace.model.tree_types import TREE_TYPE_NAMES
from headrace.model.types import TIMESTAMP
from headrace.sql.iotdb.names import PRIORITIES
from headrace.sql.iotdb.words import BINARY, FOLLOWERS, LEXICAL_RULES, NEGATED, PREDICATES, UNIT_NAMES
from headrace.sql.operators import FUNCTION_POWER, SIGN
from headrace.sql.render import ExpressionRenderer

AMBIGUOUS: Final = FOLLOWERS | {"NOT", "NAN", "NOW", "NULL", "TRUE", "FALSE", "CASE", "LAST"}
"""Words that could begin something other than a path."""

FIRST_WORD: Final = re.compile(r"\w+")


class IoTDBRenderer(ExpressionRenderer):
    """Writes expressions as text that parses back to them."""

    LEXICAL_RULES = LEXICAL_RULES
    BINARY = BINARY
    PREDICATES = PREDICATES
    NEGATED = NEGATED

    def _text_and_power(self, node: Expression) -> tuple[str, int]:
        match node:
            case ColumnRef(name=name):
                return path_sql(name), FUNCTION_POWER
            case DurationLiteral(value=duration):
                return duration_sql((duration,)), FUNCTION_POWER
            case Cast(operand=Literal(value=str(text)), type=type_) if type_ == TIMESTAMP:
                return text, FUNCTION_POWER
            case Cast(operand=operand, type=type_):
                return f"CAST({self.sql(operand)} AS {TREE_TYPE_NAMES[type_.kind]})", FUNCTION_POWER
        return super()._text_and_power(node)

    def scalar_sql(self, value: Scalar) -> str:
        match value:
            case bytes():
                return f"X'{value.hex()}'"
            case float() if math.isnan(value):
                return "NaN"
        return super().scalar_sql(value)

    def _call_sql(self, call: Call) -> tuple[str, int]:
        if call.function == "not":
            return f"!{self.sql(call.arguments[0], SIGN)}", SIGN
        if call.function == "*":
            return self._product_sql(call)
        if call.function not in PRIORITIES:
            return self._function_sql(call), FUNCTION_POWER
        return super()._call_sql(call)

    def _negation_sql(self, argument: Expression) -> str:
        """Write a negation. A path that begins with a digit gets parentheses, since the sign would make it a number."""
        operand = self.sql(argument, SIGN)
        return f"-({operand})" if operand[0].isdigit() else super()._negation_sql(argument)

    def _product_sql(self, call: Call) -> tuple[str, int]:
        """Write a product. A signed right side gets parentheses, since the star before it would be a wildcard."""
        power = BINARY["*"].power
        left, right = self.sql(call.arguments[0], power), self.sql(call.arguments[1], power + 1)
        return f"{left} * {f'({right})' if right[0] in '+-' else right}", power

    def _function_sql(self, call: Call) -> str:
        if not call.arguments:
            return f"{call.function}()"
        parts = [self.sql(argument) for argument in call.arguments]
        if call.spelling == "SUBSTRING FROM":
            return f"SUBSTRING({parts[0]} FROM {' FOR '.join(parts[1:])})"
        parts += [f"{LEXICAL_RULES.quote(key)}={LEXICAL_RULES.quote(value)}" for key, value in call.attributes]
        return f"{_function_name_sql(call.spelling or call.function)}({', '.join(parts)})"


def _function_name_sql(name: str) -> str:
    return f"`{name}`" if name.upper() in (*AMBIGUOUS, "CAST") else LEXICAL_RULES.name_sql(name)


def path_sql(name: str) -> str:
    """Write a path of canonical nodes, with its first node in back quotes if it could be a keyword."""
    first = FIRST_WORD.match(name)
    if first is None or first[0].upper() not in AMBIGUOUS or (first.end() < len(name) and name[first.end()] not in ".*"):
        return name
    return f"`{first[0]}`{name[first.end() :]}"


def duration_sql(duration: CompoundDuration) -> str:
    return "".join(f"{part.count}{UNIT_NAMES[part.unit]}" for part in duration)


RENDERER: Final = IoTDBRenderer()


def expression_sql(expression: Expression) -> str:
    """Write an expression of the IoTDB language."""
    return RENDERER.sql(expression)


def query_sql(query: TreeQuery) -> str:
    parts = (
        "SELECT LAST" if query.last else "SELECT",
        ", ".join(_item_sql(item) for item in query.items),
        query.into and f"INTO {', '.join(_target_sql(target) for target in query.into)}",
        f"FROM {patterns_sql(query.prefixes)}",
        query.where and f"WHERE {RENDERER.sql(query.where)}",
        query.grouping and f"GROUP BY {_grouping_sql(query.grouping)}",
        query.having and f"HAVING {RENDERER.sql(query.having)}",
        query.order_by and f"ORDER BY {', '.join(_ordering_sql(ordering) for ordering in query.order_by)}",
        query.fill and _fill_sql(query.fill),
        *_pages_sql(query),
        query.by_device and "ALIGN BY DEVICE",
    )
    return " ".join(part for part in parts if part)


def patterns_sql(patterns: Iterable[PathPattern]) -> str:
    return ", ".join(str(pattern) for pattern in patterns)


def _item_sql(item: SelectItem) -> str:
    text = RENDERER.sql(item.expression)
    return text if item.alias is None else f"{text} AS {LEXICAL_RULES.name_sql(item.alias)}"


def _target_sql(target: IntoTarget) -> str:
    aligned = "ALIGNED " if target.aligned else ""
    return f"{aligned}{'.'.join(target.device)}({', '.join(target.measurements)})"


def _grouping_sql(grouping: TreeGrouping) -> str:
    parts = (
        grouping.time and _time_sql(grouping.time),
        grouping.rows and _rows_sql(grouping.rows),
        grouping.levels and f"LEVEL = {', '.join(str(level) for level in grouping.levels)}",
        grouping.tags and f"TAGS({', '.join(LEXICAL_RULES.name_sql(tag) for tag in grouping.tags)})",
    )
    return ", ".join(part for part in parts if part)


def _time_sql(group: GroupByTime) -> str:
    lengths = [duration_sql(length) for length in (group.interval, group.step) if length is not None]
    return f"({', '.join(([] if group.range is None else [_range_sql(group.range)]) + lengths)})"


def _range_sql(range_: TimeRange) -> str:
    ends = f"{RENDERER.sql(range_.start)}, {RENDERER.sql(range_.end)}"
    return f"({ends}]" if range_.left_open else f"[{ends})"


def _rows_sql(group: RowGrouping) -> str:
    match group:
        case GroupByVariation(expression=expression, delta=delta, ignore_null=ignore_null):
            parts = ["VARIATION", RENDERER.sql(expression), str(delta)]
        case GroupByCondition(expression=expression, keep=keep, ignore_null=ignore_null):
            operator, count = keep or (">=", 0)
            parts = ["CONDITION", RENDERER.sql(expression), f"KEEP{operator}{count}"]
        case GroupByCount(expression=expression, count=count, ignore_null=ignore_null):
            parts = ["COUNT", RENDERER.sql(expression), str(count)]
        case GroupBySession(gap=gap):
            return f"SESSION({duration_sql(gap)})"
    attribute = [] if ignore_null else ["ignoreNull=false"]
    return f"{parts[0]}({', '.join(parts[1:] + attribute)})"


def _ordering_sql(ordering: TreeOrdering) -> str:
    direction = " DESC" if ordering.descending else ""
    nulls = "" if ordering.nulls_first is None else f" NULLS {'FIRST' if ordering.nulls_first else 'LAST'}"
    return f"{RENDERER.sql(ordering.key)}{direction}{nulls}"


def _fill_sql(fill: TreeFill) -> str:
    what = fill.mode.value if fill.value is None else RENDERER.sql(fill.value)
    return f"FILL({what}{'' if fill.max_age is None else f', {duration_sql(fill.max_age)}'})"


def _pages_sql(query: TreeQuery) -> Iterable[str]:
    pages = {"LIMIT": query.limit, "OFFSET": query.offset, "SLIMIT": query.series_limit, "SOFFSET": query.series_offset}
    return (f"{word} {count}" for word, count in pages.items() if count is not None)
