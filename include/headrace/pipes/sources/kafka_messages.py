"""Messages of Kafka as events, by the kind that their headers name.

The functions take messages as the client returns them. An object of its own for each would cost more than all else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, Final

import pyarrow as pa

from headrace.model.time import Precision
from headrace.pipes.events import DeleteEvent, Event, InsertEvent, StatementEvent
from headrace.pipes.formats.codecs import decoder
from headrace.pipes.formats.messages import ID, KEY, PRECISIONS, VALUE, Decoder, FormatOptions, Unreadable
from headrace.pipes.kafka import DELETE, HEADER_CATEGORY, HEADER_KIND, HEADER_PRECISION, INSERT, KINDS, STATEMENT

Tag = tuple[str, str | None]
"""What messages say, `insert`, `delete`, `statement` or `unknown`, and the unit of their times if it is named."""
UNKNOWN: Final = "unknown"
UNTAGGED: Final[Tag] = (INSERT, None)


class Decoders:
    """The decoders of messages by the precision that their headers name, unless the settings name one."""

    def __init__(self, options: FormatOptions) -> None:
        """Store the settings."""
        self._options = options
        self._by_name: dict[str | None, Decoder] = {}

    def get(self, precision: str | None) -> Decoder:
        """Return the decoder of messages with a precision in their headers."""
        if self._options.precision is not None or precision not in PRECISIONS:
            precision = None
        if precision not in self._by_name:
            options = self._options if precision is None else replace(self._options, precision=Precision(precision))
            self._by_name[precision] = decoder(options)
        return self._by_name[precision]


def where(message: Any) -> str:
    """Return how texts for users name a message."""
    return f"of topic {message.topic()}, partition {message.partition()}, offset {message.offset()}"


def header(message: Any, name: str) -> str | None:
    """Return a header as text."""
    return next(((value or b"").decode(errors="replace") for key, value in message.headers() or () if key == name), None)


def tag_of(message: Any) -> Tag:
    """Return the kind and the precision of a message; without headers, it inserts."""
    headers = message.headers()
    if not headers:
        return UNTAGGED
    kind, precision = INSERT, None
    for name, value in headers:
        if name == HEADER_KIND:
            kind = (value or b"").decode(errors="replace")
        elif name == HEADER_PRECISION:
            precision = (value or b"").decode(errors="replace")
    return kind if kind in KINDS else UNKNOWN, precision


def events_of_messages(messages: Sequence[Any], decoders: Decoders) -> tuple[list[Event], list[Unreadable]]:
    """Return messages as events in order, and the messages that cannot be read."""
    events: list[Event] = []
    unreadable: list[Unreadable] = []
    start = 0
    for (kind, precision), count in runs([tag_of(message) for message in messages]):
        run = messages[start : start + count]
        if kind == UNKNOWN:
            reason = f"its header {HEADER_KIND} is none of {', '.join(KINDS)}"
            unreadable += [Unreadable(start + index, reason) for index in range(count)]
        elif kind == STATEMENT:
            events += statements(run)
        else:
            decoded = decoders.get(precision).decode(table_of(run))
            make = DeleteEvent if kind == DELETE else InsertEvent
            events += [make(data) for data in decoded.data]
            unreadable += [Unreadable(start + one.index, one.reason) for one in decoded.unreadable]
        start += count
    return events, unreadable


def runs(tags: Sequence[Tag]) -> Iterator[tuple[Tag, int]]:
    """Yield tags with the number of times that they follow themselves."""
    for tag, group in groupby(tags):
        yield tag, sum(1 for _ in group)


def statements(messages: Sequence[Any]) -> Iterator[StatementEvent]:
    for message in messages:
        yield StatementEvent((message.value() or b"").decode(errors="replace"), header(message, HEADER_CATEGORY) or "")


def table_of(messages: Sequence[Any]) -> pa.Table:
    """Return messages as a table for a decoder. What is not UTF-8 is NULL, which no decoder can read."""
    return pa.table(
        {
            ID: pa.array(range(len(messages)), pa.int64()),
            KEY: as_text([message.key() for message in messages]),
            VALUE: as_text([message.value() for message in messages]),
        }
    )


def as_text(values: Sequence[bytes | None]) -> pa.Array:
    """Return bytes as texts, with NULL for those that are not UTF-8."""
    array = pa.array(values, pa.binary())
    try:
        return array.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([as_utf8(value) for value in values], pa.string())


def as_utf8(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None
