"""The parser of SHOW and COUNT of the IoTDB language."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Final

from headrace.model.expressions import Call, ColumnRef, Expression
from headrace.model.tree_statements import TreeShow
from headrace.model.tree_types import TREE_TYPES
from headrace.sql.iotdb.expressions import is_constant
from headrace.sql.iotdb.schema import SchemaParser
from headrace.sql.tokens import TokenType

LATER: Final = {
    **dict.fromkeys(
        ("CLUSTER", "CLUSTERID", "VARIABLES", "REGIONS", "DATANODES", "CONFIGNODES", "AINODES", "REGIONID", "TIMESLOTID", "DATA"),
        "there is no cluster; headrace status shows the processes",
    ),
    **dict.fromkeys(("MODELS", "TOPIC", "TOPICS", "SUBSCRIPTIONS", "VIEW", "SPACE", "THROTTLE"), "it has no counterpart here"),
}

TIME_WORDS: Final = ("TIME", "TIMESTAMP")
COMPARISONS: Final = frozenset(("=", "<>", "<", "<=", ">", ">=", "in", "not in", "between", "not between"))


def is_time_condition(node: Expression) -> bool:
    match node:
        case Call(function="and" | "or" | "not", arguments=arguments):
            return all(map(is_time_condition, arguments))
        case Call(function=function, arguments=arguments) if function in COMPARISONS:
            times = [is_time(argument) for argument in arguments]
            constants = all(is_constant(argument) for argument, is_one in zip(arguments, times, strict=True) if not is_one)
            return sum(times) == 1 and constants
    return False


def is_time(node: Expression) -> bool:
    """Return whether an expression is the time of a row."""
    return isinstance(node, ColumnRef) and node.name.upper() in TIME_WORDS


class ShowParser(SchemaParser):
    """Parses the statements that inspect the tree."""

    SHOWS: ClassVar[Mapping[str, Callable[[Any], TreeShow]]] = {
        "ALL": lambda self: self._parse_show_words("all ttl", "TTL"),
        "AUDIT": lambda self: self._past("LOG")._parse_show_page(TreeShow("audit log")),
        "CHILD": lambda self: self._parse_show_child(),
        "CONTINUOUS": lambda self: self._parse_show_queries(),
        "CQ": lambda self: self._parse_show_executions(),
        "CURRENT_TIMESTAMP": lambda _: TreeShow("current_timestamp"),
        "CQS": lambda _: TreeShow("continuous queries"),
        "DATABASES": lambda self: self._parse_show_databases(),
        "DEVICE": lambda self: self._parse_show_words("device templates", "TEMPLATES"),
        "DEVICES": lambda self: self._parse_show_devices(),
        "FUNCTIONS": lambda _: TreeShow("functions"),
        "LATEST": lambda self: self._past("TIMESERIES")._parse_show_timeseries("latest timeseries"),
        "NODES": lambda self: self._parse_show_template_nodes(),
        "PATHS": lambda self: self._parse_show_template_paths(),
        "PIPE": lambda self: TreeShow("pipe", name=self._parse_identifier("a pipe")),
        "PIPEPLUGINS": lambda _: TreeShow("pipeplugins"),
        "PIPES": lambda self: self._parse_show_pipes(),
        "QUERIES": lambda self: self._parse_show_page(TreeShow("queries")),
        "QUERY": lambda self: self._past("PROCESSLIST")._parse_show_page(TreeShow("queries")),
        "SCHEMA": lambda self: self._parse_show_words("device templates", "TEMPLATES"),
        "STORAGE": lambda self: self._past("GROUP")._parse_show_databases(),
        "TIMESERIES": lambda self: self._parse_show_timeseries("timeseries"),
        "TRIGGERS": lambda self: TreeShow("triggers", details=self._accept("DETAILS")),
        "TTL": lambda self: TreeShow("ttl", self._past("ON")._parse_patterns()),
        "VERSION": lambda _: TreeShow("version"),
    }

    def _parse_show(self) -> TreeShow:
        start = self._index - 1
        if self._token.word in LATER:
            self._fail_unsupported(f"SHOW {self._token.word}", LATER[self._token.word])
        word = self._expect_one(*self.SHOWS)
        return replace(self.SHOWS[word](self), span=self._span(start))

    def _parse_show_words(self, what: str, *words: str) -> TreeShow:
        self._expect(*words)
        return TreeShow(what)

    def _parse_show_child(self) -> TreeShow:
        what = self._expect_one("PATHS", "NODES").lower()
        return TreeShow(f"child {what}", self._parse_optional_pattern())

    def _parse_show_queries(self) -> TreeShow:
        """Parse `QUERIES`, or `QUERY EXECUTIONS …`, after CONTINUOUS."""
        if self._expect_one("QUERIES", "QUERY") == "QUERY":
            return self._parse_show_executions()
        return TreeShow("continuous queries")

    def _parse_show_executions(self) -> TreeShow:
        """Parse `EXECUTIONS [name] [LIMIT n] [OFFSET n]`, which IoTDB does not have."""
        self._expect("EXECUTIONS")
        unnamed = self._token.kind is TokenType.END or self._token.word in ("LIMIT", "OFFSET", ";")
        name = None if unnamed else self._parse_identifier("a continuous query")
        return self._parse_show_page(TreeShow("cq executions", name=name))

    def _parse_show_databases(self) -> TreeShow:
        details = self._accept("DETAILS")
        return TreeShow("databases", self._parse_optional_pattern(), details=details)

    def _parse_show_devices(self) -> TreeShow:
        patterns = self._parse_optional_pattern()
        with_database = False
        if self._accept("WITH"):
            with_database = True
            if self._expect_one("DATABASE", "STORAGE") == "STORAGE":
                self._expect("GROUP")
        show = TreeShow("devices", patterns, with_database=with_database)
        return self._parse_show_page(self._parse_show_condition(show))

    def _parse_show_timeseries(self, what: str) -> TreeShow:
        return self._parse_show_page(self._parse_show_condition(TreeShow(what, self._parse_optional_pattern())))

    def _parse_show_page(self, show: TreeShow) -> TreeShow:
        """Parse `[LIMIT n] [OFFSET n]` in either order."""
        pages: dict[str, int] = {}
        while word := self._accept_one(*(word for word in ("LIMIT", "OFFSET") if word.lower() not in pages)):
            pages[word.lower()] = self._parse_page(word)
        return replace(show, limit=pages.get("limit"), offset=pages.get("offset"))

    # WHERE

    def _parse_show_condition(self, show: TreeShow) -> TreeShow:
        """Parse `[WHERE condition]`, on the schema or on the time of rows."""
        if not self._accept("WHERE"):
            return show
        token, after = self._token, self._peek()
        if token.word in ("TIMESERIES", "DEVICE") and after.word == "CONTAINS":
            self._advance()
            self._advance()
            return replace(show, where=(token.word.lower(), "", "contains", self._parse_string()))
        if token.word == "TEMPLATE":
            return replace(show, where=self._parse_template_condition())
        if token.word == "TAGS" and after.word == "(":
            return replace(show, where=self._parse_tag_condition())
        is_property = after.word in ("=", "==") and token.word not in TIME_WORDS and not show.what.endswith("devices")
        if is_property and token.kind in (TokenType.WORD, TokenType.QUOTED, TokenType.STRING):
            return replace(show, where=self._parse_column_condition())
        return replace(show, time=self._parse_time_condition())

    def _parse_time_condition(self) -> Expression:
        start = self._index
        condition = self._parse_expression()
        if not is_time_condition(condition):
            self._semantic(
                "Value Filter can't exist in the condition of SHOW/COUNT clause, only time condition supported",
                self._span(start),
                hint="compare time with constants, or write dataType=INT32, TAGS(key)=value, TIMESERIES CONTAINS 'x', "
                "DEVICE CONTAINS 'x' or TEMPLATE = 'name'",
            )
        return condition

    def _parse_template_condition(self) -> tuple[str, str, str, str]:
        self._advance()
        if self._accept("IS"):
            operator = "is not null" if self._accept("NOT") else "is null"
            self._expect("NULL")
            return "template", "", operator, ""
        operator = "=" if self._expect_one("=", "!=", "<>") == "=" else "<>"
        return "template", "", operator, self._parse_string()

    def _parse_tag_condition(self) -> tuple[str, str, str, str]:
        self._advance()
        key = self._parse_parenthesized(self._parse_key)
        if self._expect_one("=", "==", "CONTAINS") == "CONTAINS":
            return "tag", key, "contains", self._parse_string()
        return "tag", key, "=", self._parse_constant_text("a value")

    def _parse_column_condition(self) -> tuple[str, str, str, str]:
        token = self._token
        key, value = self._parse_property()
        if key.upper() != "DATATYPE":
            self._semantic("unexpected filter key", token, hint="write dataType=INT32, TAGS(key)=value or TIMESERIES CONTAINS 'x'")
        if value.upper() not in TREE_TYPES:
            self._semantic(f"unsupported datatype: {value}", token, hint=f"use one of {', '.join(TREE_TYPES)}")
        return "datatype", "", "=", value.upper()

    # Device templates

    def _parse_show_template_nodes(self) -> TreeShow:
        self._expect("IN")
        self._expect_template()
        return TreeShow("nodes in template", name=self._parse_template_name())

    def _parse_show_template_paths(self) -> TreeShow:
        patterns = self._parse_optional_pattern()
        what = self._expect_one(*(("USING",) if patterns else ("SET", "USING"))).lower()
        self._expect_template()
        return TreeShow(f"paths {what} template", patterns, name=self._parse_template_name())

    # COUNT

    def _parse_count_statement(self) -> TreeShow:
        start = self._index - 1
        match self._expect_one("DATABASES", "STORAGE", "DEVICES", "TIMESERIES", "NODES"):
            case "DEVICES":
                show = self._parse_show_condition(TreeShow("count devices", self._parse_optional_pattern()))
            case "TIMESERIES":
                show = self._parse_show_condition(TreeShow("count timeseries", self._parse_optional_pattern()))
                show = self._parse_show_groups(show)
            case "NODES":
                show = TreeShow("count nodes", (self._parse_pattern(),))
                show = replace(show, level=self._parse_level())
            case what:
                if what == "STORAGE":
                    self._expect("GROUP")
                show = TreeShow("count databases", self._parse_optional_pattern())
        return replace(show, span=self._span(start))

    def _parse_show_groups(self, show: TreeShow) -> TreeShow:
        start = self._index
        if not self._accept("GROUP", "BY"):
            return show
        level = self._parse_level()
        if show.time is not None:
            message = "TIME condition and GROUP BY LEVEL cannot be used at the same time."
            self._semantic(message, self._span(start), hint="leave one of them out")
        return replace(show, level=level)

    def _parse_level(self) -> int:
        self._expect("LEVEL")
        self._expect_one("=", "==")
        return self._parse_integer()
