"""The source that reads from Kafka. The position is the pipe's own: it survives without a consumer group."""

from __future__ import annotations

import logging
import re
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from headrace.egress import EgressPolicy
from headrace.errors import OperationalError, TerminalError
from headrace.model.positions import Offsets
from headrace.pipes.attributes import PipeAttributes, pipe_error
from headrace.pipes.formats.messages import Unreadable, input_options, listed, unreadable_error
from headrace.pipes.kafka import (
    PRODUCER_FIXED,
    REQUEST_S,
    checked_client,
    client_settings,
    partitions_of,
    raise_unreachable,
    require,
    translated,
)
from headrace.pipes.kafka_settings import endpoints
from headrace.pipes.plugins import PipeContext, Source, SourceBatch
from headrace.pipes.sources.kafka_messages import Decoders, events_of_messages, where

__all__ = ["create", "endpoints", "validate"]

LOG: Final = logging.getLogger(__name__)
FIXED: Final = {"enable.auto.commit": "false", "enable.auto.offset.store": "false", "auto.offset.reset": "error"}
DEFAULTS: Final = {
    "queued.max.messages.kbytes": "32768",
    "fetch.error.backoff.ms": "100",
    "allow.auto.create.topics": "false",
}
POLL_S: Final = 0.02
"""How long a read waits for a message, or for more of them, in seconds."""
FIRST_S: Final = 5.0
"""How long to wait for the first of messages that are known to exist, in seconds."""
LOOK_S: Final = 1.0
"""How long the consumer is not asked for errors while there are no messages, in seconds."""
RANGE_S: Final = 60.0
"""How long it may take to read messages again that have been read before, in seconds."""
CHUNK: Final = 10_000
Partition = tuple[str, int]


def validate(attributes: PipeAttributes) -> None:
    """Check the attributes of a source."""
    require(attributes, "bootstrap.servers", "topics")
    input_options(attributes)
    start_of(attributes)
    client_settings(attributes, "consumer.", FIXED)
    attributes.choice("on-error", options=("fail", "skip"), default="fail")
    for key in ("max.poll.records", "max.poll.bytes", "partitions.refresh-seconds"):
        if attributes.integer(key, default=1) <= 0:
            raise pipe_error(f"{key} must be > 0, but got {attributes.integer(key, default=1)}")
    if is_pattern(attributes.text("topics")):
        matching(attributes.text("topics"), [""])


def is_pattern(topics: str) -> bool:
    """Return whether topics are a regular expression, as for Kafka's own consumers."""
    return topics.startswith("^")


def matching(pattern: str, topics: Iterable[str]) -> list[str]:
    """Return the topics that a regular expression matches, in linear time; raise `ProgrammingError` if it is none."""
    names = pa.array(topics, pa.string())
    try:
        is_matching = pc.match_substring_regex(names, f"^(?:{pattern})")
    except pa.ArrowInvalid as error:
        raise pipe_error(f"topics {pattern} is not a regular expression: {error}") from None
    matched: list[str] = names.filter(is_matching).to_pylist()
    return matched


def start_of(attributes: PipeAttributes) -> str | int:
    """Return where to begin: `earliest`, `latest` or an instant in epoch milliseconds."""
    start = attributes.text("start", default="earliest")
    if start in ("earliest", "latest"):
        return start
    if not re.fullmatch(r"\d{1,18}", start):
        raise pipe_error(f"Invalid value {start} of start. The value should be earliest, latest or a time in epoch milliseconds")
    return int(start)


def key_of(partition: Partition) -> str:
    """Return the name of a partition among the offsets."""
    return f"{partition[0]}:{partition[1]}"


def partition_of(key: str) -> Partition:
    """Return the partition that has a name."""
    topic, _, number = key.rpartition(":")
    return topic, int(number)


class KafkaSource(Source):
    """Reads the partitions of topics from offsets that it is given.

    A batch has the messages of its partitions one partition after another, so the offsets before and after it determine it. A batch
    in which partitions appear for the first time has no messages: it records where they begin.
    """

    def __init__(self, attributes: PipeAttributes, pipe_id: str, egress: EgressPolicy) -> None:
        """Read the settings; connect later."""
        self._egress = egress
        self._servers = attributes.text("bootstrap.servers")
        self._topics = attributes.text("topics")
        self._start = start_of(attributes)
        self._max_records = attributes.integer("max.poll.records", default=50_000)
        self._max_bytes = attributes.integer("max.poll.bytes", default=16 << 20)
        self._refresh_s = attributes.integer("partitions.refresh-seconds", default=30)
        self._group = attributes.text("group.id")
        self._decoders = Decoders(input_options(attributes))
        self._dead_letters = DeadLetters(attributes, egress)
        self._skips = attributes.text("on-error") == "skip"
        group = {"group.id": self._group or f"headrace-{pipe_id}"}
        self._settings = {**DEFAULTS, **client_settings(attributes, "consumer.", FIXED), **group, "error_cb": self._noted}
        self._consumer: Any = None
        self._partitions: set[Partition] = set()
        self._refreshed = float("-inf")
        self._next: dict[str, int] = {}
        self._ends: dict[str, int] = {}
        self._read_at = float("-inf")
        self._is_down = False
        self.skipped = 0
        """The number of messages that were skipped."""

    def read(self, offsets: Offsets, until: Offsets | None = None) -> SourceBatch | None:
        """Return the messages after some offsets, or exactly those up to others."""
        if until is not None:
            ranges = {key: (offsets[key], end) for key, end in until.items() if key in offsets and offsets[key] < end}
            return self._batch(self._fetch_ranges(ranges), until)
        self._refresh()
        starts = self._starts([one for one in sorted(self._partitions) if key_of(one) not in offsets], is_first=not offsets)
        if starts:
            return SourceBatch((), {**offsets, **starts})
        if not offsets:
            return None
        self._assign(offsets)
        self._read_at = time.monotonic()
        fetched = self._fetch()
        deadline = time.monotonic() + FIRST_S
        while not fetched and any(end > offsets.get(key, end) for key, end in self._ends.items()) and time.monotonic() < deadline:
            fetched = self._fetch()
        self._ends = {}
        if not fetched:
            self._raise_if_down()
            return None
        ends = {key: messages[-1].offset() + 1 for key, messages in fetched.items()}
        self._next.update(ends)
        return self._batch(fetched, {**offsets, **ends})

    def has_news(self, offsets: Offsets) -> bool:
        """Return whether the consumer knows of messages; from time to time True, so that `read` learns of errors."""
        if self._consumer is None or self._next != dict(offsets) or time.monotonic() - self._read_at > LOOK_S:
            return True
        return any(self._range(partition_of(key), is_cached=True)[1] > offset for key, offset in offsets.items())

    def pending(self, offsets: Offsets) -> tuple[int, int | None]:
        """Return how many messages follow, as far as the brokers have shown."""
        ends = {key: self._range(partition_of(key), is_cached=key in self._next)[1] for key in offsets}
        total = sum(max(0, ends[key] - offset) for key, offset in offsets.items())
        return total, None

    def acknowledge(self, offsets: Offsets) -> None:
        """Commit the offsets for a group, if one is named: only tools that show its lag read them."""
        if not self._group or not offsets:
            return
        from confluent_kafka import KafkaException, TopicPartition

        try:
            positions = [TopicPartition(*partition_of(key), offset) for key, offset in offsets.items()]
            self._connected().commit(offsets=positions, asynchronous=True)
        except KafkaException as error:
            LOG.warning("offsets of group %s not committed: %s", self._group, error)

    def close(self) -> None:
        """Disconnect."""
        self._dead_letters.close()
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def _connected(self) -> Any:
        if self._consumer is None:
            from confluent_kafka import Consumer

            self._consumer = checked_client(Consumer, self._settings, self._egress)
            self._next = {}
        return self._consumer

    def _range(self, partition: Partition, *, is_cached: bool = False) -> tuple[int, int]:
        """Return the first offset of a partition and that after the last, negative if they are to be cached and are not known."""
        from confluent_kafka import KafkaException, TopicPartition

        try:
            offsets = self._connected().get_watermark_offsets(TopicPartition(*partition), timeout=REQUEST_S, cached=is_cached)
        except KafkaException as error:
            raise_unreachable(self._servers, error)
        if offsets is None:
            raise OperationalError(f"Kafka at {self._servers} does not say what {key_of(partition)} has", hint="check the brokers")
        low, high = offsets
        return low, high

    def _noted(self, error: Any) -> None:
        """Note that all brokers are down: a consumer only waits for them."""
        from confluent_kafka import KafkaError

        self._is_down = self._is_down or error.code() == KafkaError._ALL_BROKERS_DOWN

    def _raise_if_down(self) -> None:
        """Raise `OperationalError` if the brokers were down and still are."""
        if self._is_down:
            partitions_of(self._connected(), self._servers, self._egress, REQUEST_S / 2)
            self._is_down = False

    def _refresh(self) -> None:
        """Look for new partitions from time to time."""
        if time.monotonic() - self._refreshed < self._refresh_s and self._partitions:
            return
        topics = partitions_of(self._connected(), self._servers, self._egress)
        if is_pattern(self._topics):
            names = [name for name in matching(self._topics, topics) if not name.startswith("__")]
        else:
            names = list(listed(self._topics))
            for name in names:
                if name not in topics:
                    raise OperationalError(f"Kafka topic {name} does not exist", hint="create it, or name another one")
        self._partitions = {(name, number) for name in names for number in topics[name]}
        self._refreshed = time.monotonic()

    def _starts(self, partitions: Sequence[Partition], *, is_first: bool) -> dict[str, int]:
        """Return where partitions begin. Those that appear later are read from their beginning."""
        from confluent_kafka import KafkaException, TopicPartition

        starts = {}
        try:
            for one in partitions:
                low, high = self._range(one)
                starts[key_of(one)] = high if is_first and self._start != "earliest" else low
            if is_first and isinstance(self._start, int) and partitions:
                wanted = [TopicPartition(*one, self._start) for one in partitions]
                for first in self._connected().offsets_for_times(wanted, timeout=REQUEST_S):
                    if first.offset >= 0:
                        starts[key_of((first.topic, first.partition))] = first.offset
        except KafkaException as error:
            raise_unreachable(self._servers, error)
        return starts

    def _assign(self, offsets: Offsets) -> None:
        """Have the consumer continue from offsets, if it would not do so already."""
        if self._consumer is not None and self._next == dict(offsets):
            return
        from confluent_kafka import TopicPartition

        self._ends = {key: self._range(partition_of(key))[1] for key in offsets}
        self._connected().assign([TopicPartition(*partition_of(key), offset) for key, offset in offsets.items()])
        self._next = dict(offsets)

    def _fetch(self) -> dict[str, list[Any]]:
        """Return the next messages of all partitions, up to the limits of a batch."""
        fetched: dict[str, list[Any]] = defaultdict(list)
        count = size = 0
        while count < self._max_records and size < self._max_bytes:
            wanted = min(CHUNK, self._max_records - count)
            chunk = self._consume(wanted)
            for message in chunk:
                fetched[f"{message.topic()}:{message.partition()}"].append(message)
                size += len(message)
            count += len(chunk)
            if len(chunk) < wanted:
                break
        return {key: fetched[key] for key in sorted(fetched)}

    def _fetch_ranges(self, ranges: Mapping[str, tuple[int, int]]) -> dict[str, list[Any]]:
        """Return exactly the messages of ranges of offsets."""
        if not ranges:
            return {}
        self._next = {}
        self._assign({key: start for key, (start, _) in ranges.items()})
        self._next = {}
        fetched: dict[str, list[Any]] = {key: [] for key in ranges}
        missing, deadline = set(ranges), time.monotonic() + RANGE_S
        while missing:
            for message in self._consume(CHUNK):
                key, end = f"{message.topic()}:{message.partition()}", ranges[f"{message.topic()}:{message.partition()}"][1]
                if message.offset() < end:
                    fetched[key].append(message)
                if message.offset() >= end - 1:
                    missing.discard(key)
            if time.monotonic() > deadline:
                raise OperationalError(f"Kafka at {self._servers} does not return messages of {', '.join(sorted(missing))} again")
        return {key: messages for key, messages in sorted(fetched.items()) if messages}

    def _consume(self, count: int) -> list[Any]:
        """Return messages that have come.

        Raises:
            TerminalError: Messages at the position have been deleted, or may not be read.
        """
        from confluent_kafka import KafkaError

        messages = self._connected().consume(count, POLL_S)
        for message in messages:
            error = message.error()
            if error is None:
                continue
            self._next = {}
            key = key_of((message.topic(), message.partition()))
            if error.code() == KafkaError._AUTO_OFFSET_RESET:
                raise TerminalError(
                    f"Kafka has deleted messages of {key} that were not read: {error.str()}",
                    hint="create the pipe again, or keep messages longer in the topic",
                )
            raise translated(error, f"Kafka topic {key} cannot be read")
        return list(messages)

    def _batch(self, fetched: Mapping[str, Sequence[Any]], offsets: Offsets) -> SourceBatch:
        """Return messages as events. Those that cannot be read go to the topic for dead letters, are skipped, or are an error."""
        messages = [message for part in fetched.values() for message in part]
        events, unreadable = events_of_messages(messages, self._decoders)
        if unreadable:
            self._handle(messages, unreadable)
        return SourceBatch(events, offsets)

    def _handle(self, messages: Sequence[Any], unreadable: Sequence[Unreadable]) -> None:
        first = unreadable[0]
        if self._dead_letters.is_enabled:
            self._dead_letters.send([(messages[one.index], one.reason) for one in unreadable])
        elif not self._skips:
            self._next = {}
            raise unreadable_error(where(messages[first.index]), first.reason)
        self.skipped += len(unreadable)
        LOG.warning("skipped %d messages, the first %s: %s", len(unreadable), where(messages[first.index]), first.reason)


def create(attributes: PipeAttributes, context: PipeContext) -> Source:
    """Return the source."""
    return KafkaSource(attributes, context.pipe_id, context.context.egress)


FLUSH_S: Final = 60.0


class DeadLetters:
    """Produces messages to the topic `dead-letter.topic`, if there is one."""

    def __init__(self, attributes: PipeAttributes, egress: EgressPolicy) -> None:
        """Read the settings; connect when there is a message."""
        self._egress = egress
        self._topic = attributes.text("dead-letter.topic")
        self._settings = client_settings(attributes, "producer.", PRODUCER_FIXED)
        self._producer: Any = None
        self._failure: Any = None

    @property
    def is_enabled(self) -> bool:
        """Whether there is such a topic."""
        return bool(self._topic)

    def send(self, letters: Sequence[tuple[Any, str]]) -> None:
        """Send messages with the reasons why they cannot be read; return when they are acknowledged."""
        from confluent_kafka import Producer

        self._producer = self._producer or checked_client(Producer, self._settings, self._egress)
        self._failure = None
        for message, reason in letters:
            origin = {"topic": message.topic(), "partition": str(message.partition()), "offset": str(message.offset())}
            headers = [
                *(message.headers() or ()),
                *((f"dead-letter.{key}", text) for key, text in {**origin, "reason": reason}.items()),
            ]
            self._producer.produce(self._topic, message.value(), message.key(), headers=headers, on_delivery=self._delivered)
        remaining = self._producer.flush(FLUSH_S)
        if self._failure is not None:
            raise translated(self._failure, f"Kafka topic {self._topic} has not acknowledged a message that cannot be read")
        if remaining:
            raise OperationalError(f"Kafka topic {self._topic} has not acknowledged messages that cannot be read")

    def close(self) -> None:
        """Disconnect."""
        self._producer = None

    def _delivered(self, error: Any, _: Any) -> None:
        self._failure = self._failure or error
