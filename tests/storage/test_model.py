"""Any sequence of writes, replacements and deletes leaves the rows that a dictionary would have; so do its changes, replayed."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from deltalake import DeltaTable
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.model.tables import TBNAME, Database, Table
from headrace.model.time import Precision
from headrace.storage import Tables
from headrace.storage.delta.handles import rows_uri
from tests.storage.samples import KEYED, METERS, POWER, Row, open_tables, read, rows

Model = dict[tuple[Any, ...], Row]

NAMES = st.sampled_from(["d1", "d2", "a longer name, of more than thirty-two characters"])
TICKS = st.one_of(st.integers(0, 12), st.integers(0, 3_000))
NUMBERS = st.one_of(st.none(), st.integers(-5, 5))


def row_of(table: Table) -> st.SearchStrategy[Row]:
    return st.fixed_dictionaries(
        {TBNAME: NAMES, "ts": TICKS, **{c.name: st.integers(0, 2) if c.is_key else NUMBERS for c in table.columns[1:]}}
    )


def operations(table: Table) -> st.SearchStrategy[list[tuple[str, Any]]]:
    some = st.lists(row_of(table), min_size=1, max_size=6)
    values = [column.name for column in table.columns[1:] if not column.is_key]
    span = st.tuples(TICKS, TICKS).map(lambda ends: (min(ends), max(ends)))
    return st.lists(
        st.one_of(
            st.tuples(st.just("write"), st.tuples(some, st.lists(st.sampled_from(values), unique=True))),
            st.tuples(st.just("replace"), st.tuples(some, some)),
            st.tuples(
                st.just("delete"), st.tuples(st.none() | st.lists(NAMES, max_size=2), st.none() | st.lists(span, max_size=2))
            ),
        ),
        min_size=1,
        max_size=8,
    )


def key_of(row: Row, table: Table) -> tuple[Any, ...]:
    return tuple(row[name] for name in table.primary_key)


def apply(model: Model, table: Table, operation: tuple[str, Any]) -> None:
    """Apply an operation to the dictionary."""
    kind, arguments = operation
    empty = {column.name: None for column in table.columns}
    if kind == "write":
        written, columns = arguments
        for row in written:
            key = key_of(row, table)
            kept = {name: row[name] for name in (*table.primary_key, *columns)}
            model[key] = {**model.get(key, {**empty, TBNAME: None}), **kept}
    elif kind == "replace":
        upserts, deletes = arguments
        for row in deletes:
            model.pop(key_of(row, table), None)
        for row in upserts:
            model[key_of(row, table)] = dict(row)
    else:
        names, ranges = arguments
        for key, row in list(model.items()):
            timely = ranges is None or any(low <= row["ts"] <= high for low, high in ranges)
            if timely and (names is None or row[TBNAME] in names):
                del model[key]


def perform(tables: Tables, table: Table, database: Database, operation: tuple[str, Any]) -> None:
    kind, arguments = operation
    if kind == "write":
        written, columns = arguments
        names = (*table.primary_key, *columns)
        tables.writer.write(
            table, database, rows([{n: row[n] for n in names} for row in written], table, database), update_columns=columns
        )
    elif kind == "replace":
        upserts, deletes = arguments
        keys = rows(deletes, table, database).select(list(table.primary_key))
        tables.writer.replace(table, database, rows(upserts, table, database), keys, None)
    else:
        names, ranges = arguments
        tables.writer.delete(table, database, tbnames=names, ranges=ranges)


def leave_to_delta_rs(tables: Tables, table: Table) -> None:
    """Give a table a property that Headrace does not know, so that it leaves all commits to delta-rs."""
    DeltaTable(rows_uri(tables.uri, table)).alter.set_table_properties({"custom": "value"}, raise_if_not_exists=False)


def replay_changes(tables: Tables, table: Table, database: Database) -> Model:
    """Build the table from its changes alone; every change must match the rows so far."""
    model: Model = {}
    feed = tables.changes.read(table, 0, tables.version(table))
    assert feed.num_rows == tables.changes.count(table, 0, tables.version(table))
    removals = ("delete", "update_preimage")
    for change in sorted(
        read(feed, table, database), key=lambda row: (row["_commit_version"], row["_change_type"] not in removals)
    ):
        row = {name: value for name, value in change.items() if not name.startswith("_c")}
        key = key_of(row, table)
        if change["_change_type"] in removals:
            assert model.pop(key) == row
        else:
            assert key not in model
            model[key] = row
    return model


@given(
    data=st.data(), table=st.sampled_from([METERS, KEYED]), precision=st.sampled_from(list(Precision)), by_delta_rs=st.booleans()
)
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
def test_a_table_behaves_like_a_dictionary(data: st.DataObject, table: Table, precision: Precision, by_delta_rs: bool) -> None:
    database = replace(POWER, precision=precision)
    model: Model = {}
    with tempfile.TemporaryDirectory() as home:
        tables = open_tables(Path(home))
        tables.create(table, database)
        if by_delta_rs:
            leave_to_delta_rs(tables, table)
        for operation in data.draw(operations(table)):
            perform(tables, table, database, operation)
            apply(model, table, operation)
            assert {key_of(row, table): row for row in read(tables.scan(table), table, database)} == model
            assert tables.rows(table) == len(model)
        assert replay_changes(tables, table, database) == model
