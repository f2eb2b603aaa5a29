"""Tables of Iceberg as sources: what PyIceberg commits is what queries and streams come to."""

from __future__ import annotations

import datetime as dt
import os
import random
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.transforms import IdentityTransform

import headrace
from headrace.errors import ConfigurationError, HistoryGoneError, NotFoundError, ProgrammingError, StorageError
from tests.service.conftest import on_spark
from tests.support.drawing import SEED
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from pyiceberg.table import Table

DAY: Final = dt.datetime(2024, 5, 1, tzinfo=dt.UTC)


@pytest.fixture
def catalog(tmp_path: Path) -> SqlCatalog:
    (tmp_path / "lake").mkdir()
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/lake/catalog.db", warehouse=f"file://{tmp_path}/lake")
    catalog.create_namespace("plant")
    return catalog


def draw_rows(draw: random.Random, count: int) -> pa.Table:
    times = [DAY + dt.timedelta(seconds=draw.randrange(2 * 86_400)) for _ in range(count)]
    columns = {
        "at": pa.array(times, pa.timestamp("us", "UTC")),
        "machine": [f"m{draw.randrange(3)}" for _ in range(count)],
        "value": pa.array([draw.randrange(100) for _ in range(count)], pa.int64()),
        "payload": pa.array([{"load": draw.random()} for _ in range(count)], pa.struct([("load", pa.float64())])),
    }
    return pa.table(columns)


def create(connection: headrace.Connection, table: Table, options: str = "") -> None:
    location = table.location().removeprefix("file://")
    connection.execute(
        "create external stable readings (ts from at, `value`, `load` from payload.`load`) tags (machine) "
        f"using iceberg at '{location}' {options}"
    )


def fetch(connection: headrace.Connection, sql: str) -> list[tuple[Any, ...]]:
    return connection.execute(sql).fetchall()


@pytest.mark.parametrize("is_partitioned", [False, True], ids=["files", "partitions"])
@pytest.mark.parametrize("number", range(2))
def test_results_are_those_of_the_rows(
    connection: headrace.Connection, catalog: SqlCatalog, is_partitioned: bool, number: int
) -> None:
    draw = random.Random(f"{SEED} {is_partitioned} {number}")
    rows = draw_rows(draw, 40)
    table = catalog.create_table("plant.readings", rows.schema)
    if is_partitioned:
        with table.update_spec() as spec:
            spec.add_field("machine", IdentityTransform())
    table.append(rows)
    create(connection, table)
    connection.execute(
        "create stream s trigger at_once ignore expired 0 ignore update 0 fill_history 1 into out1 tags (machine varchar(9)) as "
        "select _wstart ws, count(*) n, sum(`value`) total from readings partition by tbname machine interval(1h)"
    )
    for _ in range(5):
        for _ in range(draw.randrange(1, 3)):
            which, low = draw.choice(["append", "append", "delete", "overwrite"]), draw.randrange(80)
            if which == "append":
                table.append(draw_rows(draw, draw.randrange(1, 20)))
            elif which == "delete":
                table.delete(f"value >= {low} and value < {low + 20}")
            else:
                table.overwrite(draw_rows(draw, 5), overwrite_filter=f"machine = 'm{draw.randrange(3)}'")
        connection.settle()
        expected: dict[tuple[Any, Any], list[int]] = defaultdict(list)
        for row in table.scan().to_arrow().to_pylist():
            expected[row["machine"], row["at"].replace(minute=0, second=0)].append(row["value"])
        found = {(row[0], row[1]): (row[2], row[3]) for row in fetch(connection, "select machine, ws, n, total from out1")}
        assert found == {key: (len(values), sum(values)) for key, values in expected.items()}
    query = "select ts, `value`, `load`, machine from readings where ts >= '2024-05-01 12:00:00' order by ts, machine, `load`"
    with on_spark(connection) as spark:
        assert fetch(spark, query) == fetch(connection, query)


def test_a_rollback_is_what_differs(connection: headrace.Connection, catalog: SqlCatalog) -> None:
    draw = random.Random(1)
    table = catalog.create_table("plant.readings", draw_rows(draw, 1).schema)
    table.append(draw_rows(draw, 10))
    first = table.current_snapshot()
    table.append(draw_rows(draw, 7))
    create(connection, table)
    assert fetch(connection, "select count(*) from readings") == [(17,)]
    assert first is not None
    table.manage_snapshots().rollback_to_snapshot(first.snapshot_id).commit()
    assert fetch(connection, "select count(*) from readings") == [(10,)]
    table.append(draw_rows(draw, 2))
    assert fetch(connection, "select count(*) from readings") == [(12,)]


def test_a_catalog_knows_the_newest(
    connection: headrace.Connection, catalog: SqlCatalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__URI", f"sqlite:///{tmp_path}/lake/catalog.db")
    draw = random.Random(1)
    table = catalog.create_table("plant.readings", draw_rows(draw, 1).schema)
    table.append(draw_rows(draw, 10))
    connection.execute("create external stable readings (ts from at, `value`) tags (machine) from catalog lake.plant.readings")
    table.append(draw_rows(draw, 5))
    left = Path(table.location().removeprefix("file://")) / "metadata" / "00099-00000000-0000-0000-0000-000000000000.metadata.json"
    left.write_text("{}")  # by a commit that failed
    # A catalog that answered slowly is not asked for a while.
    wait_until(lambda: fetch(connection, "select count(*) from readings") == [(15,)], "the rows of the newest snapshot")
    assert "FROM CATALOG lake.plant.readings" in fetch(connection, "show create stable readings")[0][1]


@pytest.mark.parametrize(
    ("names", "error", "message"),
    [("lake.plant.nothing", NotFoundError, "has no table"), ("nowhere.a.b", ConfigurationError, "is not configured")],
)
def test_what_no_catalog_has_is_refused(
    connection: headrace.Connection,
    catalog: SqlCatalog,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    names: str,
    error: type[Exception],
    message: str,
) -> None:
    assert catalog.list_namespaces() == [("plant",)]
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__URI", f"sqlite:///{tmp_path}/lake/catalog.db")
    with pytest.raises(error, match=message):
        connection.execute(f"create external table x (ts from at, `value`) from catalog {names}")


def test_metadata_that_is_being_written_is_read_later(connection: headrace.Connection, catalog: SqlCatalog) -> None:
    rows = draw_rows(random.Random(1), 20)
    table = catalog.create_table("plant.readings", rows.schema)
    table.append(rows)
    create(connection, table)
    table.append(rows)
    newest = Path(table.metadata_location.removeprefix("file://"))
    whole = newest.read_bytes()
    newest.write_bytes(whole[:300])
    assert fetch(connection, "select count(*) from readings") == [(20,)]
    os.utime(newest, (1, 1))
    with pytest.raises(StorageError, match=r"metadata\.json is no complete metadata of Iceberg"):
        fetch(connection, "select count(*) from readings")
    newest.write_bytes(whole)
    wait_until(lambda: fetch(connection, "select count(*) from readings") == [(40,)], "the rows")


def test_a_renamed_column_is_told(connection: headrace.Connection, catalog: SqlCatalog) -> None:
    draw = random.Random(1)
    table = catalog.create_table("plant.readings", draw_rows(draw, 1).schema)
    table.append(draw_rows(draw, 10))
    create(connection, table)
    with table.update_schema() as update:
        update.rename_column("value", "renamed")
    table.append(draw_rows(draw, 1).rename_columns(["at", "machine", "renamed", "payload"]))
    with pytest.raises(HistoryGoneError, match="was renamed"):
        fetch(connection, "select count(*) from readings")


def test_a_folder_without_a_table_is_refused(connection: headrace.Connection, tmp_path: Path) -> None:
    with pytest.raises(ProgrammingError, match="no table of Iceberg"):
        connection.execute(f"create external table x (ts from at, `value`) using iceberg at '{tmp_path / 'lake'}'")
