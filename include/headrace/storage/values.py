"""Rows of statements (Python scalars, text, `now`) as typed Arrow tables, every value checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from headrace.model.spans import Span
from headrace.model.statements import RowValue, TagValue
from headrace.model.tables import Database, Table


def rows_to_arrow(
    table: Table,
    database: Database,
    columns: Sequence[str],
    rows: Sequence[Sequence[RowValue]],
    *,
    tbnames: Sequence[str] | None,
    now: int,
    spans: Sequence[Span] = (),
) -> pa.Table:
    """Rows in the stored columns of a table, those that are not named NULL, and `tbname`.

    `columns` names the values of a row in order; `tbnames` gives each row's subtable, None where a column `tbname` does. `now` is
    in epoch milliseconds, `spans` say where each row stands. Timestamps without a zone are in the database's time zone.

    Raises:
        NotFoundError: a column does not exist.
        ProgrammingError: a column is named twice, the timestamp (or key) is missing, or a row has too few or too many values.
        DataError: a value does not fit: which row and column, and what is allowed.
    """
    raise NotImplementedError


def tags_to_arrow(table: Table, database: Database, tbname: str, given: Mapping[str, TagValue], *, now: int) -> pa.Table:
    """One row of a table's tags: `tbname` and a column a tag, those not given NULL.

    Raises:
        DataError: a value does not fit its tag; with the value's span.
    """
    raise NotImplementedError
