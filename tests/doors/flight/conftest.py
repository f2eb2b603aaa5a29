"""An open door of Flight SQL."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

import headrace
from headrace.doors.flight import FlightDoor
from headrace.doors.gate import Gate
from headrace.doors.options import DoorOptions
from headrace.service.authentication import authenticator

PASSWORD = "a password"
STATEMENTS = (
    "CREATE DATABASE power",
    "CREATE STABLE power.meters (ts TIMESTAMP, v DOUBLE, n INT) TAGS (place VARCHAR(20))",
    "CREATE TABLE power.d1 USING power.meters TAGS ('cellar')",
    "INSERT INTO power.d1 VALUES (1, 1.5, 2) (2, 2.5, NULL)",
)


@pytest.fixture(scope="package")
def gate(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gate]:
    assert spark
    settings = headrace.settings.load(home=tmp_path_factory.mktemp("flight") / "home", http_token=PASSWORD)
    with headrace.connect(settings=settings) as connection:
        for statement in STATEMENTS:
            connection.execute(statement)
        yield Gate(connection.session.context, authenticator(connection.session.context))


@pytest.fixture(scope="package")
def door(gate: Gate) -> Iterator[FlightDoor]:
    door = FlightDoor(gate, DoorOptions("127.0.0.1", 0))
    door.start()
    yield door
    door.stop()
    assert gate.connections() == []
