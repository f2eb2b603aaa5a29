"""Scheduled runs of a stream's DAG."""

from __future__ import annotations

import pendulum
import pytest

pytestmark = pytest.mark.airflow

CREATED = 1_790_000_000_000
ANY = None


def next_run(created: int, last: int | None) -> pendulum.DateTime | None:
    from airflow.timetables.base import DataInterval, TimeRestriction

    from headrace_timetable import OncePerStream

    interval = None if last is None else DataInterval.exact(pendulum.from_timestamp(last / 1000))
    restriction = TimeRestriction(earliest=None, latest=None, catchup=False)
    run = OncePerStream(created).next_dagrun_info(last_automated_data_interval=interval, restriction=restriction)
    return None if run is None else run.run_after


def test_a_new_stream_runs_immediately() -> None:
    assert next_run(CREATED, None) == pendulum.from_timestamp(CREATED / 1000)


def test_it_runs_once_only() -> None:
    assert next_run(CREATED, CREATED) is None


def test_a_stream_created_again_under_its_name_runs_again() -> None:
    assert next_run(CREATED + 1, CREATED) == pendulum.from_timestamp((CREATED + 1) / 1000)


def test_it_is_restored_from_airflows_database() -> None:
    from airflow.serialization.decoders import decode_timetable
    from airflow.serialization.encoders import encode_timetable

    from headrace_timetable import OncePerStream

    assert decode_timetable(encode_timetable(OncePerStream(CREATED))).serialize() == {"created": CREATED}
