"""Refusing jobs that would process their own results for ever, directly or by way of other jobs.

Streams and pipes write whenever their source changes, so a cycle of them may never come to rest. These make a cycle finite:

- a stream with FORCE_WINDOW_CLOSE, which computes each window once, by the clock
- a continuous query, which covers each range of time once, by its schedule
- a stream that reads one subtable to which the results do not go
- a pipe that writes rows back to the series that it reads, where equal rows change nothing, or that aggregates them, since each
  turn has fewer closed windows

So the cycles to refuse consist of streams, and of pipes that count points. Jobs are recorded one after another, each after it was
checked again, so that two of them cannot make a cycle together.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from headrace.errors import Error, InvalidStreamError
from headrace.model.jobs import DesiredState, JobDefinition
from headrace.model.pipes import Pipe, PipeStage
from headrace.model.tables import TableId
from headrace.model.trees import TREE_TABLE
from headrace.pipes.attributes import PipeAttributes, pipe_error
from headrace.pipes.builtin import TABLE_SOURCE, WRITE_BACK_SINK
from headrace.pipes.ends import TREE_SOURCES
from headrace.pipes.kind import PIPE
from headrace.pipes.lookup import plugin_name
from headrace.streams.definition.define import StreamPlan, plan_recorded_stream
from headrace.streams.kind import STREAM
from headrace.trees.databases import databases_of

if TYPE_CHECKING:
    from headrace.context import Context

RECORDING_LOCK: Final = "recording of jobs"

DEFAULT_NAME: Final = re.compile(r"t_[0-9a-f]{32}")
"""Names of the subtables that streams give their groups by default."""


@dataclass(frozen=True, slots=True)
class Series:
    """Series of a table that may take results: those of some names, or the one `point` of a tree, a device with a measurement."""

    table: TableId
    may_be: Callable[[str], bool] = lambda _: True
    point: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Flow:
    """What a job reads whenever it changes, and what it then writes; None if nothing that others read."""

    label: str
    reads: Callable[[Series], bool]
    writes: Series | None

    def feeds(self, other: Flow) -> bool:
        """Return whether results may be among what another job reads."""
        return self.writes is not None and other.reads(self.writes)


def check_stream_ends(plan: StreamPlan, context: Context, replaced: JobDefinition | None) -> None:
    """Reject a stream that would process its own results for ever; `replaced` is the stream whose place it takes."""
    # No job reads a table that does not exist yet.
    own_id = None if replaced is None else replaced.id
    path = find_cycle(stream_flow(plan), context, own_id) if plan.target_exists else None
    if path is not None:
        raise InvalidStreamError(
            f"the stream {plan.name} would never end: its results in {plan.target.id} {returning(path)} its source",
            hint="name another target, read a single subtable, or use TRIGGER FORCE_WINDOW_CLOSE, which computes each window once",
        )


@contextmanager
def recording_stream(plan: StreamPlan, context: Context, replaced: JobDefinition | None = None) -> Iterator[None]:
    """Reject a stream as `check_stream_ends` does, and keep others from recording jobs until this one is recorded."""
    with context.catalog.lock(RECORDING_LOCK):
        check_stream_ends(plan, context, replaced)
        yield


def check_pipe_ends(job: JobDefinition, pipe: Pipe, context: Context) -> None:
    """Reject stages of a pipe that would count its own results for ever."""
    path = find_cycle(pipe_flow(job.name, pipe, context), context, job.id)
    if path is not None:
        raise pipe_error(
            f"the pipe {job.name} would never end: its results {returning(path)} its source",
            hint="give the source a path without the series of the results",
        )


@contextmanager
def recording_pipe(job: JobDefinition, context: Context) -> Iterator[None]:
    """Reject a pipe as `check_pipe_ends` does, and keep others from recording jobs until this one is recorded."""
    with context.catalog.lock(RECORDING_LOCK):
        check_pipe_ends(job, job.stages, context)
        yield


def returning(path: list[str]) -> str:
    return f"return by way of {', '.join(path)} to" if path else "are rows of"


def find_cycle(own: Flow, context: Context, own_id: str | None) -> list[str] | None:
    """Return the jobs by way of which results come back, none if a job reads what it writes; None if they do not come back."""
    if own.feeds(own):
        return []
    return search(own, own, list(other_flows(context, own_id))) if own.writes is not None else None


def search(current: Flow, own: Flow, unvisited: list[Flow]) -> list[str] | None:
    """Follow the results of a flow, depth first."""
    for other in [flow for flow in unvisited if current.feeds(flow)]:
        if other not in unvisited:
            continue
        unvisited.remove(other)
        if other.feeds(own):
            return [other.label]
        if (path := search(other, own, unvisited)) is not None:
            return [other.label, *path]
    return None


def other_flows(context: Context, own_id: str | None) -> Iterator[Flow]:
    for record in context.catalog.jobs.all():
        job = record.definition
        if job.id == own_id or record.desired is DesiredState.DROPPED:
            continue
        if job.kind == PIPE:
            yield pipe_flow(job.name, job.stages, context)
        elif job.kind == STREAM:
            yield recorded_flow(job, context)


def recorded_flow(job: JobDefinition, context: Context) -> Flow:
    """Return the flow of a recorded stream. It is planned only if its tables take part in a cycle."""

    def reads(series: Series) -> bool:
        return series.table in job.sources and planned().reads(series)

    def planned() -> Flow:
        try:
            return stream_flow(plan_recorded_stream(job, context.catalog, context.settings))
        except Error:  # it cannot run now, but may later
            return Flow("", lambda series: series.table in job.sources, None)

    return Flow(f"stream {job}", reads, None if job.target is None else Series(job.target))


def stream_flow(plan: StreamPlan) -> Flow:
    sources, only = plan.sources, None if plan.source.is_virtual else plan.source_subtable

    def reads(series: Series) -> bool:
        return not plan.is_closed_by_clock and series.table in sources and (only is None or series.may_be(only))

    has_names = plan.groups.name is not None
    written = Series(plan.target.id, lambda name: has_names or DEFAULT_NAME.fullmatch(name) is not None)
    return Flow(f"stream {plan.database}.{plan.name}", reads, written)


def pipe_flow(name: str, pipe: Pipe, context: Context) -> Flow:
    """Return the flow of a pipe: it writes something if it counts points, in a series of this catalog."""
    from headrace.pipes.processors.count_point import NAME, read_series
    from headrace.pipes.sources.options import read_options

    source, processor = PipeAttributes(pipe.source), PipeAttributes(pipe.processor)
    plugins = {stage: plugin_name(stage, pipe.stage(stage)).lower() for stage in PipeStage}
    if plugins[PipeStage.PROCESSOR] != NAME or plugins[PipeStage.SINK] != WRITE_BACK_SINK:
        return Flow(f"pipe {name}", lambda _: False, None)
    device, measurement = read_series(processor)
    database = databases_of([device], context).get(device, "")

    def reads(series: Series) -> bool:
        if plugins[PipeStage.SOURCE] == TABLE_SOURCE:
            return series.table == TableId(source.text("database"), source.text("table"))
        if plugins[PipeStage.SOURCE] not in TREE_SOURCES or series.point is None:
            return False
        pattern = read_options(source, context.settings.timezone).pattern
        return pattern.matches(*series.point)

    return Flow(f"pipe {name}", reads, Series(TableId(database, TREE_TABLE), lambda one: one == device, (device, measurement)))
