"""What the page of differences says of user code, schedules and pipes."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

import headrace
from headrace.errors import Error
from headrace.model.jobs import JobState
from headrace.model.pipes import PipeStage
from headrace.pipes import builtin
from headrace.pipes.events import Event, InsertEvent
from headrace.pipes.kind import PIPE
from headrace.pipes.plugins import Delivery, Plugin, Sink, no_checks
from tests.service.iotdb.conftest import START

WITHOUT_FIRE = "from headrace.trigger import Trigger\n\nclass Idle(Trigger):\n    def on_create(self, attributes):\n        pass\n"
HTTP = "using uri 'http://localhost/code.py'"


@dataclass
class KeptSink(Sink):
    """Keeps the events of each delivery."""

    deliveries: list[list[Event]] = field(default_factory=list)

    def transfer(self, delivery: Delivery) -> None:
        self.deliveries.append(list(delivery.events))


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> KeptSink:
    """Register a sink as `kept-sink`, of which all pipes have one."""
    sink = KeptSink()
    plugin = Plugin(
        name="kept-sink", stage=PipeStage.SINK, class_name="KeptSink", validate=lambda: no_checks, create=lambda: lambda *_: sink
    )
    monkeypatch.setitem(builtin.BY_NAME, "kept-sink", plugin)
    return sink


def test_a_trigger_class_without_fire_is_rejected(plant: headrace.Connection) -> None:
    folder = plant.session.context.settings.plugin_folder("trigger")
    folder.mkdir(parents=True)
    (folder / "idle.py").write_text(WITHOUT_FIRE)
    with pytest.raises(Error, match=r"1303: Failed to load class 'idle\.Idle'") as refused:
        plant.execute("create stateless trigger t after insert on root.plant.line1.s1 as 'idle.Idle'")
    assert refused.value.hint.startswith("idle.Idle does not define fire")
    assert plant.execute("show triggers").fetchall() == []


@pytest.mark.parametrize(
    ("sql", "status"),
    [
        (f"create function f as 'code.F' {HTTP}", 1304),
        (f"create stateless trigger t after insert on root.plant.** as 'code.T' {HTTP}", 1304),
        (f"create pipeplugin p as 'code.P' {HTTP}", 1603),
    ],
)
def test_code_does_not_come_over_http(plant: headrace.Connection, sql: str, status: int) -> None:
    with pytest.raises(Error) as refused:
        plant.execute(sql)
    assert refused.value.status == status
    assert refused.value.hint == "URIs of code with the scheme http are not supported; supported are file:, https: and s3:"


def test_a_range_may_be_shorter_than_a_window_and_not_than_every(plant: headrace.Connection) -> None:
    body = "begin select count(s1) into root.out.d({}) from root.plant.line1 {} end"
    with pytest.raises(Error, match="greater than or equal to every interval") as refused:
        plant.execute(f"create cq c resample every 1h range 30m {body.format('a', '')}")
    assert refused.value.status == 305
    plant.execute(f"create cq c resample every 10s range 10s {body.format('b', 'group by (1m)')}")
    rows = ", ".join(f"({START + 1000 * second}, {second})" for second in range(20))
    plant.execute(f"insert into root.plant.line1(time, s1) values {rows}")
    clock = plant.session.context.clock
    assert isinstance(clock, headrace.ManualClock)
    clock.set(START + 20_000)
    plant.settle()
    counts = [
        (round(time.timestamp() * 1000) - START, count) for time, count in plant.execute("select b from root.out.d").fetchall()
    ]
    assert counts == [(-10_000, 0), (0, 10), (10_000, 10)]


def test_parameters_of_parallel_tasks_and_batches_do_not_change_what_is_sent(plant: headrace.Connection, kept: KeptSink) -> None:
    options = "'sink.parallel.tasks'='4', 'sink.batch.enable'='true', 'sink.batch.max-delay-seconds'='600', 'realtime-first'='true'"
    plant.execute(f"create pipe p with source ('path'='root.plant.**') with sink ('sink'='kept-sink', {options})")
    plant.settle()
    for value in (1, 2, 3):
        plant.execute(f"insert into root.plant.line1(time, s1) values ({START + value}, {value})")
        plant.settle()
        assert len(kept.deliveries) == value
    events = [event for delivery in kept.deliveries for event in delivery]
    assert all(isinstance(event, InsertEvent) for event in events)


def test_there_are_no_events_of_files(plant: headrace.Connection, kept: KeptSink) -> None:
    pipe = (
        "create pipe {} with source ('path'='root.plant.**') "
        "with processor ('processor'='throwing-exception-processor', 'stages'='process-{}-insertion-event') "
        "with sink ('sink'='kept-sink')"
    )
    plant.execute(f"insert into root.plant.line1(time, s1) values ({START}, 1)")
    plant.execute(pipe.format("files", "tsfile"))
    plant.settle()
    assert len(kept.deliveries) == 1
    plant.execute(pipe.format("rows", "tablet"))
    plant.settle()
    records = {record.definition.name: record for record in plant.session.context.catalog.jobs.all(kind=PIPE)}
    assert records["files"].state is JobState.RUNNING
    assert records["rows"].reason is not None
    assert "process(TabletInsertionEvent" in records["rows"].reason.message
    assert len(kept.deliveries) == 1
