"""What a stream needs of the changes of its source: some columns of a large commit, and the subtables that a part computes."""

from __future__ import annotations

from dataclasses import replace

from headrace.streams.definition.define import StreamPlan
from headrace.streams.windows.change_batch import Changes


def own_changes(plan: StreamPlan, changes: Changes) -> Changes:
    """Return those of the changes of the source that a stream computes, or a part of one.

    The pieces of a large commit are cut when they are read.
    """
    large, cut = changes.large, None if plan.part is None else plan.part.cutter(plan.source.series_key)
    if large is not None:
        columns = frozenset([*plan.source.primary_key, *plan.stored_columns])
        return replace(changes, source=replace(large, columns=columns, remaining=cut))
    return changes if cut is None else replace(changes, source=cut(changes.rows))
