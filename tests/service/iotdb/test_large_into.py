"""INTO whose result is too large for the driver has the effects that it has within the driver."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest
from deltalake import DeltaTable

import headrace
from headrace.errors import Error
from headrace.model import failpoints
from headrace.model.trees import TREE_TABLE
from headrace.queries import evaluation, executions
from headrace.settings import load
from headrace.storage.delta import data_files
from headrace.storage.delta.handles import rows_uri
from tests.service.iotdb.conftest import START
from tests.service.iotdb.test_continuous_queries import SECOND, job, settle_after, states
from tests.support.drawing import is_drawn

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]

DRIVER_ROWS: Final = 20
QUERIES: Final = (
    "select s1, s2 into root.copy.::(::) from root.plant.*",
    "select s1 + 1, s2 into root.copy.a(x, y) from root.plant.line1 where s1 > 3 limit 30 offset 2",
    "select s1, s1 into root.copy.a(`x.y`), root.more.b(z) from root.plant.line2",
    "select s1 into root.copy.both(x), root.copy.both(y) from root.plant.line1, root.plant.line2 align by device",
    "select s1, s2 into root.copy.::(p, q) from root.plant.* align by device",
    "select count(s1), avg(s2) into root.more.${2}(n, mean) from root.plant.line1 group by ([0, 100), 2ms) align by device",
    "select count(s1), last_value(s2) into root.copy.agg(n, last) from root.plant.line1 group by ([0, 100), 1ms) fill(0)",
    "select s1 into root.plant.line2(s1) from root.plant.line1",
    "select diff(s1) into root.plant.line1(d) from root.plant.line1 order by time desc",
    "select s2 into root.copy.none(x) from root.plant.line1 where s2 > 1000",
)


def insert(connection: headrace.Connection) -> None:
    """Insert a hundred rows of `line1`, half of them with `s2`, and thirty of `line2`; a target has a value already."""
    rows = ", ".join(f"({time}, {time}, {f'{time}.5' if time % 2 else 'null'})" for time in range(100))
    connection.execute(f"insert into root.plant.line1(time, s1, s2) values {rows}")
    connection.execute(f"insert into root.plant.line2(time, s1) values {', '.join(f'({2 * time}, {-time})' for time in range(30))}")
    connection.execute("insert into root.copy.a(time, x, kept) values (5, 1000.0, 1), (5000, 7.0, 2)")


Home = Callable[[str, int], headrace.Connection]


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    """A function that opens a plant with rows, with a number of rows that may go through the driver."""
    opened = []

    def create(name: str, driver_rows: int) -> headrace.Connection:
        settings = load(home=tmp_path / name, driver_rows=driver_rows)
        connection = headrace.connect(settings=settings, dialect="iotdb", clock=headrace.ManualClock(START))
        opened.append(connection)
        for series in ("line1.s1 INT32", "line1.s2 DOUBLE", "line2.s1 INT32"):
            connection.execute(f"create timeseries root.plant.{series}")
        insert(connection)
        return connection

    yield create
    for connection in opened:
        connection.close()


def fetch(connection: headrace.Connection, sql: str) -> list[tuple[Any, ...]]:
    return connection.execute(sql).fetchall()


def content(connection: headrace.Connection) -> dict[str, Any]:
    """Return the series and rows of all databases, and the versions of their tables."""
    catalog, tables = connection.session.context.catalog, connection.session.context.tables
    databases: dict[str, Any] = {}
    for name in catalog.trees.databases():
        table = catalog.tables.get(name, TREE_TABLE)
        rows = tables.scan(table)
        databases[name] = sorted(map(str, rows.to_pylist())), tables.version(table)
    return databases | {"series": sorted(row[:4] for row in fetch(connection, "show timeseries"))}


class Largest:
    """The greatest number of rows that were collected from Spark, and that were read at a time to be committed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.collected = self.read = 0
        collect, read, batches = evaluation.collect, data_files.read_data_files, data_files.read_batches

        def count(rows: Any) -> Any:
            self.read = max(self.read, rows.num_rows)
            return rows

        def collect_counted(*args: Any, **options: Any) -> pa.Table:
            rows = collect(*args, **options)
            self.collected = max(self.collected, rows.num_rows)
            return rows

        monkeypatch.setattr(evaluation, "collect", collect_counted)
        for module in ("dataframe_writer", "staged_files"):
            monkeypatch.setattr(f"headrace.storage.delta.{module}.read_data_files", lambda *args: count(read(*args)))
        for module in ("dataframe_writer", "points"):
            spy = lambda *args, **options: map(count, batches(*args, **options))  # noqa: E731
            monkeypatch.setattr(f"headrace.storage.delta.{module}.read_batches", spy)


@pytest.mark.drawn(2)
def test_a_large_result_is_written_as_a_small_one_is(home: Home) -> None:
    small, large = home("small", 100_000), home("large", DRIVER_ROWS)
    drawn = [query for query in QUERIES if is_drawn(query, 2)]
    for query in (QUERIES[0], *drawn, QUERIES[0]):
        assert fetch(large, query) == fetch(small, query), f"{query} after {drawn}"
        assert content(large) == content(small), f"{query} after {drawn}"


def test_only_a_part_of_a_large_result_is_in_the_driver_at_a_time(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    connection = home("large", DRIVER_ROWS)
    largest = Largest(monkeypatch)
    for _ in range(2):  # the rows are new, and then exist
        ((_, _, number),) = fetch(connection, "select s1 into root.copy.d(x) from root.plant.line1")
        assert number == 100
        assert largest.collected == DRIVER_ROWS + 1  # which shows that there are too many
        assert 0 < largest.read <= DRIVER_ROWS


@pytest.mark.parametrize("name", ["storage.commit", "storage.committed"])
def test_a_failure_leaves_all_or_nothing_and_no_files(home: Home, name: str) -> None:
    connection = home("large", DRIVER_ROWS)
    folder = Path(connection.session.context.settings.tables_uri)
    before = content(connection)
    with failpoints.armed(f"{name}:1:raise"), pytest.raises((failpoints.FailpointError, Error)):
        connection.execute("select s1 into root.plant.line2(s1) from root.plant.line1")
    if name == "storage.commit":
        assert content(connection) == before
    else:
        assert [row[1] for row in fetch(connection, "select s1 from root.plant.line2")] == list(range(100))
    context = connection.session.context
    delta = DeltaTable(rows_uri(context.settings.tables_uri, context.catalog.tables.get("root.plant", TREE_TABLE)))
    assert {path.name for path in folder.rglob("staged-*/*.parquet")} <= {Path(uri).name for uri in delta.file_uris()}


@pytest.mark.parametrize("driver_rows", [DRIVER_ROWS, 100_000])
def test_an_execution_with_a_large_result_replaces_what_it_wrote_before(home: Home, driver_rows: int) -> None:
    connection = home("cq", driver_rows)
    rows = ", ".join(f"({START + 100 * number}, {number})" for number in range(100))
    connection.execute(f"insert into root.plant.line1(time, s1) values {rows}")
    body = "select s1, s1 * 2 into root.out.a(x), root.plant.line1(twice) from root.plant.line1"
    connection.execute(f"create cq big resample every 10s begin {body} end")
    settle_after(connection, 10)
    assert states(connection, "big") == {0: "DONE", 10: "DONE"}
    assert [row[1] for row in fetch(connection, "select x from root.out.a")] == list(range(100))
    connection.execute(f"delete from root.plant.line1.s1 where time >= {START + 5 * SECOND}")
    connection.execute(f"insert into root.plant.line1(time, s1) values ({START + 50}, 1000)")
    assert connection.backfill(cq="big", start=str(START)) == 1
    assert [row[1] for row in fetch(connection, "select x from root.out.a")] == [0, 1000, *range(1, 50)]
    twice = fetch(connection, "select twice, s1 from root.plant.line1 where twice is not null")
    assert [row[1:] for row in twice] == [(2.0 * number, number) for number in (0, 1000, *range(1, 50))]
    (execution, *_) = connection.session.context.catalog.executions.all(job(connection, "big").definition.id)
    assert execution.rows == 102


@pytest.mark.parametrize(("driver_rows", "commits"), [(1, 2), (100_000, 1)])
def test_results_of_several_queries_are_written_before_they_fill_the_driver(home: Home, driver_rows: int, commits: int) -> None:
    connection = home("cq", driver_rows)
    context = connection.session.context
    connection.execute("insert into root.out.start(time, v) values (1, 1)")
    connection.execute(f"insert into root.plant.line1(time, s1) values ({START + 1}, 5), ({START + 2 * SECOND + 1}, 6)")
    for name in ("a", "b"):
        connection.execute(
            f"create cq {name} resample every 1s boundary {START} begin "
            f"select count(s1) into root.out.{name}(n) from root.plant.line1 group by (1s) end"
        )
    work = [(job(connection, name).definition, [START + SECOND]) for name in ("a", "b")]
    connection.clock.advance(4 * SECOND)
    assert executions.execute_together(context, work, "snode") == [None, None]  # the first ones replace what may be there
    table = context.catalog.tables.get("root.out", TREE_TABLE)
    version = context.tables.version(table)
    later = [(definition, [START + 2 * SECOND, START + 3 * SECOND]) for definition, _ in work]
    assert executions.execute_together(context, later, "snode") == [None, None]
    assert context.tables.version(table) == version + commits
    counts = fetch(connection, "select n from root.out.a, root.out.b")
    assert [row[1:] for row in counts] == [(1, 1), (0, 0), (1, 1)]
