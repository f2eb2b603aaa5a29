"""A disk without room: a write fails by name, leaves nothing, and the next one succeeds."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

from headrace.errors import StorageError
from headrace.storage import Tables
from headrace.storage.delta.handles import rows_uri
from headrace.storage.delta.history import MAX_LOAD_HOURS
from headrace.storage.delta.log_entries import LOG
from tests.storage.samples import METERS, POWER, read, rows

STEP = 256
"""Bytes by which there is more room after each attempt."""


@contextmanager
def room_for(bytes_of_a_file: int) -> Iterator[None]:
    """Refuse to write files that are larger."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_of_a_file, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def meter_rows(first: int, sign: int) -> pa.Table:
    return rows([{"ts": time, "a": sign * time} for time in range(first, first + 8)])


@pytest.fixture
def tables(meters: Tables) -> Tables:
    """Eight rows, one in each file, so that the entry that removes these is larger than a file that takes their place."""
    for row in meter_rows(1, 1).to_batches(1):
        meters.writer.write(METERS, POWER, pa.Table.from_batches([row]))
    return meters


def files_of(tables: Tables) -> set[str]:
    return {str(path) for path in Path(tables.uri).rglob("*") if path.is_file()}


@pytest.mark.parametrize("first", [9, 1], ids=["new rows", "results in place of others"])
def test_a_write_without_room_leaves_nothing(tables: Tables, first: int) -> None:
    written = meter_rows(first, -1)
    before, files, failures = tables.scan(METERS), files_of(tables), 0
    for blocks in range(100):
        try:
            with room_for(blocks * STEP):
                tables.writer.replace(METERS, POWER, written, None, None)
            break
        except StorageError as error:
            failures += "File too large" in str(error)
        assert files_of(tables) == files
        assert tables.scan(METERS).equals(before)
    assert failures > 2
    assert {row["ts"]: row["a"] for row in read(tables.scan(METERS))} == {
        **{time: time for time in range(1, 9)},
        **{time: -time for time in range(first, first + 8)},
    }


def test_drafts_of_entries_go_with_the_history(tables: Tables) -> None:
    old, young = (Path(rows_uri(tables.uri, METERS), LOG, f".{name}.tmp") for name in ("old", "young"))
    for path, hours in ((old, MAX_LOAD_HOURS + 1), (young, 0)):
        path.touch()
        instant = path.stat().st_mtime - 3600 * hours
        os.utime(path, (instant, instant))
    tables.maintenance.vacuum(METERS, 12)
    assert (old.exists(), young.exists()) == (False, True)
