"""Jobs: what an snode runs and Airflow supervises. Definitions, states and progress."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from enum import StrEnum

from headrace.model.continuous_queries import ContinuousQuery, Schedule
from headrace.model.pipes import Pipe
from headrace.model.positions import Offsets, Position, SourceId, source_id
from headrace.model.streams import StreamSchema
from headrace.model.tables import TableId


class DesiredState(StrEnum):
    """The state that the user asked for."""

    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    DROPPED = "DROPPED"


class JobState(StrEnum):
    """The observed state: CREATED → (FILLING →) RUNNING; PAUSED on request; STOPPED with a reason."""

    CREATED = "CREATED"
    FILLING = "FILLING"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"


@dataclass(frozen=True, slots=True)
class StopReason:
    """Why a job is STOPPED, and what to do. `since` is in epoch milliseconds; `transient` errors may be retried."""

    code: str
    message: str
    hint: str
    since: int
    transient: bool = False

    def __str__(self) -> str:
        """Return the one line that shows a reason everywhere."""
        return f"[{self.code}] {self.message}" + (f" ({self.hint})" if self.hint else "")


@dataclass(frozen=True, slots=True)
class Replacement:
    """The job whose place in the target a stream takes.

    `clears` says that the target keeps nothing but the new results; otherwise only rows in subtables of the stream's groups go.
    `parts` is how many jobs computed it.
    """

    job_id: str
    clears: bool
    parts: int = 1


@dataclass(frozen=True, slots=True)
class JobDefinition:
    """A job as recorded: the statement's text, and the context in which its names were resolved.

    Attributes:
        kind: The name of the kind of job. Names are unique within a kind and a database.
        database: The database to which its name belongs; empty if names of its kind belong to none.
        sources: Tables whose changes the job reads. The first has the time line that the job's instants are on. A continuous
            query has none, since its paths are resolved in each execution.
        target: Table that takes the results; None if they go to several, or leave the catalog's tables.
        created: Epoch milliseconds.
        schema: Columns for which the job was defined. Without it none of its tables' columns can be dropped.
        continuous_query: The schedule of a continuous query.
        replaces: What the backfill of the job replaces in the target; None if it only adds.
        owner: The user whose statement created the job.
        functions: The registered functions that the statement calls, of the job's dialect. None of them can be dropped or replaced.
        pipe: The stages of a pipe, whose sources and target are no tables.
    """

    id: str
    kind: str
    database: str
    name: str
    sql: str
    dialect: str
    sources: tuple[TableId, ...]
    target: TableId | None
    created: int
    snode: str = "default"
    schema: StreamSchema | None = None
    continuous_query: ContinuousQuery | None = None
    replaces: Replacement | None = None
    owner: str = ""
    functions: tuple[str, ...] = ()
    pipe: Pipe | None = None

    @property
    def source(self) -> TableId:
        """The table that the query names: the first source, or the virtual table over the sources."""
        return self.virtual or self.sources[0]

    @property
    def virtual(self) -> TableId | None:
        """The virtual table that the job reads; None if it reads stored tables."""
        return None if self.schema is None else self.schema.virtual

    @property
    def parts(self) -> int:
        """How many jobs compute a stream, this one included; see `headrace.model.job_parts`."""
        return 1 if self.schema is None else self.schema.parts

    @property
    def tables(self) -> frozenset[TableId]:
        """The tables that the job reads or writes, virtual and stored."""
        return frozenset({*self.sources, *filter(None, (self.virtual, self.target))})

    @property
    def source_ids(self) -> tuple[SourceId, ...]:
        """The sources, as offsets name them."""
        return tuple(source_id(source.database, source.name) for source in self.sources)

    @property
    def databases(self) -> frozenset[str]:
        """The databases that the job belongs to, reads and writes; none of a continuous query, which outlives its databases."""
        return frozenset(filter(None, (self.database, *(table.database for table in self.tables))))

    @property
    def schedule(self) -> Schedule:
        """The schedule; only continuous queries have one."""
        if self.continuous_query is None:
            raise ValueError(f"{self.kind} {self} has no schedule")
        return self.continuous_query.schedule

    @property
    def stages(self) -> Pipe:
        """The stages; only pipes have them."""
        if self.pipe is None:
            raise ValueError(f"{self.kind} {self} has no stages")
        return self.pipe

    def __str__(self) -> str:
        return job_name(self.database, self.name)


def job_name(database: str, name: str) -> str:
    """Return the name by which statements call a job."""
    return f"{database}.{name}" if database else name


@dataclass(frozen=True, slots=True)
class JobCounters:
    """Rows of the sources by outcome.

    rows_in = rows_used + rows_updated + rows_filtered + rows_expired + rows_quarantined + rows_dropped + rows_pending.

    `rows_quarantined` are in quarantine, `rows_dropped` have left it to be left out for good. `rows_discarded` are results older
    than the KEEP of the target's database, which are not in `rows_out`.

    A continuous query counts only the rows that it has written, its executions that were done (`batches`), and attempts that failed
    (`failures`). A pipe counts only rows and bytes that its sink has delivered, rows that remain (`rows_pending`), batches, and
    attempts to deliver that failed.
    """

    rows_in: int = 0
    rows_used: int = 0
    rows_updated: int = 0
    rows_filtered: int = 0
    rows_expired: int = 0
    rows_pending: int = 0
    rows_quarantined: int = 0
    rows_dropped: int = 0
    rows_out: int = 0
    rows_discarded: int = 0
    windows_recalculated: int = 0
    batches: int = 0
    failures: int = 0
    bytes_out: int = 0

    @property
    def rows_handled(self) -> int:
        """The rows that have an outcome."""
        in_results = self.rows_used + self.rows_updated
        return in_results + self.rows_filtered + self.rows_expired + self.rows_quarantined + self.rows_dropped

    def plus(self, other: JobCounters) -> JobCounters:
        """Return the sums of all counters but `rows_pending`, which is the other's."""
        sums = {counter.name: getattr(self, counter.name) + getattr(other, counter.name) for counter in fields(self)}
        return JobCounters(**sums | {"rows_pending": other.rows_pending})


@dataclass(frozen=True, slots=True)
class JobProgress:
    """How far a job has come.

    Attributes:
        position: The last micro-batch; None before the job is live.
        boundary: The offsets that end the history: rows up to them come from the backfill, later ones live.
        watermark: The watermark in ticks; with FORCE_WINDOW_CLOSE, the end of the last window that the clock has closed.
        updated: When the job last moved, in epoch milliseconds.
        pending_since: When the oldest commit that was not handled at that time was made, in epoch milliseconds.
    """

    position: Position | None = None
    boundary: Offsets | None = None
    watermark: int | None = None
    updated: int | None = None
    pending_since: int | None = None
    counters: JobCounters = field(default_factory=JobCounters)

    def lag_ms(self, now: int) -> int | None:
        """Return the age of the oldest commit that is not handled, 0 if all are; None before the job is live."""
        if self.position is None:
            return None
        return 0 if self.pending_since is None else max(0, now - self.pending_since)


@dataclass(frozen=True, slots=True)
class JobRecord:
    """Everything the catalog holds of one job.

    The user wants commits up to `skip_to` left out; `quarantine_requested` is when the user last asked to do something with rows in
    quarantine.
    """

    definition: JobDefinition
    desired: DesiredState
    state: JobState
    progress: JobProgress
    reason: StopReason | None = None
    skip_to: Offsets | None = None
    quarantine_requested: int | None = None

    @property
    def is_live(self) -> bool:
        """Whether the job has a position; one whose history is being filled has only a boundary."""
        return self.progress.position is not None

    @property
    def resumed_state(self) -> JobState:
        """Return the state in which the job resumes after a stop: in its backfill if it has not completed one."""
        has_history = not self.is_live and self.progress.boundary is not None
        return JobState.FILLING if has_history else JobState.RUNNING

    @property
    def offsets(self) -> Offsets | None:
        """The last version of each source that the job has handled; None before it is live."""
        return None if self.progress.position is None else self.progress.position.offsets

    @property
    def source_version(self) -> int | None:
        """The last version of the job's first source that it has handled; None before it is live."""
        return self._first_offset(self.offsets)

    @property
    def boundary_version(self) -> int | None:
        """The version of the job's first source that ends its history; None if it has none."""
        return self._first_offset(self.progress.boundary)

    def _first_offset(self, offsets: Offsets | None) -> int | None:
        ids = self.definition.source_ids
        return offsets.get(ids[0]) if offsets is not None and ids else None
