"""The rows of a virtual table in DuckDB: for each series, the instants of its origins, with each origin joined to them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import pyarrow as pa

from headrace.model.tables import TBNAME, ColumnReference, Table, TableId
from headrace.storage.sandbox import open_database
from headrace.verify.frames import without_timestamps

ReadOrigin = Callable[[TableId], tuple[Table, pa.Table]]


def virtual_rows(table: Table, schema: pa.Schema, references: Sequence[ColumnReference], read_origin: ReadOrigin) -> pa.Table:
    """Return the rows of a virtual table: the columns of a schema, NULL without a reference; instants as integers.

    Args:
        table: The virtual table.
        schema: Its stored columns and `tbname`.
        references: The references of the columns that a query reads.
        read_origin: Returns a stored table and its rows.
    """
    result = without_timestamps(schema.empty_table())
    with open_database() as connection:
        origins = {}
        for number, origin in enumerate(dict.fromkeys(reference.origin for reference in references)):
            stored, rows = read_origin(origin)
            connection.register(f"origin{number}", without_timestamps(rows))
            origins[origin] = (f"origin{number}", stored)
        for series in dict.fromkeys(reference.series for reference in references):
            own = [reference for reference in references if reference.series == series]
            rows = connection.sql(series_sql(table, series, own, origins)).to_arrow_table()
            result = pa.concat_tables([result, with_schema(rows, result.schema)])
    return result


def series_sql(table: Table, series: str, references: Sequence[ColumnReference], origins: dict[TableId, tuple[str, Table]]) -> str:
    """Return the SELECT of the rows of one series."""
    sides = list(dict.fromkeys((reference.origin, reference.origin_series) for reference in references))
    selects = []
    for origin, stored_series in sides:
        relation, stored = origins[origin]
        condition = f"{name(TBNAME)} = {text(stored_series)}"
        selects.append(f"SELECT {name(stored.timestamp.name)} AS _instant, * FROM {relation} WHERE {condition}")
    instants = " UNION ".join(f"SELECT _instant FROM ({select})" for select in selects)
    joins = " ".join(f"LEFT JOIN ({select}) s{number} USING (_instant)" for number, select in enumerate(selects))
    columns = [
        f"s{sides.index((reference.origin, reference.origin_series))}.{name(reference.origin_column)} AS {name(reference.column)}"
        for reference in references
    ]
    head = [f"_instant AS {name(table.timestamp.name)}", *columns, f"{text(series)} AS {name(TBNAME)}"]
    return f"SELECT {', '.join(head)} FROM ({instants}) {joins}"


def with_schema(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return rows with exactly the columns of a schema; those that are missing are NULL."""
    columns: Iterable[pa.ChunkedArray | pa.Array] = (
        rows[field.name] if field.name in rows.column_names else pa.nulls(rows.num_rows, field.type) for field in schema
    )
    return pa.table(list(columns), names=schema.names).cast(schema)


def name(value: str) -> str:
    """Quote a name."""
    return '"' + value.replace('"', '""') + '"'


def text(value: str) -> str:
    """Quote a string."""
    return "'" + value.replace("'", "''") + "'"
