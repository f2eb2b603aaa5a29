from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from headrace.errors import ConflictError, DataError, InternalError, NotFoundError, StorageError, TransientError
from headrace.model.tables import TBNAME
from headrace.storage import Tables
from headrace.storage.delta.commits import WriteMetrics, epoch_app
from headrace.storage.delta.handles import Handle
from headrace.storage.delta.writer import Writer, append_rows
from tests.storage.samples import HOUR, KEYED, METERS, PLAIN, POWER, START, CountedLock, read, rows


def data_files(tables: Tables) -> list[Path]:
    return sorted((Path(tables.uri) / "power/meters/rows").glob("*.parquet"))


def kinds(tables: Tables, version: int) -> list[str]:
    return sorted(tables.changes.read(METERS, version, version)["_change_type"].to_pylist())


def test_a_new_key_is_inserted_and_an_existing_one_replaced(meters: Tables) -> None:
    meters.writer.write(METERS, POWER, rows([{"ts": 1, "a": 1, "b": 1.0}, {"ts": 2, "a": 2, "b": 2.0}]))
    written = meters.writer.write(METERS, POWER, rows([{"ts": 2, "a": 20, "b": None}, {"ts": 3, "a": 3, "b": 3.0}]))

    assert (written.inserted, written.updated) == (1, 1)
    assert [(row["ts"], row["a"], row["b"]) for row in read(meters.scan(METERS))] == [
        (1, 1, 1.0),
        (2, 20, None),
        (3, 3, 3.0),
    ]


def test_omitted_columns_keep_their_values_and_an_explicit_null_overwrites(meters: Tables) -> None:
    meters.writer.write(METERS, POWER, rows([{"ts": 1, "a": 1, "b": 1.0}]))
    meters.writer.write(METERS, POWER, rows([{"ts": 1, "a": None}, {"ts": 2, "a": 2}]), update_columns=["ts", "a"])

    assert [(row["a"], row["b"]) for row in read(meters.scan(METERS))] == [(None, 1.0), (2, None)]


def test_the_last_row_of_a_key_in_one_write_wins(meters: Tables) -> None:
    written = meters.writer.write(METERS, POWER, rows([{"ts": 1, "a": 1}, {"ts": 2, "a": 5}, {"ts": 1, "a": 2}]))

    assert written.inserted == 2
    assert [row["a"] for row in read(meters.scan(METERS))] == [2, 5]


def test_the_same_instant_in_another_subtable_is_another_row(meters: Tables) -> None:
    meters.writer.write(METERS, POWER, rows([{"ts": 1, "a": 1}]))
    meters.writer.write(METERS, POWER, rows([{"ts": 1, "a": 2, TBNAME: "d2"}]))

    assert [(row[TBNAME], row["a"]) for row in read(meters.scan(METERS))] == [("d1", 1), ("d2", 2)]


def test_a_key_column_makes_rows_of_one_instant_different(tables: Tables) -> None:
    tables.create(KEYED, POWER)
    tables.writer.write(KEYED, POWER, rows([{"ts": 1, "k": 1, "a": 1}, {"ts": 1, "k": 2, "a": 2}], KEYED))
    tables.writer.write(KEYED, POWER, rows([{"ts": 1, "k": 2, "a": 3}], KEYED))

    assert [(row["k"], row["a"]) for row in read(tables.scan(KEYED), KEYED)] == [(1, 1), (2, 3)]


def test_rewriting_the_same_value_is_an_update(meters: Tables) -> None:
    meters.writer.write(METERS, POWER, rows([{"ts": 1, "a": 1}]))
    again = meters.writer.write(METERS, POWER, rows([{"ts": 1, "a": 1}]))

    assert kinds(meters, again.version) == ["update_postimage", "update_preimage"]


def test_a_write_of_the_key_alone_is_an_update_that_changes_nothing(meters: Tables) -> None:
    meters.writer.write(METERS, POWER, rows([{"ts": 1, "a": 1}]))
    again = meters.writer.write(METERS, POWER, rows([{"ts": 1}]), update_columns=["ts"])

    assert again.updated == 1
    assert [row["a"] for row in read(meters.scan(METERS))] == [1]


def test_rows_newer_than_all_others_are_written_without_reading_a_file(meters: Tables) -> None:
    meters.writer.write(METERS, POWER, rows([{"ts": START, "a": 1}]))
    for file in data_files(meters):
        file.unlink()

    assert meters.writer.write(METERS, POWER, rows([{"ts": START + 1, "a": 2}])).inserted == 1


def test_a_late_row_with_a_new_key_is_appended(meters: Tables) -> None:
    meters.writer.write(METERS, POWER, rows([{"ts": START}, {"ts": START + HOUR}]))
    before = data_files(meters)
    late = meters.writer.write(METERS, POWER, rows([{"ts": START + 5}]))

    assert late.inserted == 1
    assert set(before) < set(data_files(meters))
    assert kinds(meters, late.version) == ["insert"]


def test_an_update_leaves_files_of_other_times_as_they_are(meters: Tables) -> None:
    meters.writer.write(METERS, POWER, rows([{"ts": START, "a": 1}]))
    old = data_files(meters)
    meters.writer.write(METERS, POWER, rows([{"ts": START + HOUR, "a": 1}]))
    meters.writer.write(METERS, POWER, rows([{"ts": START + HOUR, "a": 2}]))

    with meters._handles.reader(METERS).latest() as delta:
        live = {Path(uri).name for uri in delta.file_uris()}
    assert {file.name for file in old} <= live


def test_a_write_without_rows_makes_no_commit(meters: Tables) -> None:
    assert meters.writer.write(METERS, POWER, rows([{"ts": 1}]).slice(0, 0)).version == 0


def test_a_plain_table_is_written_like_any_other(tables: Tables) -> None:
    tables.create(PLAIN, POWER)
    tables.writer.write(PLAIN, POWER, rows([{"ts": 1, "a": 1, TBNAME: "plain"}], PLAIN))

    assert read(tables.scan(PLAIN), PLAIN) == [{"ts": 1, "a": 1, "b": None, TBNAME: "plain"}]


@pytest.mark.parametrize("missing", ["ts", TBNAME])
def test_a_row_without_its_key_is_refused(meters: Tables, missing: str) -> None:
    broken = rows([{"ts": 1, "a": 1}]).drop_columns([missing])
    with pytest.raises(DataError, match=f"{missing} cannot be NULL"):
        meters.writer.write(METERS, POWER, broken)
    assert meters.version(METERS) == 0


def test_an_unknown_column_is_refused(meters: Tables) -> None:
    with pytest.raises(InternalError, match="no stored column other"):
        meters.writer.write(METERS, POWER, rows([{"ts": 1}]).append_column("other", pa.array([1])))


def test_a_table_that_was_never_created_is_not_found(tables: Tables) -> None:
    with pytest.raises(NotFoundError, match=r"power\.meters has no Delta table"):
        tables.writer.write(METERS, POWER, rows([{"ts": 1}]))


def test_a_damaged_table_is_a_named_error(meters: Tables) -> None:
    meters.writer.write(METERS, POWER, rows([{"ts": 1, "a": 1}]))
    for file in data_files(meters):
        file.write_bytes(b"not Parquet")

    with pytest.raises(StorageError, match=r"table power\.meters is damaged"):
        meters.writer.write(METERS, POWER, rows([{"ts": 1, "a": 2}]))


def test_writes_hold_the_tables_lock(tmp_path: Path) -> None:
    lock = CountedLock()
    tables = Tables(str(tmp_path), lock, 1000)
    tables.create(METERS, POWER)
    tables.writer.write(METERS, POWER, rows([{"ts": 1}]))

    assert lock.taken == 1


class StuckLock:
    """A lock whose holder never releases it."""

    def __call__(self, name: str) -> StuckLock:
        raise TransientError(f"{name} is held by another process", hint="wait for it")

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


def test_an_unavailable_lock_stops_neither_writes_nor_fences(meters: Tables) -> None:
    stuck = Tables(meters.uri, StuckLock(), 1000)
    stuck.writer.write(METERS, POWER, rows([{"ts": 1, "a": 1}]))
    stuck.writer.fence(METERS, "s", 4)

    assert stuck.rows(METERS) == 1
    assert stuck.transaction(METERS, epoch_app("s")) == 4


def test_a_commit_is_retried_after_a_concurrent_one(meters: Tables) -> None:
    other = Tables(meters.uri, CountedLock(), 1000)
    seen: list[int] = []

    def work(_: Handle, delta: DeltaTable) -> WriteMetrics:
        seen.append(delta.version())
        if len(seen) == 1:
            other.writer.write(METERS, POWER, rows([{"ts": 1, "a": 1}]))
        return append_rows(delta, rows([{"ts": 2, "a": 2, "b": None}]), None)

    assert meters.writer.commit(METERS, work).version == 2
    assert seen == [0, 1]
    assert [row["a"] for row in read(meters.scan(METERS))] == [1, 2]


def test_a_commit_that_always_loses_ends_with_a_conflict(meters: Tables) -> None:
    other = Tables(meters.uri, CountedLock(), 1000)
    writer = Writer(meters._handles, CountedLock(), attempts=3)

    def work(_: Handle, delta: DeltaTable) -> WriteMetrics:
        other.writer.write(METERS, POWER, rows([{"ts": delta.version()}]))
        return append_rows(delta, rows([{"ts": -1, "a": 2, "b": None}]), None)

    with pytest.raises(ConflictError, match="changed by another writer"):
        writer.commit(METERS, work)
    assert [row["ts"] for row in read(meters.scan(METERS))] == [0, 1, 2]
