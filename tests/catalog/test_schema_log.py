"""The log of schema changes: each statement is recorded with its change, in order, and removed when no pipe needs it."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from headrace.catalog import Catalog, schema_log
from headrace.errors import ExistsError, HistoryGoneError
from headrace.model.clock import ManualClock
from headrace.model.failpoints import FailpointError, armed
from headrace.model.jobs import JobProgress
from headrace.model.positions import STATEMENTS, Position
from headrace.model.schema_log import SchemaStatement
from headrace.model.tables import Database
from headrace.model.trees import Device, DeviceTemplate, Timeseries, tree_table
from headrace.model.types import BIGINT
from tests.catalog.samples import with_stream

PLANT = Database("root.plant")
DEVICE = Device("root.plant", "root.plant.d", (Timeseries("s", BIGINT, "s"),))


def statement(text: str = "x", database: str = "root.plant") -> SchemaStatement:
    return SchemaStatement("schema.ttl", text, database, 3, "ann")


def create(catalog: Catalog, name: str = "root.plant") -> None:
    catalog.databases.create(Database(name), statements=[statement(f"create {name}", name)])
    catalog.tables.create(tree_table(name))


def texts(catalog: Catalog, after: int = 0) -> list[str]:
    return [logged.sql for logged in catalog.schema_log.after(after, 10_000)]


def test_statements_are_read_in_order(catalog: Catalog, clock: ManualClock) -> None:
    assert catalog.schema_log.newest() == 0
    assert catalog.schema_log.after(0, 10) == []
    catalog.schema_log.record([statement("a"), statement("b")])
    clock.advance(5)
    catalog.schema_log.record([statement("c", "")])
    assert catalog.schema_log.newest() == 3
    first, second, third = catalog.schema_log.after(0, 10)
    assert [(one.id, one.time, one.sql, one.database) for one in (first, second, third)] == [
        (1, 1_000_000, "a", "root.plant"),
        (2, 1_000_000, "b", "root.plant"),
        (3, 1_000_005, "c", ""),
    ]
    assert (first.category, first.version, first.owner) == ("schema.ttl", 3, "ann")
    assert catalog.schema_log.after(1, 1) == [second]


CHANGES: dict[str, Callable[[Catalog, list[SchemaStatement]], object]] = {
    "create a database": lambda catalog, log: catalog.databases.create(Database("root.other"), statements=log),
    "drop a database": lambda catalog, log: catalog.databases.drop("root.plant", statements=log),
    "change devices": lambda catalog, log: catalog.trees.change("root.plant", [], lambda _: [DEVICE], [], lambda *_: log),
    "set a time to live": lambda catalog, log: catalog.trees.set_ttl(["root.plant.**"], 5, log),
    "create a template": lambda catalog, log: catalog.templates.create(DeviceTemplate("t"), log),
    "drop a template": lambda catalog, log: catalog.templates.drop("unused", log),
    "set a template": lambda catalog, log: catalog.templates.set("used", "root.plant", "root.plant.b", log),
    "unset a template": lambda catalog, log: catalog.templates.unset("root.plant.a", log),
    "extend a template": lambda catalog, log: catalog.templates.extend("used", [], {}, log),
}


def schema(catalog: Catalog) -> list[object]:
    """Return all that the changes change."""
    trees, templates = catalog.trees, catalog.templates
    devices = [trees.all(name) for name in trees.databases()]
    return [[one.name for one in catalog.databases.all()], devices, trees.ttls(), templates.all(), templates.paths()]


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_and_its_statement_are_one_transaction(catalog: Catalog, change: str) -> None:
    create(catalog)
    for name in ("used", "unused"):
        catalog.templates.create(DeviceTemplate(name))
    catalog.templates.set("used", "root.plant", "root.plant.a")
    before = schema(catalog)
    with armed("catalog.statements:1:raise"), pytest.raises(FailpointError):
        CHANGES[change](catalog, [statement("changed")])
    assert (schema(catalog), texts(catalog)) == (before, ["create root.plant"])
    CHANGES[change](catalog, [statement("changed")])
    assert texts(catalog) == ["create root.plant", "changed"]
    assert change == "extend a template" or schema(catalog) != before


def test_what_is_refused_is_not_logged(catalog: Catalog) -> None:
    create(catalog)
    assert not catalog.databases.create(PLANT, if_not_exists=True, statements=[statement()])
    with pytest.raises(ExistsError):
        catalog.databases.create(PLANT, statements=[statement()])
    assert texts(catalog) == ["create root.plant"]
    catalog.schema_log.record([statement("next")])
    assert [one.id for one in catalog.schema_log.after(0, 10)] == [1, 2]


def test_a_database_that_is_created_again_is_newer_than_all_statements_about_the_former(catalog: Catalog) -> None:
    create(catalog)
    former = catalog.trees.created()["root.plant"]
    catalog.databases.drop("root.plant", statements=[statement("drop")])
    create(catalog)
    (created, dropped, again) = catalog.schema_log.after(0, 10)
    assert former == created.time
    assert dropped.time < catalog.trees.created()["root.plant"] == again.time
    catalog.schema_log.record([statement()])
    assert catalog.schema_log.after(3, 1)[0].time >= again.time


def test_statements_of_writers_at_the_same_time_become_visible_in_order(catalog: Catalog) -> None:
    seen: list[int] = []

    def write(count: int) -> None:
        for _ in range(count):
            catalog.schema_log.record([statement()] * 2)

    writers = [threading.Thread(target=write, args=[10]) for _ in range(3)]
    for writer in writers:
        writer.start()
    while len(seen) < 60:
        position = seen[-1] if seen else 0
        seen += [one.id for one in catalog.schema_log.after(position, 7)]
    for writer in writers:
        writer.join()
    assert seen == list(range(1, 61))


def fill(catalog: Catalog, count: int) -> None:
    catalog.schema_log.record([statement(str(number)) for number in range(count)])


def add_pipe(catalog: Catalog, handled: int) -> None:
    progress = JobProgress(position=Position(1, {STATEMENTS: handled, "root.plant.devices": 4}))
    catalog.jobs.set_progress(with_stream(catalog).id, progress)


@pytest.mark.parametrize("handled", [None, 700])
def test_old_statements_are_removed_once_all_pipes_have_handled_them(
    catalog: Catalog, clock: ManualClock, handled: int | None
) -> None:
    if handled is not None:
        add_pipe(catalog, handled)
    fill(catalog, 900)
    clock.advance(schema_log.KEPT_MS + 1)
    fill(catalog, 50)
    assert len(texts(catalog)) == 950
    fill(catalog, 50)
    first = 901 if handled is None else handled + 1
    assert [one.id for one in catalog.schema_log.after(first - 1, 10_000)] == list(range(first, 1001))
    with pytest.raises(HistoryGoneError, match=r"statements 301 .* have been removed.*\nhint: drop the pipe"):
        catalog.schema_log.after(300, 10)


def test_a_stopped_pipe_does_not_let_the_log_grow_without_limit(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema_log, "MAX_STATEMENTS", 1_500)
    add_pipe(catalog, 0)
    for _ in range(3):
        fill(catalog, 1_000)
    assert [one.id for one in catalog.schema_log.after(1_500, 10_000)] == list(range(1_501, 3_001))
    with pytest.raises(HistoryGoneError):
        catalog.schema_log.after(0, 10)
