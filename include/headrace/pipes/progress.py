"""Whether pipes that another process runs have transferred what had been written at some time."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

from headrace.context import Context
from headrace.model.jobs import DesiredState, JobRecord, JobState
from headrace.model.pipes import PipeStage
from headrace.model.positions import Offsets
from headrace.pipes.kind import PIPE
from headrace.pipes.sources.change_source import ChangeSource
from headrace.pipes.stages import stage_of
from headrace.pipes.transfer import open_source


class PipeWatch:
    """The pipes over tables among some jobs, and what their tables had when the watch began."""

    def __init__(self, context: Context, records: Sequence[JobRecord]) -> None:
        """Note the versions of all tables."""
        self._stack = ExitStack()
        self._sources: dict[str, ChangeSource] = {}
        for record in records:
            definition = record.definition
            if definition.kind != PIPE or stage_of(context, definition, PipeStage.SOURCE).plugin.begin is None:
                continue
            source = self._stack.enter_context(open_source(context, definition))
            source.poll()
            self._sources[definition.id] = source

    def lagging(self, records: Sequence[JobRecord]) -> dict[str, Offsets]:
        """Return the offsets of those pipes that run and have not transferred all of it."""
        return {
            record.definition.id: record.offsets or {}
            for record in records
            if record.definition.id in self._sources
            and record.desired is DesiredState.RUNNING
            and record.state is not JobState.STOPPED
            and self._sources[record.definition.id].has_news(record.offsets or {})
        }

    def close(self) -> None:
        """Close the sources."""
        self._stack.close()
