"""The building blocks of a query in DuckDB: steps that compute relations, partitions, groups, order and limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from headrace.verify.values import floored_mod

if TYPE_CHECKING:
    import duckdb

MAX_ROWS: Final = 2**62 - 1
"""DuckDB's largest LIMIT and OFFSET."""
TS: Final = "_ts"
"""The column with the instant of a row."""
WINDOW: Final = "_w"
"""The column with a window's number or start."""
START: Final = "_ws"
END: Final = "_we"
"""Columns with a window's first and last instant, both inclusive."""


@dataclass(slots=True)
class Steps:
    """Computes relations one after another, each a temporary table, so that the rows behind a result can be shown."""

    connection: duckdb.DuckDBPyConnection
    count: int = 0

    def step(self, label: str, sql: str) -> str:
        """Compute a relation and return its name."""
        self.count += 1
        name = f"s{self.count}_{label}"
        self.connection.execute(f"CREATE TEMP TABLE {name} AS {sql}")
        return name

    def load(self, label: str, sql: str, **tables: pa.Table) -> str:
        """Compute a relation from Arrow tables, which `sql` has by their names, with timestamps as BIGINT."""
        for name, table in tables.items():
            self.connection.register(name, without_timestamps(table))
        relation = self.step(label, sql)
        for name in tables:
            self.connection.unregister(name)
        return relation

    def groups(self, members: str, by: Sequence[str], columns: Mapping[str, str], ends: Sequence[str] = ()) -> str:
        """Compute one row for each group of rows, or one of all: the keys, `ends`, and `columns`, whose names are by their SQL."""
        selected = [*by, *ends, *(f"{sql} AS {name}" for sql, name in columns.items())]
        group = f" GROUP BY {', '.join(by)}" if by else ""
        return self.step("groups", f"SELECT {', '.join(selected) or '1'} FROM {members}{group}")

    def sorted(self, relation: str, order: Sequence[str], limit: int | None, offset: int | None, *columns: str) -> str:
        """Compute a relation in an order, with the numbers of its rows as `_n`, LIMIT, OFFSET and more columns."""
        by = f"ORDER BY {', '.join(order)}" if order else ""
        limits = (f" LIMIT {min(limit, MAX_ROWS)}" if limit is not None else "") + (
            f" OFFSET {min(offset, MAX_ROWS)}" if offset else ""
        )
        selected = ", ".join(["*", *columns, f"row_number() OVER ({by}) AS _n"])
        return self.step("answer", f"SELECT {selected} FROM {relation} {by}{limits}")

    def has_rows(self, sql: str) -> bool:
        return self.connection.execute(f"{sql} LIMIT 1").fetchone() is not None


@dataclass(frozen=True, slots=True)
class Partition:
    """The rows that belong together, and their order: the columns of OVER clauses."""

    keys: tuple[str, ...]
    order: tuple[str, ...]

    def over(self, frame: str = "", order: Sequence[str] = (), keys: Sequence[str] = ()) -> str:
        """Return an OVER clause, within further keys, or in another order."""
        by = ", ".join([*self.keys, *keys])
        return f"OVER ({by and f'PARTITION BY {by} '}ORDER BY {', '.join(order or self.order)} {frame})"

    def together(self, *keys: str) -> str:
        """Return the OVER clause of all rows at once, within further keys."""
        by = ", ".join([*self.keys, *keys])
        return f"OVER ({by and f'PARTITION BY {by}'})"

    @property
    def before(self) -> str:
        """All earlier rows."""
        return self.over("ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING")

    @property
    def so_far(self) -> str:
        """All rows up to the present one."""
        return self.over("ROWS UNBOUNDED PRECEDING")

    @property
    def to_come(self) -> str:
        return self.over("ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING")

    def neighbors(self, column: str, time: str, present: str = "") -> tuple[str, str]:
        """Return the last point up to a row and the first from it on (`t` and `v`); `present` is the condition of a point."""
        point = f"CASE WHEN {present or f'{column} IS NOT NULL'} THEN {{'t': {time}, 'v': {column}}} END"
        return f"(last_value({point} IGNORE NULLS) {self.so_far})", f"(first_value({point} IGNORE NULLS) {self.to_come})"

    def numbered(self, relation: str, begins: str) -> str:
        """Return the SELECT of rows with the number of their window, which begins at each row for which `begins` holds."""
        marked = f"SELECT *, CASE WHEN {begins} THEN 1 ELSE 0 END AS _begins FROM {relation}"
        return f"SELECT * EXCLUDE (_begins), sum(_begins) {self.so_far} AS {WINDOW} FROM ({marked})"

    def sessions(self, relation: str, gap: int) -> str:
        """Return rows with windows that begin farther than a gap from the row before."""
        return self.numbered(relation, f"{TS} - lag({TS}) {self.over()} > {gap}")

    def changes(self, relation: str, column: str) -> str:
        """Return rows with windows that begin where a column differs from the row before."""
        return self.numbered(relation, f"{column} IS DISTINCT FROM lag({column}) {self.over()} AND row_number() {self.over()} > 1")

    def counted(self, relation: str, count: int, step: int) -> str:
        """Return rows with each window that they belong to, of `count` rows every `step` rows."""
        ranked = f"SELECT *, row_number() {self.over()} - 1 AS _rank FROM {relation}"
        first = f"greatest(0, (_rank - {count} + {step}) // {step})"
        numbers = f"unnest(range(CAST({first} AS BIGINT), _rank // {step} + 1))"
        return f"SELECT * EXCLUDE (_rank), {numbers} AS {WINDOW} FROM ({ranked})"


def without_timestamps(rows: pa.Table) -> pa.Table:
    """Convert Arrow timestamps (microseconds in UTC) to BIGINT."""
    for position, field in enumerate(rows.schema):
        if pa.types.is_timestamp(field.type):
            micros = rows.column(position).cast(pa.timestamp("us", tz=field.type.tz)).cast(pa.int64())
            rows = rows.set_column(position, field.name, micros)
    return rows


def order_term(column: str, *, descending: bool = False, nulls_first: bool = True) -> str:
    return f"{column} {'DESC' if descending else 'ASC'} NULLS {'FIRST' if nulls_first else 'LAST'}"


def floor_to(sql: str, step: int, offset: int = 0) -> str:
    """Return the greatest `offset + k * step` that is at most a number."""
    return f"(({sql}) - {floored_mod(f'({sql}) - {offset}', step)})"
