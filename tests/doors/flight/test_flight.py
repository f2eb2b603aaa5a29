"""The door of Flight SQL, with the unchanged client of ADBC and with Flight itself."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.flight as flight
import pytest

from headrace.doors.flight import FlightDoor
from headrace.doors.gate import DoorConnection, Gate
from headrace.doors.options import DoorOptions
from headrace.errors import ConfigurationError
from headrace.runtime.flight_sql import decode_command, encode_command
from tests.doors.flight.conftest import PASSWORD

dbapi = pytest.importorskip("adbc_driver_flightsql.dbapi")

USER = ("root", PASSWORD)


@pytest.fixture
def cursor(door: FlightDoor) -> Iterator[Any]:
    options = {"username": USER[0], "password": USER[1]}
    with dbapi.connect(f"grpc://{door.address}", db_kwargs=options, autocommit=True) as connection, connection.cursor() as cursor:
        yield cursor


def rows(cursor: Any, sql: str, parameters: Any = None) -> list[tuple[Any, ...]]:
    cursor.execute(sql, parameters)
    return list(cursor.fetchall())


def test_queries_have_rows_and_types(cursor: Any) -> None:
    assert [row[1:] for row in rows(cursor, "SELECT ts, v, n FROM power.d1 WHERE ts < 3")] == [(1.5, 2), (2.5, None)]
    assert [(name, str(type_)) for name, type_, *_ in cursor.description] == [
        ("ts", "timestamp[us, tz=UTC]"),
        ("v", "double"),
        ("n", "int32"),
    ]


def test_parameters_are_values_and_never_sql(cursor: Any) -> None:
    assert [row[1] for row in rows(cursor, "SELECT ts, v FROM power.d1 WHERE n = ?", (2,))] == [1.5]
    assert rows(cursor, "SELECT ts FROM power.meters WHERE place = ?", ("' OR '1' = '1",)) == []


def test_statements_change_what_they_name(cursor: Any) -> None:
    cursor.execute("CREATE TABLE power.d2 USING power.meters TAGS ('roof')")
    cursor.execute("INSERT INTO power.d2 VALUES (1, 1.0, 1)")
    cursor.executemany("INSERT INTO power.d2 VALUES (?, ?, ?)", [(2, 2.0, 2), (3, 3.0, None)])
    assert [row[1] for row in rows(cursor, "SELECT ts, v FROM power.d2")] == [1.0, 2.0, 3.0]


def test_arrow_rows_are_written_together(cursor: Any) -> None:
    cursor.execute("CREATE TABLE power.d3 USING power.meters TAGS ('yard')")
    data = pa.table({"ts": pa.array([10, 11], pa.timestamp("ms", "UTC")), "v": [1.0, 2.0], "tbname": ["d3", "d3"]})
    assert cursor.adbc_ingest("meters", data, mode="append", db_schema_name="power") == 2
    assert [row[1] for row in rows(cursor, "SELECT ts, v FROM power.d3")] == [1.0, 2.0]
    with pytest.raises(Exception, match="NOT_FOUND"):
        cursor.adbc_ingest("nothing", data, mode="append", db_schema_name="power")


def test_metadata(cursor: Any) -> None:
    (catalog,) = cursor.connection.adbc_get_objects(depth="all", table_name_filter="met%").read_all().to_pylist()
    (schema,) = [schema for schema in catalog["catalog_db_schemas"] if schema["db_schema_name"] == "power"]
    (table,) = schema["db_schema_tables"]
    assert (table["table_name"], table["table_type"]) == ("meters", "TABLE")
    assert [column["column_name"] for column in table["table_columns"]][:3] == ["ts", "v", "n"]
    assert cursor.connection.adbc_get_info()["vendor_name"] == "Headrace"
    assert cursor.connection.adbc_get_table_types() == ["TABLE"]


def test_errors_say_what_is_wrong(cursor: Any) -> None:
    with pytest.raises(dbapi.OperationalError, match=r"\[NOT_FOUND\] column nope does not exist") as missing:
        cursor.execute("SELECT nope FROM power.d1")
    with pytest.raises(dbapi.OperationalError, match="SYNTAX") as wrong:
        cursor.execute("SELEC 1")
    for raised in (missing, wrong):
        assert "Traceback" not in str(raised.value)


def test_the_dialect_of_trees(door: FlightDoor) -> None:
    options = {
        "username": USER[0],
        "password": USER[1],
        "adbc.flight.sql.rpc.call_header.dialect": "iotdb",
    }
    with dbapi.connect(f"grpc://{door.address}", db_kwargs=options, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE root.plant")
        cursor.execute("INSERT INTO root.plant.d1(time, s1) VALUES (1, 2.5)")
        assert [row[1] for row in rows(cursor, "SELECT s1 FROM root.plant.d1")] == [2.5]
        names = [
            table["table_name"]
            for catalog in connection.adbc_get_objects(depth="tables").read_all().to_pylist()
            for schema in catalog["catalog_db_schemas"]
            for table in schema["db_schema_tables"]
        ]
        assert names == ["d1"]


def basic(user: str, password: str) -> list[tuple[bytes, bytes]]:
    return [(b"authorization", b"Basic " + base64.b64encode(f"{user}:{password}".encode()))]


def call_options(*headers: tuple[bytes, bytes]) -> flight.FlightCallOptions:
    return flight.FlightCallOptions(headers=list(headers))


@pytest.mark.parametrize(
    "headers",
    [
        [],
        basic("root", "wrong"),
        basic("nobody", USER[1]),
        [(b"authorization", b"Basic %%%")],
        [(b"authorization", b"Bearer of-another-day")],
    ],
)
def test_whoever_proves_nothing_is_rejected(door: FlightDoor, headers: list[tuple[bytes, bytes]]) -> None:
    command = encode_command("CommandStatementQuery", query="SELECT * FROM power.d1")
    with flight.connect(f"grpc://{door.address}") as client, pytest.raises(flight.FlightUnauthenticatedError):
        client.get_flight_info(flight.FlightDescriptor.for_command(command), call_options(*headers))


def test_a_client_that_sends_its_password_with_each_call_has_one_connection(door: FlightDoor, gate: Gate) -> None:
    command = encode_command("CommandGetCatalogs")
    before = len(gate.connections())
    with flight.connect(f"grpc://{door.address}") as client:
        for _ in range(3):
            client.get_flight_info(flight.FlightDescriptor.for_command(command), call_options(*basic(*USER)))
    assert len(gate.connections()) - before in (0, 1)


@pytest.mark.parametrize("command", [b"", b"\xff\xff\xff", b"SELECT 1", encode_command("DoPutUpdateResult", record_count=1)])
def test_bytes_that_are_no_command_are_rejected(door: FlightDoor, command: bytes) -> None:
    options = call_options(*basic(*USER))
    with flight.connect(f"grpc://{door.address}") as client:
        for call in (client.get_flight_info, client.get_schema):
            with pytest.raises(pa.ArrowException):
                call(flight.FlightDescriptor.for_command(command), options)
        with pytest.raises(pa.ArrowException):
            client.do_get(flight.Ticket(command), options).read_all()


def test_a_result_is_fetched_once_and_by_its_connection_only(door: FlightDoor) -> None:
    command = encode_command("CommandStatementQuery", query="SHOW DATABASES")
    mine, other = call_options(*basic(*USER)), call_options(*basic(*USER), (b"dialect", b"iotdb"))
    with flight.connect(f"grpc://{door.address}") as client:
        info = client.get_flight_info(flight.FlightDescriptor.for_command(command), mine)
        ticket = info.endpoints[0].ticket
        assert decode_command(ticket.ticket)[0] == "TicketStatementQuery"
        with pytest.raises(flight.FlightServerError, match="no such result"):
            client.do_get(ticket, other).read_all()
        assert client.do_get(ticket, mine).read_all().num_rows >= 1
        with pytest.raises(flight.FlightServerError, match="no such result"):
            client.do_get(ticket, mine).read_all()


def test_a_killed_connection_ends(door: FlightDoor, gate: Gate) -> None:
    command = flight.FlightDescriptor.for_command(encode_command("CommandGetCatalogs"))
    with flight.connect(f"grpc://{door.address}") as client:
        token = client.authenticate_basic_token(*USER, call_options((b"database", b"power")))
        (mine,) = [one for one in gate.connections() if isinstance(one, DoorConnection) and one.session.database == "power"]
        client.get_flight_info(command, call_options(token))
        gate.kill(mine.id)
        with pytest.raises(flight.FlightUnauthenticatedError):
            client.get_flight_info(command, call_options(token))


def test_a_certificate_that_is_missing_is_an_error(gate: Gate, tmp_path: Path) -> None:
    door = FlightDoor(gate, DoorOptions("127.0.0.1", 0, str(tmp_path / "c.pem"), str(tmp_path / "k.pem")))
    with pytest.raises(ConfigurationError, match="cannot be used"):
        door.start()
