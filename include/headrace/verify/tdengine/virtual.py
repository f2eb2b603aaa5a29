"""The rows of a virtual table in DuckDB: for each series, the instants of its origins, with each origin joined to them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import pyarrow as pa

from headrace.model.tables import TBNAME, ColumnReference, Table, TableId
from headrace.storage.sandbox import open_database
from headrace.verify.steps import without_timestamps
from headrace.verify.values import quoted, quoted_name

ReadOrigin = Callable[[TableId], tuple[Table, pa.Table]]


def virtual_rows(table: Table, schema: pa.Schema, references: Sequence[ColumnReference], read_origin: ReadOrigin) -> pa.Table:
    """Return the rows of a virtual table: the columns of a schema, NULL without a reference; instants as integers.

    `references` are those of the columns that a query reads. `read_origin` returns a stored table and its rows.
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
            rows = connection.sql(_series_sql(table, series, own, origins)).to_arrow_table()
            result = pa.concat_tables([result, _with_schema(rows, result.schema)])
    return result


def _series_sql(table: Table, series: str, references: Sequence[ColumnReference], origins: dict[TableId, tuple[str, Table]]) -> str:
    sides = list(dict.fromkeys((reference.origin, reference.origin_series) for reference in references))
    selects = []
    for origin, stored_series in sides:
        relation, stored = origins[origin]
        condition = f"{quoted_name(TBNAME)} = {quoted(stored_series)}"
        selects.append(f"SELECT {quoted_name(stored.timestamp.name)} AS _instant, * FROM {relation} WHERE {condition}")
    instants = " UNION ".join(f"SELECT _instant FROM ({select})" for select in selects)
    joins = " ".join(f"LEFT JOIN ({select}) s{number} USING (_instant)" for number, select in enumerate(selects))
    numbers = {side: number for number, side in enumerate(sides)}
    columns = [
        f"s{numbers[one.origin, one.origin_series]}.{quoted_name(one.origin_column)} AS {quoted_name(one.column)}"
        for one in references
    ]
    head = [f"_instant AS {quoted_name(table.timestamp.name)}", *columns, f"{quoted(series)} AS {quoted_name(TBNAME)}"]
    return f"SELECT {', '.join(head)} FROM ({instants}) {joins}"


def _with_schema(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return rows with exactly the columns of a schema; those that are missing are NULL."""
    columns: Iterable[pa.ChunkedArray | pa.Array] = (
        rows[field.name] if field.name in rows.column_names else pa.nulls(rows.num_rows, field.type) for field in schema
    )
    return pa.table(list(columns), names=schema.names).cast(schema)
