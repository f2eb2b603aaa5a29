"""Environments for tests of streams."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from headrace.streams.state import store
from tests.streams import counting
from tests.streams.environment import StreamEnvironment, open_environment
from tests.support.interpreted import interpret_plans
from tests.support.object_store import WAREHOUSE_VARIABLE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

interpret_plans()

LOCAL_FILES: Final = frozenset(
    {
        "test_a_checkpoint_that_only_the_target_records_is_recomputed",
        "test_a_column_of_another_writer_breaks_neither_queries_nor_streams",
        "test_a_column_that_another_writer_made_is_declared_with_its_values",
        "test_a_damaged_state_is_recomputed_exactly",
        "test_a_dropped_job_leaves_no_messages",
        "test_a_lost_state_is_rebuilt_from_the_stored_rows",
        "test_a_micro_batch_without_checkpoint_is_repeated_as_it_was",
        "test_a_missing_source_stops_only_its_own_streams",
        "test_a_source_that_fails_again_and_again_stops_its_streams_until_they_are_retried",
        "test_a_source_that_fails_briefly_stops_nothing",
        "test_a_stream_that_fails_stops_with_the_reason_and_the_others_go_on",
        "test_skipping_lets_a_stream_continue_after_its_changes_were_vacuumed",
    }
)
"""Tests that open, damage or remove files of tables themselves, so that they need local ones."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the tests that need local files if tables are on an object store."""
    if WAREHOUSE_VARIABLE in os.environ:
        for item in items:
            if getattr(item, "originalname", item.name) in LOCAL_FILES:
                item.add_marker(pytest.mark.skip(reason="needs local files"))


@pytest.fixture(autouse=True, scope="session")
def _small_states_have_files_of_changes() -> Iterator[None]:
    """Write the changes of small states as those of large ones are written."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "MIN_COMPLETE_BYTES", 0)
        patch.setattr(store, "MAX_CHANGE_SHARE", 8)
        yield


@pytest.fixture
def env(tmp_path: Path, spark: SparkSession) -> Iterator[StreamEnvironment]:
    """An environment whose streams run on the session's Spark."""
    with open_environment(tmp_path / "home", lambda: spark) as environment:
        yield environment


@pytest.fixture
def offline_env(tmp_path: Path) -> Iterator[StreamEnvironment]:
    """An environment that needs no Spark."""

    def no_spark() -> SparkSession:
        raise AssertionError("nothing here needs Spark")

    with open_environment(tmp_path / "home", no_spark) as environment:
        yield environment


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Report how many examples were tried."""
    for line in counting.summary():
        terminalreporter.write_line(line)
