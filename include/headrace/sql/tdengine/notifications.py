"""Parsing of NOTIFY, the last clause of CREATE STREAM."""

from __future__ import annotations

import re
from typing import Any, Final
from urllib.parse import urlsplit

from headrace.model.notifications import SUBSCRIBABLE_EVENTS, EventType, FailurePolicy, Notification
from headrace.sql.tdengine.tables import TDengineTables

MAX_URL_BYTES: Final = 127
URL_SCHEMES: Final = ("ws", "wss")
UNESCAPED: Final = re.compile(r"""[^\s'"\\]+""")


class TDengineNotifications(TDengineTables):
    """Parses NOTIFY."""

    def _parse_notification(self) -> Notification | None:
        if not self._accept("NOTIFY"):
            return None
        urls = self._parse_parenthesized(lambda: self._parse_list(self._parse_notification_url))
        self._expect("ON")
        events = self._parse_parenthesized(lambda: self._parse_list(self._parse_event_type))
        return Notification(tuple(dict.fromkeys(urls)), tuple(dict.fromkeys(events)), **self._parse_notification_options())

    def _parse_notification_url(self) -> str:
        token = self._token
        url = self._parse_string("an address in quotes")
        if len(url.encode()) > MAX_URL_BYTES:
            self._fail_invalid(f"the notification address is longer than {MAX_URL_BYTES} bytes", token, hint="shorten it")
        if not is_websocket_url(url):
            self._fail_invalid(f"invalid notification address {url!r}", token, hint="write ws://host:port/path or wss://…")
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
        while (token := self._token) and (option := self._accept_one("ON_FAILURE", "NOTIFY_HISTORY")) is not None:
            key = "on_failure" if option == "ON_FAILURE" else "history"
            if key in options:
                self._fail_invalid(f"duplicate option {option}", token, hint="write each option once")
            options[key] = FailurePolicy(self._expect_one(*FailurePolicy)) if key == "on_failure" else self._parse_switch()
        return options

    def _parse_switch(self) -> bool:
        token = self._token
        value = self._parse_integer("0 or 1")
        return bool(value) if value in (0, 1) else self._fail_invalid(f"{value} is not 0 or 1", token)


def is_websocket_url(url: str) -> bool:
    """Return True if an address has a WebSocket scheme, a host, a valid port if any, and no quotes, spaces or backslashes."""
    try:
        parts = urlsplit(url)
        has_host = parts.scheme.lower() in URL_SCHEMES and bool(parts.hostname)
        return has_host and (parts.port is None or parts.port > 0) and UNESCAPED.fullmatch(url) is not None
    except ValueError:
        return False
