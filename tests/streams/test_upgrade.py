"""An upgrade: all streams are stopped, the catalog is migrated, and every stream continues where it was."""

from __future__ import annotations

from pathlib import Path

import pytest

import headrace
from headrace.catalog.migrate import HEAD
from headrace.model.jobs import DesiredState, JobRecord, JobState
from tests.support.next_version import NEXT, release_next_version

START = 1_700_000_000_000
SUMS = "select _wstart, count(*) n, sum(a) total from m partition by tbname session(ts, 10s)"
pytestmark = pytest.mark.spark


def jobs(connection: headrace.Connection) -> dict[str, JobRecord]:
    return {record.definition.name: record for record in connection.session.context.catalog.jobs.all()}


@pytest.mark.drawn(2)
def test_streams_continue_where_they_were_after_the_catalog_was_migrated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    options = "trigger window_close ignore expired 0 ignore update 0"
    with headrace.connect(home) as before:
        before.execute("create database d")
        before.execute("use d")
        before.execute("create stable m (ts timestamp, a int) tags (g int)")
        before.execute(f"create stream live {options} into o1 as {SUMS}")
        before.execute(f"create stream resting {options} into o2 as {SUMS}")
        before.execute(f"create stream filling {options} fill_history 1 into o3 as {SUMS}")
        before.execute(f"insert into m1 using m tags (1) values ({START}, 1) ({START + 5000}, 2)")
        before.settle()
        before.execute("pause stream resting")
        before.settle()
        recorded = jobs(before)
        before.execute(f"create stream young {options} fill_history 1 into o4 as {SUMS}")
        before.execute(f"insert into m1 values ({START + 9000}, 4)")

    release_next_version(tmp_path / "migrations", monkeypatch, oldest=NEXT)
    with headrace.connect(home, database="d") as after:
        migrated = jobs(after)
        assert {name: migrated[name] for name in recorded} == recorded, "nothing of a stream is lost"
        assert migrated["young"].state is JobState.FILLING
        after.execute(f"insert into m1 values ({START + 60_000}, 8)")
        after.settle()
        for target in ("o1", "o3", "o4"):
            assert after.execute(f"select n, total from {target}").fetchall() == [(3, 7)], target
        assert after.execute("select n, total from o2").fetchall() == []
        assert jobs(after)["resting"].desired is DesiredState.PAUSED
        after.execute("resume stream resting")
        after.settle()
        assert after.execute("select n, total from o2").fetchall() == [(3, 7)]
        for name in recorded:
            assert after.verify(stream=f"d.{name}").equal

    monkeypatch.undo()
    with pytest.raises(headrace.Error, match=f"the catalog has version {NEXT}, this Headrace knows {HEAD} at most"):
        headrace.connect(home)
