"""The source and the sink of MQTT, with a real broker."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from headrace.errors import OperationalError, ProgrammingError, TerminalError
from headrace.pipes.events import DeleteEvent, Event, InsertEvent, StatementEvent
from headrace.runtime.processes import find_free_port
from tests.pipes.formats.samples import Point, device_rows, points
from tests.pipes.running import created, data_of, delivery, read_all
from tests.support.mqtt_broker import PASSWORD, USER, MqttBroker, running_mqtt_broker
from tests.support.waiting import wait_until


def settings(broker: MqttBroker, **more: str) -> dict[str, str]:
    return {"host": "127.0.0.1", "port": str(broker.port), **{key.replace("__", "."): value for key, value in more.items()}}


@pytest.fixture
def root() -> str:
    """Return the first node of the topics of a test."""
    return f"t{find_free_port()}"


def publish(broker: MqttBroker, topic: str, *payloads: str, retain: bool = False) -> None:
    from paho.mqtt.client import Client
    from paho.mqtt.enums import CallbackAPIVersion

    connected = threading.Event()
    client = Client(CallbackAPIVersion.VERSION2)
    client.on_connect = lambda *_: connected.set()
    client.connect("127.0.0.1", broker.port)
    client.loop_start()
    # What the client sends before the broker has accepted the connection it sends once more afterwards.
    assert connected.wait(60)
    for payload in payloads:
        client.publish(topic, payload, 1, retain).wait_for_publish(60)
    client.disconnect()
    client.loop_stop()


def payload(time: int, value: Any, device: str = "root.sg.d1") -> str:
    return json.dumps({"device": device, "timestamp": time, "measurements": ["s1"], "values": [value]})


def subscribed(broker: MqttBroker, pipe_id: str, **more: str) -> Any:
    """Return a source that has its session."""
    source = created("mqtt-source", settings(broker, **more), pipe_id)
    assert source.read({}) is None
    return source


def points_of(batches: Any) -> list[Point]:
    return [point for batch in batches for point in points(data_of(batch.events))]


@pytest.mark.parametrize("version", ["5", "3.1.1"])
def test_rows_pass_through_topics_of_devices(mqtt: MqttBroker, root: str, version: str) -> None:
    source = subscribed(mqtt, root, topics=f"{root}/+/sg/#", protocol__version=version)
    sink = created("mqtt-sink", settings(mqtt, topic=root + "/${device}", protocol__version=version))
    sink.handshake()
    rows = device_rows(range(100), ["root.sg.d1", "root.sg.`a b`"] * 50, s1=[float(n) for n in range(100)], s2=["x", None] * 50)

    sink.transfer(delivery(rows))
    batches, offsets = read_all(source, {}, 100)

    assert offsets == {"messages": 100}
    assert sorted(points_of(batches), key=str) == sorted(points([rows]), key=str)
    sink.heartbeat()
    sink.close()
    source.close()


def test_deletes_and_statements_say_what_they_are(mqtt: MqttBroker, root: str) -> None:
    source = subscribed(mqtt, root, topics=f"{root}/#")
    rows = device_rows([1], ["root.sg.d1"], s1=[0.5])
    events: list[Event] = [
        StatementEvent("CREATE DATABASE root.sg", "schema.database.create"),
        InsertEvent(rows),
        DeleteEvent(rows),
    ]
    sink = created("mqtt-sink", settings(mqtt, topic=root + "/${device}"))
    sink.transfer(delivery(*events))
    sink.close()

    batches, _ = read_all(source, {}, 1)
    read = [event for batch in batches for event in batch.events]
    while len(read) < 3:
        (batch,), _ = read_all(source, {}, 0)
        read += batch.events
    source.close()

    assert [type(event) for event in read] == [StatementEvent, InsertEvent, DeleteEvent]
    assert read[0] == events[0]
    old = created("mqtt-sink", settings(mqtt, protocol__version="3.1.1"))
    with pytest.raises(TerminalError, match=r"MQTT 3\.1\.1 cannot say that a message is a delete"):
        old.transfer(delivery(DeleteEvent(rows)))


@pytest.mark.parametrize(
    ("more", "topic", "text"),
    [
        ({}, "any", payload(1, 0.5, "root.sg.d1")),
        ({"format": "line"}, "any", "root.sg.d1 s1=0.5 1000000"),
        ({"format": "line", "timestamp.precision": "ms", "database": "root.sg"}, "any", "d1 s1=0.5 1"),
        ({"format": "csv", "device.topic": "true", "database": "root.sg"}, "d1", "time,s1\n1,0.5"),
        ({"device.topic": "true", "database": "root.sg"}, "d1", '{"time": 1, "s1": 0.5}'),
    ],
)
def test_payloads(mqtt: MqttBroker, root: str, more: dict[str, str], topic: str, text: str) -> None:
    names = {"database": f"root.{root}"} if "device.topic" in more else {}
    source = created("mqtt-source", settings(mqtt, topics=f"{root}/+") | more | names, root)
    assert source.read({}) is None

    publish(mqtt, f"{root}/{topic}", text)
    batches, _ = read_all(source, {}, 1)
    source.close()

    device = f"root.{root}.{root}.d1" if names else "root.sg.d1"
    assert [(name, measurement, value) for name, _, measurement, value in points_of(batches)] == [(device, "s1", 0.5)]


def test_what_was_not_acknowledged_comes_again(mqtt: MqttBroker, root: str) -> None:
    source = subscribed(mqtt, root, topics=f"{root}/a")
    publish(mqtt, f"{root}/a", payload(1, 1))
    batches, offsets = read_all(source, {}, 1)
    assert not source.has_news(offsets)
    publish(mqtt, f"{root}/a", payload(2, 2))
    wait_until(lambda: source.has_news(offsets), "the message")
    unacknowledged = wait_until(lambda: source.read(offsets), "a message")
    source.close()
    publish(mqtt, f"{root}/a", payload(3, 3))

    again = created("mqtt-source", settings(mqtt, topics=f"{root}/a"), root)
    interrupted = again.read(offsets, unacknowledged.offsets)
    assert interrupted.offsets == unacknowledged.offsets
    assert not interrupted.events
    later, _ = read_all(again, interrupted.offsets, 2)
    again.close()

    assert [time for _, time, _, _ in points_of([*batches, unacknowledged])] == [1, 2]
    assert [time for _, time, _, _ in points_of(later)] == [2, 3]
    last = created("mqtt-source", settings(mqtt, topics=f"{root}/a"), root)
    assert last.read({}) is None
    last.close()


def test_many_messages_may_be_unacknowledged(mqtt: MqttBroker, root: str) -> None:
    source = subscribed(mqtt, root, topics=f"{root}/#", max__poll__records="400")
    sink = created("mqtt-sink", settings(mqtt, topic=root + "/${device}"))
    sink.transfer(delivery(device_rows(range(1_500), ["root.sg.d1"] * 1_500, s1=[1.0] * 1_500)))
    sink.close()
    first = wait_until(lambda: source.pending({})[0] >= 400 and source.read({}), "a full batch")
    assert len(points_of([first])) == 400
    source.acknowledge(first.offsets)
    batches, _ = read_all(source, first.offsets, 1_100)
    assert [time for _, time, _, _ in points_of([first, *batches])] == list(range(1_500))
    source.close()


def test_messages_that_cannot_be_read(mqtt: MqttBroker, root: str) -> None:
    failing = subscribed(mqtt, f"{root}1", topics=f"{root}/a")
    skipping = created("mqtt-source", settings(mqtt, topics=f"{root}/a") | {"on-error": "skip"}, f"{root}2")
    keeping = created("mqtt-source", settings(mqtt, topics=f"{root}/a") | {"dead-letter.topic": f"{root}/bad"}, f"{root}3")
    aside = subscribed(mqtt, f"{root}4", topics=f"{root}/bad", device="root.sg.d1")
    assert skipping.read({}) is None
    assert keeping.read({}) is None
    publish(mqtt, f"{root}/a", "nonsense", payload(1, 1))

    for _ in range(2):
        with pytest.raises(TerminalError, match=f"the message of topic {root}/a cannot be read: it is not JSON"):
            wait_until(lambda: failing.read({}), "the messages")
    for source in (skipping, keeping):
        batches, _ = read_all(source, {}, 1)
        assert source.skipped == 1
        assert [time for _, time, _, _ in points_of(batches)] == [1]
    with pytest.raises(TerminalError, match="it is not JSON"):
        wait_until(lambda: aside.read({}), "the messages")
    for source in (failing, skipping, keeping, aside):
        source.close()


def test_user_and_password(mqtt: MqttBroker, root: str) -> None:
    secured = {"host": "127.0.0.1", "port": str(mqtt.secured_port)}
    sink = created("mqtt-sink", {**secured, "user": USER, "password": PASSWORD, "retain": "true", "topic": root})
    sink.handshake()
    sink.transfer(delivery(device_rows([1], ["root.sg.d1"], s1=[1.0])))
    sink.close()

    for plugin in ("mqtt-sink", "mqtt-source"):
        one = created(plugin, {**secured, "user": USER, "password": "wrong", "topics": root})
        with pytest.raises(TerminalError, match="refuses the connection"):
            one.handshake() if plugin == "mqtt-sink" else one.read({})
        one.close()


def test_broker_that_cannot_be_reached() -> None:
    sink = created("mqtt-sink", {"host": "127.0.0.1", "port": str(find_free_port())})
    with pytest.raises(OperationalError, match="cannot be reached"):
        sink.handshake()


@pytest.mark.parametrize(
    ("plugin", "more", "message"),
    [
        ("mqtt-sink", {"topic": "a/#"}, "topic a/# is not the name of a topic"),
        ("mqtt-sink", {"qos": "0"}, "Invalid value 0 of qos"),
        ("mqtt-sink", {"port": "x"}, 'For input string: "x"'),
        ("mqtt-source", {}, "topics must be specified"),
        ("mqtt-source", {"topics": "a", "device": "root.a.b", "device.topic": "true"}, "only one of device"),
        ("mqtt-source", {"topics": "a", "protocol.version": "4"}, "Invalid value 4 of protocol.version"),
        ("mqtt-source", {"topics": "a", "max.poll.records": "0"}, "max.poll.records must be > 0"),
    ],
)
def test_invalid_attributes_are_rejected(plugin: str, more: dict[str, str], message: str) -> None:
    with pytest.raises(ProgrammingError) as caught:
        created(plugin, more)
    assert message in caught.value.message
    assert caught.value.status is not None


@pytest.fixture
def own_mqtt() -> Iterator[MqttBroker]:
    """Provide a broker that the test may stop."""
    with running_mqtt_broker() as broker:
        yield broker


def test_nothing_is_lost_when_the_broker_is_stopped(own_mqtt: MqttBroker) -> None:
    source = subscribed(own_mqtt, "killed", topics="root/#", max__poll__records="50")
    sink = created("mqtt-sink", settings(own_mqtt))
    sink.handshake()
    is_under_way = threading.Event()
    times: list[int] = []

    def deliver() -> None:
        for number in range(20):
            rows = device_rows(range(number * 50, number * 50 + 50), ["root.sg.d1"] * 50, s1=[1.0] * 50)
            wait_until(lambda rows=rows, number=number: is_delivered(rows, number), "the delivery")  # type: ignore[misc]
            if number == 5:
                is_under_way.set()

    def is_delivered(rows: Any, number: int) -> bool:
        with suppress(OperationalError):
            sink.transfer(delivery(rows, batch=number))
            return True
        return False

    def is_complete() -> bool:
        with suppress(OperationalError):
            batch = source.read({"messages": len(times)})
            if batch is not None:
                times.extend(time for _, time, _, _ in points_of([batch]))
                source.acknowledge(batch.offsets)
        return set(times) >= set(range(1_000))

    writer = threading.Thread(target=deliver)
    writer.start()
    is_under_way.wait()
    wait_until(lambda: is_complete() or len(times) >= 100, "some messages", pause_s=0)
    own_mqtt.stop()
    own_mqtt.start()
    wait_until(is_complete, "all messages", details=lambda: str(sorted(set(range(1_000)) - set(times))), pause_s=0)
    writer.join()
    sink.close()
    source.close()
    assert set(times) == set(range(1_000))
