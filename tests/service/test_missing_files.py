"""A data file that is gone is an error that names it, for queries of each engine and for streams."""

from __future__ import annotations

from pathlib import Path

import pytest

import headrace
from headrace.compute.nodes import UnsupportedError
from headrace.errors import StorageError
from headrace.model.jobs import JobState
from headrace.settings import load
from headrace.storage.spark.task_errors import error_of_job, error_of_task, has_raised

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]


@pytest.fixture
def damaged(tmp_path: Path) -> headrace.Connection:
    """Provide a table of three data files, of which one is gone."""
    connection = headrace.connect(settings=load(home=tmp_path, local_rows=0), database=None)
    for sql in ("CREATE DATABASE d", "USE d", "CREATE STABLE r (ts TIMESTAMP, a INT) TAGS (g INT)"):
        connection.execute(sql)
    for number in range(3):
        connection.execute(f"INSERT INTO r_{number} USING r TAGS (1) VALUES ({number}, 1)")
    files = (tmp_path / "tables" / "d" / "r" / "rows").glob("*.parquet")
    min(files, key=lambda file: file.stat().st_mtime_ns).unlink()
    return connection


@pytest.mark.parametrize("sql", ["SELECT * FROM r", "SELECT sum(a) FROM r", "SELECT _wstart, sum(a) FROM r INTERVAL(1s)"])
def test_a_query_names_the_file(damaged: headrace.Connection, sql: str) -> None:
    with damaged, pytest.raises(StorageError, match=r"part-\S+\.parquet is missing"):
        damaged.execute(sql)


def test_a_query_of_few_rows_names_the_file(damaged: headrace.Connection) -> None:
    home = damaged.session.context.settings.home_path
    with damaged, headrace.connect(home, dialect="iotdb") as trees, pytest.raises(StorageError, match=r"part-\S+\.parquet"):
        trees.execute("SELECT * FROM root.d.r.**")


def test_a_stream_says_why_it_stopped(damaged: headrace.Connection) -> None:
    with damaged:
        damaged.execute("CREATE STREAM s FILL_HISTORY 1 INTO o AS SELECT _wstart, sum(a) FROM r INTERVAL(1s)")
        damaged.settle()
        record = damaged.session.context.catalog.jobs.get("d", "s", "stream")
        assert record.state is JobState.STOPPED
        assert record.reason is not None
        assert "parquet is missing" in str(record.reason)


def test_other_failures_are_told_by_their_first_cause() -> None:
    trace = (
        "An error occurred while calling o1.getResult.",
        ": org.apache.spark.SparkException: Exception thrown in awaitResult:",
        *("\tat a.B", "Caused by: org.x.Outer: later", "\tat c.D", "Caused by: java.io.IOException: No space left on device"),
        "\t... 3 more",
    )
    assert error_of_job("\n".join(trace)).message == "Spark failed: No space left on device"
    assert error_of_job("[SOME_CONDITION] It is wrong.\nmore").message == "Spark failed: [SOME_CONDITION] It is wrong."


def test_what_a_worker_raised_is_told_from_texts_that_name_it() -> None:
    kind = UnsupportedError
    raised = (
        f"An exception was thrown from the Python worker.\nTraceback (most recent call last):\n{kind.__module__}.{kind.__name__}: a"
    )
    assert has_raised(raised, kind)
    assert not has_raised(f"ValueError: no number: '{kind.__module__}.{kind.__name__}: a'", kind)
    assert error_of_task(raised) is None
