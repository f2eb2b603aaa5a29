"""Scheduled runs of the DAGs of streams and of continuous queries."""

from __future__ import annotations

from datetime import datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pendulum
import pytest

from headrace.model.continuous_queries import Schedule
from headrace.model.tree_statements import TimeoutPolicy

if TYPE_CHECKING:
    from airflow.timetables.base import DagRunInfo

pytestmark = pytest.mark.airflow

CREATED = 1_790_000_000_000
HOUR = 3_600_000
MIDNIGHT = round(pendulum.datetime(2026, 1, 1).timestamp() * 1000)
HOURLY = Schedule(
    every=HOUR,
    boundary=15 * 60_000,
    start_offset=2 * HOUR,
    end_offset=HOUR // 2,
    policy=TimeoutPolicy.BLOCKED,
    first=MIDNIGHT + 15 * 60_000,
)
"""At a quarter past each hour, over an hour and a half."""


def next_run(created: int, last: int | None) -> pendulum.DateTime | None:
    from airflow.timetables.base import DataInterval, TimeRestriction

    from headrace_timetable import OncePerJob

    interval = None if last is None else DataInterval.exact(pendulum.from_timestamp(last / 1000))
    restriction = TimeRestriction(earliest=None, latest=None, catchup=False)
    run = OncePerJob(created).next_dagrun_info(last_automated_data_interval=interval, restriction=restriction)
    return None if run is None else run.run_after


def test_a_new_stream_runs_immediately() -> None:
    assert next_run(CREATED, None) == pendulum.from_timestamp(CREATED / 1000)


def test_it_runs_once_only() -> None:
    assert next_run(CREATED, CREATED) is None


def test_a_stream_created_again_under_its_name_runs_again() -> None:
    assert next_run(CREATED + 1, CREATED) == pendulum.from_timestamp((CREATED + 1) / 1000)


def test_timetables_are_restored_from_airflows_database() -> None:
    from airflow.serialization.decoders import decode_timetable
    from airflow.serialization.encoders import encode_timetable

    from headrace_timetable import OncePerJob, QuerySchedule

    assert decode_timetable(encode_timetable(OncePerJob(CREATED))).serialize() == {"created": CREATED}
    restored = decode_timetable(encode_timetable(QuerySchedule(HOURLY, 3)))
    assert isinstance(restored, QuerySchedule)
    assert (restored._schedule, restored._generation) == (HOURLY, 3)


@pytest.fixture
def timetable(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Provide the timetable of the hourly query at 05:20."""
    import headrace_timetable

    monkeypatch.setattr(headrace_timetable, "utc_now", lambda: at("05:20"))
    return headrace_timetable.QuerySchedule(HOURLY)


def at(text: str) -> pendulum.DateTime:
    hour, minute = map(int, text.split(":"))
    return pendulum.datetime(2026, 1, 1, hour, minute)


def following(timetable: Any, last: Any, *, catchup: bool = True, earliest: Any = None, latest: Any = None) -> Any:
    from airflow.timetables.base import TimeRestriction

    return timetable.next_dagrun_info_v2(last_dagrun_info=last, restriction=TimeRestriction(earliest, latest, catchup))


def test_the_start_date_of_the_dag_is_no_restriction(timetable: Any) -> None:
    from headrace_timetable import START_DATE

    assert shown(following(timetable, None, earliest=START_DATE))[0] == "00:15"


def shown(run: DagRunInfo) -> tuple[str, ...]:
    """Return when a run is due, and its range, as times of the day."""
    assert run.data_interval is not None
    assert run.logical_date == run.data_interval.start
    return tuple(f"{instant:HH:mm}" for instant in (run.run_after, *run.data_interval))


def test_a_run_is_due_at_its_instant_over_the_range_that_is_computed(timetable: Any) -> None:
    first = following(timetable, None)
    assert shown(first) == ("00:15", "22:15", "23:45")
    assert shown(following(timetable, first)) == ("01:15", "23:15", "00:45")


def test_without_catchup_the_latest_instant_follows(timetable: Any) -> None:
    first = following(timetable, None, catchup=False)
    assert shown(first)[0] == "05:15"
    assert shown(following(timetable, first, catchup=False))[0] == "06:15", "the latest has had its run"


def test_a_backfill_has_all_runs_whose_ranges_begin_in_it(timetable: Any) -> None:
    """Also those before the first scheduled one."""
    bounds: Any = {"earliest": pendulum.datetime(2025, 12, 31, 20), "latest": pendulum.datetime(2025, 12, 31, 23, 15)}
    runs, run = [], following(timetable, None, **bounds)
    while run is not None:
        runs.append(shown(run)[1])
        run = following(timetable, run, **bounds)
    assert runs == ["20:15", "21:15", "22:15", "23:15"]


@pytest.mark.parametrize(
    ("date", "due"),
    [
        ("03:14", "02:15"),
        ("03:20", "03:15"),
        ("02:15", "04:15"),
        ("04:15", "04:15"),
    ],
    ids=["latest", "latest after it", "of the range that begins then", "latest, since the range is not complete"],
)
def test_a_manual_run_has_the_range_of_its_logical_date(timetable: Any, date: str, due: str) -> None:
    interval = timetable.infer_manual_data_interval(run_after=at(date))
    assert interval.start == at(due).subtract(hours=2)


def test_a_manual_run_with_the_date_of_a_scheduled_one_takes_its_turn(timetable: Any) -> None:
    """Airflow passes such a run as the last one, and would wait forever if the same run followed it."""
    scheduled = following(timetable, None)
    manual = SimpleNamespace(logical_date=datetime.fromisoformat(str(scheduled.logical_date)))
    assert shown(following(timetable, timetable.run_info_from_dag_run(dag_run=manual)))[0] == "01:15"


def test_runs_of_a_dropped_query_of_the_same_name_do_not_delay_the_first_one(timetable: Any) -> None:
    earlier = SimpleNamespace(logical_date=datetime.fromisoformat("2025-12-30T07:03:00+00:00"))
    assert shown(following(timetable, timetable.run_info_from_dag_run(dag_run=earlier)))[0] == "00:15"


def test_a_query_created_again_under_its_name_has_runs_of_its_own(timetable: Any) -> None:
    """Airflow has one run for each logical date and run id, and passes the last run of the name, even of the dropped query."""
    from headrace_timetable import QuerySchedule

    again: Any = QuerySchedule(HOURLY, 1)
    dropped = [following(timetable, None)]
    for _ in range(3):
        dropped.append(following(timetable, dropped[-1]))
    last = SimpleNamespace(logical_date=datetime.fromisoformat(str(dropped[-1].logical_date)))
    runs = [following(again, again.run_info_from_dag_run(dag_run=last))]
    for _ in range(3):
        own = SimpleNamespace(logical_date=datetime.fromisoformat(str(runs[-1].logical_date)))
        runs.append(following(again, again.run_info_from_dag_run(dag_run=own)))
    assert [shown(run) for run in runs] == [shown(run) for run in dropped]
    assert {run.logical_date for run in runs}.isdisjoint(run.logical_date for run in dropped)
    assert {run.run_after for run in runs}.isdisjoint(run.run_after for run in dropped)


def test_a_backfill_of_a_query_created_again_skips_nothing(timetable: Any) -> None:
    from headrace_timetable import QuerySchedule

    bounds: Any = {"earliest": pendulum.datetime(2025, 12, 31, 20, 15), "latest": pendulum.datetime(2025, 12, 31, 23, 15)}
    dates = []
    for schedule in (timetable, QuerySchedule(HOURLY, 2)):
        run = following(schedule, None, **bounds)
        while run is not None:
            dates.append(run.logical_date)
            run = following(schedule, run, **bounds)
    assert (len(dates), len(set(dates))) == (8, 8)
