"""A kind of jobs: everything that differs between streams, continuous queries and others."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from headrace.jobs.actions import JobAction
from headrace.jobs.hosts import HistoryFactory, SourcesFactory
from headrace.jobs.runners import RunnerFactory
from headrace.model.access import Privilege
from headrace.model.jobs import DesiredState, JobDefinition, JobRecord, JobState
from headrace.model.lineage import Lineage
from headrace.model.needs import Needs
from headrace.model.tables import Table

if TYPE_CHECKING:
    from headrace.catalog import Catalog
    from headrace.context import Context
    from headrace.settings import Settings

T = TypeVar("T")
Part = Callable[[], T]
"""A part that a kind has in another package, perhaps in one above. It is imported when it is needed."""


def imported(path: str) -> Part[Any]:
    """Return the part with a path `module:name`."""

    @functools.cache
    def load() -> Any:
        module, _, name = path.partition(":")
        return getattr(import_module(module), name)

    return load


class Page(Protocol):
    """What the page in Airflow shows of jobs of a kind, beside what it shows of all jobs, as JSON values.

    Its layout is one of the page's `LAYOUTS`; `job` shows no more than what all jobs have.
    """

    @property
    def layout(self) -> str:
        """The name of the layout."""

    def fields(self, record: JobRecord, overview: Any) -> dict[str, Any]:
        """Return the fields of a job's row: at least `source` and `target`, as texts."""

    def detail(self, catalog: Catalog, record: JobRecord, now: int) -> dict[str, Any]:
        """Return the fields that only a job's own page shows."""

    def plan(self, context: Context, definition: JobDefinition) -> Iterable[str]:
        """Return the lines of the plan of a job."""


def has_begun(record: JobRecord) -> bool:
    """Return True if a job is desired, has offsets to continue from, and no backfill works on it."""
    has_boundary = record.progress.boundary is not None and record.state is not JobState.FILLING
    return record.desired is DesiredState.RUNNING and record.state is not JobState.STOPPED and (record.is_live or has_boundary)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class JobKind:
    """A kind of jobs. To add one, register an instance with `headrace.jobs.registry.register`.

    Attributes:
        name: The name in the catalog and in messages, unique. In upper case it is what statements call a job of the kind.
        plural: The name of several.
        dag_prefix: How the ids of DAGs begin; no such prefix begins another one.
        address: The parameter of the page's address that names a job.
        resume: The verb with which users have a job run again.
        states: The words that `SHOW` uses instead of some states.
        descriptions: What the page says about some states.
        actions: What users may do with a job, by the names of `headrace.jobs.actions`.
        resumption: What EXPLAIN says about how a job continues.
        is_scheduled: Whether jobs have executions by a schedule, which a ledger shows and fences: the statement pauses a job at
            once, and nothing waits for what is in flight. Other jobs are paused by their driver, after the micro-batch in flight.
        counts_rows_in: Whether it is known how many rows a job has read.
        is_resident: Whether an snode runs a job, whose DAG then supervises it; otherwise Airflow runs it by its schedule.
        lag_ms: The age of the oldest work that is not done: by a job, its driver's report, its executions, and the present.
        measured: Returns the record of a job with the work that is not done now, given a context and its record; None if it cannot
            be measured. Without it, a driver's report counts.
        runner: Creates the runner of a job.
        sources: Creates what the runners read and share in a driver. Kinds with the same factory share it.
        history: Creates what fills the histories of jobs before they run; None if their runners do.
        is_runnable: Whether a driver should run a job.
        drop: Removes a job, given a context and its definition. It is repeated if it is interrupted.
        dag: Builds a job's DAG, from its definition and the settings.
        page: What the page shows.
        needs: Returns what a job reads, writes, reaches and runs, given the catalog and its definition. Its owner needs the rights
            for that whenever it runs, and so does who creates or changes it.
        lineage: Returns what the columns of a job's target are made of, given a context and its definition; None if kinds of jobs
            like it have no columns. It raises why a job cannot be planned now.
        needed_version: Returns the oldest version of a table that a job may still read, None if it does not read it, given a
            context, its record and the table; without it, that is what its offsets say.
        metrics: Yields the metric families of the jobs of a driver.
        privilege: What users need for everything with jobs of the kind; None if the rights on the tables of a job decide.
    """

    name: str
    plural: str
    dag_prefix: str
    address: str
    runner: Part[RunnerFactory]
    sources: Part[SourcesFactory]
    drop: Part[Callable[[Context, JobDefinition], None]]
    dag: Part[Callable[[JobDefinition, Settings], Any]]
    page: Part[Page]
    needs: Part[Callable[[Catalog, JobDefinition], Needs]]
    lag_ms: Callable[[JobRecord, Any, Any, int], int | None]
    measured: Part[Callable[[Context, JobRecord], JobRecord | None]] | None = None
    is_resident: Callable[[JobDefinition, Settings], bool] = lambda *_: True
    is_runnable: Callable[[JobRecord], bool] = has_begun
    history: Part[HistoryFactory] | None = None
    lineage: Part[Callable[[Context, JobDefinition], Lineage]] | None = None
    needed_version: Part[Callable[[Context, JobRecord, Table], int | None]] | None = None
    metrics: Part[Callable[[Any], Iterable[Any]]] | None = None
    resume: str = "RESUME"
    states: Mapping[JobState, str] = field(default_factory=dict)
    descriptions: Mapping[JobState, str] = field(default_factory=dict)
    actions: Mapping[str, JobAction] = field(default_factory=dict)
    resumption: str = ""
    is_scheduled: bool = False
    counts_rows_in: bool = True
    privilege: Privilege | None = None

    @property
    def key(self) -> str:
        """The plural as an identifier, for metrics and heartbeats."""
        return self.plural.replace(" ", "_")

    @property
    def resume_statement(self) -> str:
        """How the statement begins that has a job run again."""
        return f"{self.resume} {self.name.upper()}"

    @property
    def fix_hint(self) -> str:
        """What to do about a job that has stopped."""
        return f"fix the cause, then run {self.resume_statement}"

    def state_word(self, state: JobState) -> str:
        """Return a state in the words of the kind."""
        return self.states.get(state, state.value)


def commit_lag_ms(record: JobRecord, activity: Any, _: object, now: int) -> int | None:
    """Return the age of the oldest commit that a job has not handled, as its driver reported it, else as of its last batch."""
    if not record.is_live or activity is None or activity.pending_since is None:
        return record.progress.lag_ms(now)
    pending_since: int = activity.pending_since
    return max(0, now - pending_since)
