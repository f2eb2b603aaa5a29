"""IoTDB's own test of how often triggers are called."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import headrace
from headrace.code.hosts import current_hosts

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]
CODE = Path(__file__).with_name("trigger_counter.py")


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[headrace.Connection]:
    folder = tmp_path / "home" / "ext" / "trigger"
    folder.mkdir(parents=True)
    shutil.copy(CODE, folder / "trigger_counter.py")
    with headrace.connect(tmp_path / "home", dialect="iotdb") as opened:
        yield opened
    current_hosts().close()


@pytest.mark.parametrize("kind", ["stateless", "stateful"])
def test_each_insert_calls_the_triggers_of_its_measurements_once(connection: headrace.Connection, kind: str) -> None:
    connection.execute("create database root.fired")
    for measurement in "abc":
        connection.execute(f"create timeseries root.test.d.{measurement} INT32")
    for moment in ("before", "after"):
        for name, pattern in (("every", "*"), ("a", "a")):
            connection.execute(
                f"create {kind} trigger {moment}_{name} {moment} insert on root.test.d.{pattern} "
                f"as 'trigger_counter.TriggerFireTimesCounter' with ('name'='{moment}_{name}')"
            )
    for time in range(2):
        connection.execute(f"insert into root.test.d(time, a, b, c) values ({time}, 0, 0, 0)")
        for measurement in "abc":
            connection.execute(f"insert into root.test.d(time, {measurement}) values ({time}, 0)")
    cursor = connection.execute("select before_every, before_a, after_every, after_a from root.fired.counts")
    assert cursor.fetchall()[0][1:] == (8, 4, 8, 4)
