"""Plugins of pipes in code hosts."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headrace.code.hosts import HostLimits, current_hosts
from headrace.code.pipe_events import decode_events, encode_events
from headrace.code.pipes import PluginInstance
from headrace.code.protocol import GarbageError
from headrace.errors import Error, InvalidCodeError, ProgrammingError, UserCodeError
from headrace.model.pipes import PipeStage
from headrace.pipe import DeleteEvent, Event, MeasurementSchema, SchemaEvent, TabletBatch, TabletEvent, Type
from tests.code.pipe_samples import instance

SOURCE, PROCESSOR, SINK = PipeStage
SCHEMA = SchemaEvent("create database root.x", "schema.database.create")


def batch(rows: dict[int, float | None], devices: tuple[str, ...] = ("root.a.d1",)) -> TabletBatch:
    """Return values of `s` by time, for each of some devices."""
    table = pa.table(
        {
            "time": pa.array([time for _ in devices for time in rows], pa.int64()),
            "device": pa.array([device for device in devices for _ in rows], pa.string()),
            "s": pa.array([value for _ in devices for value in rows.values()], pa.float64()),
        }
    )
    return TabletBatch(table, {"s": MeasurementSchema("s", Type.DOUBLE)}, "ms", "root.a", frozenset({"root.a.d2"}))


def recorded(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def points(events: list[Event]) -> list[tuple[str, int, dict[str, Any]]]:
    """Return device, time and values of all rows."""
    tablets = [tablet for event in events if isinstance(event, TabletBatch) for tablet in event.tablets()]
    return [(tablet.device_id, row.time, dict(row.items())) for tablet in tablets for row in tablet]


# Messages


def test_events_survive_a_message() -> None:
    events: list[Event] = [batch({1: 1.5, 2: None}), DeleteEvent(batch({3: 0.5})), SCHEMA, batch({})]
    headers, body = encode_events(events)
    decoded = decode_events(json.loads(json.dumps(headers)), memoryview(body))
    assert decoded == events


def test_tablets_of_a_database_become_a_batch() -> None:
    tablets = [TabletEvent.of(f"root.a.d{number}", [number], {"s": [1.0]}) for number in (1, 2)]
    decoded = decode_events(*encode_events([*tablets, SCHEMA, tablets[0]]))
    assert [type(event) for event in decoded] == [TabletBatch, SchemaEvent, TabletBatch]
    assert points(decoded) == [("root.a.d1", 1, {"s": 1.0}), ("root.a.d2", 2, {"s": 1.0}), ("root.a.d1", 1, {"s": 1.0})]


@pytest.mark.parametrize(
    "change",
    [
        {"bytes": 1 << 40},
        {"bytes": -1},
        {"bytes": "x"},
        {"kind": None, "bytes": None},
        {"columns": {"s": ["s", "INT32"]}},
        {"columns": {"s": ["s", "NONE"]}},
        {"columns": 3},
        {"timestamp_precision": "s"},
        {"database": 3},
        {"aligned": [3]},
    ],
)
def test_what_is_no_event_is_garbage(change: dict[str, Any]) -> None:
    (header,), body = encode_events([batch({1: 1.5})])
    with pytest.raises(GarbageError):
        decode_events([header | change], body)
    others: list[Any] = [None, [None], [{}], [{"kind": "schema", "sql": 3, "category": ""}]]
    for wrong in others:
        with pytest.raises(GarbageError):
            decode_events(wrong, body)


# Sources


def test_a_source_supplies_events_and_a_position(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.code.pipes.MAX_SUPPLY_SECONDS", 600.0)
    log = tmp_path / "log"
    source = instance(tmp_path, "Counter", SOURCE, {"limit": "3", "log": str(log)})
    assert source.supply() is None
    source.start()
    supplied = source.supply()
    assert supplied is not None
    assert points(supplied.events()) == [("root.n.d", number, {"n": number}) for number in (1, 2, 3)]
    assert supplied.position == "3"
    nothing = source.supply()
    assert nothing is not None
    assert (nothing.events(), nothing.position) == ([], "null")
    source.acknowledge("3")
    source.close()
    assert log.read_text().splitlines() == ["customize p None", "start", "acknowledge 3", "close"]


def test_a_source_continues_at_a_position(tmp_path: Path) -> None:
    source = instance(tmp_path, "Counter", SOURCE, {"limit": "3"})
    source.start(position="2")
    supplied = source.supply()
    assert supplied is not None
    assert [time for _, time, _ in points(supplied.events())] == [3]


def test_a_source_that_fails_has_to_be_started_again(tmp_path: Path) -> None:
    source = instance(tmp_path, "Forgetful", SOURCE)
    source.start()
    with pytest.raises(UserCodeError, match=r"source plugin FORGETFUL of pipe p failed: ArrowInvalid: .* at plugins\.py:\d+"):
        source.supply()
    assert source.supply() is None


# Processors


def test_a_processor_transforms_rows_and_stores(tmp_path: Path) -> None:
    processor = instance(tmp_path, "Scale", PROCESSOR, {"processor.factor": "2"})
    assert processor.start({"rows": "5"}) == {"created": "1"}
    result = processor.process([batch({1: 1.5, 2: None}, ("root.a.d1", "root.a.d2")), SCHEMA])
    assert result is not None
    assert points(result.events) == [
        ("root.a.d1", 1, {"s": 3.0, "seen": 7}),
        ("root.a.d1", 2, {"seen": 7}),
        ("root.a.d2", 1, {"s": 3.0, "seen": 9}),
        ("root.a.d2", 2, {"seen": 9}),
    ]
    assert result.events[-1] == SCHEMA
    assert result.changes == {"rows": "9"}


def test_a_processor_may_process_all_devices_at_once(tmp_path: Path) -> None:
    processor = instance(tmp_path, "FastScale", PROCESSOR)
    processor.start()
    result = processor.process([batch({1: 1.5}, ("root.a.d1", "root.a.d2"))])
    assert result is not None
    assert points(result.events) == [("root.a.d1", 1, {"s": 3.0}), ("root.a.d2", 1, {"s": 3.0})]
    (changed,) = result.events
    assert isinstance(changed, TabletBatch)
    assert changed.aligned == {"root.a.d2"}


def test_a_failure_names_plugin_stage_device_and_time_and_leaves_no_instance(tmp_path: Path) -> None:
    processor = instance(tmp_path, "Scale", PROCESSOR)
    processor.start()
    with pytest.raises(UserCodeError) as failed:
        processor.process([batch({1: 1.0}, ("root.a.d1",)), batch({7: 2000.0, 5: 1.0}, ("root.a.d2",))])
    expected = "processor plugin SCALE of pipe p failed on root.a.d2 between times 5 and 7: ValueError: too large at plugins.py:"
    assert failed.value.message.startswith(expected)
    assert processor.process([batch({1: 1.0})]) is None


def test_a_failure_of_a_whole_batch_names_the_number_of_rows(tmp_path: Path) -> None:
    processor = instance(tmp_path, "FastScale", PROCESSOR)
    processor.start()
    other = batch({1: 1.0, 2: 1.0})
    renamed = replace(other, table=other.table.rename_columns(["time", "device", "x"]), schemas={"x": other.schemas["s"]})
    with pytest.raises(UserCodeError, match="processor plugin FASTSCALE of pipe p failed on 2 rows: ValueError"):
        processor.process([renamed])


# Sinks


def test_a_sink_gets_each_event_with_an_id(tmp_path: Path) -> None:
    log = tmp_path / "log"
    sink = instance(tmp_path, "Recorder", SINK, {"path": str(log)})
    assert not sink.handshake()
    sink.start()
    assert sink.handshake()
    assert sink.heartbeat()
    events: list[Event] = [batch({1: 1.5}, ("root.a.d1", "root.a.d2")), DeleteEvent(batch({3: 0.5})), SCHEMA]
    assert sink.transfer(events, "1-7")
    sink.close()
    assert recorded(log) == [
        ["customize", "ada"],
        ["handshake"],
        ["heartbeat"],
        ["insert", "1-7-0", "root.a.d1", [[1, {"s": 1.5}]], False],
        ["insert", "1-7-1", "root.a.d2", [[1, {"s": 1.5}]], True],
        ["delete", "1-7-2", [[3]]],
        ["schema", "1-7-3", SCHEMA.sql, SCHEMA.category],
        ["close"],
    ]


def test_a_sink_may_get_all_devices_at_once(tmp_path: Path) -> None:
    log = tmp_path / "log"
    sink = instance(tmp_path, "FastRecorder", SINK, {"path": str(log)})
    sink.start()
    assert sink.transfer([batch({1: 1.5}, ("root.a.d1", "root.a.d2")), SCHEMA], "1-7")
    assert recorded(log)[1:] == [
        ["batch", "1-7-0", 2, ["time", "device", "s"]],
        ["schema", "1-7-1", SCHEMA.sql, SCHEMA.category],
    ]


# Failures


def test_parameters_that_are_not_valid_are_refused(tmp_path: Path) -> None:
    assert instance(tmp_path, "Counter", SOURCE, {"source.limit": "3"}).validate() is None
    source = instance(tmp_path, "Counter", SOURCE)
    assert source.validate() == "attribute limit is required"
    with pytest.raises(
        ProgrammingError, match="source plugin COUNTER of pipe p does not accept its parameters: attribute limit is"
    ):
        source.start()
    assert instance(tmp_path, "Scale", PROCESSOR, {"factor": "0"}).validate() == "factor must not be 0"


@pytest.mark.parametrize(
    ("class_name", "message"),
    [
        ("Missing", "module plugins has no class Missing"),
        ("Other", "is not a subclass of UDTF, UDAF, Trigger, PipeSource, PipeProcessor or PipeSink"),
        ("NotDefined", "does not define transfer or transfer_batch"),
    ],
)
def test_a_class_that_is_no_plugin_is_refused(tmp_path: Path, class_name: str, message: str) -> None:
    with pytest.raises(InvalidCodeError, match=message):
        instance(tmp_path, class_name, SINK).start()


@pytest.mark.parametrize(
    ("act", "message"),
    [
        ("loop", "it took longer than 1.5 s and was ended"),
        ("exit", "its code host ended with status 5"),
        ("allocate", "used more memory than allowed: MemoryError"),
    ],
)
def test_a_hostile_plugin_fails_its_call_alone(tmp_path: Path, act: str, message: str) -> None:
    limits = HostLimits(memory_bytes=128 << 20, timeout_s=1.5 if act == "loop" else 60.0)
    bystander = start_bystander(tmp_path)
    sink = instance(tmp_path, "Hostile", SINK, {"act": act}, limits)
    sink.start()
    with pytest.raises(UserCodeError, match=f"sink plugin HOSTILE of pipe p failed on .*: {message}"):
        sink.transfer([batch({1: 1.5})], "1-1")
    assert not sink.transfer([batch({1: 1.5})], "1-1")
    assert bystander.process([batch({1: 1.5})]) is not None


def start_bystander(folder: Path) -> PluginInstance:
    bystander = instance(folder, "Scale", PROCESSOR)
    bystander.start()
    return bystander


def test_pipes_do_not_share_processes(tmp_path: Path) -> None:
    first = start_bystander(tmp_path)
    second = replace(first, hosted=replace(first.hosted, user="processor of 2"))
    second.start()
    hosts = current_hosts()
    assert hosts.host(first.hosted).pid != hosts.host(second.hosted).pid
    first.close()
    assert hosts.host(first.hosted).pid is None
    assert second.process([batch({1: 1.5})]) is not None


def test_a_host_that_ends_loses_its_instance(tmp_path: Path) -> None:
    processor = start_bystander(tmp_path)
    with pytest.raises(Error, match="ended with status 3"):
        processor.process([batch({1: -2000.0})])
    assert processor.process([batch({1: 1.5})]) is None
