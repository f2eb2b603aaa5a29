"""The source that subscribes to topics of MQTT.

MQTT has no positions to which a reader can return. Instead, the broker keeps a session for the pipe, and sends a message again
until it is acknowledged, which the source does once the sink has it durably. So nothing is lost in a crash, and some messages come
twice. The offset is the number of messages read.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, Final

import pyarrow as pa

from headrace.egress import EgressPolicy
from headrace.errors import OperationalError, TerminalError
from headrace.model.paths import ROOT, quote_node
from headrace.model.positions import Offsets
from headrace.pipes.attributes import PipeAttributes, pipe_error
from headrace.pipes.events import DeleteEvent, Event, InsertEvent, StatementEvent
from headrace.pipes.formats.codecs import decoder
from headrace.pipes.formats.messages import ID, KEY, VALUE, FormatOptions, Unreadable, input_options, listed, unreadable_error
from headrace.pipes.mqtt import DELETE, INSERT, STATEMENT, Connection, MqttOptions, endpoints, positive
from headrace.pipes.plugins import PipeContext, Source, SourceBatch

__all__ = ["create", "endpoints", "validate"]

LOG: Final = logging.getLogger(__name__)
MESSAGES: Final = "messages"
"""The name of the only offset."""
POLL_S: Final = 0.05
FIRST_S: Final = 0.5
"""How long a new connection waits for messages that the broker has kept, in seconds."""
EXPIRY_S: Final = 7 * 86_400
PUBLISH_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Received:
    """A message, with what its acknowledgment needs.

    Attributes:
        connection: The number of the connection that brought it.
        mid: Its id, which the broker uses again once it is acknowledged.
        qos: Its quality of service; the broker does not wait for an acknowledgment of 0.
        topic: Its topic.
        payload: Its content.
        kind: What it says: `insert`, `delete` or `statement`.
        category: What a statement does.
        received: When it came, in epoch milliseconds.
    """

    connection: int
    mid: int
    qos: int
    topic: str
    payload: bytes
    kind: str
    category: str
    received: int


def validate(attributes: PipeAttributes) -> None:
    """Check the attributes of a source."""
    MqttOptions.of(attributes)
    if not listed(attributes.text("topics", "topic")):
        raise pipe_error("topics must be specified")
    format_options(attributes)
    attributes.choice("qos", options=("0", "1", "2"), default="1")
    attributes.choice("on-error", options=("fail", "skip"), default="fail")
    positive(attributes, "max.poll.records", 1)
    positive(attributes, "session.expiry-seconds", EXPIRY_S)


def format_options(attributes: PipeAttributes) -> FormatOptions:
    """Return the settings of the format; the key of a message is its topic."""
    options = replace(input_options(attributes), uses_key=attributes.boolean("device.topic", default=False))
    if options.uses_key and (options.device or options.device_field):
        raise pipe_error("only one of device, device.field and device.topic can be specified")
    return options


def path_of(topic: str, database: str) -> str:
    """Return a topic as the path of a device, below a database if it does not begin with `root`."""
    first, *others = topic.strip("/").split("/")
    path = ".".join([first if first == ROOT else quote_node(first), *map(quote_node, others)])
    return path if path.startswith(f"{ROOT}.") or not database else f"{database}.{path}"


class MqttSource(Source):
    """Receives messages in a bounded queue."""

    def __init__(self, attributes: PipeAttributes, pipe_id: str, egress: EgressPolicy) -> None:
        """Read the settings; connect later."""
        self._egress = egress
        self._options = MqttOptions.of(attributes)
        self._topics = listed(attributes.text("topics", "topic"))
        self._format = format_options(attributes)
        self._decoder = decoder(self._format)
        self._qos = int(attributes.text("qos", default="1"))
        self._max_records = positive(attributes, "max.poll.records", 10_000)
        self._expiry_s = positive(attributes, "session.expiry-seconds", EXPIRY_S)
        self._client_id = attributes.text("client.id", default=f"headrace-{pipe_id}")
        self._skips = attributes.text("on-error") == "skip"
        self._aside = attributes.text("dead-letter.topic")
        self._connection: Connection | None = None
        self._number = 0
        self._changed = threading.Condition()
        self._queue: deque[Received] = deque()
        self._unacknowledged: deque[tuple[int, list[Received]]] = deque()
        self._is_closed = False
        self._rejected: Any = None
        self.skipped = 0
        """The number of messages that were skipped."""

    def read(self, offsets: Offsets, until: Offsets | None = None) -> SourceBatch | None:
        """Return the messages that have come.

        The batch that a crash has interrupted is empty when it is read again: the broker sends its messages again, as parts of
        later batches. A receiver that knows the batch by its number would otherwise drop messages that it does not have.
        """
        is_new = self._connection is None
        connection = self._connected()
        if until is not None:
            return SourceBatch((), until)
        messages = self._take(FIRST_S if is_new else POLL_S)
        if not messages:
            connection.check()
            return None
        try:
            events = self._events(messages)
        except BaseException:
            with self._changed:
                self._queue.extendleft(reversed(messages))
            raise
        count = offsets.get(MESSAGES, 0) + len(messages)
        self._unacknowledged.append((count, messages))
        return SourceBatch(events, {MESSAGES: count})

    def has_news(self, offsets: Offsets) -> bool:  # noqa: ARG002
        """Return whether messages have come, or whether there is no connection, which `read` has to notice."""
        return bool(self._queue) or self._rejected is not None or self._connection is None or not self._connection.is_open

    def pending(self, offsets: Offsets) -> tuple[int, int | None]:  # noqa: ARG002
        """Return how many messages have come that were not read, and when the first of them came."""
        with self._changed:
            return len(self._queue), self._queue[0].received if self._queue else None

    def acknowledge(self, offsets: Offsets) -> None:
        """Acknowledge messages, so that the broker forgets them. Those of an earlier connection will come again instead."""
        while self._unacknowledged and self._unacknowledged[0][0] <= offsets.get(MESSAGES, 0):
            _, messages = self._unacknowledged.popleft()
            for message in messages:
                if self._connection is not None and message.qos and message.connection == self._number:
                    self._connection.client.ack(message.mid, message.qos)

    def close(self) -> None:
        """Disconnect. The broker keeps the session."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _connected(self) -> Connection:
        if self._connection is None:
            connection = Connection(
                self._options,
                self._client_id,
                self._egress,
                is_persistent=True,
                expiry_s=self._expiry_s,
                max_received=2 * self._max_records,
            )
            connection.on_connected = lambda: self._subscribe(connection)
            connection.client.on_message = self._received
            connection.client.on_subscribe = self._subscribed
            connection.open()
            self._connection = connection
        if self._rejected is not None:
            raise TerminalError(
                f"the MQTT broker at {self._options.address} refuses the subscription: {self._rejected}",
                hint="check topics and the rights of the user",
            )
        return self._connection

    def _subscribe(self, connection: Connection) -> None:
        """Begin to receive on a new connection, on which the broker sends again what is not acknowledged."""
        with self._changed:
            self._number += 1
            self._queue = deque(message for message in self._queue if not message.qos)
            self._changed.notify_all()
        if self._options.version != "5":
            connection.client.subscribe([(topic, self._qos) for topic in self._topics])
            return
        from paho.mqtt.subscribeoptions import SubscribeOptions

        options = SubscribeOptions(qos=self._qos, retainHandling=SubscribeOptions.RETAIN_SEND_IF_NEW_SUB)
        connection.client.subscribe([(topic, options) for topic in self._topics])

    def _subscribed(self, _client: Any, _data: Any, _mid: int, reasons: Sequence[Any], _properties: Any) -> None:
        self._rejected = next((reason for reason in reasons if reason.is_failure), None)

    def _received(self, _client: Any, _data: Any, message: Any) -> None:
        """Queue a message. Its broker waits if it sends more than it may before they are acknowledged."""
        properties = dict(getattr(message.properties, "UserProperty", ()) or ())
        with self._changed:
            number = self._number
            self._changed.wait_for(lambda: self._is_closed or len(self._queue) < 2 * self._max_records)
            kind, category = properties.get("kind", INSERT), properties.get("category", "")
            now = int(time.time() * 1000)
            self._queue.append(Received(number, message.mid, message.qos, message.topic, message.payload, kind, category, now))
            self._changed.notify_all()

    def _take(self, timeout_s: float) -> list[Received]:
        """Take messages from the queue; wait for the first for some seconds at most."""
        with self._changed:
            self._changed.wait_for(lambda: self._queue, timeout_s)
            messages = [self._queue.popleft() for _ in range(min(len(self._queue), self._max_records))]
            self._changed.notify_all()
            return messages

    def _events(self, messages: Sequence[Received]) -> list[Event]:
        """Return messages as events. Those that cannot be read are published elsewhere, are skipped, or are an error."""
        events: list[Event] = []
        for kind, group in groupby(messages, key=lambda message: message.kind):
            run = list(group)
            if kind == STATEMENT:
                events += [StatementEvent(one.payload.decode(errors="replace"), one.category) for one in run]
                continue
            decoded = self._decoder.decode(self._table(run))
            if decoded.unreadable:
                self._handle(run, decoded.unreadable)
            make = DeleteEvent if kind == DELETE else InsertEvent
            events += [make(data) for data in decoded.data]
        return events

    def _table(self, messages: Sequence[Received]) -> pa.Table:
        from headrace.pipes.sources.kafka_messages import as_text

        paths = {topic: path_of(topic, self._format.database) for topic in {message.topic for message in messages}}
        return pa.table(
            {
                ID: pa.array(range(len(messages)), pa.int64()),
                KEY: pa.array([paths[message.topic] for message in messages], pa.string()),
                VALUE: as_text([message.payload for message in messages]),
            }
        )

    def _handle(self, messages: Sequence[Received], unreadable: Sequence[Unreadable]) -> None:
        first, topic = unreadable[0], messages[unreadable[0].index].topic
        if self._aside:
            self._publish_aside([messages[one.index] for one in unreadable])
        elif not self._skips:
            raise unreadable_error(f"of topic {topic}", first.reason)
        self.skipped += len(unreadable)
        LOG.warning("skipped %d messages, the first of topic %s: %s", len(unreadable), topic, first.reason)

    def _publish_aside(self, messages: Sequence[Received]) -> None:
        """Publish messages to the topic for those that cannot be read; return when they are acknowledged."""
        client = self._connected().client
        infos = [client.publish(self._aside, message.payload, 1) for message in messages]
        for info in infos:
            with suppress(RuntimeError, ValueError):
                info.wait_for_publish(PUBLISH_S)
            if not info.is_published():
                raise OperationalError(f"the MQTT broker at {self._options.address} has not acknowledged an unreadable message")


def create(attributes: PipeAttributes, context: PipeContext) -> Source:
    """Return the source."""
    return MqttSource(attributes, context.pipe_id, context.context.egress)
