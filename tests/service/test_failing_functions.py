"""Streams whose functions raise exceptions: what they say, which rows they set aside, and how the function is corrected."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import headrace
from headrace.code.failures import Call, timeout_error
from headrace.code.host_process import CodeHost
from headrace.code.hosts import current_hosts
from headrace.errors import FunctionError, IntegrityError
from headrace.history.backfill import HISTORY
from headrace.model.jobs import JobState
from headrace.model.ledger import ChunkState
from headrace.streams.kind import STREAM
from tests.service.conftest import START, opened_database

CODE = """
def init(): pass
def destroy(): pass
def process(block):
    return [100 // block.data(row, 0) for row in range(block.shape()[0])]
"""
CORRECTED = CODE.replace("100 // block.data(row, 0)", "100 // (block.data(row, 0) or 1)")
HANGING = """
def init(): pass
def destroy(): pass
def process(block):
    values = [block.data(row, 0) for row in range(block.shape()[0])]
    while 0 in values:
        pass
    return values
"""
RAISED = "calib(0) failed: ZeroDivisionError: integer division or modulo by zero at calib.py:5"
QUERY = "as select _wstart, count(*) n, sum(calib(v)) total from st partition by tbname interval(10s)"


@pytest.fixture
def hanging(monkeypatch: pytest.MonkeyPatch) -> None:
    """End calls with a zero at once, as if the function had not returned in time."""
    ask = CodeHost.ask

    def ask_or_end(host: CodeHost, call: Call, *arguments: Any) -> Any:
        if call.table is not None and 0 in call.table["x0"].to_pylist():
            raise timeout_error(call, 60)
        return ask(host, call, *arguments)

    monkeypatch.setattr(CodeHost, "ask", ask_or_end)


@contextmanager
def opened_plant(tmp_path: Path) -> Iterator[headrace.Connection]:
    """Open a home with the function `calib`, and a supertable."""
    (tmp_path / "home" / "ext" / "udf").mkdir(parents=True)
    with opened_database(tmp_path / "home") as connection:
        write(connection, CODE)
        connection.execute("create function calib as 'calib.py' outputtype bigint language 'Python'")
        connection.execute("create stable st (ts timestamp, v int) tags (g int)")
        connection.execute("create table c1 using st tags (1) c2 using st tags (2)")
        yield connection
    current_hosts().close()


@pytest.fixture
def plant(tmp_path: Path) -> Iterator[headrace.Connection]:
    with opened_plant(tmp_path) as opened:
        yield opened


def write(connection: headrace.Connection, code: str) -> None:
    (connection.session.context.settings.home_path / "ext" / "udf" / "calib.py").write_text(code)


def replace_function(connection: headrace.Connection, type_: str = "bigint") -> None:
    connection.execute(f"create or replace function calib as 'calib.py' outputtype {type_} language 'Python'")


def insert(connection: headrace.Connection) -> None:
    connection.execute(f"insert into c1 values ({START}, 1) ({START + 1000}, 0) ({START + 2000}, 5) c2 values ({START}, 4)")


def states(connection: headrace.Connection) -> dict[str, JobState]:
    return {record.definition.name: record.state for record in connection.session.context.catalog.jobs.all(kind=STREAM)}


def results(connection: headrace.Connection, table: str) -> list[tuple[object, ...]]:
    return sorted(row[1:3] for row in connection.execute(f"select * from {table}").fetchall())


def test_a_row_on_which_a_function_fails_goes_to_the_quarantine(plant: headrace.Connection) -> None:
    plant.execute(f"create stream s trigger at_once into o {QUERY}")
    insert(plant)
    plant.settle()
    assert states(plant) == {"s": JobState.RUNNING}
    assert results(plant, "o") == [(1, 25), (2, 120)]
    (row,) = plant.execute("select table_name, reason, message from information_schema.ins_stream_quarantine").fetchall()
    assert row == ("c1", "DATA", RAISED)
    with pytest.raises(FunctionError, match=r"^\[FUNCTION\] calib\(0\) failed: ZeroDivisionError"):
        plant.execute("select calib(v) from c1")


def test_a_function_is_corrected_while_its_callers_are_at_rest(plant: headrace.Connection) -> None:
    catalog = plant.session.context.catalog
    plant.execute(f"create stream stopping trigger at_once on_error stop into o {QUERY}")
    plant.execute(f"create stream goes_on trigger at_once into o2 {QUERY}")
    insert(plant)
    plant.settle()
    reason = catalog.jobs.get("d", "stopping", STREAM).reason
    assert reason is not None
    assert (reason.code, reason.message) == ("FUNCTION", f"{RAISED} (in the row of c1 at 2023-11-14 22:13:21+00:00)")
    assert reason.hint.endswith("; CREATE OR REPLACE FUNCTION, then RESUME STREAM")
    write(plant, CORRECTED)
    with pytest.raises(IntegrityError, match=r"function calib cannot be replaced: stream d.goes_on calls it") as refused:
        replace_function(plant)
    assert refused.value.hint.startswith("PAUSE STREAM d.goes_on first")
    plant.execute("pause stream goes_on")
    plant.settle()
    with pytest.raises(
        IntegrityError, match=r"by a function of rows of DOUBLE: stream d.goes_on, stream d.stopping need a function"
    ):
        replace_function(plant, "double")
    (old,) = catalog.functions.all("tdengine")
    replace_function(plant)
    for name in ("goes_on", "stopping"):
        plant.execute(f"resume stream {name}")
    plant.execute("replay quarantine of stream goes_on")
    plant.settle()
    assert results(plant, "o") == results(plant, "o2") == [(1, 25), (3, 220)]
    (event,) = (
        event
        for event in catalog.events.all("job", catalog.jobs.get("d", "stopping", STREAM).definition.id)
        if event.kind == "FUNCTION_REPLACED"
    )
    assert old.artifact is not None
    assert event.message.startswith(f"function calib: version 0 (SHA-256 {old.artifact.sha256}) was replaced by version 1")


@pytest.mark.spark
def test_a_history_on_which_a_function_fails_stops_its_stream_alone(plant: headrace.Connection) -> None:
    catalog = plant.session.context.catalog
    insert(plant)
    plant.execute(f"create stream filling trigger at_once fill_history 1 into o {QUERY}")
    plant.execute("create stream other trigger at_once into o2 as select _wstart, count(*) n, sum(v) total from st interval(10s)")
    plant.execute(f"insert into c2 values ({START + 1000}, 4)")
    for _ in range(2):
        plant.settle()
        assert states(plant) == {"filling": JobState.STOPPED, "other": JobState.RUNNING}
    reason = catalog.jobs.get("d", "filling", STREAM).reason
    assert reason is not None
    assert (reason.code, reason.message, reason.transient) == ("FUNCTION", RAISED, False)
    assert results(plant, "o2") == [(5, 14)]
    write(plant, CORRECTED)
    replace_function(plant)
    plant.execute("resume stream filling")
    plant.settle()
    assert results(plant, "o") == [(2, 50), (3, 220)]


TOOK_LONG = "calib failed: it took longer than 60 s and was ended"


@pytest.mark.usefixtures("hanging")
def test_a_row_for_which_a_function_does_not_return_is_an_error_of_this_row(plant: headrace.Connection) -> None:
    plant.execute(f"create stream stopping trigger at_once on_error stop into o {QUERY}")
    plant.execute(f"create stream goes_on trigger at_once into o2 {QUERY}")
    insert(plant)
    plant.settle()
    assert states(plant) == {"stopping": JobState.STOPPED, "goes_on": JobState.RUNNING}
    reason = plant.session.context.catalog.jobs.get("d", "stopping", STREAM).reason
    assert reason is not None
    assert (reason.code, reason.transient) == ("FUNCTION_TIMEOUT", False)
    assert reason.message == f"{TOOK_LONG} (in the row of c1 at 2023-11-14 22:13:21+00:00)"
    assert results(plant, "o2") == [(1, 25), (2, 120)]
    (row,) = plant.execute("select table_name, reason, message from information_schema.ins_stream_quarantine").fetchall()
    assert row == ("c1", "DATA", TOOK_LONG)


@pytest.mark.spark
def test_a_history_in_which_a_function_does_not_return_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_CODE_TIMEOUT_S", "2")
    with opened_plant(tmp_path) as plant:
        write(plant, HANGING)
        replace_function(plant)
        insert(plant)
        plant.execute(f"create stream filling trigger at_once fill_history 1 into o {QUERY}")
        plant.settle()
        record = plant.session.context.catalog.jobs.get("d", "filling", STREAM)
        chunks = plant.session.context.catalog.ledger.chunks(record.definition.id, HISTORY)
    assert (record.state, record.reason and record.reason.code) == (JobState.STOPPED, "FUNCTION_TIMEOUT")
    assert record.reason is not None
    assert not record.reason.transient
    assert [chunk.state for chunk in chunks] == [ChunkState.FAILED]
