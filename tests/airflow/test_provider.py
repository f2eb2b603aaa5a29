"""The hook, operators, sensors and triggers for DAGs of users, on homes that exist."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from airflow.providers.common.sql.operators.sql import SQLCheckOperator
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred

import headrace
from headrace.airflow.conditions import Condition, LagCondition, WindowClosedCondition
from headrace.airflow.hooks import HeadraceHook
from headrace.airflow.operators import HeadraceBackfillOperator, HeadraceSqlOperator, is_query
from headrace.airflow.sensors import HeadraceLagSensor, HeadraceWindowClosedSensor
from headrace.airflow.triggers import ConditionTrigger
from headrace.airflow.versions import UnsupportedAirflowError, check_airflow
from headrace.catalog import Catalog
from headrace.model.jobs import JobProgress, JobState, StopReason
from headrace.runtime.airflow_versions import BELOW, MINIMUM
from headrace.settings import Settings
from headrace.streams.kind import STREAM
from tests.airflow.samples import add_stream

pytestmark = pytest.mark.airflow
MINUTE = 60_000


@pytest.fixture
def connection(home: Settings, catalog: Catalog) -> Iterator[headrace.Connection]:
    """Provide a home with a database, and a stream `power.averages` that exists only in the catalog."""
    add_stream(catalog, "averages", progress=JobProgress())
    with headrace.connect(settings=home) as opened:
        yield opened


def describe(check: Condition, connection: headrace.Connection) -> tuple[bool, str]:
    verdict = check.check(connection)
    return verdict.holds, verdict.text


def test_a_stream_that_is_not_live_neither_caught_up_nor_closed_a_window(connection: headrace.Connection) -> None:
    assert describe(LagCondition("stream", "power.averages", 0), connection) == (False, "stream power.averages is not live yet")
    closed = WindowClosedCondition("power.averages", MINUTE)
    assert describe(closed, connection) == (False, "stream power.averages has closed no window yet")


@pytest.mark.parametrize(("end", "holds"), [(5 * MINUTE, True), (5 * MINUTE + 1, False)])
def test_windows_are_closed_up_to_the_watermark(connection: headrace.Connection, catalog: Catalog, end: int, holds: bool) -> None:
    record = catalog.jobs.get("power", "averages", STREAM)
    catalog.jobs.set_progress(record.definition.id, JobProgress(watermark=5 * MINUTE), None)
    verdict = WindowClosedCondition("power.averages", end).check(connection)
    assert verdict.holds is holds
    assert verdict.text == "stream power.averages has closed its windows until 1970-01-01T00:05:00+00:00"


def test_waiting_for_a_stopped_or_unknown_job_fails(connection: headrace.Connection, catalog: Catalog) -> None:
    record = catalog.jobs.get("power", "averages", STREAM)
    catalog.jobs.set_state(record.definition.id, JobState.STOPPED, StopReason("DISK_FULL", "no space", "", 0))
    with pytest.raises(AirflowFailException, match=r"stream power\.averages is STOPPED: .*no space"):
        LagCondition("stream", "power.averages", 0).check(connection)
    with pytest.raises(AirflowFailException, match="there is no continuous query hourly; SHOW JOBS lists what there is"):
        LagCondition("cq", "hourly", 0).check(connection)


def test_a_trigger_fires_once_its_condition_holds(connection: headrace.Connection, catalog: Catalog) -> None:
    record = catalog.jobs.get("power", "averages", STREAM)
    trigger = ConditionTrigger.of("headrace_default", WindowClosedCondition("power.averages", MINUTE), poke_interval=0.01)
    path, arguments = trigger.serialize()
    assert path == f"{ConditionTrigger.__module__}.ConditionTrigger"
    again = ConditionTrigger(**json.loads(json.dumps(arguments)))

    async def first_event() -> object:
        events = again.run()
        waiting = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0.05)
        assert not waiting.done()
        catalog.jobs.set_progress(record.definition.id, JobProgress(watermark=2 * MINUTE), None)
        return (await waiting).payload

    payload = asyncio.run(first_event())
    assert payload == {"status": "success", "text": "stream power.averages has closed its windows until 1970-01-01T00:02:00+00:00"}
    assert connection


def test_a_trigger_reports_what_cannot_come_true(connection: headrace.Connection) -> None:
    assert connection

    async def first_event() -> object:
        return (await anext(ConditionTrigger.of("headrace_default", LagCondition("pipe", "none", 0), 1).run())).payload

    assert asyncio.run(first_event()) == {"status": "failed", "text": "there is no pipe none; SHOW JOBS lists what there is"}


def test_a_deferrable_sensor_looks_before_it_waits_in_the_triggerer(connection: headrace.Connection, catalog: Catalog) -> None:
    end = datetime(1970, 1, 1, 0, 1, tzinfo=UTC)
    sensor = HeadraceWindowClosedSensor(task_id="closed", stream="power.averages", end=end.isoformat(), deferrable=True)
    with pytest.raises(TaskDeferred) as deferred:
        sensor.execute({})
    assert isinstance(deferred.value.trigger, ConditionTrigger)
    record = catalog.jobs.get("power", "averages", STREAM)
    catalog.jobs.set_progress(record.definition.id, JobProgress(watermark=MINUTE), None)
    assert sensor.execute({}) is None
    with pytest.raises(AirflowFailException, match="it is gone"):
        sensor.complete({}, {"status": "failed", "text": "it is gone"})
    assert connection


def test_a_sensor_names_one_job() -> None:
    with pytest.raises(ValueError, match="name exactly one of stream, cq, pipe"):
        HeadraceLagSensor(task_id="lag", max_lag=timedelta(0), stream="a.b", cq="c")


def test_an_end_without_a_time_zone_is_rejected() -> None:
    with pytest.raises(ValueError, match="has no time zone"):
        HeadraceWindowClosedSensor(task_id="closed", stream="a.b", end="2026-01-01T00:00:00").condition()


def test_a_backfill_triggers_the_dag_of_its_job() -> None:
    task = HeadraceBackfillOperator(task_id="again", stream="power.averages", start="2026-01-01T00:00:00Z", chunk_rows=5)
    assert (task.trigger_dag_id, task.wait_for_completion) == ("headrace_stream__power__averages", True)
    assert task.conf == {"from": "2026-01-01T00:00:00Z", "chunk_rows": 5}


def test_statements_run_on_the_home_without_a_connection(connection: headrace.Connection) -> None:
    hook = HeadraceHook()
    tested: Any = hook.test_connection()  # type: ignore[func-returns-value]
    assert tested == (True, "Connection successfully tested")
    assert not hook.is_remote
    assert hook.get_arrow("SHOW DATABASES")["name"].to_pylist() == ["power"]
    script = "CREATE TABLE t (ts TIMESTAMP, v INT); SHOW TABLES; -- the end"
    task = HeadraceSqlOperator(task_id="script", sql=script, database="power", split_statements=True, return_last=True)
    assert [row[0] for row in task.execute({})] == ["t"]
    assert connection


def test_an_unknown_connection_is_an_error() -> None:
    with pytest.raises(Exception, match="elsewhere"):
        HeadraceHook("elsewhere").get_conn()


def test_a_connection_names_an_snode_or_a_home(connection: headrace.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    remote = {"conn_type": "headrace", "host": "plant.example", "login": "vera", "extra": {"dialect": "iotdb"}}
    monkeypatch.setenv("AIRFLOW_CONN_PLANT", json.dumps(remote))
    hook = HeadraceHook("plant")
    assert hook.is_remote
    assert hook.dialect_name == "iotdb"
    with pytest.raises(headrace.OperationalError, match=r"grpc\+tls://plant\.example:32010 cannot be reached"):
        hook.get_conn()
    home = str(connection.session.context.settings.home_path)
    monkeypatch.setenv("AIRFLOW_CONN_LOCAL", json.dumps({"conn_type": "headrace", "extra": {"home": home}}))
    assert HeadraceHook("local").get_first("SHOW DATABASES")[0] == "power"


def test_checks_of_the_common_provider_work(connection: headrace.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_HEADRACE_DEFAULT", json.dumps({"conn_type": "headrace"}))
    SQLCheckOperator(task_id="check", sql="SHOW DATABASES", conn_id="headrace_default").execute({})
    assert connection


@pytest.mark.parametrize(
    ("sql", "expected"), [("SELECT 1", True), ("SHOW JOBS", True), ("DROP TABLE t", False), ("SHOW JOBS; SHOW JOBS", False)]
)
def test_only_one_query_is_deferred(sql: str, expected: bool) -> None:
    assert is_query(sql, HeadraceHook(dialect="tdengine")) is expected


@pytest.mark.parametrize("version", ["3.2.9", "4.0.0", "3.4.0rc1", BELOW])
def test_another_version_of_airflow_is_rejected(version: str) -> None:
    with pytest.raises(UnsupportedAirflowError, match=f"but this is {version}; install one of these"):
        check_airflow(version)


def test_supported_versions_of_airflow() -> None:
    for version in (MINIMUM, "3.3.0rc1", "3.3.2", "3.3.99"):
        check_airflow(version)
