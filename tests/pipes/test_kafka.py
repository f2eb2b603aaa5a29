"""The source and the sink of Kafka, with a real broker."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from typing import Any

import pytest

from headrace.egress import EgressPolicy
from headrace.errors import EgressDeniedError, OperationalError, ProgrammingError, TerminalError
from headrace.model.time import Precision
from headrace.pipes.events import DeleteEvent, Event, InsertEvent, StatementEvent
from headrace.runtime.processes import find_free_port
from headrace.settings import load
from tests.pipes.formats.samples import device_rows, points
from tests.pipes.running import created, data_of, delivery, read_all
from tests.support.kafka_broker import Broker, running_broker
from tests.support.waiting import wait_until


def sink_settings(broker: Broker, topic: str, **more: str) -> dict[str, str]:
    return {"bootstrap.servers": broker.bootstrap, "topic": topic, **{key.replace("__", "."): value for key, value in more.items()}}


def source_settings(broker: Broker, topics: str, **more: str) -> dict[str, str]:
    return {
        "bootstrap.servers": broker.bootstrap,
        "topics": topics,
        **{key.replace("__", "."): value for key, value in more.items()},
    }


def messages_of(broker: Broker, topic: str, count: int) -> list[Any]:
    """Return the first messages of a topic, by partition."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "test"})
    try:
        partitions = consumer.list_topics(topic).topics[topic].partitions
        consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
        found: list[Any] = []
        while len(found) < count:
            found += consumer.consume(count, 1.0)
        return sorted(found, key=lambda message: (message.partition(), message.offset()))
    finally:
        consumer.close()


def produce(broker: Broker, topic: str, *values: str | bytes | None, key: str | None = None, partition: int = -1) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": broker.bootstrap, "acks": "all"})
    for value in values:
        producer.produce(topic, value, key, partition=partition)
    assert producer.flush(60) == 0


def payload(device: str, time: int, value: Any) -> str:
    return json.dumps({"device": device, "timestamp": time, "measurements": ["s1"], "values": [value]})


def test_brokers_that_a_broker_names_have_to_be_allowed(kafka: Broker) -> None:
    topic, port = kafka.create_topic(), kafka.bootstrap.rpartition(":")[2]
    settings = {"bootstrap.servers": f"localhost:{port}"}
    limited = EgressPolicy(load(egress="localhost"), lambda: False)
    refused = pytest.raises(EgressDeniedError, match=f"kafka at 127.0.0.1:{port}")
    with closing(created("kafka-sink", {**settings, "topic": topic}, egress=limited)) as sink, refused:
        sink.handshake()
    refused = pytest.raises(EgressDeniedError, match=f"kafka at 127.0.0.1:{port}")
    with closing(created("kafka-source", {**settings, "topics": topic}, egress=limited)) as source, refused:
        source.read({})
    both = EgressPolicy(load(egress="localhost, 127.0.0.1"), lambda: False)
    with closing(created("kafka-sink", {**settings, "topic": topic}, egress=both)) as sink:
        sink.handshake()


def test_sink_sends_a_message_for_each_row(kafka: Broker) -> None:
    topic = kafka.create_topic(partitions=3)
    sink = created("kafka-sink", sink_settings(kafka, topic))
    sink.handshake()

    rows = device_rows(range(6), ["root.sg.d1", "root.sg.d2"] * 3, s1=[float(n) for n in range(6)])
    sink.transfer(delivery(rows, batch=7))
    sink.close()

    messages = messages_of(kafka, topic, 6)
    assert {message.key() for message in messages} == {b"root.sg.d1", b"root.sg.d2"}
    values = [json.loads(message.value()) for message in messages if message.key() == b"root.sg.d1"]
    assert values == [{"device": "root.sg.d1", "timestamp": n, "measurements": ["s1"], "values": [n]} for n in (0, 2, 4)]
    headers = sorted((dict(message.headers()) for message in messages), key=lambda one: one["id"])
    assert headers[3] == {"kind": b"insert", "precision": b"ms", "id": b"pipe-1/7/3"}


def test_deletes_and_statements_are_messages_of_their_own(kafka: Broker) -> None:
    topic = kafka.create_topic()
    sink = created("kafka-sink", sink_settings(kafka, topic))
    rows = device_rows([1], ["root.sg.d1"], precision=Precision.NANOSECOND, s1=[0.5])
    events: list[Event] = [
        StatementEvent("CREATE DATABASE root.sg", "schema.database.create"),
        InsertEvent(rows),
        DeleteEvent(rows),
    ]

    sink.transfer(delivery(*events))
    sink.close()

    source = created("kafka-source", source_settings(kafka, topic, database="root.sg"))
    batches, _ = read_all(source, {}, 1)
    source.close()
    read = [event for batch in batches for event in batch.events]
    assert [type(event) for event in read] == [StatementEvent, InsertEvent, DeleteEvent]
    assert read[0] == events[0]
    assert points([read[2].data]) == points([rows])  # type: ignore[union-attr]
    assert read[2].data.precision is Precision.NANOSECOND  # type: ignore[union-attr]


def test_topic_may_depend_on_database_and_device(kafka: Broker) -> None:
    prefix = f"p{find_free_port()}"
    settings = sink_settings(kafka, prefix + ".${database}.${device}", topic__create="true", topic__partitions="2")
    sink = created("kafka-sink", settings)

    sink.handshake()
    sink.transfer(delivery(device_rows([1, 2], ["root.sg.d1", "root.sg.`a b`"], s1=[1.0, 2.0])))
    sink.close()

    assert len(messages_of(kafka, f"{prefix}.root.sg.root.sg.d1", 1)) == 1
    assert len(messages_of(kafka, f"{prefix}.root.sg.root.sg._a_b_", 1)) == 1


def test_handshake_says_what_is_missing(kafka: Broker) -> None:
    with pytest.raises(TerminalError, match="Kafka topic nowhere does not exist"):
        created("kafka-sink", sink_settings(kafka, "nowhere")).handshake()
    absent = {
        "bootstrap.servers": f"127.0.0.1:{find_free_port()}",
        "topic": "t",
        "producer.socket.connection.setup.timeout.ms": "1000",
    }
    with pytest.raises(OperationalError, match="cannot be reached"):
        created("kafka-sink", absent).handshake()


def test_message_that_is_too_large_is_an_error_for_users(kafka: Broker) -> None:
    sink = created("kafka-sink", sink_settings(kafka, kafka.create_topic(max_message_bytes="2000")))

    with pytest.raises(TerminalError, match="large"):
        sink.transfer(delivery(device_rows([1], ["root.sg.d1"], s1=["x" * 5000])))

    sink.transfer(delivery(device_rows([1], ["root.sg.d1"], s1=["x"])))
    sink.close()


@pytest.mark.parametrize(
    ("plugin", "settings", "message"),
    [
        ("kafka-sink", {"topic": "t"}, "bootstrap.servers must be specified"),
        ("kafka-sink", {"bootstrap.servers": "h:1"}, "topic must be specified"),
        ("kafka-sink", {"bootstrap.servers": "h:1", "topic": "a b"}, "topic a b is not the name of a topic"),
        ("kafka-sink", {"bootstrap.servers": "h:1", "topic": "${table}"}, "is not the name of a topic"),
        (
            "kafka-sink",
            {"bootstrap.servers": "h:1", "topic": "t", "producer.acks": "0"},
            "producer.acks cannot be 0: it is always all",
        ),
        ("kafka-sink", {"bootstrap.servers": "h:1", "topic": "t", "format": "xml"}, "Invalid value xml of format"),
        ("kafka-source", {"bootstrap.servers": "h:1"}, "topics must be specified"),
        ("kafka-source", {"bootstrap.servers": "h:1", "topics": "^("}, "is not a regular expression"),
        ("kafka-source", {"bootstrap.servers": "h:1", "topics": "t", "start": "now"}, "Invalid value now of start"),
        ("kafka-source", {"bootstrap.servers": "h:1", "topics": "t", "max.poll.records": "0"}, "max.poll.records must be > 0"),
        (
            "kafka-source",
            {"bootstrap.servers": "h:1", "topics": "t", "device": "root.a.b", "device.key": "true"},
            "only one of device",
        ),
    ],
)
def test_invalid_attributes_are_rejected(plugin: str, settings: dict[str, str], message: str) -> None:
    with pytest.raises(ProgrammingError) as caught:
        created(plugin, settings)
    assert message in caught.value.message
    assert caught.value.status is not None


@pytest.fixture
def filled(kafka: Broker) -> str:
    """Return a topic with two partitions, each with ten rows of a device."""
    topic = kafka.create_topic(partitions=2)
    for partition in range(2):
        produce(kafka, topic, *(payload(f"root.sg.d{partition}", n, n) for n in range(10)), partition=partition)
    return topic


def test_same_range_has_the_same_events_again(kafka: Broker, filled: str) -> None:
    source = created("kafka-source", source_settings(kafka, filled, max__poll__records="7"))
    batches, offsets = read_all(source, {}, 20)
    assert offsets == {f"{filled}:0": 10, f"{filled}:1": 10}
    assert not batches[0].events
    assert source.pending(offsets) == (0, None)

    other = created("kafka-source", source_settings(kafka, filled, max__poll__records="7"))
    before: dict[str, int] = {}
    for batch in batches:
        again = other.read(before, batch.offsets)
        assert again is not None
        assert again.offsets == batch.offsets
        assert points(data_of(again.events)) == points(data_of(batch.events))
        before = dict(batch.offsets)
    assert other.read(offsets) is None
    assert not other.has_news(offsets)
    produce(kafka, filled, payload("root.sg.d1", 10, 10), partition=1)
    wait_until(lambda: other.has_news(offsets), "the consumer to know of the message")
    (batch,), _ = read_all(other, offsets, 1)
    assert points(data_of(batch.events)) == [("root.sg.d1", 10, "s1", 10.0)]
    source.close()
    other.close()


def test_order_of_a_device_is_kept(kafka: Broker, filled: str) -> None:
    source = created("kafka-source", source_settings(kafka, filled))
    batches, _ = read_all(source, {}, 20)
    source.close()

    read = [point for batch in batches for point in points(data_of(batch.events))]
    for device in ("root.sg.d0", "root.sg.d1"):
        assert [time for name, time, _, _ in read if name == device] == list(range(10))


def test_source_may_begin_at_the_end_or_at_a_time(kafka: Broker, filled: str) -> None:
    instant = messages_of(kafka, filled, 20)[-1].timestamp()[1]
    latest = created("kafka-source", source_settings(kafka, filled, start="latest"))
    assert latest.read({}).offsets == {f"{filled}:0": 10, f"{filled}:1": 10}
    timed = created("kafka-source", source_settings(kafka, filled, start=str(instant)))
    offsets = timed.read({}).offsets
    assert 0 <= offsets[f"{filled}:1"] < 10
    future = created("kafka-source", source_settings(kafka, filled, start=str(instant + 3_600_000)))
    assert future.read({}).offsets == {f"{filled}:0": 10, f"{filled}:1": 10}
    for source in (latest, timed, future):
        source.close()


def test_new_topics_and_partitions_are_found(kafka: Broker) -> None:
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewPartitions

    prefix = f"q{find_free_port()}"
    source = created("kafka-source", source_settings(kafka, f"^{prefix}-", start="latest") | {"partitions.refresh-seconds": "1"})
    assert source.read({}) is None
    topic = kafka.create_topic(name=f"{prefix}-a")

    def is_found() -> bool:
        with suppress(OperationalError):  # a new topic has no leader at first; a pipe reads again then
            return source.read({}) is not None
        return False

    wait_until(is_found, "the topic")
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.create_partitions([NewPartitions(topic, 2)])[topic].result(60)
    wait_until(lambda: len(admin.list_topics(topic).topics[topic].partitions) == 2, "the partition")
    produce(kafka, topic, payload("root.sg.d1", 1, 1), partition=1)
    _, offsets = read_all(source, {f"{topic}:0": 0}, 1)
    assert offsets == {f"{topic}:0": 0, f"{topic}:1": 1}
    source.close()


def test_message_that_cannot_be_read_stops_the_pipe(kafka: Broker) -> None:
    topic = kafka.create_topic()
    produce(kafka, topic, payload("root.sg.d1", 1, 1), b"\xff", payload("root.sg.d1", 2, 2))
    source = created("kafka-source", source_settings(kafka, topic))
    start = source.read({}).offsets

    for _ in range(2):
        with pytest.raises(TerminalError, match=f"of topic {topic}, partition 0, offset 1 cannot be read: it is not JSON"):
            wait_until(lambda: source.read(start), "the messages")
    source.close()


def test_unreadable_messages_may_be_skipped_or_kept_aside(kafka: Broker) -> None:
    topic, aside = kafka.create_topic(), kafka.create_topic()
    produce(kafka, topic, payload("root.sg.d1", 1, 1), "nonsense", payload("root.sg.d1", 2, 2), key="k")
    skipping = created("kafka-source", source_settings(kafka, topic) | {"on-error": "skip"})
    keeping = created("kafka-source", source_settings(kafka, topic) | {"dead-letter.topic": aside})

    for source in (skipping, keeping):
        batches, offsets = read_all(source, {}, 2)
        assert offsets == {f"{topic}:0": 3}
        assert [time for batch in batches for _, time, _, _ in points(data_of(batch.events))] == [1, 2]
        assert source.skipped == 1
        source.close()
    (letter,) = messages_of(kafka, aside, 1)
    assert (letter.key(), letter.value()) == (b"k", b"nonsense")
    assert dict(letter.headers())["dead-letter.offset"] == b"1"
    assert dict(letter.headers())["dead-letter.reason"] == b"it is not JSON"


def test_deleted_messages_that_were_not_read_are_an_error(kafka: Broker, filled: str) -> None:
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import AdminClient

    source = created("kafka-source", source_settings(kafka, filled))
    partition = TopicPartition(filled, 0, 5)
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.delete_records([partition])[partition].result(60)

    with pytest.raises(TerminalError, match=f"Kafka has deleted messages of {filled}:0"):
        wait_until(lambda: source.read({f"{filled}:0": 2, f"{filled}:1": 10}), "the error")
    source.close()


def test_group_shows_the_position(kafka: Broker, filled: str) -> None:
    from confluent_kafka import Consumer, TopicPartition

    source = created("kafka-source", source_settings(kafka, filled, group__id=f"group-{filled}"))
    read_all(source, {}, 20)
    monitor = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": f"group-{filled}"})
    partitions = [TopicPartition(filled, number) for number in range(2)]
    wait_until(lambda: [one.offset for one in monitor.committed(partitions, timeout=60)] == [10, 10], "the offsets of the group")
    source.close()
    monitor.close()


@pytest.fixture
def own_broker() -> Iterator[Broker]:
    """Provide a broker that the test may kill."""
    with running_broker() as broker:
        yield broker


def test_nothing_is_lost_when_the_broker_is_killed(own_broker: Broker) -> None:
    """While batches are written and read, the broker is killed and started again."""
    topic = own_broker.create_topic(partitions=2)
    devices = [f"root.sg.d{number}" for number in range(5)]
    batches = [
        device_rows([batch * 100 + n // 5 for n in range(500)], devices * 100, s1=[float(n) for n in range(500)])
        for batch in range(20)
    ]
    sink = created("kafka-sink", sink_settings(own_broker, topic))
    sink.handshake()
    started = threading.Event()

    def deliver() -> None:
        for number, rows in enumerate(batches):
            wait_until(lambda rows=rows, number=number: is_delivered(rows, number), "the delivery")  # type: ignore[misc]
            if number == 3:
                started.set()

    def is_delivered(rows: Any, number: int) -> bool:
        with suppress(OperationalError):
            sink.transfer(delivery(rows, batch=number))
            return True
        return False

    writer = threading.Thread(target=deliver)
    writer.start()
    started.wait()
    own_broker.kill()
    own_broker.start()
    writer.join()
    source = created("kafka-source", source_settings(own_broker, topic))
    read, offsets = read_all(source, {}, 10_000)
    own_broker.kill()
    with pytest.raises(OperationalError, match="cannot be reached"):
        wait_until(lambda: source.read(offsets) and False, "the error")
    own_broker.start()
    sink.transfer(delivery(device_rows([9_999], ["root.sg.d1"], s1=[1.0]), batch=20))
    wait_until(lambda: has_read(source, offsets), "the last row")
    sink.close()
    source.close()

    expected = [point for rows in batches for point in points([rows])]
    for device in devices:
        times = [time for batch in read for name, time, _, _ in points(data_of(batch.events)) if name == device]
        assert set(times) == {time for name, time, _, _ in expected if name == device}
        first_seen = list(dict.fromkeys(times))
        assert first_seen == sorted(first_seen)


def has_read(source: Any, offsets: Any) -> bool:
    with suppress(OperationalError):
        batch = source.read(offsets)
        return batch is not None and len(points(data_of(batch.events))) == 1
    return False


def test_batches_are_bounded(kafka: Broker, filled: str) -> None:
    by_records = created("kafka-source", source_settings(kafka, filled, max__poll__records="3"))
    by_bytes = created("kafka-source", source_settings(kafka, filled, max__poll__bytes="1"))
    batches, _ = read_all(by_records, {}, 20)
    assert max(len(points(data_of(batch.events))) for batch in batches) == 3
    read_all(by_bytes, {}, 20)
    for source in itertools.chain((by_records, by_bytes)):
        source.close()


@pytest.mark.parametrize("name", ["csv", "line"])
def test_other_formats_pass_through_a_topic(kafka: Broker, name: str) -> None:
    topic = kafka.create_topic()
    sink = created("kafka-sink", sink_settings(kafka, topic, format=name))
    rows = device_rows([1, 2], ["root.sg.d1", "root.sg.d2"], precision=Precision.MICROSECOND, s1=[0.5, None], s2=["a b", "c"])
    sink.transfer(delivery(rows))
    sink.close()

    source = created("kafka-source", source_settings(kafka, topic, format=name))
    batches, _ = read_all(source, {}, 2)
    source.close()

    scale = 1000 if name == "line" else 1
    read = [data for batch in batches for data in data_of(batch.events)]
    assert {data.precision for data in read} == {Precision.NANOSECOND if name == "line" else Precision.MICROSECOND}
    assert points(read) == [(device, time * scale, *rest) for device, time, *rest in points([rows])]


def test_rows_go_to_and_come_from_a_broker_with_tls_and_passwords(kafka: Broker) -> None:
    topic = kafka.create_topic()
    sink = created("kafka-sink", {"topic": topic, **kafka.security})
    sink.handshake()
    sink.transfer(delivery(device_rows([1, 2], ["root.sg.d1"] * 2, s1=[0.5, 1.5])))
    sink.close()

    source = created("kafka-source", {"topics": topic, **kafka.security})
    batches, _ = read_all(source, {}, 2)
    source.close()
    assert [point for batch in batches for point in points(data_of(batch.events))] == [
        ("root.sg.d1", 1, "s1", 0.5),
        ("root.sg.d1", 2, "s1", 1.5),
    ]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"sasl.password": "guessed"}, "Authentication failed"),
        ({"ssl.ca.location": ""}, "certificate verify failed"),
    ],
)
def test_a_wrong_password_and_a_certificate_that_is_not_trusted_are_named(
    kafka: Broker, wrong: dict[str, str], message: str
) -> None:
    settings = {"topic": kafka.create_topic(), **kafka.security, **wrong}
    sink = created("kafka-sink", {key: value for key, value in settings.items() if value})
    with pytest.raises(TerminalError, match=message) as refused:
        sink.handshake()
    sink.close()
    assert "guessed" not in str(refused.value)
