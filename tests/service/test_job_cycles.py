"""Jobs that would process their own results for ever are refused; those that come to rest are not."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

import headrace
from headrace.errors import Error, InvalidStreamError, ProgrammingError
from headrace.service.stage import Stage

COUNT = "create stream {name} {options} into {target} as select _wstart, count(*) n from {source} {rest} interval(10s)"
TARGETS = "create stable {name} (ts timestamp, n bigint) tags (group_id bigint unsigned)"


def create(name: str, source: str, target: str, options: str = "", rest: str = "") -> str:
    return COUNT.format(name=name, source=source, target=target, options=options, rest=rest)


@pytest.fixture(scope="module")
def cyclic(unchanged_readings: headrace.Connection) -> headrace.Connection:
    """Provide tables a, b, c and d of results, and streams from a to b and from b to c."""
    for name in "abcd":
        unchanged_readings.execute(TARGETS.format(name=name))
    unchanged_readings.execute("create table one using a tags (1)")
    unchanged_readings.execute("create vtable seen (ts timestamp, n bigint from one.n)")
    unchanged_readings.execute(create("ab", "a", "b"))
    unchanged_readings.execute(create("bc", "b", "c"))
    return unchanged_readings


@pytest.mark.parametrize(
    ("sql", "way"),
    [
        (create("s", "d", "d"), "are rows of its source"),
        (create("s", "d", "d", rest="partition by tbname"), "are rows of its source"),
        (create("s", "d", "d", "trigger at_once", "where n > 1000"), "are rows of its source"),
        ("create stream s trigger at_once into d as select ts, n from d partition by tbname", "are rows of its source"),
        (create("s", "c", "a"), "return by way of stream d.ab, stream d.bc to its source"),
        (create("s", "b", "a", "fill_history 1"), "return by way of stream d.ab to its source"),
        (create("s", "seen", "a"), "are rows of its source"),
        (create("s", "one", "a subtable('one')"), "are rows of its source"),
        (create("bc", "b", "a").replace("create stream", "create or replace stream"), "return by way of stream d.ab to its source"),
    ],
)
def test_a_stream_into_its_own_source_is_refused(cyclic: headrace.Connection, sql: str, way: str) -> None:
    with pytest.raises(InvalidStreamError, match="would never end") as raised:
        cyclic.execute(sql)
    assert way in raised.value.message
    assert "FORCE_WINDOW_CLOSE" in raised.value.hint
    assert raised.value.span is not None


@pytest.mark.parametrize(
    "sql",
    [
        create("s", "d", "d", "trigger force_window_close", "partition by tbname"),
        create("s", "one", "a"),
        create("s", "c", "d"),
        create("ab", "c", "a").replace("create stream", "create or replace stream"),
    ],
)
def test_a_stream_that_comes_to_rest_is_accepted(cyclic: headrace.Connection, sql: str) -> None:
    cyclic.session.stages(sql)


@pytest.fixture
def tree(cyclic: headrace.Connection) -> Iterator[headrace.Connection]:
    with headrace.connect(settings=cyclic.session.context.settings, dialect="iotdb") as connection:
        yield connection


def counting(path: str, output: str) -> str:
    processor = f"'processor'='count-point-processor', 'output-series'='{output}'"
    return f"create pipe p with source ('path'='{path}') with processor ({processor}) with sink ('sink'='write-back-sink')"


def test_a_pipe_that_counts_its_own_points_is_refused(tree: headrace.Connection) -> None:
    with pytest.raises(ProgrammingError, match="would never end: its results are rows of its source"):
        tree.execute(counting("root.a.**", "root.a.counts.n"))
    tree.execute(counting("root.a.*", "root.a.counts.n"))
    with pytest.raises(Error, match="would never end"):
        tree.execute("alter pipe p replace source ('path'='root.a.**')")
    tree.execute("drop pipe p")


@pytest.mark.parametrize("verb", ["create", "create or replace"])
def test_of_two_sessions_whose_streams_make_a_cycle_one_is_refused(connection: headrace.Connection, verb: str) -> None:
    for name in "abx":
        connection.execute(TARGETS.format(name=name))
    if verb != "create":
        connection.execute(create("ab", "x", "b"))
        connection.execute(create("ba", "x", "a"))
    with headrace.connect(settings=connection.session.context.settings) as other:
        other.execute("use d")
        statements = ((connection, create("ab", "a", "b")), (other, create("ba", "b", "a")))
        planned = [(one, one.session.stages(sql.replace("create", verb, 1))) for one, sql in statements]
        barrier = threading.Barrier(2)

        def record(session: headrace.Connection, stages: Sequence[Stage]) -> str:
            barrier.wait()
            try:
                session.session.run(stages)
            except InvalidStreamError as error:
                return error.message
            return ""

        with ThreadPoolExecutor(2) as pool:
            refused, recorded = sorted(pool.map(lambda one: record(*one), planned), reverse=True)
    assert recorded == ""
    assert re.fullmatch(
        r"the stream \w+ would never end: its results in d\.\w return by way of stream d\.\w+ to its source", refused
    )
    sources = {str(job.definition): str(job.definition.source) for job in connection.session.context.catalog.jobs.all()}
    assert sources in (
        [{"d.ab": "d.a"}, {"d.ba": "d.b"}] if verb == "create" else [{"d.ab": "d.a", "d.ba": "d.x"}, {"d.ab": "d.x", "d.ba": "d.b"}]
    )
