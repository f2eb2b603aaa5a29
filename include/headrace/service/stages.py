"""What a statement will do, as a list of small values. EXPLAIN describes the very list that the executor applies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.compute import AnyPlan
    from headrace.model.streams import StreamRecord
    from headrace.model.tables import Column, Database, Subtable, Table
    from headrace.service.results import Result
    from headrace.streams.define import StreamPlan


@dataclass(frozen=True, slots=True)
class MakeDatabase:
    database: Database
    if_not_exists: bool


@dataclass(frozen=True, slots=True)
class RemoveDatabase:
    name: str
    tables: tuple[Table, ...]
    streams: tuple[StreamRecord, ...]


@dataclass(frozen=True, slots=True)
class EnterDatabase:
    name: str


@dataclass(frozen=True, slots=True)
class MakeTable:
    table: Table
    database: Database
    if_not_exists: bool


@dataclass(frozen=True, slots=True)
class RemoveTable:
    table: Table
    database: Database


@dataclass(frozen=True, slots=True)
class AddColumn:
    table: Table
    database: Database
    column: Column
    is_tag: bool


@dataclass(frozen=True, slots=True)
class DropColumn:
    table: Table
    name: str
    is_tag: bool


@dataclass(frozen=True, slots=True)
class ModifyColumn:
    """Give a column or tag a longer declared type; what is stored stays as it is."""

    table: Table
    column: Column
    is_tag: bool


@dataclass(frozen=True, slots=True)
class RenameTag:
    table: Table
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class MakeSubtables:
    """`tags`: `tbname` and a column a tag, a row for each subtable."""

    table: Table
    database: Database
    tags: pa.Table


@dataclass(frozen=True, slots=True)
class RemoveSubtables:
    table: Table
    database: Database
    subtables: tuple[Subtable, ...]


@dataclass(frozen=True, slots=True)
class WriteTags:
    table: Table
    tags: pa.Table


@dataclass(frozen=True, slots=True)
class WriteRows:
    """`rows` in stored types, with `tbname`; `given` are the columns that the statement names."""

    table: Table
    database: Database
    rows: pa.Table
    given: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DeleteRows:
    """Rows of some subtables (None: all) within ranges of ticks, both ends inclusive (None: of all times)."""

    table: Table
    database: Database
    tbnames: tuple[str, ...] | None
    ranges: tuple[tuple[int, int], ...] | None


@dataclass(frozen=True, slots=True)
class RunQuery:
    plan: AnyPlan


@dataclass(frozen=True, slots=True)
class ReadCatalog:
    """SHOW and DESCRIBE: answered from the catalog alone."""

    what: str
    read: Callable[[], Result]


@dataclass(frozen=True, slots=True)
class RecordStream:
    """Create the stream, with its target where that is missing, and with where it begins."""

    plan: StreamPlan
    if_not_exists: bool


@dataclass(frozen=True, slots=True)
class FillHistory:
    """The rows that are there already: an estimate of how many, and in how many chunks.

    They are filled by a driver or by Airflow; the stream's record says up to which version.
    """

    plan: StreamPlan
    rows: int
    chunks: int


@dataclass(frozen=True, slots=True)
class Announce:
    """Tell Airflow, where one can be reached, that a stream has come, gone or been resumed."""

    database: str
    stream: str
    resumed: bool = False


@dataclass(frozen=True, slots=True)
class RemoveStream:
    record: StreamRecord


@dataclass(frozen=True, slots=True)
class HoldStream:
    record: StreamRecord


@dataclass(frozen=True, slots=True)
class ContinueStream:
    record: StreamRecord
    ignore_untreated: bool


Stage = (
    MakeDatabase
    | RemoveDatabase
    | EnterDatabase
    | MakeTable
    | RemoveTable
    | AddColumn
    | DropColumn
    | ModifyColumn
    | RenameTag
    | MakeSubtables
    | RemoveSubtables
    | WriteTags
    | WriteRows
    | DeleteRows
    | RunQuery
    | ReadCatalog
    | RecordStream
    | FillHistory
    | Announce
    | RemoveStream
    | HoldStream
    | ContinueStream
)
