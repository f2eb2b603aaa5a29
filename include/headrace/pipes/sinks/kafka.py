"""The sink that writes to Kafka: a message for each row, with the path of the device as its key."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from headrace.egress import EgressPolicy
from headrace.errors import DatabaseError, OperationalError, TerminalError
from headrace.pipes.attributes import PipeAttributes, pipe_error
from headrace.pipes.events import DeleteEvent, DeviceRows, Event, StatementEvent
from headrace.pipes.formats.codecs import encoder
from headrace.pipes.formats.messages import output_options
from headrace.pipes.formats.scalars import as_array
from headrace.pipes.kafka import (
    DELETE,
    HEADER_CATEGORY,
    HEADER_ID,
    HEADER_KIND,
    HEADER_PRECISION,
    INSERT,
    PRODUCER_FIXED,
    STATEMENT,
    TOPIC_NAME,
    checked_client,
    client_settings,
    is_refusal,
    message_of,
    partitions_of,
    raise_unreachable,
    require,
    translated,
)
from headrace.pipes.kafka_settings import endpoints
from headrace.pipes.plugins import Delivery, PipeContext, Sink

__all__ = ["create", "endpoints", "validate"]

DEFAULTS: Final = {
    "linger.ms": "5",
    "partitioner": "murmur2_random",  # that of Java's clients
    "queue.buffering.max.messages": "100000",
    "queue.buffering.max.kbytes": "65536",
}
ROWS_AT_A_TIME: Final = 20_000
"""Rows that are texts at a time."""
PLACEHOLDER: Final = re.compile(r"\$\{(\w*)\}")
NOT_IN_TOPICS: Final = r"[^A-Za-z0-9._-]"
NO_PATH: Final = "root"
"""What statements, which belong to no database, have in place of one."""

Header = tuple[str, str]


def validate(attributes: PipeAttributes) -> None:
    """Check the attributes of a sink."""
    require(attributes, "bootstrap.servers", "topic")
    output_options(attributes)
    attributes.boolean("topic.create", default=False)
    attributes.integer("topic.partitions", default=1)
    attributes.integer("topic.replication-factor", default=1)
    client_settings(attributes, "producer.", PRODUCER_FIXED)
    topic = attributes.text("topic")
    unknown = set(PLACEHOLDER.findall(topic)) - {"database", "device"}
    if unknown or not TOPIC_NAME.fullmatch(PLACEHOLDER.sub("x", topic)):
        raise pipe_error(f"topic {topic} is not the name of a topic", hint="use letters, digits, . _ -, ${database} and ${device}")


class KafkaSink(Sink):
    """Produces messages, and waits until all in-sync replicas have them."""

    def __init__(self, attributes: PipeAttributes, timeout_ms: int, egress: EgressPolicy) -> None:
        """Read the settings; connect later."""
        self._egress = egress
        self._servers = attributes.text("bootstrap.servers")
        self._topic = attributes.text("topic")
        self._creates = attributes.boolean("topic.create", default=False)
        self._partitions = attributes.integer("topic.partitions", default=1)
        self._replicas = attributes.integer("topic.replication-factor", default=1)
        self._options = output_options(attributes)
        self._encoder = encoder(self._options)
        self._settings = {
            **DEFAULTS,
            "message.timeout.ms": str(timeout_ms),
            **client_settings(attributes, "producer.", PRODUCER_FIXED),
            "delivery.report.only.error": True,
            "on_delivery": self._delivered,
            "error_cb": self._noted,
        }
        self._topics: set[str] = set()
        self._producer: Any = None
        self._failure: Any = None
        self._refusal: Any = None

    def handshake(self) -> None:
        """Connect, and check that the topic exists if its name is the same for all rows."""
        self.heartbeat()
        if not PLACEHOLDER.search(self._topic):
            self._check_topic(self._topic)

    def heartbeat(self) -> None:
        """Ask for the topics."""
        producer, self._refusal = self._connected(), None
        try:
            self._topics = set(partitions_of(producer, self._servers, self._egress))
        except OperationalError:
            producer.poll(0)
            if self._refusal is not None:
                raise translated(self._refusal, f"Kafka at {self._servers} cannot be used") from None
            raise

    def _noted(self, error: Any) -> None:
        """Note that the broker refuses the client, or the client the broker: the client only tries again."""
        self._refusal = error if is_refusal(error) else self._refusal

    def transfer(self, delivery: Delivery) -> None:
        """Produce a message for each row and statement; return when all are acknowledged."""
        prefix = f"{delivery.pipe_id}/{delivery.batch}/"
        index = 0
        try:
            for event in delivery.events:
                index = self._send(event, prefix, index)
            self._flush()
        except BaseException:
            self._drop_producer()
            raise

    def close(self) -> None:
        """Drop what is not acknowledged, and disconnect."""
        self._drop_producer()

    def _connected(self) -> Any:
        """Return the producer."""
        if self._producer is None:
            from confluent_kafka import Producer

            self._failure = None
            self._producer = checked_client(Producer, self._settings, self._egress)
        return self._producer

    def _drop_producer(self) -> None:
        """Forget the producer with its messages: those of the next try must not follow them."""
        if self._producer is not None:
            self._producer.purge()
            self._producer.flush(0)
            self._producer = None

    def _delivered(self, error: Any, _: Any) -> None:
        """Remember the first failure, which is the cause of others."""
        self._failure = self._failure or error

    def _send(self, event: Event, prefix: str, index: int) -> int:
        """Produce the messages of an event; return the index of the next message."""
        if isinstance(event, StatementEvent):
            headers = [(HEADER_KIND, STATEMENT), (HEADER_CATEGORY, event.category)]
            topics = self._topics_of(NO_PATH, pa.array([NO_PATH]))
            return self._produce(topics, [STATEMENT], [event.sql], headers, prefix, index)
        kind = DELETE if isinstance(event, DeleteEvent) else INSERT
        headers = [(HEADER_KIND, kind), (HEADER_PRECISION, self._options.output_precision(event.data.precision).value)]
        for part in slices(event.data):
            texts = self._encoder.encode(part)
            devices = as_array(pc.cast(texts.devices, pa.string()))
            topics = self._topics_of(part.database, devices)
            index = self._produce(topics, devices.to_pylist(), texts.texts.to_pylist(), headers, prefix, index)
        return index

    def _produce(
        self, topics: Sequence[str], keys: Sequence[str], values: Sequence[str], headers: list[Header], prefix: str, start: int
    ) -> int:
        """Hand messages to the producer, which has a bounded queue; return the index of the next message."""
        from confluent_kafka import KafkaException

        producer = self._connected()
        produce = producer.produce
        repeated = topics if len(topics) == len(keys) else [topics[0]] * len(keys)
        for index, (topic, key, value) in enumerate(zip(repeated, keys, values, strict=True), start):
            own = [*headers, (HEADER_ID, f"{prefix}{index}")]
            try:
                produce(topic, value, key, headers=own)
            except BufferError:
                self._make_room(topic, value, key, own)
            except KafkaException as error:
                raise translated(error.args[0], f"a message for topic {topic} cannot be sent") from None
        producer.poll(0)
        self._raise_failure()
        return start + len(keys)

    def _make_room(self, topic: str, value: str, key: str, headers: list[Header]) -> None:
        """Produce a message as soon as the queue has room for it. Messages that wait too long leave the queue as failures."""
        while True:
            self._producer.poll(0.05)
            self._raise_failure()
            try:
                self._producer.produce(topic, value, key, headers=headers)
                return
            except BufferError:
                continue

    def _flush(self) -> None:
        """Wait until all messages are acknowledged, or one has failed."""
        producer = self._connected()
        while producer.flush(1.0) and self._failure is None:
            pass
        self._raise_failure()

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise translated(self._failure, f"Kafka at {self._servers} has not acknowledged a message")

    def _topics_of(self, database: str, devices: pa.Array) -> list[str]:
        """Return the topics of rows: one for all, or one for each row. All exist."""
        pattern = self._topic.replace("${database}", re.sub(NOT_IN_TOPICS, "_", database or NO_PATH))
        if "${device}" not in pattern:
            self._check_topic(pattern)
            return [pattern]
        encoded = devices.dictionary_encode()
        names = [pattern.replace("${device}", re.sub(NOT_IN_TOPICS, "_", device)) for device in encoded.dictionary.to_pylist()]
        for name in names:
            self._check_topic(name)
        topics: list[str] = pa.array(names, pa.string()).take(encoded.indices).to_pylist()
        return topics

    def _check_topic(self, topic: str) -> None:
        """Raise an error if a topic does not exist and cannot be created."""
        if topic in self._topics:
            return
        if not self._creates:
            self.heartbeat()
        if topic not in self._topics and not self._creates:
            raise TerminalError(f"Kafka topic {topic} does not exist", hint="create it, or set topic.create=true")
        if topic not in self._topics:
            self._create_topic(topic)
        self._topics.add(topic)

    def _create_topic(self, topic: str) -> None:
        from confluent_kafka import KafkaError, KafkaException
        from confluent_kafka.admin import AdminClient
        from confluent_kafka.cimpl import NewTopic

        settings = {
            key: value for key, value in self._settings.items() if key.startswith(("bootstrap", "security.", "sasl.", "ssl."))
        }
        client = checked_client(AdminClient, settings, self._egress)
        try:
            client.create_topics([NewTopic(topic, self._partitions, self._replicas)])[topic].result(60)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise self._not_created(topic, error) from None

    def _not_created(self, topic: str, error: Any) -> DatabaseError:
        from confluent_kafka import KafkaError

        if error.args[0].code() in (KafkaError._TRANSPORT, KafkaError._TIMED_OUT):
            raise_unreachable(self._servers, error)
        return TerminalError(f"Kafka topic {topic} cannot be created: {message_of(error)}", hint="create it yourself")


def slices(data: DeviceRows) -> Iterator[DeviceRows]:
    """Yield rows in parts of bounded size."""
    for start in range(0, data.rows.num_rows, ROWS_AT_A_TIME):
        yield data.with_rows(data.rows.slice(start, ROWS_AT_A_TIME))


def create(attributes: PipeAttributes, pipe: PipeContext) -> Sink:
    """Return the sink, whose time limit is that of the settings unless an attribute says otherwise."""
    return KafkaSink(attributes, pipe.context.settings.pipe_sink_timeout_ms, pipe.context.egress)
