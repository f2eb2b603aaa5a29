"""Work outside a driver runs with the rights that the owner of a job has then; a job whose owner has lost them is STOPPED."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import headrace
from headrace.catalog.jobs import Jobs
from headrace.context import Context
from headrace.errors import PermissionDeniedError
from headrace.history import backfill
from headrace.model.jobs import JobRecord, JobState
from headrace.model.ledger import ChunkState
from headrace.model.triggers import TriggerState
from headrace.pipes import transfer
from headrace.runtime.airflow_tasks import stop_failed_stream
from headrace.runtime.owner_rights import OwnerRights
from headrace.runtime.query_runs import QueryWork
from headrace.runtime.query_work import execute_work
from headrace.settings import load

START = 1_700_000_000_000
PASSWORD = "secret12"
TABLES = (
    *("create database power", "create table power.t (ts timestamp, a int)", "insert into power.t values (0, 1) (1000, 2)"),
    *("grant read on power.t to vera", "grant write on power.* to vera"),
)
STREAM = "create stream power.s fill_history 1 into power.out1 as select _wstart, count(*) n from power.t interval(10s)"
CQ = "create cq q resample every 10s begin select count(s1) into root.plant.out(n) from root.plant.a group by (10s) end"
TREE = (
    *("create database root.plant", "insert into root.plant.a(time, s1) values (1, 1)", f"create user vera '{PASSWORD}'"),
    *(f"grant {privilege} on root.** to user vera" for privilege in ("USE_CQ", "USE_PIPE", "USE_TRIGGER")),
    *("grant READ on root.plant.** to user vera", "grant WRITE on root.plant.out.** to user vera"),
)
CODE = """
from headrace.trigger import Trigger
class Quiet(Trigger):
    def fire(self, tablet):
        return True
"""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[headrace.Connection]:
    """Provide the administrator's connection to a tree, in a home with the user vera."""
    monkeypatch.setenv("HEADRACE_EXTERNAL_LOCATIONS", str(tmp_path / "sent"))
    with connect(tmp_path / "home", "iotdb") as connection:
        for sql in TREE:
            connection.execute(sql)
        with connect(tmp_path / "home") as tables:
            for sql in TABLES:
                tables.execute(sql)
        yield connection


def connect(home: Path, dialect: str = "tdengine", user: str | None = None) -> headrace.Connection:
    settings = load(home=home, user=user or "", password="" if user is None else PASSWORD)
    return headrace.connect(settings=settings, dialect=dialect, clock=headrace.ManualClock(START))


def as_vera(root: headrace.Connection, sql: str, dialect: str = "iotdb") -> JobRecord:
    """Run a statement of vera, and return the newest job."""
    with connect(context_of(root).settings.home_path, dialect, "vera") as vera:
        vera.execute(sql)
    return context_of(root).catalog.jobs.all()[-1]


def context_of(root: headrace.Connection) -> Context:
    return root.session.context


def stopped_reason(jobs: Jobs, record: JobRecord) -> str:
    """Return why a job is STOPPED."""
    found = jobs.by_id(record.definition.id)
    assert found.state is JobState.STOPPED
    assert found.reason is not None
    assert found.reason.code == "PERMISSION_DENIED"
    assert not found.reason.transient
    return found.reason.message


def test_a_chunk_of_a_stream_whose_owner_lost_a_right_is_not_computed(root: headrace.Connection) -> None:
    record, context = as_vera(root, STREAM, "tdengine"), context_of(root)
    (chunk,) = backfill.plan_chunks(context, record.definition.id)
    target = context.catalog.tables.get("power", "out1")
    version = context.tables.version(target)
    with connect(context.settings.home_path) as tables:
        tables.execute("revoke read on power.t from vera")
    with pytest.raises(PermissionDeniedError, match=r"the owner vera has no privilege READ on power\.t"):
        backfill.fill_chunk(context, record.definition.id, chunk.run, chunk.number)
    assert stopped_reason(context.catalog.jobs, record) == "the owner vera has no privilege READ on power.t"
    assert context.tables.version(target) == version
    assert context.catalog.ledger.chunks(record.definition.id, chunk.run)[0].state is ChunkState.PENDING
    # The task that fails for it leaves the reason as it is.
    stop_failed_stream(context, record.definition.id, "spark-submit failed", chunk.number)
    assert "READ on power.t" in stopped_reason(context.catalog.jobs, record)


def test_who_may_read_a_virtual_table_need_not_know_its_origins(root: headrace.Connection) -> None:
    context = context_of(root)
    with connect(context.settings.home_path) as tables:
        tables.execute("create vtable power.v (ts timestamp, a int from power.t.a)")
        tables.execute("grant read on power.v to vera")
    record = as_vera(root, STREAM.replace("from power.t", "from power.v").replace("fill_history 1 ", ""), "tdengine")
    with connect(context.settings.home_path) as tables:
        tables.execute("revoke read on power.t from vera")
    OwnerRights(context.catalog).check(record.definition)
    with connect(context.settings.home_path) as tables:
        tables.execute("revoke read on power.v from vera")
    with pytest.raises(PermissionDeniedError, match=r"READ on power\.v"):
        OwnerRights(context.catalog).check(record.definition)


@pytest.mark.parametrize("lost", ["USE_CQ on root.**", "READ on root.plant.**"])
def test_an_execution_of_a_query_whose_owner_lost_a_right_stops_it(root: headrace.Connection, lost: str) -> None:
    record, context = as_vera(root, CQ), context_of(root)
    root.execute(f"revoke {lost} from user vera")
    with pytest.raises(PermissionDeniedError, match="the owner vera has no privilege"):
        execute_work(context, QueryWork(record.definition.id, "airflow/x", record.definition.schedule.first))
    assert lost.split()[0].removesuffix("READ") in stopped_reason(context.catalog.jobs, record)
    assert root.execute("show timeseries root.plant.out.**").fetchall() == []


@pytest.mark.parametrize("lost", ["USE_PIPE on root.**", "READ on root.plant.**"])
def test_a_chunk_of_a_pipe_whose_owner_lost_a_right_is_not_sent(root: headrace.Connection, tmp_path: Path, lost: str) -> None:
    sink = f"'sink'='delta-sink', 'uri'='{tmp_path / 'sent'}'"
    record = as_vera(root, f"create pipe p with source ('path'='root.plant.a.**') with sink ({sink})")
    context, id_ = context_of(root), record.definition.id
    (chunk,) = transfer.plan_chunks(context, id_, "airflow/again")
    root.execute(f"revoke {lost} from user vera")
    with pytest.raises(PermissionDeniedError, match="the owner vera has no privilege"):
        transfer.transfer_chunk(context, id_, chunk.run, chunk.number)
    assert "the owner vera has no privilege" in stopped_reason(context.catalog.jobs, record)
    assert not list((tmp_path / "sent").rglob("*.parquet"))


def test_a_trigger_whose_owner_may_not_use_triggers_is_stopped(root: headrace.Connection) -> None:
    context = context_of(root)
    folder = context.settings.home_path / "ext" / "trigger"
    folder.mkdir(parents=True)
    (folder / "quiet.py").write_text(CODE)
    with connect(context.settings.home_path, "iotdb", "vera") as vera:
        vera.execute("create stateless trigger quiet after insert on root.plant.** as 'quiet.Quiet'")
    root.execute("insert into root.plant.a(time, s1) values (2, 1)")
    (trigger,) = context.catalog.triggers.all()
    assert context.catalog.trigger_activities.all()[trigger.id].calls == 1
    root.execute("drop user vera")
    root.execute("insert into root.plant.a(time, s1) values (3, 1)")
    (trigger,) = context.catalog.triggers.all()
    assert (trigger.state, trigger.reason) == (TriggerState.INACTIVE, "the owner vera has no privilege USE_TRIGGER")
    assert context.catalog.trigger_activities.all()[trigger.id].calls == 1
