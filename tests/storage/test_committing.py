"""Commits are known by their marker: one that is repeated after it has taken place is no conflict."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError

from headrace.storage import Tables
from headrace.storage.delta.committing import commit_once
from tests.storage.samples import METERS, POWER, read, rows

ROWS = pa.table({"x": [1, 2]})
append = partial(write_deltalake, data=ROWS, mode="append")


@pytest.fixture
def delta(tmp_path: Path) -> DeltaTable:
    path = str(tmp_path / "a table")
    write_deltalake(path, ROWS)
    return DeltaTable(path)


def delete_twice(delta: DeltaTable, properties: CommitProperties) -> dict[str, object]:
    """Commit a delete, let another writer commit, then repeat the delete on the version that it has read."""
    other = DeltaTable(delta.table_uri)
    other.delete("x = 2", commit_properties=properties)
    append(other)
    return delta.delete("x = 2", commit_properties=properties)


def test_a_repeated_commit_has_its_version_and_metrics(delta: DeltaTable) -> None:
    metrics = commit_once(delta, None, partial(delete_twice, delta))
    assert int(metrics["num_deleted_rows"]) == 1
    assert delta.version() == 1
    delta.update_incremental()
    assert delta.version() == 2
    commit_once(delta, None, lambda properties: append(delta, commit_properties=properties))
    assert sorted(pa.table(delta.to_pyarrow_table())["x"].to_pylist()) == [1, 1, 1, 2, 2]


def test_the_commit_of_another_writer_is_a_conflict(delta: DeltaTable) -> None:
    other = DeltaTable(delta.table_uri)
    commit_once(other, None, lambda properties: append(other, commit_properties=properties))
    with pytest.raises(CommitFailedError):
        commit_once(delta, None, lambda properties: append(delta, commit_properties=properties))
    assert delta.version() == 0


def link_twice(link: Callable[[str, str], None], source: str, target: str) -> None:
    """Create a link as a client of NFS does if the answer is lost."""
    link(source, target)
    link(source, target)


def test_a_repeated_link_is_no_conflict(meters: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    def replace(a: int) -> None:
        meters.writer.replace(METERS, POWER, rows([{"ts": 1, "a": a}]), None, None)

    replace(1)
    with monkeypatch.context() as patch:
        patch.setattr(os, "link", partial(link_twice, os.link))
        replace(2)
    assert meters.version(METERS) == 2
    replace(3)
    assert [row["a"] for row in read(meters.scan(METERS))] == [3]
    assert meters.version(METERS) == 3
