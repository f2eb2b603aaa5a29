"""Notifications: servers get exactly the events of the committed micro-batches, in order."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.errors import InvalidStreamError
from headrace.model.failpoints import FailpointError, armed
from headrace.model.jobs import JobState
from headrace.storage.sandbox import open_database
from headrace.streams.notifications import messages
from headrace.streams.notifications.messages import murmur3
from headrace.streams.sinks.outbox import OutboxSink
from headrace.streams.windows import retention
from tests.streams.effort import EXAMPLES, drawn
from tests.streams.environment import MICRO_BATCH_FAILPOINTS, START, Row, StreamEnvironment, millis
from tests.streams.receiving import ReceivingServer
from tests.streams.scenarios import scale
from tests.streams.webhook_server import WebhookServer
from tests.streams.websocket_server import WebSocketServer
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.timeout(max(900, 20 * EXAMPLES))]

OPEN, CLOSE, INVALIDATION = "WINDOW_OPEN", "WINDOW_CLOSE", "WINDOW_INVALIDATION"


SERVERS: dict[str, type[ReceivingServer]] = {"ws": WebSocketServer, "http": WebhookServer}
OUTBOX_FAILPOINTS = ("outbox.sent", "outbox.removed")
of_each_protocol = pytest.mark.parametrize("server", SERVERS, indirect=True)


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Iterator[ReceivingServer]:
    made = SERVERS[getattr(request, "param", "ws")]()
    made.start()
    yield made
    made.stop()


def notify(server: ReceivingServer, *, events: str = "'window_open', 'window_close'", options: str = "") -> str:
    return f" notify ('{server.url}') on ({events}) {options}"


def wait_for_failure(env: StreamEnvironment, job_id: str) -> None:
    events = env.catalog.events
    wait_until(lambda: "NOTIFY_FAILED" in [event.kind for event in events.all("job", job_id)], "the failure to be recorded")


def brief(event: dict[str, Any]) -> tuple[Any, ...]:
    """Return an event's type, start and end in ms after `START`, and the row count of its result."""
    end, result = event.get("windowEnd"), event.get("result", {})
    return event["eventType"], event["windowStart"] - START, None if end is None else end - START, result.get("n")


def run(env: StreamEnvironment, server: ReceivingServer, query: str, writes: list[list[Row]], options: str = "") -> list[Any]:
    """Create a stream, write, and return its events."""
    env.create(f"create stream s {options} into t as {query}" + notify(server))
    for write in writes:
        env.insert(write)
        env.settle()
    return server.events()


def test_a_message_has_the_fields_that_tdengine_sends(env: StreamEnvironment, server: ReceivingServer) -> None:
    query = "select _wstart, count(*) n, max(b) top, avg(a) mean, last(ts) seen from readings partition by tbname interval(10s)"
    plan = env.create(f"create stream s into t as {query}" + notify(server))
    env.insert([("d0", 1_000, 4, 'a "b"'), ("d0", 12_000, None, None)])
    env.settle()
    (message,) = server.messages()
    uuid.UUID(message["messageId"])
    assert list(message) == ["messageId", "timestamp", "streams"]
    assert message["timestamp"] == env.context.clock.now()
    assert [list(stream) for stream in message["streams"]] == [["streamName", "database", "events"]]
    first, close, second = message["streams"][0]["events"]
    uid = env.catalog.subtables.get("db", "d0").uid
    assert list(first) == [
        *("eventType", "eventTime", "windowId", "windowUid", "windowType", "groupId", "tags", "windowStart", "tableName")
    ]
    assert list(close) == [*list(first)[:-1], "windowEnd", "result", "tableName"]
    assert [event["eventType"] for event in (first, close, second)] == [OPEN, CLOSE, OPEN]
    assert {event["windowType"] for event in (first, close, second)} == {"Time"}
    assert {event["groupId"] for event in (first, close, second)} == {str(uid)}
    assert [event["tags"] for event in (first, close, second)] == [{"tbname": "d0"}] * 3
    assert first["windowId"] == close["windowId"] != second["windowId"]
    assert [event["windowUid"] for event in (first, close)] == [f"db.s/{first['windowId']}"] * 2
    assert (close["windowStart"], close["windowEnd"]) == (START, START + 10_000)
    assert close["result"] == {"_wstart": START, "n": 1, "top": 'a "b"', "mean": 4.0, "seen": START + 1_000}
    assert close["tableName"] in env.results(plan, names=True)[0]


def test_all_messages_of_a_micro_batch_are_encoded_by_one_database(
    env: StreamEnvironment, server: ReceivingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = []

    def count_and_open() -> Any:
        opened.append(1)
        return open_database()

    monkeypatch.setattr(messages, "open_database", count_and_open)
    query = "select _wstart, count(*) n from readings interval(10s)"
    env.create(f'create stream `größe "1"` into t as {query}' + notify(server))
    env.insert([("d0", 10_000 * number, number, None) for number in range(1_200)])
    env.settle()

    sent = server.messages()
    assert sum(len(message["streams"][0]["events"]) for message in sent) == 1_200 + 1_199
    assert len(sent) == 3
    assert {message["streams"][0]["streamName"] for message in sent} == {'größe "1"'}
    assert len(opened) == 1


def test_an_event_has_the_values_of_its_group(env: StreamEnvironment, server: ReceivingServer) -> None:
    query = "select _wstart, count(*) n from readings partition by tbname sensor, g, b interval(10s)"
    env.create(f"create stream s trigger at_once into t as {query}" + notify(server))
    env.insert([("d0", 0, 1, "x"), ("d2", 0, 1, None)])
    env.settle()
    assert sorted((event["tags"] for event in server.events() if event["eventType"] == CLOSE), key=repr) == [
        {"sensor": "d0", "g": 1, "b": "x"},
        {"sensor": "d2", "g": 2, "b": None},
    ]


def test_a_state_window_tells_the_states_around_it(env: StreamEnvironment, server: ReceivingServer) -> None:
    query = "select _wstart, count(*) n from readings partition by tbname state_window(a)"
    events = run(env, server, query, [[("d0", 0, 1, None)], [("d0", 1_000, 2, None)], [("d0", 2_000, 3, None)]])
    assert [brief(event) for event in events] == [
        (OPEN, 0, None, None),
        (CLOSE, 0, 0, 1),
        (OPEN, 1_000, None, None),
        (CLOSE, 1_000, 1_000, 1),
        (OPEN, 2_000, None, None),
    ]
    assert [(event["prevState"], event["curState"]) for event in events if event["eventType"] == OPEN] == [
        (None, 1),
        (1, 2),
        (2, 3),
    ]
    assert [(event["curState"], event["nextState"]) for event in events if event["eventType"] == CLOSE] == [(1, 2), (2, 3)]


@pytest.mark.parametrize(
    ("trigger", "window", "end"),
    [("max_delay 5s", "state_window(a)", 0), ("max_delay 5s", "interval(5s)", 5000), ("force_window_close", "interval(5s)", 5000)],
)
def test_a_window_that_the_clock_writes_is_sent(
    env: StreamEnvironment, server: ReceivingServer, trigger: str, window: str, end: int
) -> None:
    query = f"select _wstart, count(*) n from readings partition by tbname {window}"
    run(env, server, query, [[("d0", 0, 1, None)]], f"trigger {trigger}")
    env.clock.advance(5000)
    env.settle()
    assert [brief(event) for event in server.events()] == [(OPEN, 0, None, None), (CLOSE, 0, end, 1)]


@pytest.mark.parametrize("trigger", ["max_delay 5s", "force_window_close"])
def test_a_clock_that_is_set_back_neither_loses_nor_repeats_an_event(
    env: StreamEnvironment, server: ReceivingServer, trigger: str
) -> None:
    query = "select _wstart, count(*) n from readings partition by tbname interval(5s)"
    run(env, server, query, [[("d0", 0, 1, None)]], f"trigger {trigger}")
    env.clock.advance(5_000)
    env.settle()
    env.clock._now -= 60_000
    env.insert([("d0", 6_000, 1, None)])
    env.settle()
    env.clock.advance(70_000)
    env.settle()
    assert [brief(event) for event in server.events()] == [
        *((OPEN, 0, None, None), (CLOSE, 0, 5_000, 1)),
        *((OPEN, 5_000, None, None), (CLOSE, 5_000, 10_000, 1)),
    ]


def test_an_event_window_tells_what_started_and_ended_it(env: StreamEnvironment, server: ReceivingServer) -> None:
    query = "select _wstart, count(*) n from readings partition by tbname event_window start with a > 5 and g > 0 end with b = 'x'"
    writes: list[list[Row]] = [
        [("d0", 0, 1, "x")],
        [("d0", 1_000, 6, None)],
        [("d0", 2_000, 7, "y"), ("d0", 3_000, 8, "x")],
        [("d0", 4_000, 1, None)],
    ]
    events = run(env, server, query, writes)
    assert [brief(event) for event in events] == [(OPEN, 1_000, None, None), (CLOSE, 1_000, 3_000, 3)]
    assert [event["triggerCondition"] for event in events] == [
        {"conditionIndex": 0, "fieldValues": {"a": 6, "g": 1}},
        {"conditionIndex": 0, "fieldValues": {"b": "x"}},
    ]
    assert set(events[1]["result"]) == {"_wstart", "n"}


@pytest.mark.parametrize(
    ("window", "type_", "expected"),
    [
        ("session(ts, 1s)", "Session", [(OPEN, 0, None, None), (CLOSE, 0, 1_000, 2), (OPEN, 5_000, None, None)]),
        ("count_window(2)", "Count", [(OPEN, 0, None, None), (CLOSE, 0, 1_000, 2), (OPEN, 5_000, None, None)]),
    ],
)
def test_sessions_and_count_windows_end_at_their_last_row(
    env: StreamEnvironment, server: ReceivingServer, window: str, type_: str, expected: list[Any]
) -> None:
    query = f"select _wstart, count(*) n from readings partition by tbname {window}"
    rows: list[Row] = [("d0", 0, 1, None), ("d0", 1_000, 1, None), ("d0", 5_000, 1, None)]
    events = run(env, server, query, [rows], "watermark 1s")
    assert [brief(event) for event in events] == expected
    assert {event["windowType"] for event in events} == {type_}


def test_each_result_of_at_once_closes_and_a_lost_one_invalidates(env: StreamEnvironment, server: ReceivingServer) -> None:
    query = "select _wstart, count(*) n from readings interval(10s)"
    env.create(f"create stream s trigger at_once ignore update 0 into t as {query}" + notify(server))
    env.insert([("d0", 0, 1, None)])
    env.settle()
    env.insert([("d0", 1_000, 1, None)])
    env.settle()
    env.delete("d0", 0, 5_000)
    env.settle()
    assert [brief(event) for event in server.events()] == [
        (OPEN, 0, None, None),
        (CLOSE, 0, 10_000, 1),
        (CLOSE, 0, 10_000, 2),
        (INVALIDATION, 0, 10_000, None),
    ]
    assert len({event["windowId"] for event in server.events()}) == 1


@pytest.mark.parametrize("trigger", ["at_once", "max_delay 5s", "window_close", "continuous_window_close"])
def test_a_close_can_mean_the_end_of_the_window_whatever_the_trigger(
    env: StreamEnvironment, server: ReceivingServer, trigger: str
) -> None:
    query = "select _wstart, count(*) n from readings partition by tbname interval(10s)"
    env.create(f"create stream s trigger {trigger} into t as {query}" + notify(server, options="on_close end"))
    for second in (0, 1, 12, 25):
        env.insert([("d0", second * 1_000, 1, None)])
        env.settle()
        env.clock.advance(6_000)
        env.settle()
    assert [brief(event) for event in server.events()] == [
        (OPEN, 0, None, None),
        *((CLOSE, 0, 10_000, 2), (OPEN, 10_000, None, None)),
        *((CLOSE, 10_000, 20_000, 1), (OPEN, 20_000, None, None)),
    ]


def test_a_window_that_has_ended_closes_again_when_its_result_changes(env: StreamEnvironment, server: ReceivingServer) -> None:
    query = "select _wstart, count(*) n from readings partition by tbname session(ts, 5s)"
    options = "trigger at_once ignore expired 0 ignore update 0"
    env.create(f"create stream s {options} into t as {query}" + notify(server, events="'window_close'", options="on_close end"))
    for second in (0, 20, 1, 40, 22, 27):
        env.insert([("d0", second * 1_000, 1, None)])
        env.settle()
    env.delete("d0", 40_000, 40_000)
    env.delete("d0", 0, 1_000)
    env.settle()
    assert [brief(event) for event in server.events()] == [
        (CLOSE, 0, 0, 1),
        (CLOSE, 0, 1_000, 2),
        *((CLOSE, 20_000, 20_000, 1), (CLOSE, 20_000, 22_000, 2), (CLOSE, 20_000, 27_000, 3)),
        *((INVALIDATION, 0, 1_000, None), (INVALIDATION, 40_000, 40_000, None)),
    ]


@pytest.mark.parametrize(
    ("trigger", "writes", "expected"),
    [
        ("at_once", [1, 11, 6], [(OPEN, 1), (CLOSE, 1), (OPEN, 11), (CLOSE, 11), (INVALIDATION, 11), (CLOSE, 1)]),
        ("window_close", [1, 11, 6, 60], [(OPEN, 1), (OPEN, 11), (INVALIDATION, 11), (CLOSE, 1), (OPEN, 60)]),
        ("window_close", [11, 6, 60], [(OPEN, 11), (INVALIDATION, 11), (OPEN, 6), (CLOSE, 6), (OPEN, 60)]),
    ],
)
def test_a_session_that_merges_with_another_one_is_invalidated(
    env: StreamEnvironment, server: ReceivingServer, trigger: str, writes: list[int], expected: list[tuple[str, int]]
) -> None:
    query = "select _wstart, count(*) n from readings partition by tbname session(ts, 5s)"
    rows: list[list[Row]] = [[("d0", second * 1_000, 1, None)] for second in writes]
    events = run(env, server, query, rows, f"trigger {trigger} watermark 30s")
    assert sorted((brief(event)[:2] for event in events), key=str) == sorted(
        ((type_, 1000 * at) for type_, at in expected), key=str
    )
    assert [brief(event)[0] for event in events].index(INVALIDATION) > max(
        index for index, event in enumerate(events) if brief(event)[:2] == (OPEN, 11_000)
    )


def test_a_window_that_has_left_the_state_is_invalidated_if_it_had_a_result(
    env: StreamEnvironment, server: ReceivingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "MAX_CLOSED_WINDOWS", 2)
    env.insert([("d0", -50_000, 1, None)])
    query = "select _wstart, count(*) n from readings partition by tbname interval(10s)"
    plan = env.create(f"create stream s trigger at_once into t as {query}" + notify(server))
    env.insert([("d0", second * 10_000, 1, None) for second in range(12)])
    env.settle()
    wait_until(lambda: len(server.events()) == 2 * 12, "the events of all windows")
    server.received.clear()
    for first in (0, -50_000):
        env.delete("d0", first, first)
        env.settle()
    assert [brief(event) for event in server.events()] == [(INVALIDATION, 0, 10_000, None)]
    assert len(env.results(plan)) == 11


def test_only_the_events_that_are_asked_for_are_sent(env: StreamEnvironment, server: ReceivingServer) -> None:
    query = "select _wstart, count(*) n from readings interval(10s)"
    env.create(f"create stream s trigger at_once into t as {query}" + notify(server, events="'window_open'"))
    env.insert([("d0", 0, 1, None)])
    env.settle()
    env.delete("d0", 0, 0)
    env.settle()
    assert [event["eventType"] for event in server.events()] == [OPEN]


WRITES: list[list[Row]] = [[("d0", second * 1_000, 1, None)] for second in (0, 12, 24, 36)]
QUERY = "select _wstart, count(*) n from readings interval(10s)"
EXPECTED = [
    (OPEN, 0, None, None),
    (CLOSE, 0, 10_000, 1),
    (OPEN, 10_000, None, None),
    (CLOSE, 10_000, 20_000, 1),
    (OPEN, 20_000, None, None),
    (CLOSE, 20_000, 30_000, 1),
    (OPEN, 30_000, None, None),
]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # commits of the delivering thread fail too
@pytest.mark.parametrize(
    ("point", "passage", "server"),
    [
        (point, passage, server)
        for point in (*MICRO_BATCH_FAILPOINTS, *OUTBOX_FAILPOINTS)
        for passage, server in drawn(list(itertools.product([1, 2], SERVERS)), f"events at {point}")
    ],
    indirect=["server"],
)
def test_a_driver_that_dies_anywhere_sends_the_events_of_its_commits_once(
    env: StreamEnvironment, server: ReceivingServer, point: str, passage: int
) -> None:
    env.create(f"create stream s into t as {QUERY}" + notify(server))
    for write in WRITES:
        env.insert(write)
        with armed(f"{point}:{passage}:raise"):
            try:
                env.settle()
            except FailpointError:
                env.restart_after_failure()
    env.restart_after_failure()
    env.settle()
    # A send that fails is tried again after a pause, for which `settle` does not wait.
    wait_until(lambda: len(server.events()) >= len(EXPECTED), "the events")
    assert [brief(event) for event in server.events()] == EXPECTED


@of_each_protocol
def test_a_stream_goes_on_while_its_receiver_is_away_and_sends_all_later(env: StreamEnvironment, server: ReceivingServer) -> None:
    plan = env.create(f"create stream s into t as {QUERY}" + notify(server))
    env.insert(WRITES[0])
    env.settle()
    server.stop()
    for write in WRITES[1:]:
        env.insert(write)
        env.settle()
    assert len(env.results(plan)) == 3
    wait_for_failure(env, plan.id)
    server.start()
    wait_until(lambda: len(server.events()) == len(EXPECTED), "the events")
    assert [brief(event) for event in server.events()] == EXPECTED


@of_each_protocol
def test_a_receiver_that_is_down_with_on_failure_pause_holds_its_own_stream_only(
    env: StreamEnvironment, server: ReceivingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    defaults = OutboxSink.__init__.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "max_backlog", 1)
    down = type(server)()
    held = env.create(f"create stream s into t as {QUERY}" + notify(down, options="on_failure pause"))
    silent = env.create(f"create stream u into v as {QUERY}")
    heard = env.create(f"create stream w into x as {QUERY}" + notify(server, options="on_failure pause"))
    env.settle()
    pollers = env.pollers
    assert pollers is not None
    env.insert(WRITES[0])
    wait_until(lambda: pollers.poll(0) and env.tables.outbox(held.id).backlog() == 1, "the outbox to be full")
    for write in WRITES[1:]:
        env.insert(write)
    wait_until(lambda: pollers.poll(0) and len(env.results(silent)) == 3, "the results of the stream without a receiver")
    wait_until(lambda: pollers.poll(0) and len(server.events()) == len(EXPECTED), "the events of the stream that is heard")
    assert [brief(event) for event in server.events()] == EXPECTED
    assert env.results(heard) == env.results(silent)
    assert env.results(held) == []
    assert down.received == []
    wait_for_failure(env, held.id)
    assert [env.record(plan).state for plan in (held, silent, heard)] == [JobState.RUNNING] * 3
    down.start()
    env.settle()
    wait_until(lambda: len(down.events()) == len(EXPECTED), "the events")
    assert [brief(event) for event in down.events()] == EXPECTED
    down.stop()


@of_each_protocol
def test_messages_to_a_receiver_that_is_away_can_be_dropped(env: StreamEnvironment, server: ReceivingServer) -> None:
    other = type(server)()
    sql = f"create stream s into t as {QUERY} notify ('{other.url}', '{server.url}') on ('window_open') on_failure drop"
    env.create(sql)
    for write in WRITES:
        env.insert(write)
        env.settle()
    assert [brief(event) for event in server.events()] == [event for event in EXPECTED if event[0] == OPEN]
    assert other.received == []


@of_each_protocol
def test_one_receiver_gets_nothing_again_because_another_fails(env: StreamEnvironment, server: ReceivingServer) -> None:
    other = type(server)()
    plan = env.create(
        f"create stream s into t as {QUERY} notify ('{server.url}', '{other.url}') on ('window_open', 'window_close')"
    )
    env.insert(WRITES[0])
    env.settle()
    wait_for_failure(env, plan.id)
    other.start()
    wait_until(lambda: len(other.received) == 1, "the message")
    other.stop()
    assert len(server.received) == len(other.received) == 1


def test_a_notification_needs_a_window(env: StreamEnvironment, server: ReceivingServer) -> None:
    with pytest.raises(InvalidStreamError, match="NOTIFY sends events of windows"):
        env.create("create stream s trigger at_once into t as select ts, a from readings partition by tbname" + notify(server))


def test_window_ids_are_the_murmur_hash_of_group_and_start() -> None:
    """The expected hashes are those of the reference implementation over the same 16 bytes, little-endian."""
    first, second = np.array([0, 7, 2**63 + 1], np.uint64), np.array([0, 1_700_000_000_000, 5], np.uint64)
    assert murmur3(first, second).tolist() == [0x4BBD1BF27DA918D6, 0x51D04C506E2BD28, 0x621ABF6DE522E0A1]


LIVE_WRITES = st.lists(
    st.tuples(st.sampled_from(["d0", "d1", "d2"]), st.integers(0, 40), st.sampled_from([1, 2, None]), st.sampled_from(["x", None])),
    min_size=1,
    max_size=6,
)
OPERATIONS = st.lists(LIVE_WRITES | st.tuples(st.sampled_from(["d0", "d1"]), st.integers(0, 40), st.integers(0, 10)), max_size=6)
BEYOND_LAST = {"interval(10s)": 1, "session(ts, 3s)": 3_000}
"""By how much `_wend` is beyond the last instant of a window, in ms."""
WINDOWS = ["interval(10s)", "session(ts, 3s)", "state_window(a)", "event_window start with a = 1 end with b = 'x'"]


@pytest.mark.parametrize("window", WINDOWS)
@settings(max_examples=scale(4), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_closed_and_invalidated_windows_are_the_rows_of_the_target(
    env: StreamEnvironment, server: ReceivingServer, window: str, data: st.DataObject
) -> None:
    trigger = data.draw(st.sampled_from(["at_once", "window_close"]))
    options = f"trigger {trigger} ignore update 0 ignore expired 0"
    means_end = data.draw(st.booleans())
    query = f"select _wstart, count(*) n, max(a) top, cast(_wend as bigint) e from readings partition by tbname {window}"
    with env.new_database({"d0": (1, 0), "d1": (1, 0), "d2": (2, 0)}) as own:
        server.received.clear()
        plan = own.create(f"create stream s {options} into t as {query}" + notify(server, options="on_close end" * means_end))
        seen = -1
        for operation in data.draw(OPERATIONS):
            if isinstance(operation, tuple):
                own.delete(operation[0], operation[1] * 1_000, (operation[1] + operation[2]) * 1_000)
            else:
                rows = {(row[0], row[1]): (row[0], row[1] * 1_000, row[2], row[3]) for row in operation}
                own.insert(list(rows.values()))
                counts_null = "state" not in window
                seen = max([seen, *(START + at for _, at, a, _ in rows.values() if counts_null or a is not None)])
            own.settle()
        present: dict[tuple[str, int], tuple[int, Any]] = {}
        for event in server.events():
            key = event["tableName"], event["windowStart"] - START
            if event["eventType"] == CLOSE:
                present[key] = event["result"]["n"], event["result"]["top"]
            elif event["eventType"] == INVALIDATION:
                present.pop(key, None)
        results = own.tables.scan(plan.target)
        starts = [start - START for start in millis(results["_wstart"]) if start is not None]
        has_ended = [not means_end or end - BEYOND_LAST.get(window, 0) < seen for end in results["e"].to_pylist()]
        columns = (results[name].to_pylist() for name in ("tbname", "n", "top"))
        expected = zip(has_ended, starts, *columns, strict=True)
        assert present == {(name, start): (n, top) for ended, start, name, n, top in expected if ended}
