"""Commits whose answer is lost: the client repeats a commit that has taken place, and reports a conflict."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Final, NoReturn

import pytest

from headrace.model.positions import Position
from headrace.settings import load
from headrace.storage import Commit, Tables, object_store
from headrace.storage.loading.loader import LoadOptions
from tests.storage.samples import METERS, POWER, read, rows
from tests.support.lossy_proxy import LossyProxy, running_proxy
from tests.support.object_store import Server

JOB: Final = "job"
POSITION: Final = Position(1, {"source": 7})
NEW: Final = rows([{"ts": 10, "a": 1}, {"ts": 11, "a": 1}])
MIXED: Final = rows([{"ts": 0, "a": 1}, {"ts": 10, "a": 1}])
KEYS: Final = rows([{"ts": 2}]).select(["tbname", "ts"])


def results() -> Commit:
    return Commit.of_stream(JOB, POSITION.batch, None, 3, POSITION.offsets)


def no_spark() -> NoReturn:
    raise AssertionError


OPERATIONS: Final[dict[str, Callable[[Tables], object]]] = {
    "insert": lambda tables: tables.writer.write(METERS, POWER, NEW),
    "insert and update": lambda tables: tables.writer.write(METERS, POWER, MIXED),
    "delete": lambda tables: tables.writer.delete(METERS, POWER, ranges=[(0, 1)]),
    "delete values": lambda tables: tables.writer.clear(METERS, POWER, [("d1", ["a"])]),
    "new results": lambda tables: tables.writer.replace(METERS, POWER, NEW, None, results()),
    "changed results": lambda tables: tables.writer.replace(METERS, POWER, MIXED, KEYS, results()),
    "no results": lambda tables: tables.writer.replace(METERS, POWER, None, None, results()),
}


@pytest.fixture
def proxy(object_store: Server) -> Iterator[LossyProxy]:
    with running_proxy(object_store.url) as proxy:
        yield proxy


def open_tables(bucket: str, folder: str) -> Tables:
    """Open a table with three rows. Loads of more than one go through files."""
    tables = Tables(f"{bucket}/{folder} of tables", lambda _: nullcontext(), 1)
    tables.create(METERS, POWER)
    tables.writer.write(METERS, POWER, rows([{"ts": 0, "a": 0}, {"ts": 1, "a": 0, "b": 0.5}, {"ts": 2, "a": 0}]))
    return tables


@pytest.fixture
def tables(bucket: str, proxy: LossyProxy) -> Tables:
    """Tables whose writers reach the server by the proxy."""
    object_store.register(f"{bucket}/lossy of tables", load(s3_endpoint=proxy.url))
    return open_tables(bucket, "lossy")


def observe(tables: Tables, operation: Callable[[Tables], object]) -> dict[str, object]:
    """Do an operation, and return its result, what it leads to, and all that others see of it."""
    noted: list[int] = []
    tables.writer.listeners.add(lambda _, version: noted.append(version))
    result = operation(tables)
    tables.writer.write(METERS, POWER, rows([{"ts": 20, "a": 9}]))
    changes = tables.changes.read(METERS, 1, tables.version(METERS))
    columns = ["_commit_version", "_change_type", "ts", "a", "b"]
    return {
        "result": result,
        "noted": noted,
        "changes": sorted(map(repr, changes.select(columns).to_pylist())),
        "rows": read(tables.scan(METERS)),
        "position": tables.committed_position(METERS, JOB, ["source"]),
    }


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_commit_whose_answer_is_lost_takes_place_once(name: str, tables: Tables, bucket: str, proxy: LossyProxy) -> None:
    expected = observe(open_tables(bucket, "other"), OPERATIONS[name])
    proxy.to_lose.value = 2 if name == "delete values" else 1
    assert observe(tables, OPERATIONS[name]) == expected
    assert proxy.to_lose.value == 0
    assert expected["position"] == (POSITION if "results" in name else None)


def test_a_load_whose_answer_is_lost_keeps_its_files(tables: Tables, bucket: str, proxy: LossyProxy, tmp_path: Path) -> None:
    """A load merges its files, and deletes them, if it finds their keys in the table: they must not be its own."""
    file = tmp_path / "rows.csv"
    file.write_text("ts,a,b\n10,1,0.5\n11,1,0.5\n")

    def load_rows(tables: Tables) -> tuple[int, int]:
        metrics = tables.loader(no_spark, METERS, POWER).load([file], options=LoadOptions(tbname="d1"))
        return metrics.inserted, metrics.updated

    expected = observe(open_tables(bucket, "other"), load_rows)
    proxy.to_lose.value = 1
    assert observe(tables, load_rows) == expected
    assert proxy.to_lose.value == 0
    assert expected["result"] == (2, 0)


def test_messages_whose_answer_is_lost_are_committed_and_removed(tables: Tables, proxy: LossyProxy, object_store: Server) -> None:
    def stored_files() -> int:
        return sum(path.endswith(".parquet") for path in object_store.objects(f"{tables.uri}/.outbox"))

    outbox = tables.outbox(JOB)
    outbox.open()
    proxy.to_lose.value = 1
    assert outbox.append([b"a", b"b"], results())
    assert (outbox.backlog(), stored_files()) == (2, 1)
    proxy.to_lose.value = 1
    outbox.remove(POSITION.batch, 3)
    assert proxy.to_lose.value == 0
    assert stored_files() == 0
