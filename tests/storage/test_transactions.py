"""App transactions are remembered, and are always those of the table, whoever writes it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.errors import FencedError
from headrace.storage import Commit, Tables
from headrace.storage.delta import transactions
from headrace.storage.delta.handles import Handle
from headrace.storage.delta.log_entries import log_file
from tests.storage.samples import METERS, POWER, open_tables, rows

APPS = ("a", "b", "c")
ROWS = pa.table({"x": [1]})
STEP = st.sampled_from(["write", "many", "read", "reopen", "forget"])


class CountedTable(DeltaTable):
    """Counts how often delta-rs is asked for an app transaction."""

    asked = 0

    def transaction_version(self, app_id: str) -> int | None:
        CountedTable.asked += 1
        return super().transaction_version(app_id)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> type[CountedTable]:
    monkeypatch.setattr(CountedTable, "asked", 0)
    monkeypatch.setattr("headrace.storage.delta.handles.DeltaTable", CountedTable)
    return CountedTable


@pytest.fixture(scope="module")
def few_entries() -> Iterator[None]:
    """Have delta-rs asked after a few commits of others."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transactions, "MAX_LOG_ENTRIES", 3)
        yield


def commit(uri: str, **recorded: int) -> None:
    """Commit a row and some app transactions, as another writer does."""
    transactions_ = [Transaction(app, version) for app, version in recorded.items()]
    write_deltalake(uri, ROWS, mode="append", commit_properties=CommitProperties(app_transactions=transactions_ or None))


@pytest.mark.usefixtures("few_entries")
@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(STEP, st.sampled_from(APPS), st.integers(0, 9)), max_size=12))
def test_they_are_those_of_the_newest_version(tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, str, int]]) -> None:
    uri = str(tmp_path_factory.mktemp("table"))
    commit(uri)
    handle = Handle(uri, "table")
    for step, app, version in steps:
        match step:
            case "write":
                commit(uri, **{app: version})
            case "many":
                for number in range(transactions.MAX_LOG_ENTRIES + 1):
                    commit(uri, **{app: number})
            case "reopen":
                delta = DeltaTable(uri)
                delta.create_checkpoint()
                Path(log_file(uri, delta.version())).touch()
            case "forget":
                handle.forget()
        with handle.latest() as delta:
            assert handle.transaction_version(delta, app) == DeltaTable(uri).transaction_version(app)
    with handle.latest() as delta:
        for app in APPS:
            assert handle.transaction_version(delta, app) == DeltaTable(uri).transaction_version(app)


def test_delta_rs_is_asked_once(tmp_path: Path, counted: type[CountedTable]) -> None:
    commit(str(tmp_path))
    handle = Handle(str(tmp_path), "table")
    for version in range(10):
        commit(str(tmp_path), a=version)
        with handle.latest() as delta:
            assert handle.transaction_version(delta, "a") == version
    assert counted.asked == 1


def test_a_log_entry_that_is_gone_is_not_needed(tmp_path: Path, counted: type[CountedTable]) -> None:
    commit(str(tmp_path), a=1)
    handle = Handle(str(tmp_path), "table")
    with handle.latest() as delta:
        assert handle.transaction_version(delta, "a") == 1
    for version in (2, 3):
        commit(str(tmp_path), a=version)
    DeltaTable(str(tmp_path)).create_checkpoint()
    with handle.latest() as delta:
        Path(log_file(str(tmp_path), 1)).unlink()
        assert handle.transaction_version(delta, "a") == 3
    assert counted.asked == 2


def test_a_table_that_was_created_again_has_its_own(tables: Tables) -> None:
    for batch in (1, 2):
        tables.create(METERS, POWER)
        tables.writer.replace(METERS, POWER, rows([{"ts": 1, "a": 1}]), None, Commit.of_stream("s", batch, None, 0))
        assert tables.transaction(METERS, "headrace.stream.s") == batch
        tables.drop(METERS)


def test_a_writer_that_was_fenced_in_between_notices_it(meters: Tables, tmp_path: Path) -> None:
    other = open_tables(tmp_path)
    for batch in range(3):
        meters.writer.replace(
            METERS, POWER, rows([{"ts": batch, "a": 1}]), None, Commit.of_stream("s", batch, batch - 1 if batch else None, 1)
        )
    other.writer.fence(METERS, "s", 2)
    with pytest.raises(FencedError):
        meters.writer.replace(METERS, POWER, rows([{"ts": 9, "a": 1}]), None, Commit.of_stream("s", 3, 2, 1))
    other.writer.replace(METERS, POWER, rows([{"ts": 3, "a": 1}]), None, Commit.of_stream("s", 3, 2, 2))
    assert meters.transaction(METERS, "headrace.stream.s") == 3
