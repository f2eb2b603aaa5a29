"""Values come out of every door and into every file as they are."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from headrace.cli.output import Format
from headrace.cli.script import run_script
from tests.types.house import House
from tests.types.values import CHOICES, TDENGINE, TREE, ColumnType
from tests.types.ways import COLUMNS, text_of
from tests.types.ways_iotdb import NAMES, TREE_WAYS, milliseconds

pytestmark = pytest.mark.spark

SELECT = f"select {COLUMNS} from literals order by _ts"
EXPECTED = [tuple(type_.value(choice) for type_ in TDENGINE) for choice in CHOICES]


def test_arrow_and_frames_have_the_values(table: House) -> None:
    arrow = table.connection.execute(SELECT).fetch_arrow_table()
    assert [tuple(row.values()) for row in arrow.to_pylist()] == EXPECTED
    frame = table.connection.execute(SELECT).fetch_polars()
    assert [tuple(row) for row in frame.iter_rows()] == EXPECTED


def test_flight_sql_has_the_values(table: House) -> None:
    with table.flight() as cursor:
        cursor.execute(SELECT.replace("literals", "d.literals"))
        assert [tuple(row) for row in cursor.fetchall()] == EXPECTED


def test_rest_has_the_values_as_tdengine_writes_them(table: House) -> None:
    def written(type_: ColumnType, value: Any) -> Any:
        match value:
            case bytes():
                return value.hex()
            case Decimal():
                return text_of(value)
            case float() if type_.sql == "FLOAT":
                return float(str(np.float32(value)))
        return text_of(value).replace(" ", "T") + "Z" if type_.sql == "TIMESTAMP" and value is not None else value

    answer = table.rest(SELECT)
    assert [name for name, *_ in answer["column_meta"]] == [type_.name for type_ in TDENGINE]
    assert answer["data"] == [[written(type_, type_.value(choice)) for type_ in TDENGINE] for choice in CHOICES]


@pytest.mark.parametrize("output", [Format.CSV, Format.JSON])
def test_printed_rows_can_be_loaded_again(table: House, output: Format, capsys: pytest.CaptureFixture[str]) -> None:
    run_script(table.connection, "select * from literals order by _ts", output, None, separator=",", yes=True)
    printed = capsys.readouterr().out
    path = table.folder / f"printed.{'csv' if output is Format.CSV else 'ndjson'}"
    path.write_text(printed)
    name = f"printed_{output.value}"
    columns = ", ".join(f"{type_.name} {type_.sql}" for type_ in TDENGINE)
    table.connection.execute(f"create table {name} (_ts timestamp, {columns}, way nchar(20))")
    table.connection.load(path, f"d.{name}")
    assert table.rows(f"select {COLUMNS} from {name} order by _ts") == EXPECTED


def test_the_iotdb_client_reads_the_values(devices: House) -> None:
    way = TREE_WAYS[0]
    with devices.session() as session:
        dataset = session.execute_query_statement(f"select {', '.join(NAMES)} from {way.device}")
        records = []
        while dataset.has_next():
            records.append([None if field.is_null() else field.value for field in dataset.next().get_fields()])
        dataset.close_operation_handle()
    assert records == [[as_read(type_, type_.value(choice)) for type_ in TREE] for choice in range(3)]


def as_read(type_: ColumnType, value: Any) -> Any:
    """Return a value as IoTDB's client has it."""
    match type_.sql:
        case "TEXT" | "STRING":
            return value.encode()
        case "TIMESTAMP":
            return milliseconds(value)
        case "DATE":
            return value.year * 10_000 + value.month * 100 + value.day
    return value
