"""IoTDB's own Python client, unchanged."""

from __future__ import annotations

from datetime import date
from typing import Any

import numpy as np
import pytest

from tests.doors.iotdb.conftest import Connect

DATES = [date(2024, 2, 29), None, date(1969, 12, 31)]
COLUMNS: dict[str, tuple[str, list[Any]]] = {
    "b": ("BOOLEAN", [True, None, False]),
    "i": ("INT32", [-(2**31), 7, None]),
    "l": ("INT64", [None, 2**62, -1]),
    "f": ("FLOAT", [1.5, None, -0.25]),
    "d": ("DOUBLE", [0.1, 1e300, None]),
    "t": ("TEXT", ["grün", None, ""]),
    "ts": ("TIMESTAMP", [1_700_000_000_123, None, -1]),
    "day": ("DATE", DATES),
    "bytes": ("BLOB", [b"\x00\xff", None, b""]),
    "s": ("STRING", [None, "x" * 300, "y"]),
}
"""Three values of each type."""


def rows(dataset: Any) -> list[tuple[Any, ...]]:
    """Return times and values of a result; texts and bytes are bytes."""
    read = []
    while dataset.has_next():
        record = dataset.next()
        values = [None if field.is_null() else field.value for field in record.get_fields()]
        read.append((int(record.get_timestamp()), *values))
    dataset.close_operation_handle()
    return read


def stored(type_: str, value: Any) -> Any:
    """Return a value as the client reads it."""
    match type_:
        case "TEXT" | "STRING":
            return value.encode()
        case "DATE":
            return value.year * 10_000 + value.month * 100 + value.day
        case _:
            return value


@pytest.mark.parametrize("compact", [False, True])
@pytest.mark.parametrize("aligned", [False, True])
def test_a_tablet_has_values_of_all_types_and_nulls(connect: Connect, compact: bool, aligned: bool) -> None:
    from iotdb.utils.IoTDBConstants import TSDataType
    from iotdb.utils.Tablet import Tablet

    session = connect(compact)
    device = f"root.types.d{int(compact)}{int(aligned)}"
    names, types = list(COLUMNS), [TSDataType[type_] for type_, _ in COLUMNS.values()]
    values = [list(row) for row in zip(*(values for _, values in COLUMNS.values()), strict=True)]
    tablet = Tablet(device, names, types, values, [1, 2, 3])
    (session.insert_aligned_tablet if aligned else session.insert_tablet)(tablet)
    dataset = session.execute_query_statement(f"select {', '.join(names)} from {device}")
    assert dataset.get_column_names() == ["Time", *(f"{device}.{name}" for name in names)]
    expected = [
        (at + 1, *(None if own[at] is None else stored(type_, own[at]) for type_, own in COLUMNS.values())) for at in range(3)
    ]
    assert rows(dataset) == expected
    shown = session.execute_query_statement(f"show devices {device}")
    assert rows(shown)[0][2] == str(aligned).lower().encode()


def test_a_result_is_read_in_parts_of_the_fetch_size(session: Any) -> None:
    from iotdb.utils.IoTDBConstants import TSDataType
    from iotdb.utils.NumpyTablet import NumpyTablet

    times = np.arange(10, dtype=np.int64)
    values = [times.astype(np.float64) / 2]
    session.insert_tablet(NumpyTablet("root.parts.d", ["x"], [TSDataType.DOUBLE], values, times))
    assert rows(session.execute_query_statement("select x from root.parts.d")) == [(at, at / 2) for at in range(10)]
    frame = session.execute_query_statement("select x from root.parts.d where time >= 4").todf()
    assert list(frame["Time"]) == list(range(4, 10))
    assert rows(session.execute_query_statement("select x from root.parts.d where time > 100")) == []


def test_records_of_many_devices_are_written(session: Any) -> None:
    from iotdb.utils.IoTDBConstants import TSDataType

    session.insert_records(
        ["root.rec.a", "root.rec.b", "root.rec.a", "root.rec.a"],
        [1, 1, 2, 1],
        [["x", "y"], ["x"], ["x", "y"], ["x"]],
        [[TSDataType.INT32, TSDataType.TEXT], [TSDataType.DOUBLE], [TSDataType.INT32, TSDataType.TEXT], [TSDataType.INT32]],
        [[1, "one"], [0.5], [2, "two"], [11]],
    )
    session.insert_record("root.rec.b", 2, ["x", "z"], [TSDataType.DOUBLE, TSDataType.BOOLEAN], [1.5, True])
    session.insert_str_record("root.rec.b", 3, ["x", "w"], ["2.5", "text"])
    session.insert_records_of_one_device("root.rec.c", [2, 1], [["x"], ["x"]], [[TSDataType.INT64]] * 2, [[20], [10]])
    session.insert_aligned_records_of_one_device("root.rec.e", [1], [["x"]], [[TSDataType.FLOAT]], [[0.25]])
    assert rows(session.execute_query_statement("select x, y from root.rec.a")) == [(1, 11, b"one"), (2, 2, b"two")]
    assert rows(session.execute_query_statement("select x, z, w from root.rec.b")) == [
        (1, 0.5, None, None),
        (2, 1.5, True, None),
        (3, 2.5, None, b"text"),
    ]
    assert rows(session.execute_query_statement("select x from root.rec.c")) == [(1, 10), (2, 20)]


def test_values_of_a_narrower_type_are_converted_and_others_rejected_as_a_whole(session: Any) -> None:
    from iotdb.utils.IoTDBConstants import TSDataType
    from iotdb.utils.Tablet import Tablet

    session.execute_non_query_statement("create timeseries root.conv.d.x with datatype=DOUBLE")
    session.insert_record("root.conv.d", 1, ["x"], [TSDataType.INT32], [5])
    tablet = Tablet("root.conv.d", ["x", "y"], [TSDataType.TEXT, TSDataType.INT32], [["no", 1]], [2])
    with pytest.raises(RuntimeError, match=r"^507: data type of root\.conv\.d\.x is not consistent, registered type DOUBLE"):
        session.insert_tablet(tablet)
    assert rows(session.execute_query_statement("select x from root.conv.d")) == [(1, 5.0)]
    assert rows(session.execute_query_statement("show timeseries root.conv.d.y")) == []


def test_schema_calls(session: Any) -> None:
    from iotdb.utils.IoTDBConstants import Compressor, TSDataType, TSEncoding

    session.set_storage_group("root.schema")
    session.create_time_series("root.schema.d.x", TSDataType.INT32, TSEncoding.RLE, Compressor.SNAPPY, tags={"unit": "bar"})
    session.create_aligned_time_series(
        "root.schema.al", ["x", "y"], [TSDataType.INT64, TSDataType.TEXT], [TSEncoding.PLAIN] * 2, [Compressor.LZ4] * 2
    )
    session.create_multi_time_series(
        ["root.schema.d.p", "root.schema.d.q"], [TSDataType.FLOAT] * 2, [TSEncoding.GORILLA] * 2, [Compressor.GZIP] * 2
    )
    shown = {row[1]: row[4:7] for row in rows(session.execute_query_statement("show timeseries root.schema.**"))}
    assert shown[b"root.schema.d.x"] == (b"INT32", b"RLE", b"SNAPPY")
    assert shown[b"root.schema.d.q"] == (b"FLOAT", b"GORILLA", b"GZIP")
    assert session.check_time_series_exists("root.schema.al.y")
    with pytest.raises(RuntimeError, match="already exist"):
        session.create_time_series("root.schema.d.x", TSDataType.INT32, TSEncoding.RLE, Compressor.SNAPPY)
    session.delete_time_series(["root.schema.d.p", "root.schema.d.q"])
    assert not session.check_time_series_exists("root.schema.d.q")
    session.delete_storage_group("root.schema")
    with pytest.raises(RuntimeError, match=r"^508: "):
        session.delete_storage_group("root.schema")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_template_calls(session: Any) -> None:
    from iotdb.template.MeasurementNode import MeasurementNode
    from iotdb.template.Template import Template
    from iotdb.utils.IoTDBConstants import Compressor, TSDataType, TSEncoding

    template = Template("pump", share_time=True)
    for name in ("pressure", "flow"):
        template.add_template(MeasurementNode(name, TSDataType.FLOAT, TSEncoding.GORILLA, Compressor.LZ4))
    session.create_schema_template(template)
    session.set_storage_group("root.templates")
    session.set_schema_template("pump", "root.templates.hall")
    assert session.show_all_templates() == ["pump"]
    assert session.count_measurements_in_template("pump") == 2
    assert session.show_paths_template_set_on("pump") == ["root.templates.hall"]
    session.insert_aligned_record("root.templates.hall.p1", 1, ["pressure"], [TSDataType.FLOAT], [2.5])
    assert session.show_paths_template_using_on("pump") == ["root.templates.hall.p1"]


def test_raw_last_and_deleted_data(session: Any) -> None:
    from iotdb.utils.IoTDBConstants import TSDataType

    times = [1, 2, 3, 4]
    session.insert_records_of_one_device("root.raw.d", times, [["x"]] * 4, [[TSDataType.INT32]] * 4, [[10], [20], [30], [40]])
    assert rows(session.execute_raw_data_query(["root.raw.d.x"], 2, 4)) == [(2, 20), (3, 30)]
    assert rows(session.execute_last_data_query(["root.raw.d.x"], 1)) == [(4, b"root.raw.d.x", b"40", b"INT32")]
    session.delete_data_in_range(["root.raw.d.x"], 2, 3)
    assert rows(session.execute_raw_data_query(["root.raw.d.x"], -(2**63), 2**63 - 1)) == [(1, 10), (4, 40)]
    with pytest.raises(RuntimeError, match=r"^701: .* is not a legal path"):
        session.execute_raw_data_query(["root.raw.d.x from root; delete"], 2, 4)


def test_time_zones_apply_to_texts_of_instants(connect: Connect) -> None:
    session = connect(zone_id="Asia/Shanghai")
    assert session.get_time_zone() == "Asia/Shanghai"
    session.execute_non_query_statement("insert into root.zone.d(time, x) values(2024-01-01T08:00:00, 1)")
    assert rows(session.execute_query_statement("select x from root.zone.d"))[0][0] == 1_704_067_200_000
    with pytest.raises(Exception, match="Mars"):
        connect(zone_id="Mars/Olympus")


def test_errors_have_the_statuses_of_iotdb(connect: Connect, session: Any) -> None:
    for statement, status in {"selec 1": 700, "select x + from root.a": 700, "drop database root.nothing": 508}.items():
        with pytest.raises(RuntimeError, match=f"^{status}: "):
            session.execute_non_query_statement(statement)
    with pytest.raises(Exception, match="801"):
        connect(password="wrong")


def test_a_killed_connection_ends(connect: Connect, gate: Any) -> None:
    session = connect()
    gate.kill(gate.connections()[-1].id)
    with pytest.raises(RuntimeError, match="the connection was killed"):
        session.execute_query_statement("show version")
    with pytest.raises(Exception, match="closing session"):
        session.close()
