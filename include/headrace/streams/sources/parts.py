"""The changes of the subtables that a part of a stream computes."""

from __future__ import annotations

from dataclasses import replace

from headrace.streams.definition.define import StreamPlan
from headrace.streams.windows.change_batch import Changes


def own_changes(plan: StreamPlan, changes: Changes) -> Changes:
    """Return those of the changes of the source that a stream computes, or a part of one.

    The pieces of a large commit are cut when they are read.
    """
    if plan.part is None:
        return changes
    cut, large = plan.part.cutter(plan.source.series_key), changes.large
    return replace(changes, source=cut(changes.rows) if large is None else replace(large, remaining=cut))
