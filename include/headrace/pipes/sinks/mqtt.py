"""The sink that publishes to MQTT: a message for each row, to a topic that is made of the path of the device."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow.compute as pc

from headrace.egress import EgressPolicy
from headrace.errors import OperationalError, TerminalError
from headrace.model.paths import split_path, unquote_node
from headrace.pipes.attributes import PipeAttributes, pipe_error, timeout_seconds
from headrace.pipes.events import DeleteEvent, DeviceRows, Event, StatementEvent
from headrace.pipes.formats.codecs import encoder
from headrace.pipes.formats.messages import output_options
from headrace.pipes.formats.scalars import as_array
from headrace.pipes.mqtt import DELETE, INSERT, STATEMENT, Connection, MqttOptions, endpoints
from headrace.pipes.plugins import Delivery, PipeContext, Sink

__all__ = ["create", "endpoints", "validate"]

PLACEHOLDER: Final = re.compile(r"\$\{(\w*)\}")
ROWS_AT_A_TIME: Final = 5_000
"""Rows that wait for their acknowledgments at a time."""
MAX_IN_FLIGHT: Final = 1_000
NO_PATH: Final = "root"


def validate(attributes: PipeAttributes) -> None:
    """Check the attributes of a sink."""
    MqttOptions.of(attributes)
    output_options(attributes)
    attributes.choice("qos", options=("1", "2"), default="1")
    attributes.boolean("retain", default=False)
    timeout_seconds(attributes)
    topic = attributes.text("topic", default="${device}")
    unknown = set(PLACEHOLDER.findall(topic)) - {"database", "device"}
    if unknown or re.search("[+#]", topic):
        raise pipe_error(
            f"topic {topic} is not the name of a topic", hint="it may contain ${database} and ${device}, and neither + nor #"
        )


def topic_of(path: str) -> str:
    """Return a path as a topic: its nodes with slashes between them, and `_` for what topics may not contain."""
    return "/".join(re.sub(r"[+#/\x00]", "_", unquote_node(node)) for node in split_path(path))


def kind_of(event: Event) -> str:
    """Return what the messages of an event say."""
    return STATEMENT if isinstance(event, StatementEvent) else DELETE if isinstance(event, DeleteEvent) else INSERT


class MqttSink(Sink):
    """Publishes messages, and waits until the broker has acknowledged all of them."""

    def __init__(self, attributes: PipeAttributes, timeout_ms: int, egress: EgressPolicy) -> None:
        """Read the settings; connect later."""
        self._egress = egress
        self._options = MqttOptions.of(attributes)
        self._encoder = encoder(output_options(attributes))
        self._topic = attributes.text("topic", default="${device}")
        self._qos = int(attributes.text("qos", default="1"))
        self._retains = attributes.boolean("retain", default=False)
        self._timeout_s = timeout_seconds(attributes, timeout_ms)
        self._connection: Connection | None = None
        self._changed = threading.Condition()
        self._unacknowledged: set[int] = set()
        self._acknowledged: set[int] = set()
        self._failure: Any = None

    def handshake(self) -> None:
        """Connect."""
        self._connected()

    def heartbeat(self) -> None:
        """Raise an error if there is no connection."""
        self._connected().check()

    def close(self) -> None:
        """Disconnect, without what is not acknowledged."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _connected(self) -> Connection:
        if self._connection is None:
            connection = Connection(self._options, "", self._egress, is_persistent=False)
            connection.client.max_inflight_messages_set(MAX_IN_FLIGHT)
            connection.client.max_queued_messages_set(0)
            connection.client.on_publish = self._published
            self._unacknowledged, self._acknowledged, self._failure = set(), set(), None
            connection.open()
            self._connection = connection
        return self._connection

    def transfer(self, delivery: Delivery) -> None:
        """Publish a message for each row and statement; return when all are acknowledged."""
        prefix, index = f"{delivery.pipe_id}/{delivery.batch}/", 0
        try:
            for event in delivery.events:
                said = [("kind", kind_of(event))] + ([("category", event.category)] if isinstance(event, StatementEvent) else [])
                for topics, texts in self._messages(event):
                    self._publish(said, topics, texts, prefix, index)
                    index += len(texts)
        except BaseException:
            self.close()
            raise

    def _messages(self, event: Event) -> Iterator[tuple[Sequence[str], Sequence[str]]]:
        """Yield the topics and the texts of messages, in parts of bounded size."""
        if isinstance(event, StatementEvent):
            yield [self._topic_of(NO_PATH, NO_PATH)], [event.sql]
            return
        for start in range(0, event.data.rows.num_rows, ROWS_AT_A_TIME):
            yield self._encoded(event.data.with_rows(event.data.rows.slice(start, ROWS_AT_A_TIME)))

    def _encoded(self, data: DeviceRows) -> tuple[list[str], list[str]]:
        texts = self._encoder.encode(data)
        devices = as_array(pc.cast(texts.devices, "string")).dictionary_encode()
        topics = [self._topic_of(device, data.database) for device in devices.dictionary.to_pylist()]
        return [topics[number] for number in devices.indices.to_pylist()], texts.texts.to_pylist()

    def _topic_of(self, device: str, database: str) -> str:
        return self._topic.replace("${device}", topic_of(device)).replace("${database}", topic_of(database or NO_PATH))

    def _publish(self, said: list[tuple[str, str]], topics: Sequence[str], texts: Sequence[str], prefix: str, start: int) -> None:
        """Publish messages, and wait for their acknowledgments."""
        kind = said[0][1]
        if kind != INSERT and self._options.version != "5":
            raise TerminalError(
                f"MQTT {self._options.version} cannot say that a message is a {kind}",
                hint="set protocol.version=5, or leave deletes and schema changes out of the source's inclusion",
            )
        connection = self._connected()
        for index, (topic, text) in enumerate(zip(topics, texts, strict=True), start):
            properties = self._properties([*said, ("id", f"{prefix}{index}")])
            info = connection.client.publish(topic, text, self._qos, self._retains, properties)
            with self._changed:
                if info.mid in self._acknowledged:
                    self._acknowledged.discard(info.mid)
                else:
                    self._unacknowledged.add(info.mid)
        self._wait()

    def _properties(self, said: list[tuple[str, str]]) -> Any:
        """Return what version 5 says of a message beside its text."""
        if self._options.version != "5":
            return None
        from paho.mqtt.packettypes import PacketTypes
        from paho.mqtt.properties import Properties

        properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
        properties.UserProperty = said
        return properties

    def _published(self, _client: Any, _data: Any, mid: int, reason: Any, _properties: Any) -> None:
        """Note an acknowledgment, which may come before `publish` has returned."""
        with self._changed:
            if reason is not None and reason.is_failure:
                self._failure = self._failure or reason
            if mid in self._unacknowledged:
                self._unacknowledged.discard(mid)
            else:
                self._acknowledged.add(mid)
            self._changed.notify_all()

    def _wait(self) -> None:
        """Wait until all messages are acknowledged. The client sends them again if the connection breaks."""
        with self._changed:
            while self._unacknowledged and self._failure is None:
                remaining = len(self._unacknowledged)
                if not self._changed.wait(self._timeout_s) and len(self._unacknowledged) == remaining:
                    raise OperationalError(
                        f"the MQTT broker at {self._options.address} has not acknowledged {remaining} messages",
                        hint="check that the broker runs and has room",
                    )
            if self._failure is not None:
                raise TerminalError(
                    f"the MQTT broker at {self._options.address} rejects a message: {self._failure}",
                    hint="check the rights of the user and the limits of the broker",
                )


def create(attributes: PipeAttributes, pipe: PipeContext) -> Sink:
    """Return the sink, whose time limit is that of the settings unless an attribute says otherwise."""
    return MqttSink(attributes, pipe.context.settings.pipe_sink_timeout_ms, pipe.context.egress)
