"""The beginning and the end of pipes."""

from __future__ import annotations

from headrace.context import Context
from headrace.model.failpoints import failpoint
from headrace.model.jobs import DesiredState, JobDefinition, JobProgress
from headrace.model.pipes import PipeStage
from headrace.model.positions import Position
from headrace.pipes.checkpoints import PipeCheckpoints
from headrace.pipes.stages import stage_of


def initial_progress(context: Context, definition: JobDefinition) -> JobProgress:
    """Return where a pipe begins that is created now, and store what it will need of the present."""
    assert definition.pipe is not None
    source = stage_of(context, definition, PipeStage.SOURCE)
    offsets = {} if source.plugin.begin is None else source.plugin.begin()(source.attributes, context)
    if source.plugin.capture is not None:
        source.plugin.capture()(source.attributes, context, definition.id)
    return JobProgress(position=Position(0, offsets))


def forget(context: Context, definition: JobDefinition) -> None:
    """Remove what was stored for a pipe that was not created."""
    PipeCheckpoints(context.state_uri, definition.id, context.epoch).clear()


def drop(context: Context, definition: JobDefinition) -> None:
    """Drop a pipe, whose receiver keeps what it has. Repeating it completes what was interrupted."""
    context.catalog.jobs.set_desired(definition.id, DesiredState.DROPPED)
    failpoint("pipes.drop.requested")
    PipeCheckpoints(context.state_uri, definition.id, context.epoch).clear()
    context.catalog.jobs.drop(definition.id)
