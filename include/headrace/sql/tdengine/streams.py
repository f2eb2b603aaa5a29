"""Parsing of CREATE STREAM with its notifications, and of the statements that control a stream."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final
from urllib.parse import urlsplit

from headrace.errors import InvalidStreamError
from headrace.model.notifications import (
    SUBSCRIBABLE_EVENTS,
    WEBHOOK_SCHEMES,
    WEBSOCKET_SCHEMES,
    ClosePolicy,
    EventType,
    FailurePolicy,
    Notification,
)
from headrace.model.queries import Query
from headrace.model.spans import Span
from headrace.model.statements import AlterStream, CreateStream, ResumeStream, Statement, TargetColumn, TargetTag
from headrace.model.streams import ErrorPolicy, StreamOptions, TriggerMode
from headrace.model.tables import Name
from headrace.sql.tdengine.tables import TDengineTables

MAX_URL_BYTES: Final = dict.fromkeys(WEBSOCKET_SCHEMES, 127) | dict.fromkeys(WEBHOOK_SCHEMES, 2_000)
"""The length of addresses by their schemes. Those of webhooks have long tokens."""
UNESCAPED: Final = re.compile(r"""[^\s'"\\]+""")
PARTS: Final = "CREATE STREAM name, options, INTO target (columns) TAGS (…) SUBTABLE (…) AS query NOTIFY (…)"
PARTS_HINT: Final = f"write the parts of a stream in this order: {PARTS}"
PART_WORDS: Final = (
    *("TRIGGER", "WATERMARK", "IGNORE", "DELETE_MARK", "MAX_AHEAD", "ON_ERROR", "FILL_HISTORY", "PARTITIONS"),
    *("INTO", "TAGS", "SUBTABLE"),
)
ALTERABLE: Final = ("WATERMARK", "IGNORE EXPIRED", "IGNORE UPDATE", "MAX_AHEAD", "ON_ERROR")


class TDengineStreams(TDengineTables):
    """Parses statements about streams. Each method begins after the keywords that identify the statement."""

    MISPLACED: ClassVar[Mapping[str, str]] = {**TDengineTables.MISPLACED, **dict.fromkeys(PART_WORDS, PARTS_HINT)}

    OPTIONS: ClassVar[Mapping[str, Callable[[Any], dict[str, Any]]]] = {
        "TRIGGER": lambda self: self._parse_trigger(),
        "WATERMARK": lambda self: {"watermark": self._parse_duration()},
        "IGNORE EXPIRED": lambda self: {"ignore_expired": self._parse_switch()},
        "IGNORE UPDATE": lambda self: {"ignore_update": self._parse_switch()},
        "DELETE_MARK": lambda self: {"delete_mark": self._parse_duration()},
        "MAX_AHEAD": lambda self: {"max_ahead": self._parse_duration()},
        "ON_ERROR": lambda self: {"on_error": ErrorPolicy(self._expect_one(*ErrorPolicy))},
        "FILL_HISTORY": lambda self: self._parse_fill_history(),
        "PARTITIONS": lambda self: {"partitions": self._parse_integer("a number of parts")},
    }
    """Parsers of options by their keywords. They return fields of `StreamOptions`. Options come in any order, each at most once."""
    NOTIFICATION_OPTIONS: ClassVar[Mapping[str, tuple[str, Callable[[Any], Any]]]] = {
        "ON_FAILURE": ("on_failure", lambda self: FailurePolicy(self._expect_one(*FailurePolicy))),
        "NOTIFY_HISTORY": ("history", lambda self: self._parse_switch()),
        "ON_CLOSE": ("on_close", lambda self: ClosePolicy(self._expect_one(*ClosePolicy))),
    }
    """Fields of `Notification` and their parsers, by keyword."""

    def _parse_create_stream(self, start: int, *, or_replace: bool = False) -> CreateStream:
        if_not_exists = not or_replace and self._parse_not_exists()
        name = self._parse_name("a stream")
        spans: dict[str, Span] = {}
        options = StreamOptions(**self._parse_options(self._parse_option_name, spans))
        self._expect("INTO")
        target = self._parse_name("a target table")
        columns = self._parse_target_columns() if self._is_at("(") else None
        tags = self._parse_items(self._parse_target_tag) if self._accept("TAGS") else None
        self._check_target_tags(tags or ())
        subtable = self._parse_parenthesized(self._parse_expression) if self._accept("SUBTABLE") else None
        self._expect("AS")
        query = self._parse_stream_query()
        notification = self._parse_notification()
        text = self._text_since(start)
        return CreateStream(
            name, target, query, options, columns, tags, subtable, notification, if_not_exists, or_replace, text, spans
        )

    def _parse_options(self, parse_name: Callable[[set[str]], str | None], spans: dict[str, Span]) -> dict[str, Any]:
        """Return the fields of options, and add to `spans` where the last word of each is."""
        fields: dict[str, Any] = {}
        seen: set[str] = set()
        while (option := parse_name(seen)) is not None:
            seen.add(option)
            parsed = self.OPTIONS[option](self)
            spans |= dict.fromkeys(parsed, self._span(self._index - 1))
            fields |= parsed
        return fields

    def _parse_option_name(self, seen: set[str]) -> str | None:
        token = self._token
        for option in self.OPTIONS:
            first, *second = option.split()
            if token.word == first and (not second or self._peek().word == second[0]):
                if option in seen:
                    self._fail_invalid(f"duplicate option {option}", token, hint="write each option of a stream once")
                self._accept(*option.split())
                return option
            if option not in seen:
                self._expected.append(option)
        return None

    def _parse_trigger(self) -> dict[str, Any]:
        mode = TriggerMode(self._expect_one(*TriggerMode))
        if mode is TriggerMode.MAX_DELAY:
            return {"trigger": mode, "max_delay": self._parse_duration()}
        if mode is TriggerMode.CONTINUOUS_WINDOW_CLOSE and self._accept("RECALCULATE"):
            return {"trigger": mode, "recalculate": self._parse_duration()}
        return {"trigger": mode}

    def _parse_fill_history(self) -> dict[str, Any]:
        """Parse `0 | 1 [ASYNC]`. ASYNC has no effect without history to fill."""
        fills = self._parse_switch()
        return {"fill_history": fills, "fill_history_async": self._accept("ASYNC") and fills}

    # The target

    def _parse_target_columns(self) -> tuple[TargetColumn, ...]:
        positions = itertools.count()
        return self._parse_items(lambda: self._parse_target_column(next(positions)))

    def _parse_target_column(self, position: int) -> TargetColumn:
        start = self._index
        name = self._parse_identifier("a column")
        return TargetColumn(name, self._parse_key(position), self._span(start))

    def _parse_target_tag(self) -> TargetTag:
        """Parse `name type [COMMENT …]`, or only a name, which binds a tag of an existing table."""
        start = self._index
        if self._peek().word in (",", ")"):
            return TargetTag(None, self._parse_identifier("a tag"), self._span(start))
        column = self._parse_tag()
        return TargetTag(column, column.name, self._span(start))

    def _check_target_tags(self, tags: tuple[TargetTag, ...]) -> None:
        if len({tag.column is None for tag in tags}) > 1:
            token = self._tokens[self._index - 1]
            message = "TAGS mixes tags with and without a type"
            self._fail_invalid(message, token, hint="give all of them a type (new table) or none (existing table)")

    def _parse_stream_query(self) -> Query:
        start = self._index
        query = self._parse_query()
        if not isinstance(query, Query):
            hint = "create a stream for each part, into one table each"
            raise InvalidStreamError("the query of a stream cannot be a UNION", hint=hint, span=self._span(start), sql=self.text)
        return query

    # Control

    def _parse_alter_stream(self) -> AlterStream:
        if_exists = self._parse_exists()
        name = self._parse_name("a stream")
        fields = self._parse_options(self._parse_altered_option, {})
        if not fields:
            self._fail(*ALTERABLE)
        return AlterStream(name, if_exists=if_exists, **fields)

    def _parse_altered_option(self, seen: set[str]) -> str | None:
        """Parse the keywords of an option that can be altered; raise for any other option or clause of CREATE STREAM."""
        token = self._token
        option = self._parse_option_name(seen)
        unsupported = option if option is not None and option not in ALTERABLE else None
        if option is None and token.word in PART_WORDS:
            unsupported = token.word
        if unsupported is not None:
            self._fail_unsupported(
                f"altering {unsupported} of a stream",
                f"ALTER STREAM changes {', '.join(ALTERABLE)}; use CREATE OR REPLACE STREAM for the rest",
                Span(token.start, token.end),
            )
        return option

    def _parse_control(self, statement: Callable[[Name, bool], Statement]) -> Statement:
        """Parse `[IF EXISTS] stream`."""
        if_exists = self._parse_exists()
        return statement(self._parse_name("a stream"), if_exists)

    def _parse_resume_stream(self) -> ResumeStream:
        if_exists = self._parse_exists()
        untreated = self._accept("IGNORE", "UNTREATED")
        return ResumeStream(self._parse_name("a stream"), if_exists, untreated)

    # NOTIFY

    def _parse_notification(self) -> Notification | None:
        if not self._accept("NOTIFY"):
            return None
        urls = self._parse_items(self._parse_notification_url)
        self._expect("ON")
        events = self._parse_items(self._parse_event_type)
        return Notification(tuple(dict.fromkeys(urls)), tuple(dict.fromkeys(events)), **self._parse_notification_options())

    def _parse_notification_url(self) -> str:
        token = self._token
        url = self._parse_string("an address in quotes")
        limit = MAX_URL_BYTES.get(url.partition(":")[0].lower())
        if limit is None or not is_receiver_url(url):
            hint = "write ws://host:port/path or wss://…, or for a webhook https://host/path or http://…"
            self._fail_invalid(f"invalid notification address {url!r}", token, hint=hint)
        if len(url.encode()) > limit:
            self._fail_invalid(f"the notification address is longer than {limit} bytes", token, hint="shorten it")
        return url

    def _parse_event_type(self) -> EventType:
        token = self._token
        name = self._parse_string("an event type in quotes")
        if name.upper() not in SUBSCRIBABLE_EVENTS:
            types = " or ".join(f"'{event}'" for event in SUBSCRIBABLE_EVENTS)
            self._fail_invalid(f"invalid event type '{name}' for notification", token, hint=f"write {types}")
        return EventType(name.upper())

    def _parse_notification_options(self) -> dict[str, Any]:
        options: dict[str, Any] = {}
        while (token := self._token) and (option := self._accept_one(*self.NOTIFICATION_OPTIONS)) is not None:
            name, parse = self.NOTIFICATION_OPTIONS[option]
            if name in options:
                self._fail_invalid(f"duplicate option {option}", token, hint="write each option once")
            options[name] = parse(self)
        return options


def is_receiver_url(url: str) -> bool:
    """Return True if an address has a host, a valid port if any, and no quotes, spaces or backslashes; of webhooks, only ASCII."""
    try:
        parts = urlsplit(url)
        is_plain = parts.scheme in WEBSOCKET_SCHEMES or (url.isascii() and url.isprintable())
        return bool(parts.hostname) and (parts.port is None or parts.port > 0) and UNESCAPED.fullmatch(url) is not None and is_plain
    except ValueError:
        return False
