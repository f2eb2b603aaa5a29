from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headrace.errors import DataError
from headrace.model.tables import TBNAME
from headrace.storage import Tables
from headrace.storage.delta import subtable_names
from headrace.storage.delta.tags import MAX_FILES
from tests.storage.samples import METERS, POWER, START, open_tables, rows


def tags(*named: tuple[str, int | None]) -> pa.Table:
    return pa.table({TBNAME: [name for name, _ in named], "site": pa.array([site for _, site in named], pa.int32())})


def stored(tables: Tables) -> dict[str, int | None]:
    return {row[TBNAME]: row["site"] for row in tables.tags.read(METERS).to_pylist()}


def test_tags_are_set_replaced_and_dropped(meters: Tables) -> None:
    meters.tags.upsert(METERS, tags(("d1", 1), ("d2", None)))
    meters.tags.upsert(METERS, tags(("d2", 2), ("d3", 3)))
    meters.tags.drop(METERS, ["d1", "never"])

    assert stored(meters) == {"d2": 2, "d3": 3}


def test_the_last_tags_of_a_subtable_win(meters: Tables) -> None:
    meters.tags.upsert(METERS, tags(("d1", 1), ("d1", 2)))

    assert stored(meters) == {"d1": 2}


def test_tags_without_a_subtable_are_refused(meters: Tables) -> None:
    with pytest.raises(DataError, match="tbname cannot be NULL"):
        meters.tags.upsert(METERS, pa.table({TBNAME: pa.nulls(1, pa.string()), "site": pa.array([1], pa.int32())}))


def test_an_empty_set_of_tags_changes_nothing(meters: Tables) -> None:
    meters.tags.upsert(METERS, tags())
    meters.tags.drop(METERS, [])

    assert stored(meters) == {}


def test_setting_tags_as_they_are_commits_nothing(meters: Tables) -> None:
    def version() -> int:
        with meters._handles.tags(METERS).latest() as delta:
            return int(delta.version())

    meters.tags.upsert(METERS, tags(("d1", 1), ("d2", 2)))
    before = version()
    meters.tags.upsert(METERS, tags(("d2", 2), ("d1", 1)))
    assert version() == before

    meters.tags.upsert(METERS, tags(("d1", 1), ("d2", None), ("d3", 3)))
    assert version() == before + 1
    assert stored(meters) == {"d1": 1, "d2": None, "d3": 3}


def test_tags_set_by_another_process_are_seen(meters: Tables) -> None:
    other = Tables(meters.uri, meters.writer._lock, 1000)
    meters.tags.upsert(METERS, tags(("d1", 1)))
    assert stored(meters) == stored(other) == {"d1": 1}

    other.tags.upsert(METERS, tags(("d1", 5)))
    assert stored(meters) == {"d1": 5}


def test_a_recreated_table_starts_without_tags(meters: Tables) -> None:
    meters.tags.upsert(METERS, tags(("d1", 1)))
    meters.drop(METERS)
    meters.create(METERS, POWER)
    meters.tags.upsert(METERS, tags(("d2", 2)))

    assert stored(meters) == {"d2": 2}


def test_tags_set_one_by_one_are_compacted(meters: Tables) -> None:
    for number in range(MAX_FILES + 5):
        meters.tags.upsert(METERS, tags((f"d{number}", number)))

    with meters._handles.tags(METERS).latest() as delta:
        assert len(delta.file_uris()) < MAX_FILES
    assert len(stored(meters)) == MAX_FILES + 5


def test_subtables_with_rows_but_no_tags_are_among_the_subtables(meters: Tables) -> None:
    meters.tags.upsert(METERS, tags(("d1", 1)))
    meters.writer.write(METERS, POWER, rows([{"tbname": "d1", "ts": START, "a": 1}, {"tbname": "d2", "ts": START, "a": 2}]))
    meters.writer.write(METERS, POWER, rows([{"tbname": "d3", "ts": START, "a": 3}]))

    subtables = meters.tags.of_subtables(METERS)

    assert [(row["tbname"], row["site"]) for row in subtables.to_pylist()] == [("d1", 1), ("d2", None), ("d3", None)]
    assert subtables.schema == meters.tags.read(METERS).schema


def test_names_are_read_from_new_files_only(meters: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    original = subtable_names.file_names

    def recorded(system: Any, root: str, path: str) -> pa.Array:
        read.append(path)
        return original(system, root, path)

    monkeypatch.setattr(subtable_names, "file_names", recorded)
    for name in ("d1", "d2"):
        meters.writer.write(METERS, POWER, rows([{"tbname": name, "ts": START, "a": 1}]))
        assert name in meters.tags.of_subtables(METERS)["tbname"].to_pylist()
    assert len(read) == len(set(read)) == 2


def test_tags_written_by_another_process_are_not_missing(meters: Tables) -> None:
    assert meters.tags.missing(METERS, ["d1", "d2"]) == ["d1", "d2"]
    open_tables(Path(meters.uri).parent).tags.upsert(METERS, tags(("d1", 1)))
    assert meters.tags.missing(METERS, ["d1", "d2"]) == ["d2"]
