"""The parser of GROUP BY of the IoTDB language."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from headrace.model.expressions import Expression, Literal
from headrace.model.tree_queries import (
    CompoundDuration,
    GroupByCondition,
    GroupByCount,
    GroupBySession,
    GroupByTime,
    GroupByVariation,
    RowGrouping,
    TimeRange,
    TreeGrouping,
)
from headrace.sql.iotdb.expressions import TreeExpressions, is_constant
from headrace.sql.iotdb.names import result_name
from headrace.sql.queries import Fields
from headrace.sql.tokens import TokenType

ONE_WINDOW: Final = "Only one of group by time or group by variation/series/session can be supported at a time"
KEEP_OPERATORS: Final = (">", ">=", "=", "<", "<=", "!=", "<>")
ROW_GROUPS: Final = ("VARIATION", "CONDITION", "SESSION", "COUNT")


class GroupParser(TreeExpressions):
    """Parses `GROUP BY item, …`: a window by time or by rows, levels, and tags."""

    def _parse_grouping(self) -> Fields:
        start = self._index
        if not self._accept("GROUP", "BY"):
            return {}
        grouping = self._parse_group(TreeGrouping())
        while self._accept(","):
            grouping = self._parse_group(grouping)
        return {"grouping": replace(grouping, span=self._span(start))}

    def _parse_group(self, grouping: TreeGrouping) -> TreeGrouping:
        token = self._token
        word = self._accept_one("LEVEL", "TAGS", "TIME", *ROW_GROUPS)
        if word == "LEVEL":
            if grouping.levels:
                self._semantic("duplicated group by key: LEVEL", token, hint="write LEVEL = 1, 2")
            return replace(grouping, levels=self._parse_levels())
        if word == "TAGS":
            if grouping.tags:
                self._semantic("duplicated group by key: TAGS", token, hint="write TAGS(a, b)")
            return replace(grouping, tags=self._parse_group_tags())
        if grouping.time or grouping.rows:
            self._semantic(ONE_WINDOW, token, hint="leave one of them out")
        if word in ROW_GROUPS:
            return replace(grouping, rows=self._parse_rows(word))
        return replace(grouping, time=self._parse_time_group())

    def _parse_levels(self) -> tuple[int, ...]:
        self._expect_one("=", "==")
        levels = [self._parse_integer()]
        while self._peek().kind is TokenType.NUMBER and self._accept(","):
            levels.append(self._parse_integer())
        return tuple(levels)

    def _parse_group_tags(self) -> tuple[str, ...]:
        token = self._token
        tags = self._parse_items(lambda: self._parse_identifier("a tag"))
        duplicate = next((tag for at, tag in enumerate(tags) if tag in tags[:at]), None)
        if duplicate is not None:
            self._semantic(f"duplicated key in GROUP BY TAGS: {duplicate}", token, hint="name it once")
        return tags

    # Windows by time

    def _parse_time_group(self) -> GroupByTime:
        """Parse `([range,] interval [, step])`."""
        start = self._index
        self._expect("(")
        span = self._parse_time_range() if self._is_at("[", "(") else None
        if span is not None:
            self._expect(",")
        interval = self._parse_window_length("The second parameter time interval should be a positive integer.")
        step = None
        if self._accept(","):
            step = self._parse_window_length("The third parameter time slidingStep should be a positive integer.")
        self._expect(")")
        return GroupByTime(interval, step, span, self._span(start))

    def _parse_window_length(self, rule: str) -> CompoundDuration:
        token = self._token
        length = self._parse_duration_parts()
        if not any(part.count for part in length):
            self._semantic(rule, token, hint="write a duration such as 10m")
        return length

    def _parse_time_range(self) -> TimeRange:
        begin = self._index
        left_open = self._expect_one("[", "(") == "("
        start = self._parse_time_value()
        self._expect(",")
        end = self._parse_time_value()
        self._expect("]" if left_open else ")")
        if _is_before(end, start):
            text = "Start time should be smaller than endTime in GroupBy"
            self._semantic(text, self._span(begin), hint="exchange them")
        return TimeRange(start, end, left_open, self._span(begin))

    # Windows by rows

    def _parse_rows(self, word: str | None) -> RowGrouping:
        self._expect("(")
        match word:
            case "VARIATION":
                grouping = self._parse_variation()
            case "CONDITION":
                grouping = self._parse_group_condition()
            case "SESSION":
                grouping = GroupBySession(self._parse_duration_parts())
            case _:
                grouping = self._parse_count_group()
        self._expect(")")
        return grouping

    def _parse_variation(self) -> RowGrouping:
        expression = self._parse_group_expression("variation")
        delta = 0.0
        if self._peek().kind is TokenType.NUMBER and self._accept(","):
            delta = float(self._number_value(self._advance()))
        elif self._peek().word in ("-", "+") and self._peek(3).word not in ("=", "==") and self._accept(","):
            self._fail("a number that is not negative")
        return GroupByVariation(expression, delta, self._parse_ignore_null())

    def _parse_count_group(self) -> RowGrouping:
        expression = self._parse_group_expression("count")
        self._expect(",")
        start = self._index
        count, span = self._parse_integer(), self._span(start)
        return GroupByCount(expression, count, self._parse_ignore_null(), span)

    def _parse_group_expression(self, what: str) -> Expression:
        start = self._index
        expression = self._parse_nested(self._parse_expression)
        if is_constant(expression):
            name = result_name(expression)
            text = f"Constant operand [{name}] is not allowed in group by {what}, there should be an expression"
            self._semantic(text, self._span(start), hint="name a series")
        return expression

    def _parse_group_condition(self) -> RowGrouping:
        """Parse `condition, [KEEP operator] rows [, ignoreNull = …]`. Without an operator, `rows` is a minimum."""
        condition = self._parse_group_expression("condition")
        token = self._token
        is_attribute = self._peek(2).word in ("=", "==") and self._peek().word != "KEEP"
        if self._token.word != "," or is_attribute:
            text = "Keep threshold in group by condition should be set"
            self._semantic(text, token, hint="write KEEP>=n after the condition: rows of one window at least")
        self._expect(",")
        return GroupByCondition(condition, self._parse_keep(), self._parse_ignore_null())

    def _parse_keep(self) -> tuple[str, int]:
        if not self._accept("KEEP"):
            return ">=", self._parse_integer()
        operator = self._expect_one(*KEEP_OPERATORS, "==")
        return {"==": "=", "!=": "<>"}.get(operator, operator), self._parse_integer()

    def _parse_ignore_null(self) -> bool:
        """Parse `[, ignoreNull = true|false]`. Like IoTDB, accept any other key and ignore its value."""
        if not self._accept(","):
            return True
        key, value = self._parse_property()
        return key.upper() != "IGNORENULL" or value.lower() == "true"


def _is_before(end: Expression, start: Expression) -> bool:
    """Return whether the end is not after the start, as far as this is known without a time zone."""
    match start, end:
        case Literal(value=int(first)), Literal(value=int(last)):
            return last <= first
    return False
