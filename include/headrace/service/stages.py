"""Stages: what a statement will do, as small values. EXPLAIN describes the same list that the executor applies.

The property `required` of each stage names the rights that it needs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.service.dispatched import DispatchedStage
from headrace.service.rights import (
    CATALOG,
    Action,
    Right,
    Securable,
    job_securable,
    table_securable,
)
from headrace.streams.kind import STREAM

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.model.jobs import JobDefinition, JobRecord
    from headrace.model.quarantine import QuarantineRequest
    from headrace.model.tables import Database, Subtable, Table
    from headrace.service.estimates import ExecutionSettings, HistoryEstimate
    from headrace.streams.definition.define import StreamPlan


@dataclass(frozen=True, slots=True)
class MakeTable(DispatchedStage):
    """Create a supertable or plain table."""

    table: Table
    database: Database
    if_not_exists: bool

    @property
    def required(self) -> tuple[Right, ...]:
        """CREATE on the table."""
        return (Right(Action.CREATE, table_securable(self.table)),)


@dataclass(frozen=True, slots=True)
class RemoveTable(DispatchedStage):
    """Drop a supertable or plain table with all rows."""

    table: Table
    database: Database

    @property
    def required(self) -> tuple[Right, ...]:
        """DROP on the table."""
        return (Right(Action.DROP, table_securable(self.table)),)


@dataclass(frozen=True, slots=True)
class MakeSubtables(DispatchedStage):
    """Create the subtables in `tags`, one row each: `tbname` and a column per tag."""

    table: Table
    database: Database
    tags: pa.Table

    @property
    def required(self) -> tuple[Right, ...]:
        """WRITE on the supertable."""
        return (Right(Action.WRITE, table_securable(self.table)),)


@dataclass(frozen=True, slots=True)
class RemoveSubtables(DispatchedStage):
    """Drop subtables with their rows and tags."""

    table: Table
    database: Database
    subtables: tuple[Subtable, ...]

    @property
    def required(self) -> tuple[Right, ...]:
        """DROP on each subtable."""
        return tuple(Right(Action.DROP, table_securable(self.table, subtable.name)) for subtable in self.subtables)


@dataclass(frozen=True, slots=True)
class WriteTags(DispatchedStage):
    """Set tags of existing subtables: `tbname` and a column for each tag that changes."""

    table: Table
    tags: pa.Table

    @property
    def required(self) -> tuple[Right, ...]:
        """WRITE on the supertable."""
        return (Right(Action.WRITE, table_securable(self.table)),)


@dataclass(frozen=True, slots=True)
class WriteRows(DispatchedStage):
    """Write `rows`, in stored types with `tbname`, in one commit. `columns` are those that the statement names."""

    table: Table
    database: Database
    rows: pa.Table
    columns: tuple[str, ...]

    @property
    def required(self) -> tuple[Right, ...]:
        """WRITE on the table."""
        return (Right(Action.WRITE, table_securable(self.table)),)


@dataclass(frozen=True, slots=True)
class DeleteRows(DispatchedStage):
    """Delete rows of the named subtables (None: all) in ranges of ticks, both ends inclusive (None: at all times)."""

    table: Table
    database: Database
    tbnames: tuple[str, ...] | None
    ranges: tuple[tuple[int, int], ...] | None

    @property
    def required(self) -> tuple[Right, ...]:
        """WRITE on the table."""
        return (Right(Action.WRITE, table_securable(self.table)),)


@dataclass(frozen=True, slots=True)
class RecordStream(DispatchedStage):
    """Create a stream, its target if missing, and its start offsets."""

    plan: StreamPlan
    if_not_exists: bool
    settings: ExecutionSettings

    @property
    def required(self) -> tuple[Right, ...]:
        """CREATE on the stream, READ on its source, and WRITE on its target, or CREATE if that is missing."""
        target = Right(Action.WRITE if self.plan.target_exists else Action.CREATE, table_securable(self.plan.target))
        return (Right(Action.CREATE, plan_securable(self.plan)), Right(Action.READ, table_securable(self.plan.source)), target)


@dataclass(frozen=True, slots=True)
class FillHistory(DispatchedStage):
    """Announce a stream's history: the estimated numbers of stored rows and of chunks, and what they take.

    A driver or Airflow backfills it, up to the version in the stream's record.
    """

    plan: StreamPlan
    rows: int
    chunks: int
    estimate: HistoryEstimate

    @property
    def required(self) -> tuple[Right, ...]:
        """READ on the source and WRITE on the target."""
        return (Right(Action.READ, table_securable(self.plan.source)), Right(Action.WRITE, table_securable(self.plan.target)))


@dataclass(frozen=True, slots=True)
class RebuildStream(DispatchedStage):
    """Compute a stream again from the stored rows, with its own statement or another one, and replace its rows in the target.

    Attributes:
        record: The stream that is replaced.
        plan: The stream that takes its place.
        clears: Whether the target keeps nothing but the new results; otherwise only the subtables of the stream's groups.
        rows: Estimated number of stored rows to read.
        chunks: Estimated number of chunks.
        differences: Lines that show how the plans differ.
    """

    record: JobRecord
    plan: StreamPlan
    clears: bool
    rows: int
    chunks: int
    differences: tuple[str, ...] = ()

    @property
    def required(self) -> tuple[Right, ...]:
        """OPERATE on the stream, for another statement DROP and CREATE; READ on its source; WRITE or CREATE on its target."""
        stream = plan_securable(self.plan)
        actions = (Action.DROP, Action.CREATE) if self.differences else (Action.OPERATE,)
        target = Right(Action.WRITE if self.plan.target_exists else Action.CREATE, table_securable(self.plan.target))
        return (*(Right(action, stream) for action in actions), Right(Action.READ, table_securable(self.plan.source)), target)


@dataclass(frozen=True, slots=True)
class RedefineStream(DispatchedStage):
    """Change options of a stream that keeps its results and its position: the definition after it, and the changes as text."""

    definition: JobDefinition
    changes: tuple[str, ...]

    @property
    def required(self) -> tuple[Right, ...]:
        """ALTER on the stream."""
        return (Right(Action.ALTER, job_securable(self.definition)),)


@dataclass(frozen=True, slots=True)
class RecordContinuousQuery(DispatchedStage):
    """Record a continuous query, which is executed from then on."""

    definition: JobDefinition

    @property
    def required(self) -> tuple[Right, ...]:
        """CREATE of the query, and the right to read and write what its paths may name."""
        return (
            Right(Action.CREATE, job_securable(self.definition)),
            Right(Action.READ, CATALOG),
            Right(Action.WRITE, CATALOG),
        )


@dataclass(frozen=True, slots=True)
class NotifyAirflow(DispatchedStage):
    """Notify Airflow, if one can be reached, that a job was created, dropped or resumed."""

    kind: str
    database: str
    name: str
    resumed: bool = False

    @property
    def required(self) -> tuple[Right, ...]:
        """DESCRIBE on the job."""
        return (Right(Action.DESCRIBE, Securable(self.kind, self.database, self.name)),)


def notify(record: JobRecord, *, resumed: bool = False) -> NotifyAirflow:
    """Return the stage that notifies Airflow of a job."""
    definition = record.definition
    return NotifyAirflow(definition.kind, definition.database, definition.name, resumed)


@dataclass(frozen=True, slots=True)
class RemoveJob(DispatchedStage):
    """Drop a job; what it has written stays."""

    record: JobRecord

    @property
    def required(self) -> tuple[Right, ...]:
        """DROP on the job."""
        return (Right(Action.DROP, job_securable(self.record.definition)),)


@dataclass(frozen=True, slots=True)
class SuspendJob(DispatchedStage):
    """Pause a job."""

    record: JobRecord

    @property
    def required(self) -> tuple[Right, ...]:
        """OPERATE on the job."""
        return (Right(Action.OPERATE, job_securable(self.record.definition)),)


@dataclass(frozen=True, slots=True)
class ReactivateJob(DispatchedStage):
    """Resume a job; a stream with `ignore_untreated` from the end of its sources."""

    record: JobRecord
    ignore_untreated: bool = False

    @property
    def required(self) -> tuple[Right, ...]:
        """OPERATE on the job."""
        return (Right(Action.OPERATE, job_securable(self.record.definition)),)


@dataclass(frozen=True, slots=True)
class RequestQuarantine(DispatchedStage):
    """Have a stream do something with its rows in quarantine. `rows` is their number when it was planned."""

    record: JobRecord
    rows: int
    request: QuarantineRequest

    @property
    def required(self) -> tuple[Right, ...]:
        """OPERATE on the stream."""
        return (Right(Action.OPERATE, job_securable(self.record.definition)),)


def plan_securable(plan: StreamPlan) -> Securable:
    """Return the securable of a planned stream."""
    return Securable(STREAM, plan.database, plan.name)
